// How measurements change what is chosen, and when they don't.
#include "compiler/choose/choice.h"
#include "compiler/choose/records.h"
#include "compiler/ir/dialect.h"
#include "compiler/tune/known_records.h"
#include "compiler/tune/machine.h"
#include "embedded/shipped_records.h"
#include "made_up.h"

#include "mlir/IR/MLIRContext.h"
#include "mlir/Parser/Parser.h"

#include <gtest/gtest.h>

namespace heddle::test {

namespace {

/// The same measurements of every kernel.
class Told : public Records {
public:
  explicit Told(std::vector<Measured> all) : all_(std::move(all)) {}
  std::vector<Measured> of(const std::string &) const override { return all_; }

private:
  std::vector<Measured> all_;
};

class Choosing : public testing::Test {
protected:
  Choosing() {
    mlir::DialectRegistry registry;
    ir::register_dialects(registry);
    context.appendDialectRegistry(registry);
    module = mlir::parseSourceString<mlir::ModuleOp>(dense, &context);
    kernel = *module->getOps<mlir::func::FuncOp>().begin();
  }

  /// Every candidate takes what it is expected to at 128 rows, but the one of that number a tenth.
  std::vector<Measured> measured_at(int64_t size, size_t best) {
    Choice choice = choose(kernel, target, {{size}});
    std::vector<Measured> out;
    for (size_t i = 0; i < choice.candidates.size(); ++i) {
      const ScheduleRow &row = choice.candidates[i].row;
      out.push_back({{size},
                     "",
                     row_text(row, *choice.kind->find_variant(row.variant)),
                     choice.seconds[0][i] * (i == best ? 0.1 : 1)});
    }
    return out;
  }
  Target with(std::vector<Measured> all) {
    Target out = target;
    out.records = std::make_shared<Told>(std::move(all));
    return out;
  }

  mlir::MLIRContext context;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  mlir::func::FuncOp kernel;
  Target target = *find_target("x86-64-v3");
};

} // namespace

TEST_F(Choosing, TheMeasuredBestIsChosenAtItsSizeAndNoOther) {
  Choice plain = choose(kernel, target, {{128}, {1024}});
  size_t slow = size_t(std::ranges::max_element(plain.seconds[0]) - plain.seconds[0].begin());
  ASSERT_NE(plain.selected(0), slow);
  Choice tuned = choose(kernel, with(measured_at(128, slow)), {{128}});
  EXPECT_EQ(tuned.selected(0), slow);
  EXPECT_TRUE(tuned.measured[0][slow]);
  Choice larger = choose(kernel, with(measured_at(128, slow)), {{1024}});
  EXPECT_EQ(larger.selected(0), plain.best(1));
  EXPECT_FALSE(larger.measured[0][slow]);
}

TEST_F(Choosing, SizesOfAClassLieWithinATenth) {
  Choice plain = choose(kernel, target, {{128}});
  size_t slow = size_t(std::ranges::max_element(plain.seconds[0]) - plain.seconds[0].begin());
  Target tuned = with(measured_at(128, slow));
  set_schedule(kernel, choose(kernel, tuned, {{128}}));
  EXPECT_EQ(measured_classes(kernel, tuned, std::vector<SizeClass>{{117}, {140}, {116}, {142}, {0}}), 2u);
  EXPECT_EQ(choose(kernel, tuned, {{140}}).best(0), slow);
}

TEST_F(Choosing, RecordsThatNoRowIsOfAreNotSaidToCount) {
  std::vector<Measured> all = measured_at(128, 0);
  std::vector<SizeClass> classes = {{128}};
  for (auto change :
       {+[](Measured &one) { one.row = "tiles/0 rows=6 fma"; }, // of another version
        +[](Measured &one) { one.layouts = "2: d1, d0"; }, +[](Measured &one) { one.seconds = Measured::useless; }}) {
    std::vector<Measured> changed = all;
    std::ranges::for_each(changed, change);
    Target with_them = with(changed);
    set_schedule(kernel, choose(kernel, with_them, classes));
    EXPECT_EQ(measured_classes(kernel, with_them, classes), 0u);
  }
  set_schedule(kernel, choose(kernel, with(all), classes));
  EXPECT_EQ(measured_classes(kernel, with(all), classes), 1u);
}

TEST_F(Choosing, WhatOnlyMeasurementsChooseIsChosenWhereTheyDoAndNowhereElse) {
  target = *find_target("x86-64-v4+amx");
  Choice plain = choose(kernel, target, {{1024}});
  auto is_split = [](const Candidate &candidate) { return candidate.row.variant == "split_tiles"; };
  size_t split = size_t(std::ranges::find_if(plain.candidates, is_split) - plain.candidates.begin());
  ASSERT_LT(split, plain.candidates.size());
  EXPECT_NE(plain.selected(0), split);
  EXPECT_NE(plain.best(0), split);
  Target tuned = with(measured_at(1024, split));
  EXPECT_EQ(choose(kernel, tuned, {{1024}}).selected(0), split);
  EXPECT_NE(choose(kernel, tuned, {{4096}}).selected(0), split);
}

TEST_F(Choosing, TheNearestSizesCount) {
  std::vector<Measured> all = {{{128}, "", "a", 1}, {{120}, "", "a", 2}, {{120}, "", "b", 3}};
  EXPECT_EQ(nearest(all, {121}).size(), 2u);
  EXPECT_EQ(nearest(all, {127}).front()->seconds, 1);
  EXPECT_TRUE(nearest(all, {1, 128}).empty());
}

TEST_F(Choosing, WhatNobodyMeasuredIsNoBetterThanWhatWasMeasured) {
  std::vector<Measured> all = measured_at(128, 0);
  Choice plain = choose(kernel, target, {{128}});
  size_t worst = size_t(std::ranges::max_element(plain.seconds[0]) - plain.seconds[0].begin());
  Choice tuned = choose(kernel, with({all[worst]}), {{128}}); // the one that is expected to be slowest
  EXPECT_EQ(tuned.selected(0), worst);
  EXPECT_EQ(std::ranges::count(tuned.measured[0], true), 1);
}

TEST_F(Choosing, ACandidateThatCrashedIsNotChosen) {
  std::vector<Measured> all = measured_at(128, 0);
  size_t best = choose(kernel, target, {{128}}).best(0);
  for (Measured &one : all)
    one.seconds = one.row == all[best].row ? Measured::useless : one.seconds;
  EXPECT_NE(choose(kernel, with(all), {{128}}).selected(0), best);
}

TEST_F(Choosing, ACandidateThatCrashedIsNotChosenForWantOfOtherMeasurements) {
  size_t best = choose(kernel, target, {{128}}).best(0);
  Measured one = measured_at(128, 0)[best];
  one.seconds = Measured::useless;
  EXPECT_NE(choose(kernel, with({one}), {{128}}).selected(0), best);
}

TEST_F(Choosing, AnotherVersionOfAVariantIsAnotherRow) {
  Choice choice = choose(kernel, target, {{128}});
  const ScheduleRow &row = choice.candidates[0].row;
  Variant newer = *choice.kind->find_variant(row.variant);
  std::string before = row_text(row, newer);
  ++newer.version;
  EXPECT_NE(row_text(row, newer), before);
}

TEST_F(Choosing, TheStructureIsThatOfTheKernelAlone) {
  std::string structure = structure_of(kernel);
  EXPECT_EQ(structure.size(), 16u);
  mlir::func::FuncOp other = kernel.clone();
  other.setName("k7");
  other.setArgAttr(2, ir::names::layout,
                   ir::LayoutAttr::get(&context, mlir::AffineMap::getMultiDimIdentityMap(2, &context)));
  set_schedule(other, choose(kernel, target));
  EXPECT_EQ(structure_of(other), structure);
  EXPECT_EQ(layouts_text(other), "2: d0, d1");
  EXPECT_EQ(layouts_text(kernel), "");
  other.setArgAttr(1, ir::names::extents,
                   mlir::AffineMapAttr::get(mlir::AffineMap::getMultiDimIdentityMap(2, &context)));
  EXPECT_NE(structure_of(other), structure);
  other.erase();
}

TEST_F(Choosing, OnlyRecordsOfThatMachineAreKnown) {
  Folder folder;
  std::string structure = structure_of(kernel);
  auto add = [&](const std::string &machine, const std::string &target, double seconds) {
    tune::Record one = record("tiles/1 rows=6 fma", seconds, 128, {machine, target, 1});
    one.subject.structure = structure;
    auto database = tune::Database::write(folder / "t.db");
    ASSERT_TRUE(database && database->add(std::vector{one}, true));
  };
  add("Another CPU, family 1 model 1", "x86-64-v3", 1e-3);
  add(tune::this_machine(), "x86-64-v4", 2e-3);
  auto known = [&](const std::string &machine) {
    return tune::KnownRecords(std::move(*tune::Database::read(folder / "t.db")), "x86-64-v3", machine).of(structure);
  };
  EXPECT_TRUE(known(tune::this_machine()).empty());
  add(tune::this_machine(), "x86-64-v3", 3e-3);
  std::vector<Measured> found = known(tune::this_machine());
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].seconds, 3e-3);
  found = known("Another CPU, family 1 model 1");
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].seconds, 1e-3);
  EXPECT_TRUE(known("").empty());
}

TEST_F(Choosing, MachinesAreThoseThatTheTargetHasRecordsOf) {
  Folder folder;
  auto database = tune::Database::write(folder / "t.db");
  ASSERT_TRUE(database);
  for (auto [machine, target] : {std::pair("B", "cuda:sm_80"), {"A", "cuda:sm_80"}, {"C", "cuda:sm_90"}})
    ASSERT_TRUE(database->add(std::vector{record("tiles/1 rows=6 fma", 1e-3, 128, {machine, target, 1})}, true));
  ASSERT_TRUE(database->add(std::vector{record("tiles/1 rows=6 fma", 1e-3, 128, {"D", "cuda:sm_80", 1})}, false));
  std::optional<tune::Database> file(std::move(*database));
  EXPECT_EQ(*tune::machines_with_records(file, "cuda:sm_80"), (std::vector<std::string>{"A", "B"}));
  EXPECT_TRUE(tune::machines_with_records(std::nullopt, "cuda:sm_80")->empty());
}

TEST(ShippedRecords, AllOfThemRead) {
  for (const EmbeddedFile &file : embedded::shipped_records()) {
    auto records = tune::read_records(file.bytes, std::string(file.path));
    ASSERT_TRUE(records) << records.error().message;
    EXPECT_EQ(tune::to_text(*records), file.bytes) << "sorted, as --export writes it";
  }
}

} // namespace heddle::test
