// What a compilation goes by: the records of a database, and those that come with Heddle.
#pragma once

#include "compiler/choose/records.h"
#include "compiler/tune/database.h"

#include <map>
#include <memory>
#include <mutex>
#include <optional>

namespace heddle::tune {

/// The machines that there are records of for a target, in the database or with Heddle; sorted.
Result<std::vector<std::string>> machines_with_records(const std::optional<Database> &database,
                                                       const std::string &target);

/// Records of a machine for a target: the database's, where it has any of a kernel, else those that come with
/// Heddle. Of several numbers of threads those of the one nearest to what this process may use.
class KnownRecords : public Records {
public:
  /// `machine`: empty: of none.
  KnownRecords(std::optional<Database> database, std::string target, std::string machine);

  const std::string &machine() const { return machine_; }

  std::vector<Measured> of(const std::string &structure) const override;
  /// What went wrong while reading: from then on there are no records.
  std::optional<Error> error() const;

private:
  Result<std::vector<Record>> look_up(const std::string &structure) const;

  std::optional<Database> database_;
  std::string machine_, target_;
  std::map<std::string, std::vector<Record>> shipped_; // by structure
  mutable std::mutex mutex_;
  mutable std::map<std::string, std::vector<Measured>> known_;
  mutable std::optional<Error> error_;
};

} // namespace heddle::tune
