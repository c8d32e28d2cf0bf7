// Messages on a pipe: LLVM frames and writes them. One thread reads, one checks, and the caller's holds the
// conversation, so that a question is never kept waiting by a check. LLVM's own loop (JSONTransport::run) is not used:
// it ends at the first message that is no object, says nothing of what is no JSON, and knows no cancellation.
#include "dsl/server/server.h"

#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <variant>

namespace heddle::server {

namespace {

struct Malformed {
  std::string why;
};
struct End {};
using Event = std::variant<json::Value, Malformed, Analysis, End>;

class Queue {
public:
  void push(Event event) {
    std::lock_guard lock(mutex_);
    events_.push_back(std::move(event));
    changed_.notify_one();
  }
  void cancel(json::Value id) {
    std::lock_guard lock(mutex_);
    cancelled_.push_back(std::move(id));
  }
  /// The next event, or nothing at that time.
  std::optional<Event> pop(std::optional<Server::Clock::time_point> until, std::vector<json::Value> &cancelled) {
    std::unique_lock lock(mutex_);
    auto ready = [&] { return !events_.empty(); };
    if (until)
      changed_.wait_until(lock, *until, ready);
    else
      changed_.wait(lock, ready);
    cancelled.swap(cancelled_);
    cancelled_.clear();
    if (events_.empty())
      return std::nullopt;
    Event event = std::move(events_.front());
    events_.pop_front();
    return event;
  }

private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Event> events_;
  std::vector<json::Value> cancelled_; // they overtake what waits
};

void read_all(std::FILE *in, Queue &queue) {
  lsp::JSONTransportInputOverFile input(in);
  std::string text;
  while (!input.isEndOfInput() && !input.hasError()) {
    if (llvm::failed(input.readMessage(text)))
      continue;
    if (!shallow(text)) {
      queue.push(Malformed{"the message nests too deeply"});
      continue;
    }
    auto message = json::parse(text);
    if (!message) {
      queue.push(Malformed{"the message is no JSON: " + llvm::toString(message.takeError())});
      continue;
    }
    const json::Object *object = message->getAsObject();
    if (!object || object->getString("method") != "$/cancelRequest")
      queue.push(std::move(*message));
    else if (const json::Object *params = object->getObject("params"))
      if (const json::Value *id = params->get("id"))
        queue.cancel(*id);
  }
  queue.push(End{});
}

} // namespace

Result<int> run_stdio(std::FILE *in, llvm::raw_ostream &out, Hooks hooks, const std::string &version) {
  auto queue = std::make_shared<Queue>(); // the reader may outlive this call: it cannot be woken from its read
  std::thread([queue, in] { read_all(in, *queue); }).detach();

  lsp::JSONTransport client(std::unique_ptr<lsp::JSONTransportInput>(), out);
  Server server(std::move(hooks), version, client);
  std::thread checker;
  bool ended = false;
  while (!server.over() && !ended) {
    std::vector<json::Value> cancelled;
    auto event = queue->pop(server.next_due(), cancelled);
    for (const json::Value &id : cancelled)
      server.cancel(id);
    if (event) {
      if (auto *message = std::get_if<json::Value>(&*event))
        server.receive(std::move(*message));
      else if (auto *malformed = std::get_if<Malformed>(&*event))
        server.malformed(malformed->why);
      else if (auto *analysis = std::get_if<Analysis>(&*event))
        server.finished(std::move(*analysis));
      else
        ended = true;
      continue; // a check begins when there is nothing left to answer
    }
    if (auto work = server.due(Server::Clock::now())) {
      if (checker.joinable())
        checker.join();
      checker = std::thread([queue, work = std::move(*work)] { queue->push(work()); });
    }
  }
  if (checker.joinable())
    checker.join();
  if (ended && !server.begun())
    return Error{"standard input ended without a client's `initialize`: `heddle lsp` speaks the Language Server "
                 "Protocol; let an editor start it"};
  return server.status();
}

} // namespace heddle::server
