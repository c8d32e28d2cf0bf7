// The rows are a decision list over the kind's ranges (of a product: its number of rows). From all classes that no row
// serves yet, the next row takes the largest box `range >= threshold, …` in which one candidate is close to the best.
#include "compiler/choose/choice.h"

#include "compiler/choose/records.h"
#include "compiler/ir/dialect.h"
#include "compiler/kernels/sizes.h"

#include "mlir/IR/Builders.h"

#include <algorithm>
#include <limits>
#include <numeric>

namespace heddle {

/// How much more than the best candidate a row may cost in a class. Where that takes more rows than the kind allows, it
/// grows.
static constexpr double tolerance = 1.03;
/// How many times as much more a row may cost then.
static constexpr double growth_of_tolerance = 1.5;
/// Sums of costs that differ by less differ by rounding: the candidate that was offered first stays.
static constexpr double rounding = 1e-9;

/// What a call of any kernel takes beside its work: differences below that don't count.
static constexpr double call_seconds = 1e-6;

/// With one open size: a fifth apart at least, so that what was measured of one counts for no other (records.cc).
static constexpr int64_t magnitudes[] = {1,  2,  3,  4,   5,   6,   8,   12,  16,   24,  32,
                                         48, 64, 96, 128, 192, 256, 384, 768, 1536, 4096};
/// With several sizes, all combinations of these.
static constexpr int64_t coarse_magnitudes[] = {1, 4, 16, 64, 128, 256, 384, 768, 1536, 4096};
/// With more than two, at most so many of each: all combinations of three would be a thousand classes, at each of which
/// every candidate is asked for its cost.
static constexpr size_t most_of_each = 5;

static std::vector<int64_t> within(std::span<const int64_t> all, const Bounds &bounds) {
  std::vector<int64_t> out;
  if (bounds.least > 0)
    out.push_back(bounds.least);
  for (int64_t number : all)
    if (number >= bounds.least && number <= bounds.most && (out.empty() || number > out.back()))
      out.push_back(number);
  if (out.empty() || (bounds.most < all.back() && bounds.most > out.back()))
    out.push_back(std::max<int64_t>(bounds.most, 1));
  return out;
}

std::vector<SizeClass> size_classes(std::span<const Bounds> sizes) {
  std::vector<SizeClass> out = {{}};
  size_t open = size_t(std::ranges::count_if(sizes, [](const Bounds &b) { return b.least < b.most; }));
  for (const Bounds &bounds : sizes) {
    std::vector<int64_t> values = open > 1 ? within(coarse_magnitudes, bounds) : within(magnitudes, bounds);
    if (open > 2 && values.size() > most_of_each) // among them the few rows that decoding adds to a text
      values = {values[0], values[1], values[2], values[values.size() / 2], values.back()};
    std::vector<SizeClass> longer;
    for (const SizeClass &front : out)
      for (int64_t value : values) {
        longer.push_back(front);
        longer.back().push_back(value);
      }
    out = std::move(longer);
  }
  return out;
}

bool holds(const mlir::IntegerSet &when, llvm::ArrayRef<int64_t> sizes) {
  for (unsigned i = 0; i < when.getNumConstraints(); ++i) {
    int64_t value = sizes::evaluate(when.getConstraint(i), sizes.take_front(when.getNumDims()));
    if (when.isEq(i) ? value != 0 : value < 0)
      return false;
  }
  return true;
}

size_t row_for(std::span<const ScheduleRow> rows, llvm::ArrayRef<int64_t> sizes) {
  size_t row = 0;
  while (row + 1 < rows.size() && rows[row].when && !holds(*rows[row].when, sizes))
    ++row;
  return row;
}

bool Choice::counts(size_t size_class, size_t candidate) const {
  return measured[size_class][candidate] || !by_measurement[candidate];
}

size_t Choice::best(size_t size_class) const {
  size_t best = candidates.size();
  for (size_t candidate = 0; candidate < candidates.size(); ++candidate)
    if (counts(size_class, candidate) &&
        (best == candidates.size() || seconds[size_class][candidate] < seconds[size_class][best]))
      best = candidate;
  return best;
}

size_t Choice::selected(size_t size_class) const { return chosen[row_for(rows, classes[size_class])]; }

namespace {

class Rows {
public:
  Rows(Choice &choice, std::span<const mlir::AffineExpr> ranges) : choice_(choice), ranges_(ranges) {
    for (const SizeClass &sizes : choice.classes) {
      values_.push_back({});
      for (mlir::AffineExpr range : ranges)
        values_.back().push_back(sizes::evaluate(range, sizes));
    }
    for (size_t c = 0; c < choice.classes.size(); ++c) {
      double least = choice.seconds[c][choice.best(c)];
      relative_.push_back({});
      for (size_t candidate = 0; candidate < choice.candidates.size(); ++candidate)
        relative_.back().push_back(choice.counts(c, candidate)
                                       ? (choice.seconds[c][candidate] + call_seconds) / (least + call_seconds)
                                       : std::numeric_limits<double>::infinity());
    }
  }

  void find() {
    // A unit that multiplies many rows of f32 comes beside all heights of tiles that vectors have for few.
    most_rows_ = choice_.kind->most_rows + has_measured();
    for (double allowed = tolerance;; allowed = 1 + growth_of_tolerance * (allowed - 1))
      if (find(allowed))
        return;
  }

private:
  struct Box {
    size_t candidate = 0;
    std::vector<int64_t> least; // of each range; the smallest number there is: no condition
    std::vector<size_t> classes;
    double worst = std::numeric_limits<double>::infinity(), sum = 0;
  };

  /// Whether a candidate counts that only measurements choose.
  bool has_measured() const {
    for (const std::vector<bool> &measured : choice_.measured)
      for (size_t candidate = 0; candidate < measured.size(); ++candidate)
        if (measured[candidate] && choice_.by_measurement[candidate])
          return true;
    return false;
  }

  bool find(double allowed) {
    choice_.rows.clear();
    choice_.chosen.clear();
    std::vector<size_t> left(choice_.classes.size());
    std::iota(left.begin(), left.end(), 0);
    while (!left.empty()) {
      if (choice_.rows.size() == most_rows_)
        return false;
      Box box = largest(left, allowed);
      bool last = box.classes.size() == left.size();
      add(box, last);
      std::erase_if(left, [&](size_t c) { return std::ranges::find(box.classes, c) != box.classes.end(); });
    }
    return true;
  }

  void add(const Box &box, bool last) {
    ScheduleRow row = choice_.candidates[box.candidate].row;
    std::vector<mlir::AffineExpr> conditions;
    for (size_t i = 0; i < ranges_.size(); ++i)
      if (!last && box.least[i] != open)
        conditions.push_back(ranges_[i] - box.least[i]);
    if (!conditions.empty())
      row.when = mlir::IntegerSet::get(unsigned(choice_.classes.front().size()), 0, conditions,
                                       llvm::SmallVector<bool>(conditions.size(), false));
    choice_.rows.push_back(row);
    choice_.chosen.push_back(box.candidate);
  }

  /// Of the boxes in which a candidate is within `allowed` of the best, one with the most classes, of these one whose
  /// code another row has already, else the one that costs least. Where there is none, the box of the least mean loss.
  Box largest(const std::vector<size_t> &left, double allowed) const {
    Box best;
    for (const std::vector<int64_t> &least : corners(left)) {
      std::vector<size_t> inside;
      for (size_t c : left)
        if (is_inside(c, least))
          inside.push_back(c);
      if (inside.empty())
        continue;
      for (size_t candidate = 0; candidate < choice_.candidates.size(); ++candidate) {
        Box box{candidate, least, inside, 0, 0};
        for (size_t c : inside) {
          box.worst = std::max(box.worst, relative_[c][candidate]);
          box.sum += relative_[c][candidate];
        }
        if (is_better(box, best, allowed))
          best = std::move(box);
      }
    }
    return best;
  }

  /// Whether a row before has the candidate's code.
  bool has_code(const Box &box) const {
    return std::ranges::find(choice_.chosen, box.candidate) != choice_.chosen.end();
  }

  bool is_better(const Box &a, const Box &b, double allowed) const {
    if (b.classes.empty()) // none yet
      return true;
    bool fits = a.worst <= allowed, other = b.worst <= allowed;
    if (fits != other)
      return fits;
    if (!fits && a.sum / double(a.classes.size()) != b.sum / double(b.classes.size()))
      return a.sum / double(a.classes.size()) < b.sum / double(b.classes.size());
    if (a.classes.size() != b.classes.size())
      return a.classes.size() > b.classes.size();
    if (fits && has_code(a) != has_code(b))
      return has_code(a);
    return a.sum < b.sum * (1 - rounding);
  }

  bool is_inside(size_t size_class, const std::vector<int64_t> &least) const {
    for (size_t i = 0; i < least.size(); ++i)
      if (values_[size_class][i] < least[i])
        return false;
    return true;
  }

  /// All combinations of thresholds.
  std::vector<std::vector<int64_t>> corners(const std::vector<size_t> &left) const {
    std::vector<std::vector<int64_t>> out = {{}};
    for (size_t i = 0; i < ranges_.size(); ++i) {
      std::vector<int64_t> thresholds;
      for (size_t c : left)
        thresholds.push_back(values_[c][i]);
      std::ranges::sort(thresholds);
      thresholds.erase(std::unique(thresholds.begin(), thresholds.end()), thresholds.end());
      thresholds.front() = open;
      std::vector<std::vector<int64_t>> longer;
      for (const std::vector<int64_t> &front : out)
        for (int64_t threshold : thresholds) {
          longer.push_back(front);
          longer.back().push_back(threshold);
        }
      out = std::move(longer);
    }
    return out;
  }

  static constexpr int64_t open = std::numeric_limits<int64_t>::min();
  Choice &choice_;
  size_t most_rows_ = 0;
  std::span<const mlir::AffineExpr> ranges_;
  std::vector<std::vector<int64_t>> values_;  // of the ranges, by class
  std::vector<std::vector<double>> relative_; // to the best, by class and candidate
};

} // namespace

static void ask_variants(Choice &choice, mlir::func::FuncOp kernel, const Target &target) {
  for (const Variant *variant : choice.kind->variants) {
    if (!variant->runs_on(target))
      continue;
    Result<std::vector<Candidate>> offered = variant->candidates(kernel, target);
    if (!offered) {
      choice.refused.push_back({variant->name, offered.error().message});
      continue;
    }
    for (Candidate &candidate : *offered) {
      choice.candidates.push_back(std::move(candidate));
      choice.by_measurement.push_back(variant->by_measurement);
    }
  }
  if (choice.candidates.empty())
    llvm::report_fatal_error("no variant computes a kernel of a kind that has taken it");
  for (const SizeClass &sizes : choice.classes) {
    choice.seconds.push_back({});
    for (const Candidate &candidate : choice.candidates)
      choice.seconds.back().push_back(candidate.seconds(sizes));
    choice.measured.emplace_back(choice.candidates.size(), false);
  }
  if (target.records)
    use_records(choice, kernel, *target.records);
}

Choice choose(mlir::func::FuncOp kernel, const Target &target, std::vector<SizeClass> classes) {
  Choice choice{&kind_of(kernel), {}, {}, std::move(classes), {}, {}, {}, {}};
  ask_variants(choice, kernel, target);
  std::vector<mlir::AffineExpr> ranges;
  if (choice.kind->ranges)
    for (mlir::AffineExpr range : choice.kind->ranges(kernel))
      if (!llvm::isa<mlir::AffineConstantExpr>(range))
        ranges.push_back(range);
  Rows(choice, ranges).find();
  return choice;
}

Choice choose(mlir::func::FuncOp kernel, const Target &target) {
  auto sizes = llvm::count_if(kernel.getArgumentTypes(), [](mlir::Type type) { return type.isIndex(); });
  return choose(kernel, target, size_classes(std::vector<Bounds>(size_t(sizes), {0, INT32_MAX})));
}

std::vector<double> least_seconds(mlir::func::FuncOp kernel, const Target &target, std::span<const SizeClass> classes) {
  Choice choice{&kind_of(kernel), {}, {}, {classes.begin(), classes.end()}, {}, {}, {}, {}};
  ask_variants(choice, kernel, target);
  std::vector<double> out;
  for (size_t c = 0; c < choice.classes.size(); ++c)
    out.push_back(choice.seconds[c][choice.best(c)]);
  return out;
}

void set_schedule(mlir::func::FuncOp kernel, const Choice &choice) {
  mlir::Builder builder(kernel.getContext());
  kernel->setAttr(ir::names::kernel, builder.getStringAttr(choice.kind->name));
  kernel->setAttr(ir::names::schedule, schedule_attribute(kernel.getContext(), choice.rows));
}

} // namespace heddle
