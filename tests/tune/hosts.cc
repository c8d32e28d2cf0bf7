// A batch that is shared out, with hosts that are made up: who is asked for what, and on which scale the answers come.
#include "compiler/tune/hosts.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <map>

namespace heddle::test {

using namespace tune;
using Json = nlohmann::json;

namespace {

/// Two other hosts that take `slowness` times as long as this one; one of them may be at its end.
class MadeUpHosts : public Hosts {
public:
  int count() const override { return 3; }
  int self() const override { return 0; }
  void send(int to, const std::string &text) override {
    Json job = Json::parse(text);
    for (const Json &option : job["task"]["options"])
      asked[to].push_back(option["text"]);
  }
  std::string receive(int from) override {
    if (from == ended)
      return "";
    Json seconds = Json::array(), faults = Json::array();
    for (const std::string &text : asked[from]) {
      bool crashes = text == "option 4";
      seconds.push_back(crashes ? 0 : std::stod(text.substr(7)) * 1e-3 * slowness + 1e-3 * slowness);
      faults.push_back(crashes ? "it crashed (SIGSEGV)" : "");
    }
    return Json{{"seconds", seconds}, {"faults", faults}}.dump();
  }
  std::map<int, std::vector<std::string>> asked;
  double slowness = 2;
  int ended = -1;
};

/// Option i takes 1 + i ms here.
class MadeUpBench : public Bench {
public:
  Batch measure(const Task &, std::span<const size_t> options, double) override {
    Batch out;
    out.peak = 1e11;
    for (size_t option : options)
      out.outcomes.push_back({1e-3 * double(option + 1), ""});
    measured.assign(options.begin(), options.end());
    return out;
  }
  std::vector<size_t> measured;
};

Task task_of(size_t options) {
  Task out{"k", "0123456789abcdef", "contraction", {128}, {}, 1, 0, 0, 0, {}};
  for (size_t i = 0; i < options; ++i)
    out.options.push_back({"", "", "option " + std::to_string(i), 1e-3});
  return out;
}

} // namespace

TEST(SharedBench, EachHostMeasuresAShareBesideTheUsualSchedule) {
  MadeUpBench own;
  MadeUpHosts hosts;
  SharedBench bench(own, hosts, "x86-64-v3", 1);
  Batch batch = bench.measure(task_of(8), std::vector<size_t>{0, 1, 2, 3, 4, 5, 6}, 10);
  EXPECT_EQ(own.measured, (std::vector<size_t>{0, 1, 4}));
  EXPECT_EQ(hosts.asked[1], (std::vector<std::string>{"option 0", "option 2", "option 5"}));
  EXPECT_EQ(hosts.asked[2], (std::vector<std::string>{"option 0", "option 3", "option 6"}));
  ASSERT_EQ(batch.outcomes.size(), 7u);
  for (size_t i = 0; i < 7; ++i)
    EXPECT_DOUBLE_EQ(batch.outcomes[i].seconds, 1e-3 * double(i + 1)) << "on the scale of this host";
  EXPECT_EQ(std::ranges::count(batch.outcomes, true, &Outcome::elsewhere), 4);
  EXPECT_EQ(batch.peak, 1e11);
}

TEST(SharedBench, AFaultThatAnotherHostFindsIsOne) {
  MadeUpBench own;
  MadeUpHosts hosts;
  SharedBench bench(own, hosts, "x86-64-v3", 1);
  Batch batch = bench.measure(task_of(8), std::vector<size_t>{0, 1, 4, 2}, 10);
  EXPECT_EQ(batch.outcomes[2].fault, "it crashed (SIGSEGV)");
  EXPECT_EQ(batch.outcomes[2].seconds, 0);
  EXPECT_EQ(batch.failure, "");
}

TEST(SharedBench, WhatAHostThatHasEndedWasAskedForIsNotMeasured) {
  MadeUpBench own;
  MadeUpHosts hosts;
  hosts.ended = 1;
  SharedBench bench(own, hosts, "x86-64-v3", 1);
  Batch batch = bench.measure(task_of(8), std::vector<size_t>{0, 1, 2, 3}, 10);
  EXPECT_GT(batch.outcomes[1].seconds, 0);
  EXPECT_EQ(batch.outcomes[2].seconds, 0);
  EXPECT_EQ(batch.outcomes[2].fault, "");
  EXPECT_GT(batch.outcomes[3].seconds, 0);
}

TEST(SharedBench, ABatchOfTwoIsMeasuredHere) {
  MadeUpBench own;
  MadeUpHosts hosts;
  SharedBench bench(own, hosts, "x86-64-v3", 1);
  bench.measure(task_of(8), std::vector<size_t>{0, 5}, 10);
  EXPECT_EQ(own.measured, (std::vector<size_t>{0, 5}));
  EXPECT_TRUE(hosts.asked.empty());
}

} // namespace heddle::test
