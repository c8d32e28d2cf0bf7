// The search on a clock and with times that are made up: what it finds, and that it survives being killed.
#include "compiler/tune/search.h"
#include "made_up.h"

#include "llvm/Support/xxhash.h"

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <csignal>
#include <functional>
#include <random>

namespace heddle::test {

using namespace tune;

namespace {

const Place here = {"A CPU", "x86-64-v3", 1};

/// A task whose options take times that follow from its name, the fastest of them option `best`.
Task made_up_task(const std::string &name, size_t options, double calls, double usual = 1e-3) {
  Task out{name, name, "contraction", {128}, {}, calls, 0, 0, 0, {}};
  for (size_t i = 0; i < options; ++i)
    out.options.push_back({"", "tiles/1 rows=" + std::to_string(i), "", usual});
  return out;
}

double true_seconds(const Task &task, size_t option) {
  return 1e-3 * (1 + double(llvm::xxh3_64bits(task.structure + task.options[option].row) % 1000) / 1000);
}

size_t true_best(const Task &task) {
  size_t out = 0;
  for (size_t i = 1; i < task.options.size(); ++i)
    out = true_seconds(task, i) < true_seconds(task, out) ? i : out;
  return out;
}

/// A batch takes a second on its clock, and `really` in the world.
class FakeBench : public Bench {
public:
  Batch measure(const Task &task, std::span<const size_t> options, double limit) override {
    if (really)
      usleep(really);
    measured += options.size() - 1;
    ++batches[task.structure];
    Batch out;
    out.wall = std::min(1.0, limit);
    out.peak = 1e11;
    for (size_t option : options)
      out.outcomes.push_back(
          {true_seconds(task, option) * slowness(), fault(task, option), /*elsewhere=*/option % 2 == 1});
    return out;
  }
  std::function<double()> slowness = [] { return 1.0; };
  std::function<std::string(const Task &, size_t)> fault = [](const Task &, size_t) { return std::string(); };
  unsigned really = 0; // microseconds
  size_t measured = 0;
  std::map<std::string, int> batches;
};

std::string everything(Database &database, const std::vector<Task> &tasks) {
  std::string out;
  for (const Task &task : tasks)
    out += to_text(*database.find(here, task.structure, /*unconfirmed=*/true));
  return out;
}

const auto always = [] { return true; };

} // namespace

TEST(Searcher, FindsTheFastestOptionOfEachTask) {
  Folder folder;
  auto database = Database::write(folder / "t.db");
  FakeBench bench;
  std::vector<Task> tasks = {made_up_task("a", 30, 12), made_up_task("b", 7, 1), made_up_task("c", 1, 1)};
  Searcher search(tasks, here, 1, *database, bench);
  ASSERT_TRUE(search.load(false));
  ASSERT_TRUE(search.run(1000, always));
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_FALSE(search.is_open(i));
    EXPECT_EQ(search.found(i).best(), true_best(tasks[i]));
  }
  EXPECT_EQ(bench.measured, 29u + 6u) << "each option but the usual one once";
  EXPECT_EQ(bench.batches.count("c"), 0u) << "there is nothing to choose";
  EXPECT_LT(search.best_seconds(), search.usual_seconds());
}

TEST(Searcher, TimesOfBatchesAreOnOneScaleWhateverTheMachineDoes) {
  Folder folder;
  auto database = Database::write(folder / "t.db");
  FakeBench bench;
  int calls = 0;
  bench.slowness = [&] { return 1 + 0.4 * (calls++ / 20 % 3); };
  std::vector<Task> tasks = {made_up_task("a", 40, 1)};
  Searcher search(tasks, here, 1, *database, bench);
  ASSERT_TRUE(search.load(false));
  ASSERT_TRUE(search.run(1000, always));
  EXPECT_FALSE(search.is_open(0));
  bench.slowness = [] { return 1.0; };
  for (size_t i = 0; i < 40; ++i)
    EXPECT_GT(search.found(0).seconds[i], 0.7 * true_seconds(tasks[0], i));
  EXPECT_GT(bench.measured, 39u) << "some batches were measured again";
  EXPECT_EQ(search.measured_now(), 40u);
  EXPECT_EQ(search.measured_elsewhere(), 20u);
}

TEST(Searcher, TimeGoesWhereTheModelsTimeIs) {
  Folder folder;
  auto database = Database::write(folder / "t.db");
  FakeBench bench;
  Searcher search({made_up_task("light", 100, 1), made_up_task("heavy", 100, 10)}, here, 1, *database, bench);
  ASSERT_TRUE(search.load(false));
  ASSERT_TRUE(search.run(12, always));
  EXPECT_GE(bench.batches["heavy"], 8);
  EXPECT_GE(bench.batches["light"], 1);
  EXPECT_EQ(search.spent(), 12);
}

TEST(Searcher, ASecondSearchMeasuresNothingTwice) {
  Folder folder;
  auto database = Database::write(folder / "t.db");
  FakeBench bench;
  std::vector<Task> tasks = {made_up_task("a", 30, 12)};
  for (int turn = 0; turn < 2; ++turn) {
    Searcher search(tasks, here, 1, *database, bench);
    ASSERT_TRUE(search.load(false));
    EXPECT_EQ(search.finished(), turn == 1);
    ASSERT_TRUE(search.run(1000, always));
    ASSERT_TRUE(search.confirm({0}));
    EXPECT_EQ(bench.measured, 29u);
  }
}

TEST(Searcher, AnOptionThatWasLuckyIsFoundOut) {
  Folder folder;
  auto database = Database::write(folder / "t.db");
  std::vector<Task> tasks = {made_up_task("a", 20, 1)};
  size_t best = true_best(tasks[0]), slow = best == 5 ? 6 : 5;
  struct Lucky : FakeBench { // the slow option takes no time at first
    size_t slow;
    int times = 0;
    Batch measure(const Task &task, std::span<const size_t> options, double limit) override {
      Batch out = FakeBench::measure(task, options, limit);
      for (size_t i = 0; i < options.size(); ++i)
        if (options[i] == slow && times++ == 0)
          out.outcomes[i].seconds = 1e-6;
      return out;
    }
  } bench;
  bench.slow = slow;
  Searcher search(tasks, here, 1, *database, bench);
  ASSERT_TRUE(search.load(false));
  ASSERT_TRUE(search.run(1000, always));
  EXPECT_EQ(search.found(0).best(), slow);
  ASSERT_TRUE(search.verify(1000, always));
  EXPECT_EQ(search.found(0).best(), best);
  Searcher again(tasks, here, 1, *database, bench);
  ASSERT_TRUE(again.load(false));
  EXPECT_EQ(again.found(0).best(), best) << "as the database has it";
}

TEST(Searcher, FaultsAreKeptAndNotChosen) {
  Folder folder;
  auto database = Database::write(folder / "t.db");
  FakeBench bench;
  std::vector<Task> tasks = {made_up_task("a", 20, 1), made_up_task("b", 20, 1)};
  size_t fastest = true_best(tasks[0]);
  ASSERT_NE(fastest, 0u);
  bench.fault = [&](const Task &task, size_t option) {
    return task.structure == "a" && option == fastest ? std::string("it crashed (SIGSEGV)") : std::string();
  };
  for (int turn = 0; turn < 2; ++turn) {
    Searcher search(tasks, here, 1, *database, bench);
    ASSERT_TRUE(search.load(false));
    ASSERT_TRUE(search.run(1000, always));
    EXPECT_NE(search.found(0).best(), fastest);
    EXPECT_EQ(search.found(0).faults[fastest], "it crashed (SIGSEGV)");
    EXPECT_EQ(search.records({0})->of("a")[fastest].seconds, Measured::useless);
    EXPECT_EQ(bench.measured, 2 * 19u) << "not tried again";
  }
}

TEST(Searcher, AKernelThatCannotBeMeasuredHoldsNothingUp) {
  struct Fails : FakeBench {
    Batch measure(const Task &task, std::span<const size_t> options, double limit) override {
      Batch out = FakeBench::measure(task, options, limit);
      if (task.structure == "a")
        out.failure = "it crashed (SIGSEGV)", out.outcomes.assign(options.size(), {});
      return out;
    }
  } bench;
  Folder folder;
  auto database = Database::write(folder / "t.db");
  Searcher search({made_up_task("a", 20, 100), made_up_task("b", 20, 1)}, here, 1, *database, bench);
  ASSERT_TRUE(search.load(false));
  ASSERT_TRUE(search.run(1000, always));
  EXPECT_EQ(bench.batches["a"], 1);
  EXPECT_FALSE(search.is_open(1));
  EXPECT_EQ(search.found(0).failure, "it crashed (SIGSEGV)");
}

// A search of 50 batches is killed at twenty random moments and goes on each time.
TEST(Searcher, KilledAndResumedItEndsAsIfUndisturbed) {
  std::vector<Task> tasks = {made_up_task("a", 150, 12), made_up_task("b", 120, 5), made_up_task("c", 90, 1)};
  constexpr double budget = 50;
  Folder folder;
  auto undisturbed = Database::write(folder / "undisturbed.db");
  FakeBench bench;
  Searcher whole(tasks, here, 7, *undisturbed, bench);
  ASSERT_TRUE(whole.load(true));
  ASSERT_TRUE(whole.run(budget, always));
  ASSERT_EQ(whole.spent(), budget);
  ASSERT_TRUE(whole.is_open(2)) << "it ends for want of time";

  std::string path = folder / "killed.db";
  std::mt19937 random(3);
  size_t finished = 0;
  int kills = 0;
  for (; kills < 20; ++kills) {
    int told[2];
    ASSERT_EQ(pipe(told), 0);
    pid_t process = fork();
    if (process == 0) {
      auto database = Database::write(path);
      FakeBench slow;
      slow.really = 1000;
      Searcher search(tasks, here, 7, *database, slow);
      bool good = database && search.load(true) && search.run(budget, [&] {
        size_t known = 0;
        for (size_t i = 0; i < tasks.size(); ++i)
          known += search.found(i).measured();
        return write(told[1], &known, sizeof known) == sizeof known;
      });
      _exit(good ? 0 : 1);
    }
    close(told[1]);
    usleep(unsigned(random() % 12000));
    kill(process, SIGKILL);
    int status = 0;
    waitpid(process, &status, 0);
    for (size_t known; read(told[0], &known, sizeof known) == sizeof known;)
      finished = std::max(finished, known);
    close(told[0]);
    if (!std::filesystem::exists(path))
      continue;
    auto database = Database::write(path);
    ASSERT_TRUE(database) << database.error().message;
    size_t kept = 0;
    for (const Task &task : tasks)
      kept += database->find(here, task.structure, true)->size();
    ASSERT_GE(kept, finished) << "a finished measurement is lost";
  }
  EXPECT_GT(finished, 0u);
  auto database = Database::write(path);
  Searcher rest(tasks, here, 7, *database, bench);
  ASSERT_TRUE(rest.load(true));
  ASSERT_TRUE(rest.run(budget, always));
  EXPECT_EQ(rest.spent(), whole.spent());
  EXPECT_EQ(everything(*database, tasks), everything(*undisturbed, tasks));
  for (size_t i = 0; i < tasks.size(); ++i)
    EXPECT_EQ(rest.found(i).best(), whole.found(i).best());
}

} // namespace heddle::test
