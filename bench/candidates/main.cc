// How good the expected costs are: every candidate of every kernel of a model, timed side by side at one size.
//
//   heddle show MODEL --stage schedule > model.mlir
//   bench_candidates model.mlir B=1 S=128 [--all] [--kernel NAME] [--target T]
//
// One line per candidate: expected and measured microseconds on one thread, and what the chosen one loses against the
// best. Without --all only the candidates of each variant that are expected to take at most 1.5 times as long as its
// best. All candidates of a kernel take turns, each with buffers of its own, so that weights come from where they lie
// in a model that is larger than the caches.
#include "bench/kernels/loaded_kernel.h"

#include "compiler/choose/choice.h"
#include "compiler/ir/dialect.h"
#include "compiler/layout/layout.h"
#include "compiler/passes/equal_kernels.h"
#include "compiler/passes/kernel_sizes.h"

#include "mlir/Parser/Parser.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>

#include <sched.h>
#include <time.h>

namespace heddle::bench {

static double now() {
  timespec time;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return double(time.tv_sec) + double(time.tv_nsec) * 1e-9;
}

struct Timed {
  size_t candidate;
  double expected, measured = 1e9;
  std::unique_ptr<LoadedKernel> kernel;
};

static void measure(std::vector<Timed> &timed) {
  sched_param priority{1};
  sched_setscheduler(0, SCHED_RR, &priority); // where that is allowed: others' turns would show in the caches
  double begin = now();
  for (int round = 0; round < 5 || (round < 40 && now() - begin < 2); ++round)
    for (Timed &one : timed) {
      double start = now();
      one.kernel->run();
      one.measured = std::min(one.measured, now() - start);
    }
  priority.sched_priority = 0;
  sched_setscheduler(0, SCHED_OTHER, &priority);
}

/// The kernel with the weights' panels as wide as the row wants them.
static mlir::func::FuncOp laid_out(mlir::func::FuncOp kernel, const ScheduleRow &row, const Target &target) {
  mlir::func::FuncOp copy = kernel.clone();
  const KernelKind &kind = kind_of(kernel);
  auto width = row.params.find("width");
  for (unsigned argument = 0; kind.layouts && argument < copy.getNumArguments(); ++argument) {
    if (!copy.removeArgAttr(argument, ir::names::layout))
      continue;
    for (mlir::AffineMap layout : kind.layouts(copy, argument, target))
      if (width != row.params.end() && layout::panels_of(layout)->width == width->second)
        copy.setArgAttr(argument, ir::names::layout, ir::LayoutAttr::get(kernel.getContext(), layout));
  }
  return copy;
}

struct Offered {
  ScheduleRow row;
  double seconds;
};

/// What the kind's variants offer, for weights in panels of any width.
static std::vector<Offered> offers(mlir::func::FuncOp kernel, const SizeClass &sizes, const Target &target) {
  mlir::func::FuncOp free = kernel.clone();
  const KernelKind &kind = kind_of(kernel);
  std::vector<int64_t> widths;
  for (unsigned argument = 0; kind.layouts && argument < kernel.getNumArguments(); ++argument) {
    free.removeArgAttr(argument, ir::names::layout);
    if (kernel.getArgAttr(argument, ir::names::layout))
      for (mlir::AffineMap layout : kind.layouts(free, argument, target))
        if (int64_t width = layout::panels_of(layout)->width; !llvm::is_contained(widths, width))
          widths.push_back(width);
  }
  std::vector<Offered> out;
  for (int64_t width : widths.empty() ? std::vector<int64_t>{0} : widths) {
    mlir::func::FuncOp copy = laid_out(kernel, {"", {{"width", width}}, std::nullopt, ""}, target);
    Choice choice = choose(copy, target, {sizes});
    for (size_t i = 0; i < choice.candidates.size(); ++i)
      out.push_back({choice.candidates[i].row, choice.seconds[0][i]});
    copy.erase();
  }
  free.erase();
  return out;
}

static void report(mlir::func::FuncOp kernel, const SizeClass &sizes, const Target &target, bool all) {
  const KernelKind &kind = kind_of(kernel);
  Choice chosen = choose(kernel, target, {sizes});
  std::string row_chosen = to_text(chosen.rows.front());
  std::vector<Offered> offered = offers(kernel, sizes, target);
  std::map<std::string, double> least;
  for (const Offered &offer : offered) {
    auto [known, first] = least.try_emplace(offer.row.variant, offer.seconds);
    known->second = std::min(known->second, offer.seconds);
  }
  std::vector<Timed> timed;
  for (size_t i = 0; i < offered.size(); ++i) {
    const ScheduleRow &row = offered[i].row;
    if (!all && offered[i].seconds > 1.5 * least[row.variant])
      continue;
    mlir::func::FuncOp copy = laid_out(kernel, row, target);
    copy->setAttr(ir::names::schedule, schedule_attribute(kernel.getContext(), {&row, 1}));
    std::string text;
    llvm::raw_string_ostream stream(text);
    copy.print(stream);
    copy.erase();
    Timed one{i, offered[i].seconds, 1e9, std::make_unique<LoadedKernel>()};
    if (std::string wrong = one.kernel->load(text, sizes, target); !wrong.empty()) {
      std::printf("  %s: %s\n", to_text(row).c_str(), wrong.c_str());
      continue;
    }
    one.kernel->run();
    timed.push_back(std::move(one));
  }
  measure(timed);
  std::ranges::sort(timed, {}, &Timed::measured);
  double best = timed.front().measured, of_chosen = 0;
  for (const Timed &one : timed)
    if (to_text(offered[one.candidate].row) == row_chosen)
      of_chosen = one.measured;
  std::printf("%s %s at", kernel.getName().str().c_str(), kind.name.data());
  for (int64_t size : sizes)
    std::printf(" %lld", (long long)size);
  std::printf(": the chosen one takes %.3f of the best\n", of_chosen / best);
  for (const Timed &one : timed) {
    std::string row = to_text(offered[one.candidate].row);
    std::printf("  %c %9.1f us expected, %9.1f us measured  %s\n", row == row_chosen ? '*' : ' ', one.expected * 1e6,
                one.measured * 1e6, row.c_str());
  }
  std::fflush(stdout);
}

static int main(int count, char **words) {
  if (count < 2) {
    std::fprintf(stderr, "usage: bench_candidates MODEL.mlir DIM=N... [--all] [--kernel NAME] [--target T]\n");
    return 2;
  }
  mlir::MLIRContext context;
  mlir::DialectRegistry registry;
  ir::register_dialects(registry);
  context.appendDialectRegistry(registry);
  auto module = mlir::parseSourceFile<mlir::ModuleOp>(words[1], &context);
  if (!module)
    return 1;
  mlir::Builder builder(&context);
  mlir::NamedAttrList dims;
  bool all = false;
  std::string only, named = "native";
  for (int i = 2; i < count; ++i) {
    std::string word = words[i];
    if (word == "--all")
      all = true;
    else if (word == "--kernel" && i + 1 < count)
      only = words[++i];
    else if (word == "--target" && i + 1 < count)
      named = words[++i];
    else if (size_t equals = word.find('='); equals != std::string::npos)
      dims.set(word.substr(0, equals), builder.getI64IntegerAttr(std::atoll(word.c_str() + equals + 1)));
  }
  (*module)->setAttr(ir::names::expected, dims.getDictionary(&context));
  Result<Target> target = find_target(named);
  if (!target) {
    std::fprintf(stderr, "bench_candidates: %s\n", target.error().message.c_str());
    return 2;
  }
  auto sizes = passes::kernel_sizes(*module, true);
  for (mlir::func::FuncOp kernel : passes::kernels_of(*module)) {
    SizeClass size;
    for (const passes::SizeRange &range : sizes.lookup(kernel.getName())) {
      if (range.most > INT32_MAX) {
        std::fprintf(stderr, "bench_candidates: give a number for every dim, such as B=1\n");
        return 2;
      }
      size.push_back(range.most);
    }
    if (only.empty() || only == kernel.getName())
      report(kernel, size, *target, all);
  }
  return 0;
}

} // namespace heddle::bench

int main(int count, char **words) { return heddle::bench::main(count, words); }
