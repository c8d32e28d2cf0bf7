// From the last step to the first, so that all reads of a tensor are known, and cut themselves, where its stage comes.
// What is read of each dimension is an interval; then the reads of all tensors that were cut are told so.
#include "dsl/check/unread_places.h"

#include "dsl/check/builder.h"
#include "dsl/check/whole_ranges.h"

#include <map>

namespace heddle::checking {
namespace {

/// Places along a dimension, both ends included.
struct Interval {
  Size first, last;
};

/// What was read along one dimension so far.
struct Seen {
  bool nothing = true, everything = false;
  Interval places;

  void all() { everything = true; }
  void add(const std::optional<Interval> &more) {
    if (!more || everything)
      return all();
    if (nothing)
      places = *more;
    nothing = false;
    Size below = places.first - more->first, above = more->last - places.last;
    if (!below.is_constant() || !above.is_constant())
      return all();
    if (below.constant() > 0)
      places.first = more->first;
    if (above.constant() > 0)
      places.last = more->last;
  }
};

/// What is left of a dimension; all of it where that is nothing.
struct Cut {
  Size first, count;

  bool drops_axis() const { return count == Size(1); }
};
using Cuts = std::vector<std::optional<Cut>>;

/// Places that a call may have of a dimension whose last one alone is left; twice as many must be a number of 32 bits.
constexpr double most_places = 0x1p30;

/// The places that a subscript takes, for all values of the stage's indices.
std::optional<Interval> interval_of(const Expr *e, const std::vector<Index> &indices, const std::vector<Dim> &dims) {
  if (auto size = as_size(e))
    return Interval{*size, *size};
  if (e->op == Expr::index) {
    const Size &extent = indices[e->position].extent;
    return Interval{Size(0), values_of(extent, dims).most <= 1 ? Size(0) : extent - Size(1)};
  }
  if (e->op != Expr::add && e->op != Expr::sub)
    return std::nullopt;
  auto a = interval_of(e->args[0], indices, dims), b = interval_of(e->args[1], indices, dims);
  if (!a || !b)
    return std::nullopt;
  return e->op == Expr::add ? Interval{a->first + b->first, a->last + b->last}
                            : Interval{a->first - b->last, a->last - b->first};
}

class UnreadPlaces {
public:
  explicit UnreadPlaces(Program &program) : program_(program), build_(program.exprs) {}

  void take_whole(const Tensor *t) {
    for (Seen &along : seen_of(t))
      along.all();
  }

  void find(std::vector<Step> &steps) {
    for (size_t i = steps.size(); i-- > 0;)
      if (auto *stage = std::get_if<Stage>(&steps[i].what)) {
        cut(*stage);
        note_reads(stage->value, indices_of(*stage));
      } else if (auto *loop = std::get_if<Loop>(&steps[i].what)) {
        for (const Loop::Carried &carried : loop->carried)
          take_whole(carried.next), take_whole(carried.start);
        for (const Loop::Collected &collected : loop->collected)
          take_whole(collected.slice);
        find(loop->steps);
      } else if (auto *update = std::get_if<Update>(&steps[i].what)) {
        take_whole(update->value);
        for (const Update::Along &along : update->place)
          note_reads(along.offset, {});
      } else {
        take_whole(std::get<Require>(steps[i].what).condition);
      }
  }

  /// Tells shapes, and the reads of `steps`, what was cut.
  void carry_out(std::vector<Step> &steps) {
    if (cuts_.empty())
      return;
    for (Tensor &tensor : program_.tensors)
      if (auto cuts = cuts_.find(&tensor); cuts != cuts_.end())
        tensor.shape = kept(tensor.shape, cuts->second, [](const Size &, const Cut &cut) { return cut.count; });
    cut_reads(steps);
  }

private:
  static std::vector<Index> indices_of(const Stage &stage) {
    std::vector<Index> all = stage.space;
    all.insert(all.end(), stage.over.begin(), stage.over.end());
    return all;
  }

  std::vector<Seen> &seen_of(const Tensor *t) {
    std::vector<Seen> &seen = seen_[t];
    seen.resize(t->shape.size());
    return seen;
  }

  void note_reads(const Expr *e, const std::vector<Index> &indices) {
    for (const Expr *read : nodes_of(e))
      if (read->op == Expr::read && read->tensor->kind == Tensor::stage) {
        std::vector<Seen> &seen = seen_of(read->tensor);
        for (size_t k = 0; k < seen.size(); ++k)
          seen[k].add(interval_of(read->args[k], indices, program_.dims));
      }
  }

  /// Whether that is never negative, whatever the sizes of a call are.
  bool never_negative(const Size &size) const { return values_of(size, program_.dims).least >= 0; }

  std::optional<Cut> cut_of(const Seen &seen, const Size &extent) const {
    if (seen.nothing || seen.everything)
      return std::nullopt;
    Size count = seen.places.last - seen.places.first + Size(1);
    if (!count.is_constant() || count.constant() < 1)
      return std::nullopt;
    if (extent.is_constant() && extent.constant() < 2 * count.constant())
      return std::nullopt;
    if (never_negative(seen.places.first) && never_negative(extent - Size(1) - seen.places.last))
      return Cut{seen.places.first, count};
    // A place that a call may lack is none that its definition can be asked for. Of the last one there is one, or none
    // where the extent is 0: the extent over its bound, rounded up.
    double most = values_of(extent, program_.dims).most;
    if (seen.places.first != extent - Size(1) || !never_negative(extent) || most < 2 || most > most_places)
      return std::nullopt;
    return Cut{seen.places.first, (extent + Size(int64_t(most) - 1)).floor_div(int64_t(most))};
  }

  /// `all` without the dimensions of which one place is left; `cut` says what others become.
  template <class T, class F> static std::vector<T> kept(const std::vector<T> &all, const Cuts &cuts, const F &cut) {
    std::vector<T> left;
    for (size_t k = 0; k < all.size(); ++k)
      if (!cuts[k])
        left.push_back(all[k]);
      else if (!cuts[k]->drops_axis())
        left.push_back(cut(all[k], *cuts[k]));
    return left;
  }

  void cut(Stage &stage) {
    Cuts cuts;
    bool any = false;
    const std::vector<Seen> &seen = seen_of(stage.result);
    for (size_t k = 0; k < seen.size(); ++k) {
      cuts.push_back(cut_of(seen[k], stage.space[k].extent));
      any |= cuts.back().has_value();
    }
    if (!any)
      return;
    std::vector<const Expr *> now; // of each index before
    int next = 0;
    for (size_t k = 0; k < stage.space.size() + stage.over.size(); ++k) {
      const std::optional<Cut> &cut = k < cuts.size() ? cuts[k] : std::nullopt;
      if (cut && cut->drops_axis()) {
        now.push_back(build_.of_size(cut->first));
        continue;
      }
      const Expr *index = build_.index(next++);
      now.push_back(cut ? moved(index, cut->first) : index);
    }
    stage.value = build_.rewritten(stage.value, [&](const Expr *node, const Expr *with) {
      return node->op == Expr::index ? now[node->position] : with == node ? nullptr : folded(with);
    });
    stage.space = kept(stage.space, cuts, [](Index index, const Cut &cut) {
      index.extent = cut.count;
      return index;
    });
    cuts_[stage.result] = std::move(cuts);
  }

  /// A subscript moved by that, as one sum.
  const Expr *moved(const Expr *place, Size by) {
    while ((place->op == Expr::add || place->op == Expr::sub) && as_size(place->args[1])) {
      by = place->op == Expr::add ? by + *as_size(place->args[1]) : by - *as_size(place->args[1]);
      place = place->args[0];
    }
    if (auto size = as_size(place))
      return build_.of_size(*size + by);
    if (by == Size(0))
      return place;
    bool less = by.is_constant() && by.constant() < 0;
    return build_.apply(less ? Expr::sub : Expr::add, Type::i32, {place, build_.of_size(less ? by * -1 : by)}, {});
  }

  /// A node whose operands have changed: conditions that are decided now choose. Reals are left to the CPU, so that
  /// they are rounded as they are elsewhere, and so are numbers that wrap. Null: there is nothing to fold.
  const Expr *folded(const Expr *e) {
    if (e->op == Expr::select && !e->stopped)
      return build_.select(e->args[0], e->args[1], e->args[2]);
    bool whole = e->op != Expr::read && e->op != Expr::cast && e->op != Expr::philox &&
                 !is_floating(e->args[0]->type) && !is_floating(e->type);
    return whole ? build_.apply(e->op, e->type, e->args, e->span) : nullptr;
  }

  void cut_reads(std::vector<Step> &steps) {
    auto told = [&](const Expr *e) {
      return build_.rewritten(e, [&](const Expr *, const Expr *read) -> const Expr * {
        auto cuts = read->op == Expr::read ? cuts_.find(read->tensor) : cuts_.end();
        if (cuts == cuts_.end())
          return nullptr;
        return build_.with_args(read, kept(read->args, cuts->second, [&](const Expr *place, const Cut &cut) {
                                  return moved(place, Size(0) - cut.first);
                                }));
      });
    };
    for (Step &step : steps)
      if (auto *stage = std::get_if<Stage>(&step.what))
        stage->value = told(stage->value);
      else if (auto *loop = std::get_if<Loop>(&step.what))
        cut_reads(loop->steps);
      else if (auto *update = std::get_if<Update>(&step.what))
        for (Update::Along &along : update->place)
          along.offset = told(along.offset);
  }

  Program &program_;
  Builder build_;
  std::map<const Tensor *, std::vector<Seen>> seen_;
  std::map<const Tensor *, Cuts> cuts_;
};

} // namespace

void leave_out_unread_places(Program &program, Entry &entry, const std::vector<const Tensor *> &whole) {
  UnreadPlaces places(program);
  for (const Tensor *t : whole)
    places.take_whole(t);
  for (const Output &output : entry.outputs)
    places.take_whole(output.tensor);
  places.find(entry.steps);
  places.carry_out(entry.steps);
}

} // namespace heddle::checking
