// Time goes where the model's time is: the next batch is of the kernel that takes most of it, by as much the less often
// as it was looked at. Of its options those are measured first that are expected to be fast, and one taken at random.
// Option 0 is in every batch, so that all of a task's times are on one scale, whatever the machine does meanwhile.
#include "compiler/tune/search.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/SHA256.h"
#include "llvm/Support/xxhash.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

namespace heddle::tune {

static constexpr size_t new_options = 6;   // of a batch on one machine
static constexpr double most_memory = 4e9; // bytes of a batch's buffers there
static constexpr double disturbed = 1.12;  // option 0 takes so much longer or shorter than before: measured again

size_t Found::measured() const {
  size_t out = 0;
  for (size_t option = 0; option < seconds.size(); ++option)
    out += known(option);
  return out;
}

size_t Found::best() const {
  size_t out = 0;
  for (size_t option = 1; option < seconds.size(); ++option)
    if (seconds[option] > 0 && faults[option].empty() && seconds[0] > 0 && seconds[option] < seconds[out])
      out = option;
  return out;
}

static std::string name_of(const std::vector<Task> &tasks, const Place &place) {
  std::vector<std::string> parts;
  for (const Task &task : tasks)
    parts.push_back(task.structure + " " + sizes_text(task.sizes) + " " + std::to_string(task.calls));
  std::ranges::sort(parts);
  llvm::SHA256 digest;
  digest.update(place.machine + "|" + place.target + "|" + std::to_string(place.threads));
  for (const std::string &part : parts)
    digest.update("|" + part);
  return llvm::toHex(digest.final(), /*LowerCase=*/true).substr(0, 16);
}

Searcher::Searcher(std::vector<Task> tasks, Place place, int64_t seed, Database &database, Bench &bench)
    : tasks_(std::move(tasks)), place_(std::move(place)), database_(database), bench_(bench) {
  state_.name = name_of(tasks_, place_);
  state_.seed = seed;
  changed_.resize(tasks_.size());
  for (const Task &task : tasks_)
    found_.push_back({std::vector<double>(task.options.size()), std::vector<std::string>(task.options.size()), "", 0});
}

Status Searcher::load(bool resume) {
  auto before = database_.search(state_.name);
  if (!before)
    return before.error();
  if (*before) {
    state_.finished = (*before)->finished;
    if (resume)
      state_.seed = (*before)->seed, state_.spent = (*before)->spent;
  }
  for (size_t i = 0; i < tasks_.size(); ++i) {
    auto records = database_.find(place_, tasks_[i].structure, /*unconfirmed=*/true);
    if (!records)
      return records.error();
    for (const Record &record : *records)
      for (size_t option = 0; option < tasks_[i].options.size(); ++option)
        if (record.subject.sizes == tasks_[i].sizes && record.subject.row == tasks_[i].options[option].row &&
            record.subject.layouts == tasks_[i].options[option].layouts) {
          found_[i].seconds[option] = record.fault.empty() ? record.seconds : 0;
          found_[i].faults[option] = record.fault;
        }
    // Without option 0 nothing tells which scale the others are on.
    if (found_[i].seconds[0] == 0)
      found_[i] = {std::vector<double>(tasks_[i].options.size()), std::vector<std::string>(tasks_[i].options.size()),
                   "", 0};
    found_[i].batches = int((found_[i].measured() + new_options - 1) / new_options);
    if (found_[i].seconds[0] > 0)
      curve_.push_back({state_.spent, i, found_[i].seconds[found_[i].best()]});
  }
  return Done{};
}

bool Searcher::is_open(size_t task) const {
  const Task &of = tasks_[task];
  return of.options.size() > 1 && found_[task].failure.empty() && found_[task].measured() < of.options.size();
}

static double seconds_of(const Task &task, const Found &found, size_t option) {
  return task.calls * (found.seconds[option] > 0 ? found.seconds[option] : task.options[0].expected);
}

double Searcher::best_seconds() const {
  double out = 0;
  for (size_t i = 0; i < tasks_.size(); ++i)
    out += seconds_of(tasks_[i], found_[i], found_[i].best());
  return out;
}

double Searcher::usual_seconds() const {
  double out = 0;
  for (size_t i = 0; i < tasks_.size(); ++i)
    out += seconds_of(tasks_[i], found_[i], 0);
  return out;
}

std::optional<size_t> Searcher::next_task() const {
  std::optional<size_t> out;
  double most = -1;
  for (size_t i = 0; i < tasks_.size(); ++i)
    if (double weight = seconds_of(tasks_[i], found_[i], found_[i].best()) / (1 + found_[i].batches);
        is_open(i) && weight > most)
      out = i, most = weight;
  return out;
}

std::vector<size_t> Searcher::next_options(size_t task) const {
  const Found &found = found_[task];
  std::vector<size_t> left;
  for (size_t option = 1; option < tasks_[task].options.size(); ++option)
    if (!found.known(option))
      left.push_back(option);
  size_t most = size_t(std::clamp(most_memory / std::max(tasks_[task].memory, 1.0), 2.0, double(new_options + 1))) - 1;
  most *= bench_.width();
  std::vector<size_t> out = {0};
  if (left.size() > most && most > 1) { // one of those whose turn is far off
    std::string text = std::to_string(state_.seed) + tasks_[task].structure + sizes_text(tasks_[task].sizes) +
                       std::to_string(found.measured());
    size_t at = most - 1 + llvm::xxh3_64bits(text) % (left.size() - most + 1);
    out.insert(out.end(), left.begin(), left.begin() + std::ptrdiff_t(most - 1));
    out.push_back(left[at]);
    return out;
  }
  out.insert(out.end(), left.begin(), left.begin() + std::ptrdiff_t(std::min(most, left.size())));
  return out;
}

Record Searcher::record_of(size_t task, size_t option) const {
  const Task &of = tasks_[task];
  return {place_,
          {of.structure, of.kind, of.sizes, of.options[option].layouts, of.options[option].row},
          found_[task].seconds[option],
          found_[task].faults[option]};
}

Status Searcher::measure(size_t task, double limit) {
  Found &found = found_[task];
  std::vector<size_t> options = next_options(task);
  Batch batch = bench_.measure(tasks_[task], options, limit);
  double wall = batch.wall;
  auto scale = [&](const Batch &of) {
    double now = of.outcomes[0].seconds;
    return found.seconds[0] > 0 && now > 0 ? found.seconds[0] / now : 1;
  };
  if (std::abs(std::log(scale(batch))) > std::log(disturbed) && wall < limit - wall) {
    Batch again = bench_.measure(tasks_[task], options, limit - wall);
    wall += again.wall;
    if (again.outcomes[0].seconds > 0 && std::abs(std::log(scale(again))) < std::abs(std::log(scale(batch))))
      batch = std::move(again);
  }
  double budget_end = state_.spent + limit;
  peak_ = std::max(peak_, batch.peak);
  state_.spent += wall;
  state_.finished = false;
  ++found.batches;
  found.failure = batch.failure;
  double by = scale(batch);
  std::vector<Record> records;
  if (batch.failure.empty() && batch.outcomes[0].seconds > 0) // else nothing was finished
    for (size_t i = 0; i < options.size(); ++i) {
      size_t option = options[i];
      const Outcome &outcome = batch.outcomes[i];
      if (found.known(option) || (outcome.seconds == 0 && outcome.fault.empty()))
        continue;
      found.seconds[option] = outcome.fault.empty() ? outcome.seconds * by : 0;
      found.faults[option] = fault_text(outcome.fault);
      measured_elsewhere_ += outcome.elsewhere;
      records.push_back(record_of(task, option));
    }
  if (records.empty() && found.failure.empty() && state_.spent < budget_end)
    found.failure = "nothing came of measuring it";
  measured_now_ += records.size();
  changed_[task] = changed_[task] || !records.empty();
  if (Status added = database_.add(records, /*confirmed=*/false, &state_); !added)
    return added;
  curve_.push_back({state_.spent, task, found.seconds[found.best()]});
  return Done{};
}

Status Searcher::run(double budget, const std::function<bool()> &go_on) {
  while (state_.spent < budget && go_on()) {
    std::optional<size_t> task = next_task();
    if (!task)
      break;
    if (Status measured = measure(*task, budget - state_.spent); !measured)
      return measured;
  }
  return Done{};
}

Status Searcher::verify(double budget, const std::function<bool()> &go_on) {
  constexpr int most_times = 3; // of a task: another option may be the fastest then
  std::vector<size_t> order(tasks_.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, std::greater(),
                           [&](size_t task) { return seconds_of(tasks_[task], found_[task], 0); });
  for (size_t task : order)
    for (int time = 0; time < most_times && changed_[task]; ++time) {
      Found &found = found_[task];
      size_t best = found.best();
      if (best == 0 || state_.spent >= budget || !go_on())
        break;
      Batch batch = bench_.measure(tasks_[task], std::vector<size_t>{0, best}, budget - state_.spent);
      state_.spent += batch.wall;
      if (batch.outcomes[0].seconds == 0 || batch.outcomes[1].seconds == 0)
        break;
      double now = found.seconds[0] * batch.outcomes[1].seconds / batch.outcomes[0].seconds;
      found.seconds[best] = std::max(found.seconds[best], now);
      if (Status added = database_.add(std::vector{record_of(task, best)}, /*confirmed=*/false, &state_); !added)
        return added;
      curve_.push_back({state_.spent, task, found.seconds[found.best()]});
      if (found.best() == best)
        break;
    }
  return Done{};
}

Status Searcher::confirm(const std::vector<size_t> &tasks) {
  std::vector<Subject> subjects;
  bool all = true;
  for (size_t i = 0; i < tasks_.size(); ++i)
    all &= !is_open(i);
  for (size_t task : tasks)
    for (size_t option = 0; option < tasks_[task].options.size(); ++option)
      if (found_[task].known(option))
        subjects.push_back(record_of(task, option).subject);
  state_.finished = all;
  return database_.confirm(place_, subjects, state_);
}

namespace {

class FoundRecords : public Records {
public:
  std::map<std::string, std::vector<Measured>> all;
  std::vector<Measured> of(const std::string &structure) const override {
    auto found = all.find(structure);
    return found == all.end() ? std::vector<Measured>() : found->second;
  }
};

} // namespace

std::shared_ptr<const Records> Searcher::records(const std::vector<size_t> &tasks) const {
  auto out = std::make_shared<FoundRecords>();
  for (size_t task : tasks)
    for (size_t option = 0; option < tasks_[task].options.size(); ++option)
      if (found_[task].known(option)) {
        const Option &of = tasks_[task].options[option];
        bool good = found_[task].faults[option].empty();
        out->all[tasks_[task].structure].push_back(
            {tasks_[task].sizes, of.layouts, of.row, good ? found_[task].seconds[option] : Measured::useless});
      }
  return out;
}

} // namespace heddle::tune
