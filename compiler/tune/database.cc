// One table of records and one of searches. Records that a search has measured and not confirmed stand beside the
// confirmed ones of the same subject, so that an interrupted search takes nothing away.
#include "compiler/tune/database.h"

#include "compiler/io/input.h"

#include <sqlite3.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>

namespace heddle::tune {

static constexpr int application = 0x4864546e; // "HdTn"
static constexpr int format = 1;
static constexpr int wait_ms = 20000; // for another process's transaction

static constexpr const char *tables =
    "CREATE TABLE IF NOT EXISTS record (machine TEXT NOT NULL, target TEXT NOT NULL, threads INTEGER NOT NULL,"
    " structure TEXT NOT NULL, kind TEXT NOT NULL, sizes TEXT NOT NULL, layouts TEXT NOT NULL, row TEXT NOT NULL,"
    " confirmed INTEGER NOT NULL, seconds REAL NOT NULL, fault TEXT NOT NULL,"
    " PRIMARY KEY (machine, target, structure, threads, sizes, layouts, row, confirmed)) WITHOUT ROWID;"
    "CREATE TABLE IF NOT EXISTS search (name TEXT PRIMARY KEY, seed INTEGER NOT NULL, spent REAL NOT NULL,"
    " finished INTEGER NOT NULL) WITHOUT ROWID;";

void Database::Closes::operator()(sqlite3 *file) const { sqlite3_close_v2(file); }

/// A prepared statement with its values.
class Statement {
public:
  Statement(const Database &database, const char *text) : database_(database) {
    ready_ = sqlite3_prepare_v2(database.file_.get(), text, -1, &statement_, nullptr) == SQLITE_OK;
  }
  ~Statement() { sqlite3_finalize(statement_); }
  Statement(const Statement &) = delete;
  Statement &operator=(const Statement &) = delete;

  Statement &bind(const std::string &value) {
    sqlite3_bind_text(statement_, ++bound_, value.c_str(), int(value.size()), SQLITE_TRANSIENT);
    return *this;
  }
  Statement &bind(int64_t value) {
    sqlite3_bind_int64(statement_, ++bound_, value);
    return *this;
  }
  Statement &bind(double value) {
    sqlite3_bind_double(statement_, ++bound_, value);
    return *this;
  }
  /// Whether there is another row; false at the end and after a failure.
  bool next() {
    status_ = ready_ ? sqlite3_step(statement_) : SQLITE_ERROR;
    return status_ == SQLITE_ROW;
  }
  Status done() {
    while (next())
      ;
    return status_ == SQLITE_DONE ? Status(Done{}) : Status(database_.failure());
  }
  void reset() {
    sqlite3_reset(statement_);
    bound_ = 0;
  }
  /// Until the next row.
  std::string_view text(int column) const {
    auto *bytes = reinterpret_cast<const char *>(sqlite3_column_text(statement_, column));
    return bytes ? std::string_view(bytes, size_t(sqlite3_column_bytes(statement_, column))) : "";
  }
  int64_t number(int column) const { return sqlite3_column_int64(statement_, column); }
  bool is(int column, int type) const { return sqlite3_column_type(statement_, column) == type; }
  double real(int column) const { return sqlite3_column_double(statement_, column); }

private:
  const Database &database_;
  sqlite3_stmt *statement_ = nullptr;
  int bound_ = 0, status_ = SQLITE_DONE;
  bool ready_;
};

namespace {

/// All or nothing: rolled back unless `commit` succeeds.
class Transaction {
public:
  explicit Transaction(sqlite3 *file) : file_(file) { open_ = run("BEGIN IMMEDIATE"); }
  ~Transaction() {
    if (open_)
      run("ROLLBACK");
  }
  bool begun() const { return open_; }
  bool commit() {
    if (open_ && run("COMMIT"))
      open_ = false;
    return !open_;
  }

private:
  bool run(const char *text) { return sqlite3_exec(file_, text, nullptr, nullptr, nullptr) == SQLITE_OK; }
  sqlite3 *file_;
  bool open_;
};

} // namespace

static Error damaged(const std::string &path) {
  return Error{path + ": this tuning database is damaged; remove it, or name another one with --db"};
}

Error Database::failure() const {
  int code = sqlite3_errcode(file_.get());
  if (code == SQLITE_CORRUPT || code == SQLITE_NOTADB)
    return damaged(path_);
  return Error{path_ + ": the tuning database cannot be used: " + sqlite3_errmsg(file_.get())};
}

Status Database::run(const char *statement) const {
  if (sqlite3_exec(file_.get(), statement, nullptr, nullptr, nullptr) != SQLITE_OK)
    return failure();
  return Done{};
}

/// As SQLite wants to have a path in a URI; the file is read as it stands, without a lock or a file beside it.
static std::string unchanging(const std::string &path) {
  std::string out = "file:";
  for (char c : std::filesystem::absolute(path).string())
    out += c == '?' ? "%3f" : c == '#' ? "%23" : c == '%' ? "%25" : std::string(1, c);
  return out + "?immutable=1";
}

Status Database::connect(const std::string &name, int flags) {
  sqlite3 *file = nullptr;
  int status = sqlite3_open_v2(name.c_str(), &file, flags | SQLITE_OPEN_NOMUTEX, nullptr);
  file_.reset(file);
  if (status != SQLITE_OK)
    return failure();
  sqlite3_busy_timeout(file, wait_ms);
  return check_identity();
}

static constexpr const char *columns =
    "machine, target, threads, structure, kind, sizes, layouts, row, seconds, fault, confirmed FROM record ";

/// Whether the row that a statement is at may have been written by us. Every compilation asks this of every row.
static bool is_record(const Statement &row) {
  auto ends_field = [](char letter) { return letter == '|' || letter == '\r' || letter == '\n'; };
  constexpr int sizes = 5, layouts = 6, fault = 9;
  for (int column : {0, 1, 3, 4, sizes, layouts, 7, fault}) {
    if (!row.is(column, SQLITE_TEXT))
      return false;
    std::string_view text = row.text(column);
    if (std::ranges::any_of(text, ends_field) || (column == sizes && !read_sizes(text)))
      return false;
    if (text.empty() && column != sizes && column != layouts && column != fault)
      return false;
  }
  double seconds = row.real(8);
  return row.is(2, SQLITE_INTEGER) && row.number(2) > 0 && row.number(2) <= INT32_MAX && row.is(8, SQLITE_FLOAT) &&
         std::isfinite(seconds) && (seconds > 0 || (seconds == 0 && !row.text(fault).empty()));
}

Status Database::check_identity() const {
  Statement application_id(*this, "PRAGMA application_id"), user_version(*this, "PRAGMA user_version");
  Statement schema(*this, "SELECT 1 FROM sqlite_schema LIMIT 1");
  if (!application_id.next() || !user_version.next())
    return failure();
  int64_t id = application_id.number(0), version = user_version.number(0);
  bool has_tables = schema.next();
  if (Status read = schema.done(); !has_tables && !read)
    return read;
  if (id != application && (id != 0 || has_tables))
    return Error{path_ + ": is another program's database; name another file with --db"};
  if (id == 0)
    return Done{}; // it is empty
  if (version > format)
    return Error{path_ + ": this tuning database is of a newer Heddle (format " + std::to_string(version) +
                 ", this version knows " + std::to_string(format) + "); name another file with --db"};
  if (version != format)
    return damaged(path_);
  std::string all = std::string("SELECT ") + columns;
  for (const std::string &none :
       {std::string("SELECT name, seed, spent, finished FROM search LIMIT 0"), all + "LIMIT 0"})
    if (Statement query(*this, none.c_str()); !query.done())
      return damaged(path_);
  Statement rows(*this, all.c_str());
  while (rows.next())
    if (!is_record(rows))
      return damaged(path_);
  return rows.done();
}

/// What can be said without SQLite, which would say less.
static Status look_at(const std::string &path, bool writes) {
  namespace fs = std::filesystem;
  std::error_code failed;
  fs::file_status found = fs::status(path, failed);
  if (!fs::exists(found)) {
    if (!writes)
      return Error{path + ": there is no such tuning database; `heddle tune MODEL --db " + path + "` makes one"};
    if (fs::path folder = fs::path(path).parent_path(); !folder.empty() && !fs::is_directory(folder, failed))
      return Error{path + ": there is no folder " + folder.string() + "; make it, or name another file with --db"};
    return Done{};
  }
  if (!fs::is_regular_file(found))
    return Error{path + ": is no file; a tuning database is one"};
  char first[16] = {};
  std::ifstream in(path, std::ios::binary);
  if (!in)
    return Error{path + ": cannot be read: " + std::strerror(errno)};
  in.read(first, sizeof first);
  if (in.gcount() > 0 && std::memcmp(first, "SQLite format 3", sizeof first) != 0)
    return Error{path + ": is no tuning database; name another file with --db"};
  return Done{};
}

Status Database::make_tables() {
  {
    Statement check(*this, "PRAGMA quick_check(1)");
    if (!check.next() || check.text(0) != "ok")
      return damaged(path_);
  }
  // Two processes that make the file at once: one waits.
  for (int attempt = 0; !run("PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL"); ++attempt) {
    if (sqlite3_errcode(file_.get()) != SQLITE_BUSY || attempt == 200)
      return failure();
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  Transaction all(file_.get());
  std::string numbers =
      "PRAGMA application_id=" + std::to_string(application) + "; PRAGMA user_version=" + std::to_string(format);
  if (!all.begun() || !run(tables) || !run(numbers.c_str()) || !all.commit())
    return failure();
  return Done{};
}

Result<Database> Database::read(const std::string &path) {
  Database out;
  out.path_ = path;
  if (Status good = look_at(path, false); !good)
    return good.error();
  note_input(path);
  if (std::error_code failed; std::filesystem::file_size(path, failed) == 0)
    return Error{path + ": is empty, no tuning database; name another file with --db"};
  Status connected = out.connect(path, SQLITE_OPEN_READONLY);
  int code = sqlite3_errcode(out.file_.get());
  if (!connected && (code == SQLITE_CANTOPEN || code == SQLITE_READONLY)) // nothing may be written beside it
    connected = out.connect(unchanging(path), SQLITE_OPEN_READONLY | SQLITE_OPEN_URI);
  if (!connected)
    return connected.error();
  return out;
}

Result<Database> Database::write(const std::string &path) {
  Database out;
  out.path_ = path;
  if (Status good = look_at(path, true); !good)
    return good.error();
  if (Status connected = out.connect(path, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE); !connected)
    return connected.error();
  note_input(path);
  if (Status made = out.make_tables(); !made)
    return made.error();
  return out;
}

/// The rows as records; of a subject that has both the unconfirmed one, which is newer.
static Result<std::vector<Record>> collect(Statement &statement, const std::string &path) {
  std::vector<Record> out;
  auto text = [&](int column) { return std::string(statement.text(column)); };
  while (statement.next()) {
    if (!is_record(statement))
      return damaged(path);
    Record record{{text(0), text(1), int(statement.number(2))},
                  {text(3), text(4), *read_sizes(statement.text(5)), text(6), text(7)},
                  statement.real(8),
                  text(9)};
    if (!out.empty() && out.back().place == record.place && out.back().subject == record.subject)
      continue;
    out.push_back(std::move(record));
  }
  if (Status read = statement.done(); !read)
    return read.error();
  return out;
}

Result<std::vector<Record>> Database::find(const Place &place, const std::string &structure, bool unconfirmed) const {
  Statement query(*this, (std::string("SELECT ") + columns +
                          "WHERE machine=? AND target=? AND structure=? AND threads=? AND confirmed>=?"
                          " ORDER BY sizes, layouts, row, confirmed")
                             .c_str());
  query.bind(place.machine).bind(place.target).bind(structure).bind(int64_t(place.threads)).bind(int64_t(!unconfirmed));
  return collect(query, path_);
}

Result<std::vector<int>> Database::threads(const std::string &machine, const std::string &target,
                                           const std::string &structure) const {
  Statement query(*this, "SELECT DISTINCT threads FROM record WHERE machine=? AND target=? AND structure=?"
                         " AND confirmed=1");
  query.bind(machine).bind(target).bind(structure);
  std::vector<int> out;
  while (query.next())
    out.push_back(int(query.number(0)));
  if (Status read = query.done(); !read)
    return read.error();
  return out;
}

Result<std::vector<std::string>> Database::machines(const std::string &target) const {
  // One look-up per machine: DISTINCT alone would read every record.
  Statement query(*this, "WITH RECURSIVE every(name) AS (SELECT min(machine) FROM record UNION ALL"
                         " SELECT (SELECT min(machine) FROM record WHERE machine>name) FROM every WHERE name NOTNULL)"
                         " SELECT name FROM every WHERE name NOTNULL AND EXISTS"
                         " (SELECT 1 FROM record WHERE machine=name AND target=? AND confirmed=1)");
  query.bind(target);
  std::vector<std::string> out;
  while (query.next())
    out.emplace_back(query.text(0));
  if (Status read = query.done(); !read)
    return read.error();
  return out;
}

Result<std::vector<Record>> Database::all() const {
  Statement query(*this, (std::string("SELECT ") + columns + "WHERE confirmed=1").c_str());
  return collect(query, path_);
}

static Status put(Statement &insert, const Search *search) {
  if (!search)
    return Done{};
  insert.bind(search->name).bind(search->seed).bind(search->spent).bind(int64_t(search->finished));
  return insert.done();
}

static constexpr const char *put_search =
    "INSERT OR REPLACE INTO search (name, seed, spent, finished) VALUES (?,?,?,?)";

Status Database::add(std::span<const Record> records, bool confirmed, const Search *search) {
  Transaction all(file_.get());
  if (!all.begun())
    return failure();
  Statement insert(*this,
                   "INSERT OR REPLACE INTO record (machine, target, threads, structure, kind, sizes, layouts, row,"
                   " confirmed, seconds, fault) VALUES (?,?,?,?,?,?,?,?,?,?,?)");
  for (const Record &record : records) {
    const Subject &subject = record.subject;
    insert.reset();
    insert.bind(record.place.machine).bind(record.place.target).bind(int64_t(record.place.threads));
    insert.bind(subject.structure).bind(subject.kind).bind(sizes_text(subject.sizes));
    insert.bind(subject.layouts).bind(subject.row).bind(int64_t(confirmed)).bind(record.seconds).bind(record.fault);
    if (Status put = insert.done(); !put)
      return put;
  }
  Statement state(*this, put_search);
  if (Status written = put(state, search); !written)
    return written;
  if (!all.commit())
    return failure();
  return Done{};
}

Status Database::confirm(const Place &place, std::span<const Subject> subjects, const Search &search) {
  Transaction all(file_.get());
  if (!all.begun())
    return failure();
  Statement change(*this, "UPDATE OR REPLACE record SET confirmed=1 WHERE machine=? AND target=? AND structure=? AND"
                          " threads=? AND sizes=? AND layouts=? AND row=? AND confirmed=0");
  for (const Subject &subject : subjects) {
    change.reset();
    change.bind(place.machine).bind(place.target).bind(subject.structure).bind(int64_t(place.threads));
    change.bind(sizes_text(subject.sizes)).bind(subject.layouts).bind(subject.row);
    if (Status changed = change.done(); !changed)
      return changed;
  }
  Statement state(*this, put_search);
  if (Status written = put(state, &search); !written)
    return written;
  if (!all.commit())
    return failure();
  return Done{};
}

Result<std::optional<Search>> Database::search(const std::string &name) const {
  Statement query(*this, "SELECT seed, spent, finished FROM search WHERE name=?");
  query.bind(name);
  std::optional<Search> out;
  if (query.next())
    out = Search{name, query.number(0), query.real(1), query.number(2) != 0};
  if (Status read = query.done(); !read)
    return read.error();
  return out;
}

} // namespace heddle::tune
