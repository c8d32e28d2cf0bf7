// Stage to instructions: finds out which indices each node depends on, writes positions as affine forms, picks
// the lane that makes the reads contiguous and the runs long, and places each instruction in the loop nest.
#include "dsl/interp/stage_program.h"

#include <algorithm>
#include <unordered_set>

namespace heddle::interp {
namespace {

/// An i32 expression as constant + indices + opaque nodes, each with a factor.
struct Linear {
  int64_t constant = 0;
  std::vector<int64_t> per_index;
  std::vector<std::pair<int64_t, const Expr *>> opaque;

  bool is_constant() const {
    return opaque.empty() && std::all_of(per_index.begin(), per_index.end(), [](int64_t f) { return f == 0; });
  }
  void add(const Linear &other, int64_t factor) {
    constant += factor * other.constant;
    for (size_t i = 0; i < per_index.size(); ++i)
      per_index[i] += factor * other.per_index[i];
    for (auto [f, node] : other.opaque)
      opaque.push_back({f * factor, node});
  }
};

class Preparation {
public:
  Preparation(const Stage &stage, const Scope &scope) : stage_(stage), scope_(scope) { program_.stage = &stage; }

  Result<StageProgram> run() {
    for (const auto *indices : {&stage_.space, &stage_.over})
      for (const Index &index : *indices)
        program_.extents.push_back(std::max<int64_t>(0, index.extent.evaluate(scope_.dims)));
    if (program_.extents.size() > 64)
      return Error{"`" + stage_.result->name + "` has more than 64 indices"};
    pick_lane();
    order_nest();
    program_.levels.resize(program_.nest.size() + 1);
    const Expr *value = stage_.value;
    if (stage_.reducer == Reducer::sum && value->op == Expr::mul) {
      program_.fused_product = true;
      program_.product[0] = emit(value->args[0]);
      program_.product[1] = emit(value->args[1]);
    } else {
      program_.value = emit(value);
    }
    return std::move(program_);
  }

private:
  int indices() const { return int(program_.extents.size()); }

  /// The set of indices on which a node's value depends.
  uint64_t depends(const Expr *node) {
    auto [place, fresh] = depends_.try_emplace(node, 0);
    if (!fresh)
      return place->second;
    uint64_t mask = node->op == Expr::index ? uint64_t(1) << node->position : 0;
    for (const Expr *arg : node->args)
      mask |= depends(arg);
    return depends_[node] = mask;
  }

  Linear linear(const Expr *node) {
    Linear form;
    form.per_index.resize(indices());
    switch (node->op) {
    case Expr::integer:
      form.constant = node->whole;
      break;
    case Expr::size:
      form.constant = node->extent.evaluate(scope_.dims);
      break;
    case Expr::loop_index:
      form.constant = scope_.loops[node->position];
      break;
    case Expr::index:
      form.per_index[node->position] = 1;
      break;
    case Expr::negate:
      form.add(linear(node->args[0]), -1);
      break;
    case Expr::add:
    case Expr::sub:
      form.add(linear(node->args[0]), 1);
      form.add(linear(node->args[1]), node->op == Expr::add ? 1 : -1);
      break;
    case Expr::mul: {
      Linear left = linear(node->args[0]), right = linear(node->args[1]);
      if (left.is_constant())
        form.add(right, left.constant);
      else if (right.is_constant())
        form.add(left, right.constant);
      else
        form.opaque.push_back({1, node});
      break;
    }
    default:
      form.opaque.push_back({1, node});
    }
    return form;
  }

  // --- the lane

  void collect_reads(const Expr *node, std::vector<const Expr *> &reads) {
    if (!seen_.insert(node).second)
      return;
    if (node->op == Expr::read)
      reads.push_back(node);
    for (const Expr *arg : node->args)
      collect_reads(arg, reads);
  }

  /// Rough cost of one point in nanoseconds where the runs go along index `lane`.
  double cost(int lane, const std::vector<const Expr *> &reads) {
    double run = double(std::clamp<int64_t>(program_.extents[lane], 1, StageProgram::longest_run));
    double total = 30 / run + (lane >= int(stage_.space.size()) ? 0 : 0.3);
    uint64_t bit = uint64_t(1) << lane;
    if (lane < int(stage_.space.size()) && lane + 1 != int(stage_.space.size()))
      total += stage_.over.empty() ? 1 : 0.2; // the result is written with a stride
    for (const Expr *read : reads) {
      if (!(depends(read) & bit))
        continue;
      std::vector<int64_t> strides = strides_of(*scope_.tensors.at(read->tensor));
      int64_t stride = 0;
      bool gathered = false;
      for (size_t d = 0; d < read->args.size(); ++d) {
        Linear form = linear(read->args[d]);
        stride += form.per_index[lane] * strides[d];
        for (auto [factor, node] : form.opaque)
          gathered |= (depends(node) & bit) != 0;
      }
      total += gathered      ? 5
               : stride == 1 ? 0.3
               : stride == 0 ? 0
                             : 1 + std::min<double>(4, double(std::abs(stride)) / 64);
    }
    return total;
  }

  void pick_lane() {
    std::vector<const Expr *> reads;
    collect_reads(stage_.value, reads);
    bool positions = stage_.reducer == Reducer::argmax || stage_.reducer == Reducer::argmin;
    double best = 0;
    for (int i = 0; i < indices(); ++i) {
      // The first of equal bests counts, so reduction indices must be walked in their order.
      if (positions && i >= int(stage_.space.size()) && i + 1 != indices())
        continue;
      double here = cost(i, reads);
      if (program_.lane < 0 || here <= best) {
        best = here;
        program_.lane = i;
      }
    }
    program_.lane_reduced = program_.lane >= int(stage_.space.size());
  }

  void order_nest() {
    int space = int(stage_.space.size());
    for (int i = 0; i < space; ++i)
      if (i != program_.lane)
        program_.nest.push_back(i);
    if (program_.lane >= 0 && !program_.lane_reduced)
      program_.nest.push_back(program_.lane);
    program_.first_reduced = int(program_.nest.size());
    for (int i = space; i < indices(); ++i)
      if (i != program_.lane)
        program_.nest.push_back(i);
    if (program_.lane_reduced)
      program_.nest.push_back(program_.lane);
    level_of_index_.resize(indices());
    for (size_t k = 0; k < program_.nest.size(); ++k)
      level_of_index_[program_.nest[k]] = int(k) + 1;
  }

  bool varies(uint64_t mask) const { return program_.lane >= 0 && (mask >> program_.lane & 1); }

  int level(uint64_t mask) const {
    int last = 0;
    for (int i = 0; i < int(level_of_index_.size()); ++i)
      if (mask >> i & 1)
        last = std::max(last, level_of_index_[i]);
    return last;
  }

  // --- instructions

  int emit(const Expr *node) {
    if (auto found = registers_.find(node); found != registers_.end())
      return found->second;
    Instruction made{node->op, node->type, -1};
    if (node->op == Expr::cast && !node->rounds && is_floating(node->type))
      made.type = Type::f32; // formulas compute in it: what isn't written as a conversion rounds where it is stored
    switch (node->op) {
    case Expr::integer:
    case Expr::boolean:
      made.number = double(node->whole);
      break;
    case Expr::real:
      made.number = node->number;
      break;
    case Expr::size:
      made.number = double(node->extent.evaluate(scope_.dims));
      break;
    case Expr::loop_index:
      made.number = double(scope_.loops[node->position]);
      break;
    case Expr::index:
      made.index = node->position;
      break;
    case Expr::read:
      made.read = emit_read(node);
      break;
    default:
      made.number = double(node->whole); // of philox
      for (size_t i = 0; i < node->args.size(); ++i)
        made.args[i] = emit(node->args[i]);
    }
    uint64_t mask = depends(node);
    made.out = int(program_.along_lane.size());
    program_.along_lane.push_back(varies(mask));
    program_.levels[level(mask)].push_back(made);
    registers_[node] = made.out;
    return made.out;
  }

  static std::vector<int64_t> strides_of(const Array &array) {
    std::vector<int64_t> strides(array.shape.size(), 1);
    for (size_t d = strides.size(); d-- > 1;)
      strides[d - 1] = strides[d] * array.shape[d];
    return strides;
  }

  int emit_read(const Expr *node) {
    const Array &from = *scope_.tensors.at(node->tensor);
    Read read;
    read.from = &from;
    read.expr = node;
    read.strides = strides_of(from);
    read.flat = true;
    read.flat_per_index.resize(indices());
    for (size_t d = 0; d < node->args.size(); ++d) {
      Linear form = linear(node->args[d]);
      Position at{form.constant, form.per_index, {}};
      for (auto [factor, opaque] : form.opaque)
        at.gathered |= varies(depends(opaque));
      if (at.gathered) {
        at = {0, std::vector<int64_t>(indices()), {{1, emit(node->args[d])}}, true};
        read.gathered = true;
      } else {
        for (auto [factor, opaque] : form.opaque)
          at.terms.push_back({factor, emit(opaque)});
      }
      read.flat &= at.terms.empty() && inside(at, from.shape[d]);
      read.flat_constant += at.constant * read.strides[d];
      for (int i = 0; i < indices(); ++i)
        read.flat_per_index[i] += at.per_index[i] * read.strides[d];
      read.at.push_back(std::move(at));
    }
    program_.reads.push_back(std::move(read));
    return int(program_.reads.size()) - 1;
  }

  /// Whether an affine position lies inside for all values of the indices.
  bool inside(const Position &at, int64_t extent) const {
    int64_t least = at.constant, most = at.constant;
    for (int i = 0; i < indices(); ++i) {
      int64_t reach = at.per_index[i] * std::max<int64_t>(0, program_.extents[i] - 1);
      (reach < 0 ? least : most) += reach;
    }
    return least >= 0 && most < extent;
  }

  const Stage &stage_;
  const Scope &scope_;
  StageProgram program_;
  std::unordered_map<const Expr *, uint64_t> depends_;
  std::unordered_set<const Expr *> seen_;
  std::unordered_map<const Expr *, int> registers_;
  std::vector<int> level_of_index_;
};

} // namespace

Result<StageProgram> prepare(const Stage &stage, const Scope &scope) {
  Result<StageProgram> ready = Preparation(stage, scope).run();
  if (ready)
    ready->rounds = scope.rounds;
  return ready;
}

} // namespace heddle::interp
