// What the file holds, who may have it open, and what becomes of a file that is no tuning database.
#include "compiler/tune/database.h"
#include "made_up.h"

#include <gtest/gtest.h>
#include <sqlite3.h>
#include <sys/wait.h>

#include <csignal>
#include <fstream>
#include <sstream>

namespace heddle::test {

using tune::Database;
using tune::Record;

static std::string bytes_of(const std::string &path) {
  std::ostringstream out;
  out << std::ifstream(path, std::ios::binary).rdbuf();
  return out.str();
}

static std::string all_of(const std::string &path) {
  auto database = Database::read(path);
  auto records = database ? database->all() : database.error();
  return records ? tune::to_text(*records) : records.error().message;
}

static void run_sql(const std::string &path, const char *text) {
  sqlite3 *file = nullptr;
  ASSERT_EQ(sqlite3_open(path.c_str(), &file), SQLITE_OK);
  ASSERT_EQ(sqlite3_exec(file, text, nullptr, nullptr, nullptr), SQLITE_OK) << sqlite3_errmsg(file);
  sqlite3_close(file);
}

TEST(Database, WhatWasAddedIsThereForTheNextProcess) {
  Folder folder;
  std::vector<Record> records = {record("tiles/1 rows=6 fma", 1e-3), record("tiles/1 rows=4 fma", 2e-3)};
  {
    auto database = Database::write(folder / "t.db");
    ASSERT_TRUE(database) << database.error().message;
    ASSERT_TRUE(database->add(records, true));
  }
  EXPECT_EQ(all_of(folder / "t.db"), tune::to_text(records));
}

TEST(Database, ALaterMeasurementTakesThePlaceOfTheEarlier) {
  Folder folder;
  auto database = Database::write(folder / "t.db");
  ASSERT_TRUE(database->add(std::vector{record("tiles/1 rows=6 fma", 1e-3)}, true));
  ASSERT_TRUE(database->add(std::vector{record("tiles/1 rows=6 fma", 3e-3)}, true));
  EXPECT_EQ(all_of(folder / "t.db"), tune::to_text({record("tiles/1 rows=6 fma", 3e-3)}));
}

TEST(Database, ASearchLeavesWhatCompilationsUseAloneUntilItIsConfirmed) {
  Folder folder;
  auto database = Database::write(folder / "t.db");
  Record before = record("tiles/1 rows=6 fma", 1e-3), now = record("tiles/1 rows=6 fma", 3e-3),
         fresh = record("tiles/1 rows=4 fma", 2e-3);
  ASSERT_TRUE(database->add(std::vector{before}, true));
  tune::Search search{"a search", 7, 12.5, false};
  ASSERT_TRUE(database->add(std::vector{now, fresh}, false, &search));
  EXPECT_EQ(all_of(folder / "t.db"), tune::to_text({before}));
  const std::string &kernel = before.subject.structure;
  EXPECT_EQ(tune::to_text(*database->find(before.place, kernel)), tune::to_text({before}));
  EXPECT_EQ(tune::to_text(*database->find(before.place, kernel, true)), tune::to_text({now, fresh}));
  auto known = database->search("a search");
  ASSERT_TRUE(known && *known);
  EXPECT_EQ((*known)->seed, 7);
  EXPECT_EQ((*known)->spent, 12.5);
  EXPECT_FALSE((*known)->finished);
  search.finished = true;
  ASSERT_TRUE(database->confirm(before.place, std::vector{now.subject, fresh.subject}, search));
  EXPECT_EQ(all_of(folder / "t.db"), tune::to_text({now, fresh}));
  EXPECT_TRUE((**database->search("a search")).finished);
}

TEST(Database, RecordsOfAnotherMachineOrTargetOrNumberOfThreadsAreNotFound) {
  Folder folder;
  auto database = Database::write(folder / "t.db");
  Record one = record("tiles/1 rows=6 fma", 1e-3);
  ASSERT_TRUE(database->add(std::vector{one}, true));
  for (const tune::Place &place :
       {tune::Place{"Another CPU", one.place.target, 1}, tune::Place{one.place.machine, "x86-64-v4", 1},
        tune::Place{one.place.machine, one.place.target, 2}})
    EXPECT_TRUE(database->find(place, one.subject.structure)->empty());
  EXPECT_EQ(database->find(one.place, one.subject.structure)->size(), 1u);
}

// Each of two processes makes the file if it is not there, and adds a hundred records one by one.
TEST(Database, TwoProcessesAtOnceLoseNothing) {
  Folder folder;
  std::string path = folder / "t.db";
  std::vector<pid_t> children;
  for (int child = 0; child < 2; ++child) {
    pid_t process = fork();
    if (process == 0) {
      auto database = Database::write(path);
      bool good = bool(database);
      for (int i = 0; good && i < 100; ++i)
        good = bool(
            database->add(std::vector{record("tiles/1 rows=" + std::to_string(i) + " fma", 1e-3, child + 1)}, true));
      _exit(good ? 0 : 1);
    }
    children.push_back(process);
  }
  for (pid_t child : children) {
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
  EXPECT_EQ(Database::read(path)->all()->size(), 200u);
}

TEST(Database, WhatWasAddedOutlivesAKilledProcess) {
  Folder folder;
  std::string path = folder / "t.db";
  int told[2];
  ASSERT_EQ(pipe(told), 0);
  pid_t process = fork();
  if (process == 0) {
    auto database = Database::write(path);
    for (int i = 0;; ++i) {
      if (!database->add(std::vector{record("tiles/1 rows=" + std::to_string(i) + " fma", 1e-3)}, true))
        _exit(1);
      if (write(told[1], &i, sizeof i) != sizeof i)
        _exit(1);
    }
  }
  int last = 0;
  for (int i = 0; i < 30; ++i)
    ASSERT_EQ(read(told[0], &last, sizeof last), ssize_t(sizeof last));
  kill(process, SIGKILL);
  waitpid(process, nullptr, 0);
  close(told[1]);
  while (read(told[0], &last, sizeof last) == sizeof last)
    ;
  EXPECT_GE(Database::read(path)->all()->size(), size_t(last) + 1);
  EXPECT_TRUE(Database::write(path));
}

TEST(Database, FilesOfOthersAreNamedAndLeftAlone) {
  Folder folder;
  std::ofstream(folder / "text") << "not a database at all\n";
  run_sql(folder / "theirs.db", "CREATE TABLE t (x); INSERT INTO t VALUES (1);");
  run_sql(folder / "signed.db", "PRAGMA application_id=1234; CREATE TABLE t (x);");
  {
    ASSERT_TRUE(Database::write(folder / "newer.db"));
  }
  run_sql(folder / "newer.db", "PRAGMA user_version=9; PRAGMA journal_mode=DELETE;");
  for (auto [name, message] : {std::pair("text", ": is no tuning database; name another file with --db"),
                               std::pair("theirs.db", ": is another program's database; name another file with --db"),
                               std::pair("signed.db", ": is another program's database; name another file with --db"),
                               std::pair("newer.db", ": this tuning database is of a newer Heddle (format 9, this "
                                                     "version knows 1); name another file with --db")}) {
    std::string path = folder / name, before = bytes_of(path);
    for (auto open : {Database::read, Database::write}) {
      auto database = open(path);
      ASSERT_FALSE(database) << name;
      EXPECT_EQ(database.error().message, path + message);
    }
    EXPECT_EQ(bytes_of(path), before) << name;
  }
}

TEST(Database, ADamagedFileIsNamedAndLeftAlone) {
  Folder folder;
  std::string path = folder / "t.db";
  {
    auto database = Database::write(path);
    std::vector<Record> many;
    for (int i = 0; i < 500; ++i)
      many.push_back(record("tiles/1 rows=" + std::to_string(i) + " fma", 1e-3));
    ASSERT_TRUE(database->add(many, true));
  }
  std::string bytes = bytes_of(path);
  ASSERT_GT(bytes.size(), 20000u);
  for (size_t i = 4096; i < bytes.size() - 4096; ++i)
    bytes[i] = char(i * 7);
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
  std::string damaged = path + ": this tuning database is damaged; remove it, or name another one with --db";
  auto writer = Database::write(path);
  ASSERT_FALSE(writer);
  EXPECT_EQ(writer.error().message, damaged);
  auto reader = Database::read(path); // reads no more than the beginning
  auto records = reader ? reader->all() : reader.error();
  ASSERT_FALSE(records);
  EXPECT_EQ(records.error().message, damaged);
  EXPECT_EQ(bytes_of(path), bytes);
}

// SQLite itself takes any of this: tables of other columns, numbers that no time is, text in their place.
TEST(Database, RowsAndTablesThatAreNotOursAreDamage) {
  Folder folder;
  for (const char *change :
       {"DROP TABLE record", "DROP TABLE search", "ALTER TABLE record RENAME COLUMN row TO line",
        "UPDATE record SET seconds=0", "UPDATE record SET seconds=-1", "UPDATE record SET seconds=9e999",
        "UPDATE record SET seconds='soon'", "UPDATE record SET threads=0", "UPDATE record SET sizes='1 x'",
        "UPDATE record SET structure=''", "UPDATE record SET row='a | b'", "UPDATE record SET kind=x'00'",
        "PRAGMA user_version=0"}) {
    std::string path = folder / "t.db";
    {
      auto database = Database::write(path);
      ASSERT_TRUE(database && database->add(std::vector{record("tiles/1 rows=6 fma", 1e-3)}, true));
    }
    run_sql(path, change);
    run_sql(path, "PRAGMA journal_mode=DELETE");
    std::string before = bytes_of(path);
    for (auto open : {Database::read, Database::write}) {
      auto database = open(path);
      ASSERT_FALSE(database) << change;
      EXPECT_EQ(database.error().message,
                path + ": this tuning database is damaged; remove it, or name another one with --db")
          << change;
    }
    EXPECT_EQ(bytes_of(path), before) << change;
    std::filesystem::remove(path);
  }
}

TEST(Database, AnEmptyFileIsFilledAndNotRead) {
  Folder folder;
  std::ofstream(folder / "t.db");
  auto reader = Database::read(folder / "t.db");
  ASSERT_FALSE(reader);
  EXPECT_EQ(reader.error().message, (folder / "t.db") + ": is empty, no tuning database; name another file with --db");
  EXPECT_TRUE(Database::write(folder / "t.db"));
  EXPECT_EQ(all_of(folder / "t.db"), tune::to_text({}));
}

TEST(Database, NoFolderIsMade) {
  Folder folder;
  auto database = Database::write(folder / "a/t.db");
  ASSERT_FALSE(database);
  EXPECT_EQ(database.error().message, (folder / "a/t.db") + ": there is no folder " + (folder / "a") +
                                          "; make it, or name another file with --db");
  EXPECT_FALSE(std::filesystem::exists(folder / "a"));
}

TEST(Database, AFileThatIsNotThereIsNotMadeForReading) {
  Folder folder;
  auto database = Database::read(folder / "t.db");
  ASSERT_FALSE(database);
  EXPECT_EQ(database.error().message, folder / "t.db" +
                                          std::string(": there is no such tuning database; `heddle tune MODEL --db ") +
                                          (folder / "t.db") + "` makes one");
  EXPECT_FALSE(std::filesystem::exists(folder / "t.db"));
}

} // namespace heddle::test
