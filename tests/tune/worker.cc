// Real kernels in real workers: good ones are timed, and those that crash, hang, compute nonsense or want too much
// memory are told from them.
#include "compiler/choose/choice.h"
#include "compiler/ir/dialect.h"
#include "compiler/tune/bench.h"
#include "made_up.h"

#include "mlir/IR/MLIRContext.h"
#include "mlir/Parser/Parser.h"

#include <gtest/gtest.h>

namespace heddle::test {

using namespace tune;

namespace {

std::string with(std::string text, const std::string &what, const std::string &by) {
  size_t at = text.find(what);
  EXPECT_NE(at, std::string::npos) << what;
  return text.replace(at, what.size(), by);
}

/// A kernel with the schedule that is chosen for it.
Option option(const std::string &text) {
  mlir::MLIRContext context;
  mlir::DialectRegistry registry;
  ir::register_dialects(registry);
  context.appendDialectRegistry(registry);
  auto module = mlir::parseSourceString<mlir::ModuleOp>(text, &context);
  EXPECT_TRUE(module);
  mlir::func::FuncOp kernel = *module->getOps<mlir::func::FuncOp>().begin();
  set_schedule(kernel, choose(kernel, *find_target("x86-64-v3"), {{64}}));
  Option out{"", "", "", 1e-5};
  llvm::raw_string_ostream stream(out.text);
  mlir::OpPrintingFlags flags;
  kernel.print(stream, flags.useLocalScope());
  return out;
}

Batch measure(const std::vector<std::string> &texts, double limit = 60, double weights = 0) {
  Task task{"k", "0123456789abcdef", "contraction", {64}, {}, 1, 0, 0, 1e6, {}, weights};
  std::vector<size_t> numbers;
  for (const std::string &text : texts) {
    numbers.push_back(task.options.size());
    task.options.push_back(option(text));
  }
  return ProcessBench("x86-64-v3", 1).measure(task, numbers, limit);
}

/// x[m, n] + DELTA, read at PLACE.
std::string shifted(const std::string &place) {
  return R"(func.func private @k(%M: index, %x: tensor<?x96xf32> {heddle.extents = affine_map<(M) -> (M, 96)>}, %w: tensor<96x96xf32>)
    -> (tensor<?x96xf32> {heddle.extents = affine_map<(M) -> (M, 96)>}) {
  %e = tensor.empty(%M) : tensor<?x96xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(m, n) -> (m, n)>], iterator_types = ["parallel", "parallel"]} outs(%e : tensor<?x96xf32>) {
  ^bb0(%out: f32):
    %m = linalg.index 0 : index
    %n = linalg.index 1 : index
    %far = arith.constant )" +
         place + R"( : index
    %p = arith.muli %m, %far : index
    %v = tensor.extract %x[%p, %n] : tensor<?x96xf32>
    linalg.yield %v : f32
  } -> tensor<?x96xf32>
  return %y : tensor<?x96xf32>
})";
}

/// Bytes, all of them `number`.
std::string bytes(const std::string &number) {
  return R"(func.func private @k(%M: index) -> (tensor<?xi8> {heddle.extents = affine_map<(M) -> (M)>}) {
  %e = tensor.empty(%M) : tensor<?xi8>
  %y = linalg.generic {indexing_maps = [affine_map<(m) -> (m)>], iterator_types = ["parallel"]} outs(%e : tensor<?xi8>) {
  ^bb0(%out: i8):
    %v = arith.constant )" +
         number + R"( : i8
    linalg.yield %v : i8
  } -> tensor<?xi8>
  return %y : tensor<?xi8>
})";
}

/// A sum over 10^12 terms.
const char *const endless = R"(
func.func private @k(%M: index, %w: tensor<1000000xf32> {heddle.extents = affine_map<(M) -> (1000000)>})
    -> (tensor<f32> {heddle.extents = affine_map<(M) -> ()>}) {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<f32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<f32>) -> tensor<f32>
  %p = linalg.generic {indexing_maps = [affine_map<(a, b) -> (a)>, affine_map<(a, b) -> (b)>, affine_map<(a, b) -> ()>],
                       iterator_types = ["reduction", "reduction"]}
      ins(%w, %w : tensor<1000000xf32>, tensor<1000000xf32>) outs(%f : tensor<f32>) {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %0 = arith.maximumf %a, %b : f32
    %1 = math.sin %0 : f32
    %2 = arith.addf %acc, %1 : f32
    linalg.yield %2 : f32
  } -> tensor<f32>
  return %p : tensor<f32>
})";

} // namespace

TEST(Worker, OptionsOfAKernelAreTimed) {
  Batch batch = measure({dense, dense, dense});
  ASSERT_EQ(batch.failure, "");
  for (const Outcome &outcome : batch.outcomes) {
    EXPECT_EQ(outcome.fault, "");
    EXPECT_GT(outcome.seconds, 1e-7);
    EXPECT_LT(outcome.seconds, 1e-2);
  }
  EXPECT_GT(batch.peak, 1e8);
  EXPECT_LT(batch.wall, 60);
}

TEST(Worker, WithWeightsFromMemoryTooTheyAreTimed) {
  Batch batch = measure({dense, dense}, 60, 1e8);
  ASSERT_EQ(batch.failure, "");
  for (const Outcome &outcome : batch.outcomes) {
    EXPECT_EQ(outcome.fault, "");
    EXPECT_GT(outcome.seconds, 1e-7);
    EXPECT_LT(outcome.seconds, 1e-2);
  }
}

TEST(Worker, NonsenseIsFoundByComparingWithOptionZero) {
  Batch batch = measure({dense, with(dense, "arith.mulf %a, %c", "arith.addf %a, %c"), dense});
  EXPECT_EQ(batch.failure, "");
  EXPECT_TRUE(batch.outcomes[1].fault.starts_with("its result is wrong: ")) << batch.outcomes[1].fault;
  EXPECT_EQ(batch.outcomes[2].fault, "");
  EXPECT_GT(batch.outcomes[2].seconds, 0);
}

TEST(Worker, AByteMayBeRoundedTheOtherWay) {
  Batch batch = measure({bytes("-7"), bytes("-8"), bytes("-5")});
  EXPECT_EQ(batch.failure, "");
  EXPECT_EQ(batch.outcomes[1].fault, "");
  EXPECT_TRUE(batch.outcomes[2].fault.starts_with("its result is wrong: -5")) << batch.outcomes[2].fault;
}

TEST(Worker, ACrashIsTheFaultOfOneOption) {
  Batch batch = measure({shifted("1"), shifted("100000000"), shifted("1")});
  EXPECT_EQ(batch.failure, "");
  EXPECT_EQ(batch.outcomes[1].fault, "it crashed (SIGSEGV)");
  EXPECT_GT(batch.outcomes[0].seconds, 0);
  EXPECT_GT(batch.outcomes[2].seconds, 0) << "another worker has measured the others";
}

TEST(Worker, WhatTakesForeverIsStopped) {
  Batch batch = measure({dense, endless, dense});
  EXPECT_EQ(batch.outcomes[1].fault, "it was not done in 5 s");
  EXPECT_GT(batch.outcomes[2].seconds, 0);
}

TEST(Worker, ALimitIsHeld) {
  Batch batch = measure({endless, dense}, 2);
  EXPECT_EQ(batch.failure, "");
  EXPECT_GT(batch.wall, 1.9);
  EXPECT_LT(batch.wall, 3);
  EXPECT_EQ(batch.outcomes[1].seconds, 0);
}

TEST(Worker, TooMuchMemoryIsAFault) {
  Batch batch = measure({dense, R"(func.func private @k(%M: index, %x: tensor<30000000x96xf32>)
      -> (tensor<?xf32> {heddle.extents = affine_map<(M) -> (M)>}) {
  %e = tensor.empty(%M) : tensor<?xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(m) -> (m)>], iterator_types = ["parallel"]} outs(%e : tensor<?xf32>) {
  ^bb0(%out: f32):
    %m = linalg.index 0 : index
    %v = tensor.extract %x[%m, %m] : tensor<30000000x96xf32>
    linalg.yield %v : f32
  } -> tensor<?xf32>
  return %y : tensor<?xf32>
})",
                         dense});
  EXPECT_EQ(batch.outcomes[1].fault, "it ran out of memory");
  EXPECT_GT(batch.outcomes[2].seconds, 0);
}

} // namespace heddle::test
