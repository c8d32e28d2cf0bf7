// Records in a file that several processes may read and write at once (SQLite, write-ahead log). What was measured is
// there for good once `add` returns, whatever ends the process then. A file that is damaged, another program's or a
// newer Heddle's is named and left as it is.
#pragma once

#include "compiler/tune/record.h"

#include <memory>
#include <optional>
#include <span>

struct sqlite3;

namespace heddle::tune {

/// What a search has spent so far, as it is known by.
struct Search {
  std::string name; // of what is searched: model, sizes, place
  int64_t seed = 0;
  double spent = 0; // seconds of measuring that led to records
  bool finished = false;
};

class Database {
public:
  /// An existing file, to be read.
  static Result<Database> read(const std::string &path);
  /// The same, to be written; the file is made where it is not there, folders are not.
  static Result<Database> write(const std::string &path);

  const std::string &path() const { return path_; }

  /// Of one kernel at one place: what compilations may use, or also what a search has not confirmed yet.
  Result<std::vector<Record>> find(const Place &place, const std::string &structure, bool unconfirmed = false) const;
  /// The numbers of threads that a kernel has records for.
  Result<std::vector<int>> threads(const std::string &machine, const std::string &target,
                                   const std::string &structure) const;
  /// The machines that have records for a target.
  Result<std::vector<std::string>> machines(const std::string &target) const;
  Result<std::vector<Record>> all() const; // that compilations may use

  /// Puts records in the place of those of the same subjects, all or none. Unconfirmed ones leave what is confirmed as
  /// it is until `confirm`. A search's state changes with them.
  Status add(std::span<const Record> records, bool confirmed, const Search *search = nullptr);
  /// What was measured of these kernels at that place is what compilations use from now on.
  Status confirm(const Place &place, std::span<const Subject> subjects, const Search &search);

  Result<std::optional<Search>> search(const std::string &name) const;

private:
  struct Closes {
    void operator()(sqlite3 *file) const;
  };
  Status connect(const std::string &name, int flags);
  Status check_identity() const;
  Status make_tables();
  Status run(const char *statement) const;
  Error failure() const; // what SQLite says, with the file's name

  std::string path_;
  std::unique_ptr<sqlite3, Closes> file_;
  friend class Statement;
};

} // namespace heddle::tune
