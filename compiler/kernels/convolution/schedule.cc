// One loop nest:
//   task (a few panels x block of rows of the result, parallel) → window (a padded copy of what the block reads)
//     → panel → tile of places → accumulators over the whole sum;  then the epilogue over the block
// Places of the result are counted through its rows, so that a tile needn't end where a row does and images of any
// width fill the tiles; where a place is in the picture is computed once per tile. The window holds every element once,
// not once per element of the filter, and carries the padding, so that the sum tests nothing; a factor that is read
// without conditions is read where it lies. Tiles past the end compute the last place again. A sum whose panel does not
// fit the second cache goes chunk by chunk (variant "chunks"), whole outer loops of it at a time:
//   … → chunk of terms → tile of places → accumulators, added to the block
// Measured on Cascade Lake: otherwise the sum in one go is faster than in chunks that fit the first cache.
//
// A matrix unit takes rows at equal distances, and one call multiplies all places of the block with a panel. Without
// strides, places are counted through the rows of the window, padding included: each begins a pixel further, and its
// terms are a run of pixels in each row of the filter. Else the window holds all terms of each place, in the weight's
// order; so it does for other instructions that take groups of terms, where those of a row of the filter don't fill
// whole ones.
#include "compiler/kernels/convolution/schedule.h"

#include "compiler/halide/threads.h"
#include "compiler/kernels/convolution/joined_loops.h"
#include "compiler/kernels/convolution/problem.h"
#include "compiler/kernels/convolution/windows.h"
#include "compiler/kernels/inlining.h"
#include "compiler/kernels/product/matrix_tile.h"
#include "compiler/kernels/product/operands.h"

#include <algorithm>
#include <numeric>

namespace heddle::convolution {

using Halide::Expr;
using Halide::Func;
using Halide::TailStrategy;
using Halide::Var;
using Halide::VarOrRVar;
namespace hi = Halide::Internal;

namespace {

/// Fewer places leave too much of the last tile empty, more don't help.
constexpr int64_t fewest_places = 96, most_places = 512;

/// Rows of a filter that are written out in one go.
constexpr int64_t most_unrolled = 8;

class ConvolutionNest {
public:
  ConvolutionNest(LoweredKernel &kernel, const ScheduleRow &row, int64_t depth, const Match &match,
                  const Target &target)
      : kernel_(kernel), output_(kernel.outputs.front()), rows_(int(row.params.at("rows"))),
        width_(int(row.params.at("width"))), panels_(int(row.params.at("panels"))), lanes_(target.lanes),
        window_bytes_(row.params.at("window")), depth_(depth), is_turned_(match.is_turned()),
        micro_kernel_(*find_micro_kernel(row.micro_kernel)) {
    const contraction::Factor *wide = contraction::wide_factor(match.reached);
    std::vector<bool> shared(output_.axes.size());
    for (auto [loop, axis] : llvm::enumerate(match.reached.axis_of_loop))
      if (axis >= 0)
        shared[axis] = wide->loops.test(unsigned(loop));
    lane_ = output_.axes[match.axes.back()];
    for (int axis = int(output_.axes.size()) - 2; axis >= 0; --axis)
      if (!shared[axis] && places_.size() < 2)
        places_.push_back(output_.axes[match.axes[axis]]);
      else
        others_.push_back(output_.axes[match.axes[axis]]);
  }

  Status build() {
    Func result = redefine_by_sums(kernel_, output_,
                                   [this](LoweredOp &stage, const auto &indices) { return product(stage, indices); });
    if (error_)
      return *error_;
    schedule(result);
    return Done();
  }

private:
  static std::string variable(const Expr &expr) {
    const hi::Variable *variable = expr.as<hi::Variable>();
    return variable ? variable->name : std::string();
  }

  /// Rows of the result in a picture: 1 where it has one axis.
  Expr height() const { return places_.size() > 1 ? places_[1].extent : Expr(1); }
  Expr length() const { return places_[0].extent; }

  /// The value of the product at the result's own indices.
  Expr product(LoweredOp &stage, const std::vector<Expr> &indices) {
    std::vector<Var> vars = stage.func.args();
    // Which variable of the stage is which axis of the result.
    auto name_at = [&](const OutputAxis &axis) {
      for (size_t i = 0; i < vars.size(); ++i)
        if (variable(indices[i]) == axis.var.name())
          return vars[i].name();
      fail("a product is not read at the result's own place");
      return std::string();
    };
    std::vector<Expr> call = {lane_.var % width_, places_[0].var};
    for (const OutputAxis &axis : others_)
      call.push_back(axis.var);
    call.push_back(lane_.var / width_);
    if (block_.defined())
      return read_block(call);

    auto times = factors_of(stage);
    if (!times)
      return fail("a product does not have the form of one");
    Var column("n");
    std::vector<Var> args = {Var("l"), Var("p")}, here = {Var("x"), Var("y")}, sums;
    Substitution names = {{name_at(lane_), column}, {name_at(places_[0]), here[0]}};
    if (places_.size() > 1)
      names[name_at(places_[1])] = here[1];
    for (const OutputAxis &axis : others_) {
      args.push_back(Var("o" + std::to_string(args.size())));
      names[name_at(axis)] = args.back();
    }
    const std::vector<Var> others(args.begin() + 2, args.end());
    args.push_back(Var("panel"));
    bool left_is_wide = hi::expr_uses_var(times->first, name_at(lane_));
    for (const std::string &name : reduction_names(stage)) {
      sums.push_back(Var("k" + std::to_string(sums.size())));
      names[name] = sums.back();
    }
    Inliner inline_all(kernel_);
    auto factor = [&](const Expr &expr) { return inline_all(replaced(names, expr)); };
    Expr narrow = factor(left_is_wide ? times->second : times->first),
         wide = factor(left_is_wide ? times->first : times->second);
    narrow = operand_of(micro_kernel_, narrow);
    wide = operand_of(micro_kernel_, wide);
    std::vector<Expr> extents;  // of the sum's loops, innermost first
    std::vector<int64_t> sizes; // the same, as far as known
    for (size_t i = stage.loops.size(); i-- > 0;)
      if (stage.loops[i].reduction) {
        extents.push_back(stage.loops[i].extent);
        sizes.push_back(stage.loops[i].size >= 0 ? stage.loops[i].size : 64);
      }
    std::vector<size_t> order(sums.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
      return weight_position(wide, sums[a]) < weight_position(wide, sums[b]);
    });
    std::vector<Var> ordered;
    for (size_t i : order)
      ordered.push_back(sums[i]);
    Operands operands(kernel_, micro_kernel_, ordered[0], extents[order[0]]);
    const bool tiles = micro_kernel_.takes_tiles();
    Windows windows(narrow, here, sums, others);
    const bool written_out = tiles || (windows.slides(ordered[0]) && writes_out(micro_kernel_, sizes[order[0]]));
    if (!written_out)
      windows = Windows(operands.filled(narrow), here, sums, others);
    per_place_ = written_out ? 1 : windows.stride();
    for (size_t i = 0; i < sums.size(); ++i)
      if (written_out || !windows.slides(sums[i]))
        per_place_ *= sizes[i];
    Expr value = windows.value();
    if (windows.slides_innermost()) {
      // A row of the window ends with its last vector; what is behind it repeats the last element.
      const Var &innermost = windows.variables()[0];
      std::map<std::string, Expr> extent_of = {{here[0].name(), length()}, {here[1].name(), height()}};
      for (size_t i = 0; i < sums.size(); ++i)
        extent_of[sums[i].name()] = extents[i];
      value = replaced(innermost.name(), min(innermost, windows.last_place(0, extent_of)), value);
    }
    unrolls_ = order.size() > 1 && sizes[order[1]] <= most_unrolled;
    const bool in_place = written_out ? input_read_by(kernel_, narrow) != nullptr : is_read_in_place(operands, narrow);
    has_whole_rows_ = windows.slides_innermost() && !in_place;
    if (tiles && !in_place && has_runs(windows, here, ordered, order, sizes)) {
      per_place_ = sizes[order[0]];
      narrow = runs_of_places(windows, ordered, extents[order[1]], args[1]);
    } else if (written_out)
      narrow = terms_of_places(has_whole_rows_ ? padded(windows, value, ordered[0], extents[order[0]])
                                               : operands.filled(narrow),
                               args[1], here, ordered, others);
    else if (!in_place)
      narrow = window(windows, value, ordered[0]);
    wide = panel(operands, wide, column, others, ordered);
    Expr initial = replaced(column.name(), Expr(args.back()) * width_ + args[0], factor(stage.func.value()));
    if (hi::expr_uses_var(initial, here[0].name()) || hi::expr_uses_var(initial, here[1].name()))
      return fail("a sum begins with other numbers at other places");

    if (tiles)
      return sums_of_tiles(call, args, order, extents, narrow,
                           replaced(column.name(), Expr(args.back()) * width_ + args[0], wide), sums, initial);

    // Where the places of a tile are.
    Expr at = min(Expr(args[1]), max(length() * height() - 1, 0));
    Substitution there = {{here[0].name(), at}, {column.name(), Expr(args.back()) * width_ + args[0]}};
    if (places_.size() > 1) {
      Var p("p");
      row_ = Func("row");
      row_(p) = row_of_place(p, length());
      Expr y = Halide::unsafe_promise_clamped(row_(at), at / max(length(), 1), at / max(length(), 1));
      there[here[0].name()] = Halide::unsafe_promise_clamped(at - y * length(), 0, max(length() - 1, 0));
      there[here[1].name()] = y;
    }
    // The innermost loops are summed in registers, the others add what comes out to the block.
    size_t inner = depth_ > 0 ? 1 : order.size();
    for (int64_t terms = sizes[order[0]]; inner < order.size(); ++inner)
      if ((terms *= sizes[order[inner]]) > depth_)
        break;
    Halide::Region within, around;
    for (size_t i = 0; i < order.size(); ++i)
      (i < inner ? within : around).push_back({0, extents[order[i]]});
    tile_ = RegisterTile(micro_kernel_, within);
    Halide::RDom chunks(around.empty() ? within : around);
    std::vector<Var> own = args;
    std::vector<Expr> chunk(args.begin(), args.end());
    for (size_t i = 0; i < order.size(); ++i) {
      const std::string &name = sums[order[i]].name();
      if (i < inner) {
        there[name] = tile_.term(i);
      } else {
        chunks_.push_back(chunks[int(i - inner)]);
        chunk.push_back(chunks_.back());
        own.push_back(Var("c" + std::to_string(i)));
        there[name] = own.back();
      }
    }
    sum_ = Func("sum");
    tile_.define(sum_, own, width_, chunks_.empty() ? initial : hi::make_zero(initial.type()), replaced(there, narrow),
                 replaced(there, wide));
    block_ = Func("block");
    if (chunks_.empty()) {
      block_(args) = sum_(args);
    } else {
      block_(args) = initial;
      block_(args) += sum_(chunk);
    }
    return read_block(call);
  }

  /// The factor through a copy with the padding, and zeros past the last term.
  Expr padded(const Windows &windows, const Expr &value, const Var &term, const Expr &terms) {
    const int group = micro_kernel_.group;
    terms_of_row_ = int(hi::as_const_int(terms).value() + group - 1) / group * group;
    padded_ = Func("padded");
    padded_(windows.variables()) = value;
    Expr read = padded_(windows.places());
    return select(Halide::likely(term < terms), read, hi::make_zero(read.type()));
  }

  /// Whether the terms of a place in a row of the filter are a run of the padded picture, of whole steps of a matrix
  /// unit, and those of the next place begin where its next pixel does.
  bool has_runs(const Windows &windows, const std::vector<Var> &here, const std::vector<Var> &ordered,
                const std::vector<size_t> &order, const std::vector<int64_t> &sizes) const {
    const std::vector<Var> &variables = windows.variables();
    if (places_.size() != 2 || ordered.size() != 3 || variables.size() < 3 || !variables[0].same_as(ordered[0]))
      return false;
    auto slides_by_one = [&](int along) {
      return hi::is_const_zero(hi::simplify(windows.places()[1 + along] - here[along] - ordered[1 + along]));
    };
    return slides_by_one(0) && slides_by_one(1) &&
           sizes[order[0]] * sizes[order[1]] % (MatrixTile::groups * micro_kernel_.group) == 0;
  }

  /// The factor as a matrix unit takes it, from the padded picture, whose places are counted through its rows: so are
  /// the result's, and sums at the end of a row that reach into the next one are not read.
  Expr runs_of_places(const Windows &windows, const std::vector<Var> &ordered, const Expr &columns, const Var &place) {
    pitch_ = max(length(), 1) + columns - 1;
    Var pixel("pixel");
    std::vector<Var> dims = windows.variables();
    std::vector<Expr> at(dims.begin(), dims.end());
    Expr value = replaced({{dims[1].name(), pixel % pitch_}, {dims[2].name(), pixel / pitch_}}, windows.value());
    dims.erase(dims.begin() + 2);
    at.erase(at.begin() + 2);
    dims[1] = pixel;
    at[1] = place + ordered[1] + ordered[2] * pitch_;
    window_ = Func("window");
    window_(dims) = value;
    return window_(at);
  }

  /// The factor with the terms of a place side by side.
  Expr terms_of_places(const Expr &value, const Var &place, const std::vector<Var> &here,
                       const std::vector<Var> &ordered, const std::vector<Var> &others) {
    Expr last = max(length() * height() - 1, 0), p = min(Expr(place), last);
    Substitution there = {{here[0].name(), p}};
    if (places_.size() > 1)
      there = {{here[0].name(), p % max(length(), 1)}, {here[1].name(), p / max(length(), 1)}};
    std::vector<Var> dims = ordered;
    dims.push_back(place);
    for (const Var &other : others)
      if (hi::expr_uses_var(value, other.name()))
        dims.push_back(other);
    window_ = Func("window");
    window_(dims) = replaced(there, value);
    return window_(std::vector<Expr>(dims.begin(), dims.end()));
  }

  /// All places of a block at once.
  Expr sums_of_tiles(const std::vector<Expr> &call, const std::vector<Var> &args, const std::vector<size_t> &order,
                     const std::vector<Expr> &extents, const Expr &narrow, const Expr &wide,
                     const std::vector<Var> &sums, const Expr &initial) {
    if (!hi::is_const_zero(initial))
      return fail("tiles add up from zero");
    Halide::Region loops;
    for (size_t i : order)
      loops.push_back({0, extents[i]});
    tile_ = RegisterTile(micro_kernel_, loops);
    Substitution there;
    for (size_t i = 0; i < order.size(); ++i)
      there[sums[order[i]].name()] = tile_.term(i);
    block_ = Func("block");
    tile_.define(block_, args, width_, initial, replaced(there, narrow), replaced(there, wide));
    return read_block(call);
  }

  /// A sum of the block, of which `at` says the lane, the place and so on.
  Expr read_block(std::vector<Expr> at) {
    if (places_.size() > 1)
      at[1] = places_[0].var + places_[1].var * (pitch_.defined() ? pitch_ : length());
    if (!is_turned_)
      return block_(at);
    if (!turned_.defined()) {
      std::vector<Var> dims = block_.args();
      std::vector<Expr> here(dims.begin(), dims.end());
      std::swap(dims[0], dims[1]);
      square_ = Func("square");
      square_(dims) = block_(here);
      turned_ = Func("turned");
      turned_(dims) = square_(std::vector<Expr>(dims.begin(), dims.end()));
    }
    std::swap(at[0], at[1]);
    return turned_(at);
  }

  /// The factor through a copy of its window.
  Expr window(const Windows &windows, const Expr &value, const Var &term) {
    std::vector<Var> dims = windows.variables();
    auto terms = std::find_if(dims.begin(), dims.end(), [&](const Var &dim) { return dim.same_as(term); });
    if (micro_kernel_.group == 1 || !has_whole_rows_ || terms == dims.end()) {
      window_ = Func("window");
      window_(dims) = value;
      return window_(windows.places());
    }
    // Rows of places lie apart for each term: those of a group are put together as words.
    dims.erase(terms);
    const Var place = dims[0];
    dims.erase(dims.begin());
    Transposed made = transpose(micro_kernel_, "words", "window", value, {term}, place, dims, term);
    words_ = made.natural;
    window_ = made.func;
    Substitution here;
    for (size_t i = 0; i < windows.variables().size(); ++i)
      here[windows.variables()[i].name()] = windows.places()[i];
    return replaced(here, made.read);
  }

  /// Whether elements are widened before they are multiplied: then that is done once for many tiles.
  bool is_widened(const KernelInput &input) const { return micro_kernel_.group == 1 && input.param.type().bits() < 32; }

  /// Whether tiles read the factor of the picture where it lies, a group of terms side by side.
  bool is_read_in_place(const Operands &operands, const Expr &factor) {
    KernelInput *input = input_read_by(kernel_, factor);
    return input && !is_widened(*input) && operands.is_in_groups(factor);
  }

  /// The weight: in panels of this width as it lies, anything else packed into such panels per task.
  Expr panel(const Operands &operands, const Expr &factor, const Var &column, const std::vector<Var> &others,
             const std::vector<Var> &sums) {
    bool packed = operands.panel_width(factor, column) == width_;
    if (packed && !is_widened(*input_read_by(kernel_, factor)))
      return factor;
    std::vector<Var> own = sums;
    own.insert(own.end(), others.begin(), others.end());
    bool whole = packed || (lane_.size >= 0 && lane_.size % width_ == 0);
    panel_ =
        operands.packed(factor, column, width_, whole ? Expr() : lane_.extent, used_by(operands.filled(factor), own));
    return panel_.read;
  }

  /// Rows of the result in a block (with one axis: places).
  Expr rows_of_block() const {
    int64_t fitting = window_bytes_ / (micro_kernel_.bytes() * std::max<int64_t>(per_place_, 1));
    int64_t places = std::clamp(fitting, fewest_places, most_places);
    return places_.size() > 1 ? max(int(places) / max(length(), 1), 1) : Expr(int(places));
  }

  /// Panels that share a window: for many threads so few that there are tasks enough.
  Expr panels_of_task() const {
    Expr panels = (lane_.extent + width_ - 1) / width_, rows = rows_of_block();
    Expr tasks = panels * ((places_.back().extent + rows - 1) / rows);
    for (const OutputAxis &axis : others_)
      tasks *= axis.extent;
    return hi::simplify(clamp(tasks / tasks_for_threads(least_tasks), 1, max(min(panels, panels_), 1)));
  }

  void schedule(Func result) {
    Var panels("panels"), panel("panel"), column("column"), block("block"), within("within");
    bool whole = lane_.size >= 0 && lane_.size % width_ == 0;
    const OutputAxis &split = places_.back();
    result.split(lane_.var, panel, column, width_, whole ? TailStrategy::RoundUp : TailStrategy::GuardWithIf)
        .split(panel, panels, panel, panels_of_task(), TailStrategy::GuardWithIf)
        .split(split.var, block, within, rows_of_block(), TailStrategy::GuardWithIf);
    std::vector<VarOrRVar> order = {column};
    if (places_.size() > 1)
      order.push_back(places_[0].var);
    order.push_back(within);
    Var length("length");
    if (is_turned_) { // vectors of neighbouring places, channel by channel
      result.split(places_.size() > 1 ? places_[0].var : within, length, innermost_, lanes_, TailStrategy::GuardWithIf);
      order.erase(order.begin());
      order[0] = length;
      order.insert(order.begin(), innermost_);
      order.push_back(column);
    }
    order.push_back(panel);
    // A task has one index of the outermost other axis; further ones are loops of the task (fuse_into_tasks).
    std::vector<Var> outer = {block};
    for (const OutputAxis &axis : others_)
      if (&axis == &others_.back())
        outer.push_back(axis.var);
      else
        order.push_back(axis.var);
    outer.push_back(panels); // outermost: they stay in the cache while the pictures pass
    order.insert(order.end(), outer.begin(), outer.end());
    result.reorder(order);
    if (is_turned_)
      result.vectorize(innermost_);
    else
      result.vectorize(column, lanes_).unroll(column);
    Var task = fuse_into_tasks(result, outer);
    if (others_.size() > 1)
      task = others_.front().var; // the loop in which all other axes are fixed

    std::vector<Var> args = block_.args();
    Var tile("tile"), place("place");
    auto one_of_each = [&](Func &func) {
      for (const Var &var : func.args())
        for (size_t i = 2; i < args.size(); ++i)
          if (var.same_as(args[i]))
            func.bound_extent(var, 1);
    };
    for (Func *func : {&block_, &sum_})
      if (func->defined()) {
        func->bound(args[0], 0, width_);
        one_of_each(*func);
      }
    block_.compute_at(result, panel);
    if (is_turned_)
      schedule_turned(result, panel, one_of_each);
    if (micro_kernel_.takes_tiles())
      by_matrix_unit();
    else
      in_registers(tile, place);
    schedule_window(result, task, one_of_each);
    if (panel_.func.defined()) {
      one_of_each(panel_.func);
      panel_.func.compute_at(result, panel);
      Operands::schedule_packed(micro_kernel_, panel_, width_, lanes_);
    }
  }

  void by_matrix_unit() {
    const std::vector<Var> args = block_.args();
    std::vector<VarOrRVar> order = {tile_.group(), args[0]};
    order.insert(order.end(), tile_.loops().begin(), tile_.loops().end());
    order.insert(order.end(), args.begin() + 1, args.end());
    block_.update().reorder(order);
    kernel_.passes.push_back(make_pass(matrix_tile(micro_kernel_, block_, args[0].name(), args[1], tile_)));
  }

  void in_registers(const Var &tile, const Var &place) {
    std::vector<Var> args = block_.args();
    block_.vectorize(args[0], lanes_).unroll(args[0]);
    std::vector<VarOrRVar> tiles = {args[0], place, tile};
    tiles.insert(tiles.end(), args.begin() + 2, args.end());
    tiles.insert(tiles.end(), chunks_.begin(), chunks_.end());
    auto in_tiles = [&](auto &&stage) {
      stage.split(args[1], tile, place, rows_, TailStrategy::RoundUp).reorder(tiles).unroll(place);
    };
    if (chunks_.empty())
      in_tiles(block_);
    else
      in_tiles(block_.update().vectorize(args[0], lanes_).unroll(args[0]));
    sum_.compute_at(block_, tile).bound_extent(args[1], rows_);
    for (size_t i = args.size(); i < sum_.args().size(); ++i)
      sum_.bound_extent(sum_.args()[i], 1);
    tile_.keep_in_registers(sum_, args[0], {args[1]}, lanes_);
    kernel_.passes.push_back(join_loops(sum_.name()));
    if (row_.defined())
      row_.compute_at(block_, tile)
          .vectorize(row_.args()[0], std::min(rows_, lanes_), TailStrategy::RoundUp)
          .bound_storage(row_.args()[0], (rows_ + lanes_ - 1) / lanes_ * lanes_); // on the stack
  }

  void schedule_window(Func &result, const Var &task, const std::function<void(Func &)> &one_of_each) {
    if (!window_.defined())
      return;
    one_of_each(window_);
    window_.compute_at(result, task);
    if (words_.defined()) {
      std::vector<Var> dims = window_.args(); // member, place, term, ..
      one_of_each(words_);
      words_.compute_at(window_, dims[2]).reorder_storage(dims[1], dims[2]).reorder(dims[1], dims[2]);
      words_.vectorize(dims[1], lanes_, TailStrategy::RoundUp);
      window_.bound_extent(dims[0], micro_kernel_.group).vectorize(dims[0]);
      window_.vectorize(dims[1], lanes_, TailStrategy::RoundUp);
    } else if (padded_.defined()) {
      one_of_each(padded_);
      padded_.compute_at(result, task).vectorize(padded_.args()[0], lanes_, TailStrategy::RoundUp);
      window_.vectorize(window_.args()[0], terms_of_row_, TailStrategy::RoundUp);
      if (unrolls_)
        window_.unroll(window_.args()[1]);
    } else if (!window_.args().empty()) {
      int lanes =
          micro_kernel_.takes_tiles() ? lanes_ * 4 / micro_kernel_.bytes() : lanes_; // copied by whole registers
      window_.vectorize(window_.args()[0], lanes, has_whole_rows_ ? TailStrategy::RoundUp : TailStrategy::GuardWithIf);
    }
  }

  /// The block with its places side by side: squares of it, as large as vectors, are transposed in registers.
  void schedule_turned(Func &result, const Var &panel, const std::function<void(Func &)> &one_of_each) {
    Var places("places"), place("place"), columns("columns"), column("column");
    const Var p = turned_.args()[0], l = turned_.args()[1];
    one_of_each(turned_);
    turned_.compute_at(result, panel).bound(l, 0, width_);
    turned_.split(p, places, place, lanes_, TailStrategy::RoundUp)
        .split(l, columns, column, lanes_)
        .reorder(place, column, places, columns)
        .vectorize(place)
        .unroll(column);
    one_of_each(square_);
    square_.compute_at(turned_, places).bound_extent(p, lanes_).bound_extent(l, lanes_);
    square_.reorder(l, p).vectorize(l).unroll(p);
  }

  /// The dimension of the weight as it lies that a loop of the sum runs along: smaller is further inside.
  int weight_position(const Expr &factor, const Var &loop) {
    KernelInput *input = input_read_by(kernel_, factor);
    if (input && panel_width(micro_kernel_, *input) > 0) {
      const std::vector<Expr> &args = read_of(factor)->args;
      for (size_t i = 0; i < args.size(); ++i)
        if (hi::expr_uses_var(args[i], loop.name()))
          return int(i);
    }
    return 1 << 20;
  }

  Expr fail(const std::string &what) {
    if (!error_)
      error_ = Error{what};
    return 0.f;
  }

  LoweredKernel &kernel_;
  KernelOutput &output_;
  int rows_, width_, panels_, lanes_;
  int64_t window_bytes_, depth_;
  bool is_turned_; // the result has places innermost: sums are put down across the lanes
  const MicroKernel &micro_kernel_;
  OutputAxis lane_;
  std::vector<OutputAxis> places_, others_; // innermost first
  Func block_, sum_, row_, window_, padded_, words_, square_, turned_;
  Expr pitch_;                  // places of a block from a row to the next, where they are not length()
  int terms_of_row_ = 0;        // of the filter, in whole groups
  bool unrolls_ = false;        // the second loop of the sum, where terms are written out
  bool has_whole_rows_ = false; // the window's innermost dim has whole vectors
  const Var innermost_ = Var("innermost");
  Copy panel_;
  RegisterTile tile_;
  std::vector<Halide::RVar> chunks_; // the loops of the sum around a tile's own, innermost first
  int64_t per_place_ = 1;            // elements of the window per place of the result
  std::optional<Error> error_;
};

} // namespace

Expr row_of_place(const Expr &place, const Expr &length) {
  return Halide::cast<int>((Halide::cast<double>(place) + Expr(0.5)) * (Expr(1.0) / Halide::cast<double>(length)));
}

Status schedule(LoweredKernel &kernel, const ScheduleRow &row, int64_t depth, const Target &target) {
  int64_t width = row.params.at("width");
  if (width % target.lanes != 0)
    return Error{"panels of " + std::to_string(width) + " columns are no whole vectors of " +
                 std::to_string(target.lanes)};
  std::optional<Match> found = match(kernel.function);
  if (!found)
    return Error{"a convolution's schedule needs one product behind its results"};
  join_outputs(kernel);
  if (kernel.outputs.size() != 1)
    return Error{"a convolution's results have one shape"};
  return ConvolutionNest(kernel, row, depth, *found, target).build();
}

} // namespace heddle::convolution
