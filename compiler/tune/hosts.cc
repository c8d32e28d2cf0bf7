// Messages are JSON. Option 0 of each share is that of the batch; what another host says is multiplied by what option 0
// takes here to what it takes there.
#include "compiler/tune/hosts.h"

#include <nlohmann/json.hpp>

#include <chrono>

namespace heddle::tune {

using Clock = std::chrono::steady_clock;
using Json = nlohmann::json;

static std::string text_of(const Json &json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

/// The part of a task that measuring takes.
static Json job_of(const Task &task, std::span<const size_t> options) {
  Json out{{"kernel", task.kernel},         {"kind", task.kind},   {"sizes", task.sizes},   {"scalars", task.scalars},
           {"operations", task.operations}, {"bytes", task.bytes}, {"memory", task.memory}, {"options", Json::array()}};
  for (size_t option : options)
    out["options"].push_back({{"text", task.options[option].text}, {"expected", task.options[option].expected}});
  return out;
}

static Task task_of(const Json &job) {
  Task out{job["kernel"], "", job["kind"], job["sizes"], job["scalars"], 1, job["operations"], job["bytes"],
           job["memory"], {}};
  for (const Json &option : job["options"])
    out.options.push_back({"", "", option["text"], option["expected"]});
  return out;
}

Batch SharedBench::measure(const Task &task, std::span<const size_t> options, double limit) {
  Clock::time_point begin = Clock::now();
  size_t hosts = width();
  std::vector<std::vector<size_t>> shares(hosts, {0}); // numbers among `options`
  for (size_t i = 1; i < options.size(); ++i)
    shares[(i - 1) % hosts].push_back(i);
  auto options_of = [&](size_t host) {
    std::vector<size_t> out;
    for (size_t i : shares[host])
      out.push_back(options[i]);
    return out;
  };
  for (size_t host = 1; host < hosts; ++host)
    if (shares[host].size() > 1)
      hosts_.send(int(host), text_of({{"target", target_},
                                      {"threads", threads_},
                                      {"limit", limit},
                                      {"task", job_of(task, options_of(host))}}));
  Batch own = own_.measure(task, options_of(0), limit), out = own;
  out.outcomes.assign(options.size(), {});
  for (size_t i = 0; i < shares[0].size(); ++i)
    out.outcomes[shares[0][i]] = own.outcomes[i];
  for (size_t host = 1; host < hosts; ++host) {
    if (shares[host].size() == 1)
      continue;
    Json said = Json::parse(hosts_.receive(int(host)), nullptr, /*allow_exceptions=*/false);
    if (said.is_discarded() || said["seconds"].size() != shares[host].size())
      continue;
    double there = said["seconds"][0], scale = there > 0 ? own.outcomes[0].seconds / there : 0;
    for (size_t i = 1; i < shares[host].size(); ++i)
      out.outcomes[shares[host][i]] = {double(said["seconds"][i]) * scale, said["faults"][i], /*elsewhere=*/true};
  }
  out.wall = std::chrono::duration<double>(Clock::now() - begin).count();
  return out;
}

void measure_for_others(Hosts &hosts) {
  for (std::string text; !(text = hosts.receive(0)).empty();) {
    Json job = Json::parse(text);
    Task task = task_of(job["task"]);
    std::vector<size_t> options;
    for (size_t i = 0; i < task.options.size(); ++i)
      options.push_back(i);
    Batch batch = ProcessBench(job["target"], job["threads"]).measure(task, options, job["limit"]);
    Json seconds = Json::array(), faults = Json::array();
    for (const Outcome &outcome : batch.outcomes) {
      seconds.push_back(outcome.seconds);
      faults.push_back(outcome.fault);
    }
    hosts.send(0, text_of({{"seconds", seconds}, {"faults", faults}}));
  }
}

} // namespace heddle::tune
