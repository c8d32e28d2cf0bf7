#include "compiler/kernels/attention/key_block_stages.h"

#include "compiler/halide/math.h"
#include "compiler/kernels/product/matrix_tile.h"
#include "compiler/kernels/product/operands.h"

#include <algorithm>
#include <limits>

namespace heddle::attention {

using Halide::Expr;
using Halide::Func;
using Halide::Var;

namespace {

/// Where keys come from one place or, past the first of them, another, as those of a cache and of the call itself:
/// Halide makes a loop over those of the first place alone, in which nothing is asked.
class ExpectFirstPlace : public hi::IRMutator {
public:
  explicit ExpectFirstPlace(const std::string &key) : key_(key) {}

private:
  using IRMutator::visit;
  Halide::Expr visit(const hi::Select *op) override {
    if (!hi::expr_uses_var(op->condition, key_))
      return IRMutator::visit(op);
    return hi::Select::make(op->condition, likely(mutate(op->true_value)), op->false_value);
  }
  std::string key_;
};

} // namespace

KeyBlockStages::KeyBlockStages(LoweredKernel &kernel, const Match &match, const MicroKernel &micro_kernel,
                               const KeyBlockSizes &sizes, const Target &target)
    : Formulas(kernel, match, micro_kernel, target), rows_(sizes.rows), block_keys_(sizes.keys), blocks_(sizes.blocks),
      group_(sizes.group), at_once_(sizes.at_once), vectors_(micro_kernel.takes_tiles()   ? MatrixTile::width / lanes_
                                                             : accumulators_ / rows_ >= 4 ? 4
                                                             : accumulators_ / rows_ >= 2 ? 2
                                                                                          : 1),
      tile_keys_(vectors_ * lanes_), panel_lanes_(micro_kernel.takes_tiles() ? MatrixTile::width / 2 : lanes_) {}

std::vector<Var> KeyBlockStages::in_block(std::vector<Var> first) const {
  first.push_back(t_);
  if (several())
    first.push_back(c_);
  return with_outer(first);
}

Expr KeyBlockStages::first_key() const { return several() ? c_ * block_keys_ : Expr(0); }

Expr KeyBlockStages::keys_here() const { return several() ? min(all_keys_ - first_key(), block_keys_) : all_keys_; }

Expr KeyBlockStages::iterations_here(int step) const {
  return step == 1 ? keys_here() : (keys_here() + step - 1) / step;
}

Expr KeyBlockStages::key_in(const Expr &tile) const { return first_key() + tile * tile_keys_ + j_; }

Expr KeyBlockStages::placed(const Expr &formula, const Expr &key) const {
  Expr row = unsafe_promise_clamped(min(t_ * rows_ + m_, query_.extent - 1), 0, query_.extent - 1);
  return replaced({{row_.name(), row}, {key_.name(), key}}, formula);
}

Expr KeyBlockStages::symbol(LoweredOp &stage) {
  Expr name = hi::Variable::make(stage.func.type(), "statistic of " + stage.func.name());
  symbols_["statistic of " + stage.func.name()] = &stage;
  return name;
}

Expr KeyBlockStages::with_statistics(Expr expr, const std::function<Expr(LoweredOp &)> &value) {
  for (auto &[name, stage] : std::map<std::string, LoweredOp *>(symbols_)) // to which `value` may add some
    if (hi::expr_uses_var(expr, name))
      expr = replaced(name, value(*stage), expr);
  return expr;
}

Expr KeyBlockStages::of_block(const Expr &expr) {
  return with_statistics(expr, [this](LoweredOp &stage) {
    if (several() && stage.op != softmax_->top)
      return fail("a sum over keys is needed before all of them are known");
    return guarded(statistic(stage).func(exprs(in_block({m_}))));
  });
}

Expr KeyBlockStages::of_row(const Expr &expr) {
  return with_statistics(expr, [this](LoweredOp &stage) {
    return several() ? joined_.at(stage.func.name())(exprs(with_outer({m_, t_})))
                     : statistic(stage).func(exprs(in_block({m_})));
  });
}

Expr KeyBlockStages::guarded(const Expr &top) const {
  return several() ? max(top, Expr(std::numeric_limits<float>::lowest())) : top;
}

Expr KeyBlockStages::product(LoweredOp &stage, std::vector<TiledSum> &tile) {
  std::optional<Factors> factors = factors_at_places(stage);
  if (!factors)
    return 0.f;
  Inliner inline_all(kernel_);
  Expr key = min(key_in(u_), all_keys_ - 1);
  Expr panel = inline_all(factors->left), row = inline_all(factors->right); // lanes run along the keys
  auto staged = [&](const Expr &value) {
    bool of_rows = hi::expr_uses_var(value, row_.name()), of_keys = over_keys(value);
    Expr whole = filled(micro_kernel_.group, value, factors->features[0], terms_of(stage));
    std::vector<Var> features = used_by(whole, factors->features);
    return of_rows == of_keys ? placed(whole, key)
           : of_rows          ? queries(whole, features)
                              : panels(whole, features, factors->features[0]);
  };
  if (!over_keys(panel))
    std::swap(panel, row);
  TiledSum sum{Func("sum"), RegisterTile(micro_kernel_, reduction_loops(stage))};
  if (int width = lanes_along_features(stage, *factors, row, panel)) {
    Expr start = placed(inline_all(replaced(places(stage), stage.func.value())), key);
    sum.func = dot_products(start, queries(row, factors->features), placed(one_place(panel), key), factors->features[0],
                            width, terms_of(stage));
    tile.push_back(sum);
    return sum.func(exprs(in_block({j_, u_, m_})));
  }
  size_t before = panels_.size();
  panel = staged(panel);
  row = staged(row);
  for (size_t i = before; i < panels_.size(); ++i)
    panels_[i].sum = sum.func.name();
  Substitution loops;
  for (size_t i = 0; i < factors->features.size(); ++i)
    loops[factors->features[i].name()] = sum.tile.term(i);
  std::vector<Var> args = in_block({j_, u_, m_});
  Expr start = placed(inline_all(replaced(places(stage), stage.func.value())), key);
  if (micro_kernel_.takes_tiles() && !hi::is_const_zero(start))
    return fail("tiles add up from zero");
  sum.tile.define(sum.func, args, tile_keys_, start, replaced(loops, row), replaced(loops, panel));
  tile.push_back(sum);
  return sum.func(exprs(args));
}

int KeyBlockStages::lanes_along_features(const LoweredOp &stage, const Factors &factors, const Expr &row,
                                         const Expr &panel) const {
  auto terms = hi::as_const_int(terms_of(stage));
  if (!in_place() || rows_ > 1 || !terms || factors.features.size() != 1 || over_keys(row) ||
      hi::expr_uses_var(panel, row_.name()) || !hi::expr_uses_var(row, factors.features[0].name()) ||
      !all_reads_lie_by(panel, factors.features[0]))
    return 0;
  int width = lanes_;
  while (*terms % width != 0)
    width /= 2;
  return width >= 4 ? width : 0;
}

Expr KeyBlockStages::folded(Func wider, const std::vector<Var> &args, int width,
                            std::vector<std::pair<Func, int>> &halves,
                            const std::function<Expr(const Expr &, const Expr &)> &combine) {
  while (width > 1) {
    width /= 2;
    Func narrower("lanes");
    std::vector<Expr> high = exprs(args);
    high[0] = args[0] + width;
    narrower(args) = combine(wider(exprs(args)), wider(high));
    halves.push_back({narrower, width});
    wider = narrower;
  }
  std::vector<Expr> first = exprs(args);
  first[0] = 0;
  return wider(first);
}

Expr KeyBlockStages::one_place(const Expr &value) const { return ExpectFirstPlace(key_.name()).mutate(value); }

Func KeyBlockStages::dot_products(const Expr &start, const Expr &row, const Expr &panel, const Var &feature, int width,
                                  const Expr &terms) {
  DotProduct made{Func("lanes"), Halide::RDom(0, terms / width).x, width, {}};
  std::vector<Var> args = in_block({lane_, j_, u_, m_});
  Substitution term{{feature.name(), made.vector * width + lane_}};
  made.lanes(args) = hi::make_zero(start.type());
  made.lanes(args) += replaced(term, row) * replaced(term, panel);
  Expr whole = folded(made.lanes, args, width, made.halves, [](const Expr &x, const Expr &y) { return x + y; });
  Func sum("sum");
  sum(in_block({j_, u_, m_})) = start + whole;
  dot_products_.emplace_back(sum.name(), made);
  return sum;
}

Expr KeyBlockStages::queries(const Expr &value, std::vector<Var> args) {
  args.push_back(m_);
  args.push_back(t_);
  args = with_outer(args); // the same for all blocks of keys
  Func func("rows");
  func(args) = placed(value, 0);
  by_row_.push_back(func);
  return func(exprs(args));
}

Expr KeyBlockStages::panels(const Expr &value, const std::vector<Var> &features, const Var &innermost) {
  Var panel("panel");
  CopiedPanels made{{}, {}, panel, {}};
  Expr here = placed(value, min(panel * panel_lanes_ + lane_, all_keys_ - 1)), read;
  if (features.empty()) {
    made.func = Func("panels");
    made.func(with_outer({lane_, panel})) = here;
    read = made.func(exprs(with_outer({lane_, panel})));
  } else {
    Transposed transposed =
        transpose(micro_kernel_, "keys", "panels", here, features, lane_, with_outer({panel}), innermost);
    made.func = transposed.func;
    made.natural = transposed.natural;
    read = transposed.read;
  }
  panels_.push_back(made);
  Expr first_tile = several() ? c_ * (block_keys_ / tile_keys_) : Expr(0);
  return replaced({{lane_.name(), j_ % panel_lanes_},
                   {panel.name(), (first_tile + u_) * (tile_keys_ / panel_lanes_) + j_ / panel_lanes_}},
                  read);
}

Func KeyBlockStages::keep(Kept kept, const Expr &value) {
  Expr here = placed(of_block(value), min(likely(key_in(u_)), all_keys_ - 1));
  if (softmax_ && kept.stage && kept.stage->op == softmax_->scores()) {
    here = select(likely(key_in(u_) < all_keys_), here, Expr(-std::numeric_limits<float>::infinity()));
    ends_at_last_key_ = true;
  }
  kept.func(in_block({j_, u_, m_})) = here;
  kept_.push_back(kept);
  return kept.func;
}

Expr KeyBlockStages::read_kept(Func func) const { return func(exprs(in_block({j_, u_, m_}))); }

Expr KeyBlockStages::iterations_of_block(int step) const {
  return several() ? Expr(block_keys_ / step) : iterations_here(step);
}

template <class Loops>
Expr KeyBlockStages::restricted(Loops &loops, const Expr &iteration, int step, const LoweredOp &stage) {
  // Only one condition becomes a bound of the loop.
  Expr first = 0, last = iterations_here(step) - 1, end = last;
  hi::Interval range = needed_keys(stage, t_ * rows_, rows_);
  auto place = [&](const Expr &key) { return step == 1 ? key - first_key() : (key - first_key()) / step; };
  if (range.has_upper_bound())
    last = min(place(range.max), last);
  if (range.has_lower_bound())
    first = max(place(range.min), first);
  if (several() || range.has_upper_bound())
    loops.where(iteration <= last);
  if (range.has_lower_bound())
    loops.where(iteration >= first);
  // Of no key, too, one that there is.
  return Halide::unsafe_promise_clamped(iteration, min(first, end), max(last, 0));
}

KeyBlockStages::Statistic &KeyBlockStages::statistic(LoweredOp &stage) {
  auto known = statistics_.find(stage.func.name());
  if (known != statistics_.end())
    return known->second;
  Statistic made{Func("lanes"), Func("statistic"), {}, {}};
  Expr update = hi::substitute_in_all_lets(stage.func.update_value(0));
  auto is_self = [&](const Expr &expr) {
    const hi::Call *call = expr.as<hi::Call>();
    return call && call->name == stage.func.name();
  };
  const hi::Add *add = update.as<hi::Add>();
  const hi::Max *largest = update.as<hi::Max>();
  Expr a = add ? add->a : largest ? largest->a : Expr(0.f), b = add ? add->b : largest ? largest->b : Expr(0.f);
  if (is_self(a) == is_self(b))
    fail("a statistic of rows is neither a sum nor a maximum");
  Expr term = of_block(formula(replaced(places(stage), is_self(a) ? b : a), nullptr));
  Expr neutral = largest ? term.type().min() : hi::make_zero(term.type());
  if (largest && term.type().is_float())
    neutral = hi::make_const(term.type(), -std::numeric_limits<double>::infinity());
  auto combine = [&](const Expr &x, const Expr &y) { return largest ? max(x, y) : x + y; };

  Halide::RDom tiles(0, iterations_of_block(tile_keys_));
  Expr tile = restricted(tiles, tiles.x, tile_keys_, stage);
  std::vector<Var> args = in_block({j_, m_});
  made.lanes(args) = neutral;
  Expr at = placed(replaced(u_.name(), tile, term), min(likely(key_in(tile)), all_keys_ - 1));
  if (!ends_at_last_key_)
    at = select(likely(key_in(tiles.x) < all_keys_), at, neutral);
  made.lanes(args) = combine(made.lanes(exprs(args)), at);
  made.tile = tiles.x;
  Expr whole = folded(made.lanes, args, tile_keys_, made.halves, combine);
  args.erase(args.begin());
  made.func(args) = several() ? whole : combine(whole, placed(formula_of(stage, nullptr), 0));
  return statistics_.emplace(stage.func.name(), made).first->second;
}

Expr KeyBlockStages::weighted_values(LoweredOp &stage) {
  Weighted factors =
      factors_of_weighted(stage, [this](const Expr &e) { return over_keys(e) || hi::expr_uses_var(e, j_.name()); });
  Expr values = copied(factors.values), weights = factors.weights, common = factors.common;
  if (error_)
    return 0.f;
  if (group() > 1 && !ends_at_last_key_) // a group may end behind the last key
    weights = select(likely(key_in(u_) < all_keys_), weights, hi::make_zero(weights.type()));
  if (micro_kernel_.takes_tiles())
    weights = in_a_row(weights);
  else if (!is_kept(weights))
    weights = read_kept(keep({Func("weights"), {}}, weights));

  Expr keys = several() ? Expr(block_keys_) : all_keys_;
  TiledSum sum{Func("weighted"), RegisterTile(micro_kernel_, {{0, keys}})};
  Expr iteration = restricted(sum.tile, sum.tile.loops()[0], group(), stage);
  auto key_of = [&](const Expr &iteration) { return sum.tile.term_of_iteration(iteration); };
  std::vector<Var> args = in_block({feature_place_, m_});
  Expr start = placed(Inliner(kernel_)(replaced(places(stage), stage.func.value())), 0);
  int iterations = tile_keys_ / group(); // of a tile
  Substitution in_tile = {{j_.name(), key_of(iteration % iterations)}, {u_.name(), iteration / iterations}};
  // Halide bounds the block's first key and the key in it apart from each other.
  Expr first = several() ? c_ * (block_keys_ / group()) : Expr(0);
  Substitution of_key = {
      {key_.name(),
       key_of(unsafe_promise_clamped(first + iteration, 0, group() == 1 ? all_keys_ - 1 : (all_keys_ - 1) / group()))}};
  if (feature_.size < 0 || feature_.size % lanes_ != 0)
    of_key[feature_place_.name()] = min(feature_place_, feature_.extent - 1);
  values = factors.counted(replaced(of_key, values), {{row_.name(), min(t_ * rows_ + m_, query_.extent - 1)},
                                                      {key_.name(), key_of(first + sum.tile.loops()[0])}});
  sum.tile.define(sum.func, args, RegisterTile::across_tiles, several() ? hi::make_zero(start.type()) : start,
                  micro_kernel_.takes_tiles() ? replaced(key_of_row_.name(), key_of(iteration), weights)
                                              : replaced(in_tile, weights),
                  values);
  weighted_.push_back(sum);

  Expr value = several() ? join(stage, start) : sum.func(exprs(args));
  if (common.defined()) {
    Func factor("common");
    std::vector<Var> row_args = with_outer({m_, t_});
    factor(row_args) = placed(of_row(common), 0);
    row_funcs_.push_back(factor);
    value = value * factor(exprs(row_args));
  }
  Substitution at_result = {
      {feature_place_.name(), feature_.var}, {m_.name(), query_.var % rows_}, {t_.name(), query_.var / rows_}};
  for (size_t i = 0; i < outer_.size(); ++i)
    at_result[outer_vars_[i].name()] = outer_[i].var;
  return replaced(at_result, value);
}

Expr KeyBlockStages::in_a_row(const Expr &weights) {
  Expr value = is_kept(weights) ? weights : placed(of_block(weights), min(likely(key_in(u_)), all_keys_ - 1));
  std::vector<Var> args = in_block({key_of_row_, m_});
  in_row_ = Func("weights");
  in_row_(args) = replaced({{j_.name(), key_of_row_ % tile_keys_}, {u_.name(), key_of_row_ / tile_keys_}}, value);
  return in_row_(exprs(args));
}

bool KeyBlockStages::over_keys(const Expr &expr) const { return hi::expr_uses_var(expr, key_.name()); }

Expr KeyBlockStages::copied(const Expr &value) {
  if (in_place() || hi::expr_uses_var(value, row_.name()) || !hi::expr_uses_var(value, feature_place_.name()))
    return filled(micro_kernel_.group, in_place() ? one_place(value) : value, key_, all_keys_);
  Copy copy = copy_in_groups(micro_kernel_, "copied", value, with_outer({feature_place_, key_}), key_, all_keys_);
  copies_.push_back(copy.func);
  return copy.read;
}

int KeyBlockStages::tile_features() const {
  if (feature_.size < 0)
    return vectors_ * lanes_;
  int vectors = int((feature_.size + lanes_ - 1) / lanes_);
  int most = std::min(vectors, rows_ == 1 && in_place() ? accumulators_ : vectors_); // one pass over the values
  while (vectors % most != 0)
    --most;
  return most * lanes_;
}

Expr KeyBlockStages::part(const Expr &feature, const Expr &block) {
  std::vector<Expr> at = exprs(in_block({feature_place_, m_}));
  at[0] = feature;
  at[3] = block;
  return part_(at);
}

std::pair<Halide::RDom, Expr> KeyBlockStages::blocks_of_row(const LoweredOp &stage) {
  Expr number = (all_keys_ + block_keys_ - 1) / block_keys_, first = 0, last = number - 1;
  Halide::RDom blocks(0, number);
  hi::Interval range = needed_keys(stage, t_ * rows_, rows_);
  if (range.has_lower_bound())
    first = clamp(range.min / block_keys_, 0, max(number - 1, 0));
  if (range.has_upper_bound())
    last = min(range.max / block_keys_, last);
  if (!range.has_lower_bound() && !range.has_upper_bound())
    return {blocks, blocks.x};
  blocks.where(blocks.x <= last - first);
  return {blocks, Halide::unsafe_promise_clamped(first + blocks.x, 0, max(last, 0))};
}

Func KeyBlockStages::joined(const char *name, const LoweredOp &stage, const std::vector<Var> &args, const Expr &start,
                            const Expr &feature) {
  Func func(name);
  auto [blocks, block] = blocks_of_row(stage);
  func(args) = start;
  Expr so_far = func(exprs(args)), more = part(feature, block);
  if (stage.op == softmax_->top) {
    func(args) = max(so_far, more);
  } else if (!softmax_->top) {
    func(args) = so_far + more;
  } else {
    std::vector<Expr> at = exprs(with_outer({m_, c_, t_}));
    at[1] = block;
    func(args) = so_far + scale_(at) * more;
  }
  joins_.push_back({func, blocks.x});
  return func;
}

Expr KeyBlockStages::join(LoweredOp &stage, const Expr &start) {
  if (!softmax_->top) {
    part_ = Func("part");
    part_(in_block({feature_place_, m_})) = weighted_.front().func(exprs(in_block({feature_place_, m_})));
    return sum_of_parts(stage, start);
  }
  LoweredOp &top = *kernel_.stage_of(softmax_->top->getResult(0));
  std::vector<LoweredOp *> found{&top};
  for (mlir::linalg::LinalgOp sum : llvm::drop_end(softmax_->sums)) // the last is `stage`
    found.push_back(kernel_.stage_of(sum->getResult(0)));
  int first = features_of_part();
  Expr stat;
  for (size_t i = 0; i < found.size(); ++i) {
    Expr value = statistic(*found[i]).func(exprs(in_block({m_})));
    stat = stat.defined() ? select(feature_place_ >= first + int(i), value, stat) : value;
  }
  part_ = Func("part");
  std::vector<Expr> at = exprs(in_block({feature_place_, m_}));
  at[0] = min(feature_place_, first - 1);
  part_(in_block({feature_place_, m_})) = select(feature_place_ < first, weighted_.front().func(at), stat);

  std::vector<Var> row_args = with_outer({m_, t_});
  scale_ = Func("scale");
  for (size_t i = 0; i < found.size(); ++i) {
    Expr begin = placed(formula_of(*found[i], nullptr), 0);
    joined_[found[i]->func.name()] = joined("statistic_of_row", *found[i], row_args, begin, first + int(i));
    if (i > 0)
      continue;
    LoweredOp *subtracted = kernel_.stage_of(softmax_->subtracted);
    Expr minuend = subtracted == &top ? symbol(top) : formula_of(*subtracted, nullptr);
    auto less = [&](const Expr &largest) {
      return with_statistics(minuend, [&](LoweredOp &) { return guarded(largest); });
    };
    scale_(with_outer({m_, c_, t_})) =
        math::exp(less(part(first, c_)) - less(joined_.at(top.func.name())(exprs(row_args))));
  }
  return sum_of_parts(stage, start);
}

Expr KeyBlockStages::sum_of_parts(LoweredOp &stage, const Expr &start) {
  std::vector<Var> args = with_outer({feature_place_, m_, t_});
  return joined("joined", stage, args, start, feature_place_)(exprs(args));
}

} // namespace heddle::attention
