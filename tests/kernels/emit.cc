// emit_kernel itself: what it says of kernels it can't make, its other forms, and two threads at once.
#include "compiler/choose/choice.h"
#include "harness.h"

#include "compiler/ir/dialect.h"

#include <thread>

using namespace heddle;
using namespace heddle::test;

namespace {

std::string with_body(const std::string &body) {
  return R"(
    func.func private @k(%n: index, %x: tensor<?xf32> {heddle.extents = affine_map<(n) -> (n)>})
        -> (tensor<?xf32> {heddle.extents = affine_map<(n) -> (n)>}) {
      %e = tensor.empty(%n) : tensor<?xf32>
      %y = linalg.generic {indexing_maps = [affine_map<(n) -> (n)>, affine_map<(n) -> (n)>], iterator_types = ["parallel"]}
           ins(%x : tensor<?xf32>) outs(%e : tensor<?xf32>) {
      ^bb0(%a: f32, %o: f32):
        )" +
         body + R"(
        linalg.yield %b : f32
      } -> tensor<?xf32>
      return %y : tensor<?xf32>
    })";
}

Target native() { return *find_target("native"); }

TEST(EmitKernel, names_the_op_that_it_cannot_lower) {
  KernelText kernel(with_body("%b = math.atan %a : f32"));
  set_schedule(kernel.function(), choose(kernel.function(), native()));
  Result<KernelObject> object = emit_kernel(kernel.function(), 0, native());
  ASSERT_FALSE(object);
  EXPECT_EQ(object.error().message.substr(0, 44), "kernel @k: `math.atan` has no form in a kern");
}

TEST(EmitKernel, refuses_a_kernel_without_kind_or_row_or_with_a_wrong_row) {
  KernelText kernel(with_body("%b = math.exp %a : f32"));
  EXPECT_EQ(emit_kernel(kernel.function(), 0, native()).error().message,
            "kernel @k: `heddle.kernel` names no kind of kernel");
  set_schedule(kernel.function(), choose(kernel.function(), native()));
  EXPECT_EQ(emit_kernel(kernel.function(), 1, native()).error().message, "kernel @k: `heddle.schedule` has no row 1");
  kernel.set_row({"columns", {}, {}});
  EXPECT_EQ(emit_kernel(kernel.function(), 0, native()).error().message,
            "kernel @k: a schedule of the kind `pointwise`: there is no variant `columns`");
}

TEST(EmitKernel, writes_statement_llvm_and_assembly_as_text) {
  KernelText kernel(with_body("%b = math.exp %a : f32"));
  set_schedule(kernel.function(), choose(kernel.function(), native()));
  auto text = [&](KernelForm form) {
    EmitOptions options;
    options.form = form;
    return emit_kernel(kernel.function(), 0, native(), options)->bytes;
  };
  EXPECT_NE(text(KernelForm::statement).find("produce"), std::string::npos);
  EXPECT_NE(text(KernelForm::llvm).find("@k_0("), std::string::npos);
  EXPECT_NE(text(KernelForm::assembly).find("k_0:"), std::string::npos);
}

TEST(EmitKernel, serves_several_threads_at_once) {
  std::vector<std::thread> threads;
  std::vector<int> made(4, 0);
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&made, t] {
      KernelText kernel(with_body("%b = math.exp %a : f32"));
      set_schedule(kernel.function(), choose(kernel.function(), native()));
      for (int i = 0; i < 3; ++i)
        made[t] += bool(emit_kernel(kernel.function(), 0, native()));
    });
  for (std::thread &thread : threads)
    thread.join();
  EXPECT_EQ(made, std::vector<int>(4, 3));
}

TEST(EmitKernel, compiles_for_targets_that_this_machine_cannot_run) {
  KernelText kernel(with_body("%b = math.exp %a : f32"));
  for (const Target &target : targets()) {
    set_schedule(kernel.function(), choose(kernel.function(), target));
    Result<KernelObject> object = emit_kernel(kernel.function(), 0, target);
    EXPECT_TRUE(object) << target.name << ": " << object.error().message;
  }
}

TEST(Schedules, survive_being_attributes) {
  KernelText kernel(with_body("%b = math.exp %a : f32"));
  mlir::AffineExpr d0 = mlir::getAffineDimExpr(0, kernel.function().getContext());
  std::vector<ScheduleRow> rows = {{"rows", {{"grain", 7}}, mlir::IntegerSet::get(1, 0, {d0 - 5}, {false})},
                                   {"rows", {{"grain", 9}}, {}}};
  kernel.function()->setAttr(ir::names::schedule, schedule_attribute(kernel.function().getContext(), rows));
  Result<std::vector<ScheduleRow>> read = schedule_rows(kernel.function());
  ASSERT_TRUE(read);
  ASSERT_EQ(read->size(), 2u);
  EXPECT_EQ((*read)[0].params.at("grain"), 7);
  EXPECT_EQ((*read)[0].when, rows[0].when);
  EXPECT_FALSE((*read)[1].when);
}

TEST(Schedules, rows_that_differ_in_when_they_are_taken_have_one_function) {
  KernelText kernel(with_body("%b = math.exp %a : f32"));
  mlir::MLIRContext *context = kernel.function().getContext();
  auto from = [&](int64_t least) {
    return mlir::IntegerSet::get(1, 0, {mlir::getAffineDimExpr(0, context) - least}, {false});
  };
  auto row = [](int64_t grain, std::optional<mlir::IntegerSet> when) {
    return ScheduleRow{"rows", {{"grain", grain}}, when};
  };
  const std::vector<ScheduleRow> rows = {row(64, from(100)), row(128, from(50)), row(64, from(10)), row(128, {}),
                                         row(1, {})};
  kernel.function()->setAttr(ir::names::kernel, mlir::StringAttr::get(context, "pointwise"));
  kernel.function()->setAttr(ir::names::schedule, schedule_attribute(context, rows));
  const std::vector<std::string> symbols = {"k_0", "k_1", "k_0", "k_1", "k_4"};
  for (size_t i = 0; i < rows.size(); ++i)
    EXPECT_EQ(kernel_symbol(kernel.function(), int(i)), symbols[i]);
  Result<std::string> texts =
      kernel_texts(kernel.function()->getParentOfType<mlir::ModuleOp>(), native(), KernelForm::assembly);
  ASSERT_TRUE(texts) << texts.error().message;
  for (const char *symbol : {"// k_0\n", "// k_1\n", "// k_4\n"})
    EXPECT_NE(texts->find(symbol), std::string::npos) << symbol;
  for (const char *symbol : {"// k_2\n", "// k_3\n"})
    EXPECT_EQ(texts->find(symbol), std::string::npos) << symbol;
}

TEST(Schedules, name_all_parameters_of_their_variant_and_no_others_within_bounds) {
  const KernelKind &pointwise = *find_kind("pointwise"), &contraction = *find_kind("contraction");
  auto message = [](const KernelKind &kind, const ScheduleRow &row) {
    Status status = check_row(kind, row);
    return status ? std::string("right") : status.error().message;
  };
  const std::string of = "a schedule of the kind `pointwise`: variant `rows` ";
  EXPECT_EQ(message(pointwise, {"rows", {{"grain", 7}}}), "right");
  EXPECT_EQ(message(pointwise, {"rows", {}}), of + "lacks the parameter `grain`");
  EXPECT_EQ(message(pointwise, {"rows", {{"grain", 0}}}), of + "has grain = 0; it lies in 1 .. 1073741824");
  EXPECT_EQ(message(pointwise, {"rows", {{"grain", 7}, {"width", 3}}}), of + "has no parameter `width`");
  EXPECT_EQ(message(pointwise, {"rows", {{"grain", 7}}, {}, "fma"}), of + "has no micro-kernel");
  EXPECT_EQ(message(pointwise, {"tiles", {}}), "a schedule of the kind `pointwise`: there is no variant `tiles`");
  ScheduleRow tiles = row_of("contraction", "tiles", {});
  EXPECT_EQ(message(contraction, tiles), "right");
  tiles.micro_kernel = "";
  EXPECT_EQ(message(contraction, tiles), "a schedule of the kind `contraction`: variant `tiles` names no micro-kernel");
}

TEST(Schedules, every_kind_has_rows_for_its_kernels_and_the_last_has_no_condition) {
  KernelText kernel(with_body("%b = math.exp %a : f32"));
  for (const Target &target : targets()) {
    set_schedule(kernel.function(), choose(kernel.function(), target));
    Result<std::vector<ScheduleRow>> rows = schedule_rows(kernel.function());
    ASSERT_TRUE(rows);
    EXPECT_FALSE(rows->back().when);
  }
}

} // namespace
