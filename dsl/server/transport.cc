// Messages on a pipe: a header that says how many bytes follow, then JSON. One thread reads, one checks, and the
// caller's holds the conversation, so that a question is never kept waiting by a check.
#include "dsl/server/server.h"

#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <unistd.h>
#include <variant>

namespace heddle::server {

namespace {

/// Bytes of a descriptor, line by line or by number.
class Input {
public:
  explicit Input(int descriptor) : descriptor_(descriptor) {}

  /// The next message's bytes; nullopt at the end. What stands between messages and is no header is skipped.
  std::optional<std::string> message() {
    size_t length = 0;
    bool known = false;
    for (;;) {
      auto line = this->line();
      if (!line)
        return std::nullopt;
      if (line->empty()) {
        if (known)
          return bytes(length);
        continue;
      }
      constexpr std::string_view name = "content-length:";
      std::string lower;
      for (char c : line->substr(0, name.size()))
        lower += static_cast<char>(std::tolower((unsigned char)c));
      if (lower != name)
        continue;
      size_t at = line->find_first_not_of(' ', name.size());
      length = 0;
      known = at != std::string::npos;
      for (; known && at < line->size() && std::isdigit((unsigned char)(*line)[at]); ++at)
        if ((length = length * 10 + ((*line)[at] - '0')) > most)
          known = false;
    }
  }

private:
  static constexpr size_t most = size_t(1) << 30;

  bool fill() {
    char chunk[65536];
    ssize_t got = 0;
    while ((got = ::read(descriptor_, chunk, sizeof chunk)) < 0 && errno == EINTR)
      ;
    if (got <= 0)
      return false;
    buffer_.erase(0, at_);
    at_ = 0;
    buffer_.append(chunk, got);
    return true;
  }
  std::optional<std::string> line() {
    size_t end = 0;
    while ((end = buffer_.find('\n', at_)) == std::string::npos)
      if (!fill())
        return std::nullopt;
    std::string out = buffer_.substr(at_, end - at_);
    at_ = end + 1;
    if (!out.empty() && out.back() == '\r')
      out.pop_back();
    return out;
  }
  std::optional<std::string> bytes(size_t count) {
    while (buffer_.size() - at_ < count)
      if (!fill())
        return std::nullopt;
    std::string out = buffer_.substr(at_, count);
    at_ += count;
    return out;
  }

  int descriptor_;
  std::string buffer_;
  size_t at_ = 0;
};

void write_all(int descriptor, std::string_view text) {
  while (!text.empty()) {
    ssize_t done = ::write(descriptor, text.data(), text.size());
    if (done < 0 && errno == EINTR)
      continue;
    if (done <= 0)
      return; // the client is gone; the reader will see it too
    text.remove_prefix(done);
  }
}

struct Malformed {
  std::string why;
};
struct End {};
using Event = std::variant<Json, Malformed, Analysis, End>;

class Queue {
public:
  void push(Event event) {
    std::lock_guard lock(mutex_);
    events_.push_back(std::move(event));
    changed_.notify_one();
  }
  void cancel(const Json &id) {
    std::lock_guard lock(mutex_);
    cancelled_.push_back(id);
  }
  /// The next event, or nothing at that time.
  std::optional<Event> pop(std::optional<Server::Clock::time_point> until, std::vector<Json> &cancelled) {
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
  std::vector<Json> cancelled_; // they overtake what waits
};

} // namespace

int run_stdio(int in, int out, Hooks hooks, const std::string &version) {
  auto queue = std::make_shared<Queue>(); // the reader may outlive this call: it cannot be woken from its read
  Server server(std::move(hooks), version, [out](const Json &message) {
    std::string body = message.dump(-1, ' ', false, Json::error_handler_t::replace);
    write_all(out, "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body);
  });
  std::thread([queue, in] {
    Input input(in);
    while (auto text = input.message()) {
      Json message = Json::parse(*text, nullptr, /*allow_exceptions=*/false);
      if (message.is_discarded()) {
        queue->push(Malformed{"the message is no JSON"});
        continue;
      }
      if (message.is_object() && message.value("method", Json()) == "$/cancelRequest") {
        if (message.contains("params") && message["params"].is_object() && message["params"].contains("id"))
          queue->cancel(message["params"]["id"]);
        continue;
      }
      queue->push(std::move(message));
    }
    queue->push(End{});
  }).detach();

  std::thread checker;
  bool ended = false;
  while (!server.over() && !ended) {
    std::vector<Json> cancelled;
    auto event = queue->pop(server.next_due(), cancelled);
    for (const Json &id : cancelled)
      server.cancel(id);
    if (event) {
      if (auto *message = std::get_if<Json>(&*event))
        server.receive(*message);
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
  return server.status();
}

} // namespace heddle::server
