// No two values that are alive at the same time share bytes: checked by brute force on the plan of generated
// entries, against lifetimes found by another, slower way.
#include "compiler/passes/entry_values.h"
#include "tests/emit/tiny_module.h"

#include <gtest/gtest.h>

#include <random>

using namespace heddle;
using namespace mlir;

namespace {

/// An entry of `calls` kernels, each reading up to three earlier values of sizes B, B * S or S; some are returned.
std::string random_module(unsigned seed, int calls) {
  std::mt19937 random(seed);
  std::string body, returned, types;
  std::vector<int> shapes = {0}; // by value; %v0 is the input
  const char *sizes[] = {"%B, %S", "%S, %B", "%B, %B", "%S, %S"};
  auto pick = [&](int n) { return int(random() % n); };
  for (int i = 1; i <= calls; ++i) {
    int shape = pick(4), a = pick(i), b = pick(i), c = std::max(0, i - 1 - pick(3));
    body += "    %v" + std::to_string(i) + " = func.call @k(" + sizes[shape] + ", %v" + std::to_string(a) + ", %v" +
            std::to_string(b) + ", %v" + std::to_string(c) +
            ") : (index, index, tensor<?x?xf32>, tensor<?x?xf32>, tensor<?x?xf32>) -> tensor<?x?xf32>\n";
  }
  for (int r = 0; r < 3; ++r) {
    returned += (r ? ", %v" : "%v") + std::to_string(pick(calls + 1));
    types += r ? ", tensor<?x?xf32>" : "tensor<?x?xf32>";
  }
  return "module attributes {heddle.dims = [{name = \"B\"}, {name = \"S\"}]} {\n"
         "  func.func @e(%v0: tensor<?x?xf32> {heddle.name = \"x\", heddle.extents = affine_map<(B, S) -> (B, S)>}) -> "
         "(" +
         types +
         ") attributes {heddle.entry} {\n"
         "    %B = heddle.dim \"B\"\n    %S = heddle.dim \"S\"\n" +
         body + "    return " + returned + " : " + types +
         "\n  }\n"
         "  func.func private @k(index, index, tensor<?x?xf32>, tensor<?x?xf32>, tensor<?x?xf32>)"
         " -> (tensor<?x?xf32> {heddle.extents = affine_map<(d0, d1) -> (d0, d1)>})"
         " attributes {heddle.kernel = \"general\", heddle.schedule = [{variant = \"plain\"}]}\n}\n";
}

/// Begin and end in the arena of a value that lies in a slot, for given dims.
std::pair<int64_t, int64_t> bytes_in_arena(func::FuncOp entry, Value value, passes::SizeEvaluator &sizes) {
  int64_t offset = 0;
  auto slots = passes::slots(entry);
  for (int64_t slot = 0; slot < passes::place_of(value).number; ++slot) {
    int64_t largest = 0;
    for (Value member : slots[slot])
      largest = std::max(largest, *sizes.bytes(member));
    offset += (largest + 63) / 64 * 64;
  }
  return {offset, offset + *sizes.bytes(value)};
}

TEST(PlanMemory, values_alive_together_never_overlap_for_any_dims) {
  for (unsigned seed = 0; seed < 60; ++seed) {
    ModuleFixture fixture;
    ASSERT_TRUE(fixture.plan(random_module(seed, 3 + seed % 17)));
    auto entry = passes::entries(*fixture.module)[0];
    std::vector<Operation *> order;
    for (Operation &op : entry.front())
      order.push_back(&op);
    std::vector<Value> live_values;
    for (auto call : entry.front().getOps<func::CallOp>())
      if (passes::place_of(call.getResult(0)).kind == passes::MemoryPlace::slot)
        live_values.push_back(call.getResult(0));
    // A value is needed after step i where some later step reads it.
    auto needed_during = [&](Value value, size_t step) {
      size_t made = llvm::find(order, value.getDefiningOp()) - order.begin();
      if (step == made)
        return true;
      bool read_later = false;
      for (size_t i = step; i < order.size(); ++i)
        read_later |= llvm::is_contained(order[i]->getOperands(), value);
      return made < step && read_later;
    };
    for (auto dims : {std::vector<int64_t>{1, 1}, {1, 97}, {33, 5}, {0, 8}, {64, 512}}) {
      passes::SizeEvaluator sizes(*fixture.module, dims);
      for (size_t step = 0; step < order.size(); ++step)
        for (Value a : live_values)
          for (Value b : live_values) {
            if (a == b || !needed_during(a, step) || !needed_during(b, step))
              continue;
            auto [a_begin, a_end] = bytes_in_arena(entry, a, sizes);
            auto [b_begin, b_end] = bytes_in_arena(entry, b, sizes);
            ASSERT_TRUE(a_end <= b_begin || b_end <= a_begin || a_begin == a_end || b_begin == b_end)
                << "seed " << seed << " step " << step;
          }
    }
  }
}

TEST(PlanMemory, a_chain_of_layers_needs_two_slots_whatever_its_length) {
  std::string body;
  for (int i = 1; i <= 20; ++i)
    body += "    %v" + std::to_string(i) + " = func.call @k(%B, %v" + std::to_string(i - 1) +
            ") : (index, tensor<?x4xf32>) -> tensor<?x4xf32>\n";
  ModuleFixture fixture;
  ASSERT_TRUE(fixture.plan(R"mlir(
module attributes {heddle.dims = [{name = "B"}]} {
  func.func @e(%v0: tensor<?x4xf32> {heddle.name = "x", heddle.extents = affine_map<(B) -> (B, 4)>}) -> tensor<?x4xf32>
      attributes {heddle.entry} {
    %B = heddle.dim "B"
)mlir" + body + R"mlir(    return %v20 : tensor<?x4xf32>
  }
  func.func private @k(index, tensor<?x4xf32>) -> (tensor<?x4xf32> {heddle.extents = affine_map<(d0) -> (d0, 4)>})
      attributes {heddle.kernel = "general", heddle.schedule = [{variant = "plain"}]}
}
)mlir"));
  EXPECT_EQ(passes::slots(passes::entries(*fixture.module)[0]).size(), 2u);
}

TEST(PlanMemory, a_returned_value_is_written_in_place_and_a_second_return_is_copied) {
  ModuleFixture fixture;
  ASSERT_TRUE(fixture.plan(tiny_module));
  auto entry = passes::entries(*fixture.module)[0];
  auto returned = entry.front().getTerminator()->getOperands();
  EXPECT_EQ(passes::place_of(returned[0]).kind, passes::MemoryPlace::result);
  auto copies = passes::result_copies(entry);
  ASSERT_EQ(copies.size(), 1u);
  EXPECT_EQ(copies[0].result, 1);
  EXPECT_EQ(passes::slots(entry).size(), 1u);
}

} // namespace
