// Kernels are looked up one by one and once each: a compilation has some twenty, a database may have records of
// thousands.
#include "compiler/tune/known_records.h"

#include "compiler/emit/artifact/parallel.h"
#include "embedded/shipped_records.h"

#include <algorithm>
#include <cstdlib>
#include <set>

namespace heddle::tune {

/// The number nearest to what the process may use; the smaller of two.
static int nearest_threads(const std::vector<int> &all) {
  int wanted = usable_cpus();
  return *std::ranges::min_element(all, {},
                                   [&](int threads) { return std::pair(std::abs(threads - wanted), threads); });
}

Result<std::vector<std::string>> machines_with_records(const std::optional<Database> &database,
                                                       const std::string &target) {
  std::set<std::string> out;
  if (database) {
    auto machines = database->machines(target);
    if (!machines)
      return machines.error();
    out.insert(machines->begin(), machines->end());
  }
  for (const EmbeddedFile &file : embedded::shipped_records())
    if (file.bytes.find(" | " + target + " | ") != std::string_view::npos)
      if (auto records = read_records(file.bytes, std::string(file.path)))
        for (const Record &record : *records)
          if (record.place.target == target)
            out.insert(record.place.machine);
  return std::vector<std::string>(out.begin(), out.end());
}

KnownRecords::KnownRecords(std::optional<Database> database, std::string target, std::string machine)
    : database_(std::move(database)), machine_(std::move(machine)), target_(std::move(target)) {
  for (const EmbeddedFile &file : embedded::shipped_records())
    if (file.bytes.find("[" + machine_ + " | " + target_ + " | ") != std::string_view::npos)
      if (auto records = read_records(file.bytes, std::string(file.path))) // tests see to it that they all read
        for (Record &record : *records)
          if (record.place.machine == machine_ && record.place.target == target_)
            shipped_[record.subject.structure].push_back(std::move(record));
}

Result<std::vector<Record>> KnownRecords::look_up(const std::string &structure) const {
  if (database_) {
    auto threads = database_->threads(machine_, target_, structure);
    if (!threads)
      return threads.error();
    if (!threads->empty())
      return database_->find({machine_, target_, nearest_threads(*threads)}, structure);
  }
  auto shipped = shipped_.find(structure);
  if (shipped == shipped_.end())
    return std::vector<Record>();
  std::vector<int> threads;
  for (const Record &record : shipped->second)
    threads.push_back(record.place.threads);
  std::vector<Record> out = shipped->second;
  std::erase_if(out, [&](const Record &record) { return record.place.threads != nearest_threads(threads); });
  return out;
}

std::vector<Measured> KnownRecords::of(const std::string &structure) const {
  std::lock_guard lock(mutex_);
  auto [known, is_new] = known_.try_emplace(structure);
  if (!is_new || error_)
    return known->second;
  auto records = look_up(structure);
  if (!records)
    error_ = records.error();
  else
    for (const Record &record : *records)
      known->second.push_back({record.subject.sizes, record.subject.layouts, record.subject.row,
                               record.fault.empty() ? record.seconds : Measured::useless});
  return known->second;
}

std::optional<Error> KnownRecords::error() const {
  std::lock_guard lock(mutex_);
  return error_;
}

} // namespace heddle::tune
