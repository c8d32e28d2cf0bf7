// A candidate that nobody measured takes the place of a measured one only where the model of costs says so of sizes
// that nobody measured: a search measures the promising ones first, and expected seconds are off by a factor.
#include "compiler/choose/records.h"

#include "compiler/ir/dialect.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/SHA256.h"
#include "llvm/Support/raw_ostream.h"

#include <algorithm>
#include <cmath>

namespace heddle {

/// How far apart sizes of a class lie at most: less than the sizes that a choice is made at (choice.cc).
static constexpr double same_class = 1.1;

/// What a candidate that was not measured counts as at least, to the best that was.
static constexpr double unmeasured = 1.05;

std::string structure_of(mlir::func::FuncOp kernel) {
  mlir::func::FuncOp copy = kernel.clone();
  copy.setName("k");
  copy->removeAttr(ir::names::kernel);
  copy->removeAttr(ir::names::schedule);
  for (unsigned argument = 0; argument < copy.getNumArguments(); ++argument)
    copy.removeArgAttr(argument, ir::names::layout);
  std::string text;
  llvm::raw_string_ostream stream(text);
  mlir::OpPrintingFlags flags;
  flags.useLocalScope();
  copy.print(stream, flags);
  copy.erase();
  llvm::SHA256 digest;
  digest.update(text);
  return llvm::toHex(digest.final(), /*LowerCase=*/true).substr(0, 16);
}

std::string layouts_text(mlir::func::FuncOp kernel) {
  std::string out;
  llvm::raw_string_ostream stream(out);
  for (unsigned argument = 0; argument < kernel.getNumArguments(); ++argument)
    if (auto layout = kernel.getArgAttrOfType<ir::LayoutAttr>(argument, ir::names::layout)) {
      stream << (out.empty() ? "" : "; ") << argument << ": ";
      llvm::interleaveComma(layout.getMap().getResults(), stream);
    }
  return out;
}

std::string row_text(const ScheduleRow &row, const Variant &variant) {
  std::string out = row.variant + "/" + std::to_string(variant.version);
  for (const auto &[name, value] : row.params)
    out += " " + name + "=" + std::to_string(value);
  return row.micro_kernel.empty() ? out : out + " " + row.micro_kernel;
}

/// The largest factor between sizes that belong together.
static double distance(const std::vector<int64_t> &a, const SizeClass &b) {
  if (a.size() != b.size())
    return INFINITY;
  double out = 1;
  for (size_t i = 0; i < a.size(); ++i)
    if (a[i] != b[i])
      out =
          std::max(out, a[i] > 0 && b[i] > 0 ? double(std::max(a[i], b[i])) / double(std::min(a[i], b[i])) : INFINITY);
  return out;
}

std::vector<const Measured *> nearest(const std::vector<Measured> &all, const SizeClass &sizes) {
  const Measured *best = nullptr;
  double least = same_class;
  for (const Measured &one : all)
    if (double to = distance(one.sizes, sizes); to <= least && (!best || to < least))
      best = &one, least = to;
  std::vector<const Measured *> out;
  for (const Measured &one : all)
    if (best && one.sizes == best->sizes)
      out.push_back(&one);
  return out;
}

void use_records(Choice &choice, mlir::func::FuncOp kernel, const Records &records) {
  std::vector<Measured> all = records.of(structure_of(kernel));
  if (all.empty())
    return;
  std::string layouts = layouts_text(kernel);
  std::vector<std::string> rows;
  for (const Candidate &candidate : choice.candidates)
    rows.push_back(row_text(candidate.row, *choice.kind->find_variant(candidate.row.variant)));
  for (size_t c = 0; c < choice.classes.size(); ++c) {
    std::vector<const Measured *> here = nearest(all, choice.classes[c]);
    if (here.empty())
      continue;
    double least = (*std::ranges::min_element(here, {}, &Measured::seconds))->seconds; // in any layout
    double logarithms = 0;                                                             // of measured by expected
    int count = 0;
    for (size_t i = 0; i < rows.size(); ++i)
      for (const Measured *one : here)
        if (one->layouts == layouts && one->row == rows[i]) {
          if (one->seconds < Measured::useless && choice.seconds[c][i] > 0) {
            logarithms += std::log(one->seconds / choice.seconds[c][i]);
            ++count;
          }
          choice.seconds[c][i] = one->seconds;
          choice.measured[c][i] = true;
        }
    double ratio = count ? std::exp(logarithms / count) : 1;
    for (size_t i = 0; i < rows.size(); ++i)
      if (!choice.measured[c][i])
        choice.seconds[c][i] =
            std::max(choice.seconds[c][i] * ratio, least < Measured::useless ? least * unmeasured : 0.0);
  }
}

size_t measured_classes(mlir::func::FuncOp kernel, const Target &target, std::span<const SizeClass> classes) {
  const KernelKind *kind = named_kind(kernel);
  std::vector<Measured> all = target.records ? target.records->of(structure_of(kernel)) : std::vector<Measured>();
  if (all.empty() || !kind)
    return 0;
  auto rows = schedule_rows(kernel);
  if (!rows)
    return 0;
  std::string layouts = layouts_text(kernel);
  return size_t(std::ranges::count_if(classes, [&](const SizeClass &sizes) {
    const ScheduleRow &row = (*rows)[row_for(*rows, sizes)];
    std::string text = row_text(row, *kind->find_variant(row.variant));
    return std::ranges::any_of(nearest(all, sizes), [&](const Measured *one) {
      return one->layouts == layouts && one->row == text && one->seconds < Measured::useless;
    });
  }));
}

} // namespace heddle
