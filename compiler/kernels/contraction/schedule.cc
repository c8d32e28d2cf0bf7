// One loop nest per result:
//   task (panel x block of rows, parallel) → tile of rows → accumulators over the whole sum, then the epilogue
// The wide factor (the one the vector lanes run along) is read in panels [k][width] that stay in the cache while
// the rows of the other factor pass; weights come packed so, anything else is packed per task, or whole before all
// tasks (variant "packed_panels"). The other factor is read row by row as it lies; what is not stored so (computed
// places, a product of things) is first written out for one block of rows. Tiles of rows past the end compute on the
// last row again; the last panel is padded with zeros. Measured: panels outside and rows inside is the fastest order,
// the sum in one go as long as two panels fit the second cache. Tiles of few rows may compute several panels at a time
// (`abreast`), which come from as many places of the memory, as reading weights is all that takes time there. Longer
// sums go chunk by chunk (variant "chunks"):
//   task (a few panels x block of rows) → chunk of terms → panel → tile of rows → accumulators, added to partial sums
// so that rows and panels of a chunk stay in the cache. Factors of f32 that are split into numbers of bf16 (variant
// "split_tiles") are so by the task, for a chunk: rows for all of its panels, and each panel for all rows. No order of
// summation depends on the threads.
#include "compiler/kernels/contraction/schedule.h"

#include "compiler/halide/threads.h"
#include "compiler/kernels/contraction/blocks.h"
#include "compiler/kernels/contraction/prefetch.h"
#include "compiler/kernels/contraction/problem.h"
#include "compiler/kernels/contraction/widening.h"
#include "compiler/kernels/inlining.h"
#include "compiler/kernels/product/matrix_tile.h"
#include "compiler/kernels/product/operands.h"
#include "compiler/kernels/product/partial_tile.h"
#include "compiler/kernels/product/product.h"
#include "compiler/kernels/product/split_factors.h"
#include "compiler/kernels/sizes.h"

namespace heddle::contraction {

using Halide::Expr;
using Halide::Func;
using Halide::TailStrategy;
using Halide::Var;
using Halide::VarOrRVar;
namespace hi = Halide::Internal;

namespace {

class ContractionNest {
public:
  ContractionNest(LoweredKernel &kernel, KernelOutput &output, const Shape &shape, int row_axis, int tile_axis,
                  const Target &target)
      : kernel_(kernel), output_(output), shape_(shape), rows_(shape.rows), width_(shape.width), chunk_(shape.depth),
        abreast_(shape.abreast), ahead_(shape.ahead), widens_(shape.widened), copies_(shape.copied),
        packs_(shape.packed), micro_kernel_(*shape.micro_kernel), lanes_(target.lanes), target_(target),
        lane_(output.axes.back()), has_rows_(row_axis >= 0), has_tiles_(tile_axis >= 0), rows_outside_(shape.inside) {
    if (has_rows_)
      row_ = output.axes[row_axis];
    if (has_tiles_)
      tile_ = output.axes[tile_axis];
    for (int axis = int(output.axes.size()) - 2; axis >= 0; --axis)
      if (axis != row_axis && axis != tile_axis)
        others_.push_back(output.axes[axis]);
  }

  Status build() {
    Func result = redefine_by_sums(kernel_, output_,
                                   [this](LoweredOp &stage, const auto &indices) { return product(stage, indices); });
    if (error_)
      return *error_;
    if (sums_.empty())
      return Error{"a product is computed that nothing reads"};
    schedule(result);
    return Done();
  }

private:
  /// Accumulators in registers over the whole sum or over a chunk of it.
  struct Piece {
    Func func;
    std::vector<Var> args;
    RegisterTile tile;
    Copy narrow, wide;      // staged factors, where defined
    bool widened;           // `wide` is the input's panels, in wider numbers
    std::string panels;     // the input that the factor with lanes is read from in place
    PanelPrefetch prefetch; // where the piece lies in the sum
  };
  struct Accumulation {
    std::string stage;
    Func func;                 // the product, over (lane, row, .., panel)
    std::vector<Piece> pieces; // one that is `func` itself, or the whole chunks and then the rest
    Halide::RVar chunks;
  };

  static std::string variable(const Expr &expr) {
    const hi::Variable *variable = expr.as<hi::Variable>();
    return variable ? variable->name : std::string();
  }

  /// The value of a product at the result's own indices: its accumulator.
  Expr product(LoweredOp &stage, const std::vector<Expr> &indices) {
    // Which variable of the stage is which axis of the result.
    std::vector<Var> vars = stage.func.args();
    Substitution here;
    std::string lane_name, row_name;
    std::vector<std::pair<std::string, const OutputAxis *>> outer;
    for (size_t i = 0; i < vars.size(); ++i) {
      std::string name = variable(indices[i]);
      if (name == lane_.var.name())
        lane_name = vars[i].name();
      else if (has_rows_ && name == row_.var.name())
        row_name = vars[i].name();
      else
        for (const OutputAxis &axis : output_.axes)
          if (name == axis.var.name())
            outer.push_back({vars[i].name(), &axis});
    }
    if (lane_name.empty() || outer.size() + 1 + (row_name.empty() ? 0 : 1) != vars.size())
      return fail("a product is not read at the result's own place");

    std::vector<Expr> call = {lane_.var};
    std::vector<Var> args = {Var("n")};
    here[lane_name] = args[0];
    if (!row_name.empty()) {
      call.push_back(row_.var);
      args.push_back(Var("m"));
      // Rows past the end repeat the last one; they are none of a matrix unit's, and zeros of a copy.
      bool whole = micro_kernel_.takes_tiles() || copies_ || (row_.size >= 0 && row_.size % rows_ == 0);
      here[row_name] = whole ? Expr(args[1]) : min(args[1], row_.extent - 1);
    }
    for (auto &[name, axis] : outer) {
      call.push_back(axis->var);
      args.push_back(Var("o" + std::to_string(args.size())));
      here[name] = args.back();
    }
    call[0] = lane_.var % width_;
    call.push_back(lane_.var / width_);
    for (Accumulation &sum : sums_)
      if (sum.stage == stage.func.name())
        return sum.func(call);

    auto times = factors_of(stage);
    if (!times)
      return fail("a product does not have the form of one");
    bool left_is_wide = hi::expr_uses_var(times->first, lane_name);
    Factors factors{left_is_wide ? times->second : times->first,
                    left_is_wide ? times->first : times->second,
                    reduction_names(stage),
                    {}};
    Inliner inline_all(kernel_);
    Expr initial = inline_all(replaced(here, stage.func.value()));
    if (micro_kernel_.takes_tiles() && !hi::is_const_zero(initial))
      return fail("tiles add up from zero");

    Halide::Region loops = reduction_loops(stage);
    factors.terms = loops[0].extent;
    Accumulation sum{stage.func.name(), {}, {}, {}};
    std::vector<Var> stored = {Var("l")};
    stored.insert(stored.end(), args.begin() + 1, args.end());
    stored.push_back(Var("p"));
    here_in_panel_ = {{args[0].name(), Expr(stored.back()) * width_ + stored[0]}};
    initial = replaced(here_in_panel_, initial);
    if (chunk_ == 0) {
      sum.pieces.push_back(piece(factors, here, args, stored, loops, 0, initial));
      sum.pieces[0].prefetch.terms = loops[0].extent;
      sum.func = sum.pieces[0].func;
    } else {
      // Whole chunks of the outermost loop, then the rest: each a tile of sums of its own, added to those before.
      Expr terms = loops.back().extent, whole = hi::simplify(terms / chunk_), rest = hi::simplify(terms % chunk_);
      if (std::optional<int64_t> all = hi::as_const_int(terms); all && *all <= chunk_) {
        whole = 0;
        rest = terms;
      } else if (micro_kernel_.splits() && !all) {
        // What remains is none of its own: its panels would be split for little.
        whole = max(whole - 1, 0);
        rest = terms - whole * chunk_;
      }
      sum.func = Func("partial");
      sum.func(stored) = initial;
      Halide::RDom chunks(0, whole);
      sum.chunks = chunks.x;
      for (bool last : {false, true}) {
        if (hi::is_const_zero(last ? rest : whole))
          continue;
        std::vector<Var> own = stored;
        Expr first = last ? whole * chunk_ : Expr(Var("c")) * chunk_;
        if (!last)
          own.push_back(Var("c"));
        loops.back() = {0, last ? rest : Expr(chunk_)};
        sum.pieces.push_back(piece(factors, here, args, own, loops, first, hi::make_zero(initial.type())));
        PanelPrefetch &place = sum.pieces.back().prefetch;
        std::string stage = sum.func.name() + ".s" + std::to_string(sum.pieces.size()) + ".";
        place.terms = terms;
        place.panel_loop = stage + stored.back().name();
        place.chunk_loop = last ? "" : stage + sum.chunks.name();
        place.first = last ? whole * chunk_ : Expr(0);
        place.chunk = chunk_;
        place.last = last || hi::is_const_zero(rest);
        std::vector<Expr> at(stored.begin(), stored.end());
        if (!last)
          at.push_back(chunks.x);
        sum.func(stored) += sum.pieces.back().func(at);
      }
    }
    sums_.push_back(sum);
    return sum.func(call);
  }

  struct Factors {
    Expr narrow, wide; // in the variables of the stage
    std::vector<std::string> loops;
    Expr terms; // of the innermost loop
  };

  /// The sum over `domain`, whose outermost loop begins at `first`, as a Func over `own`. `args`: the variables that
  /// `here` puts into the factors.
  Piece piece(const Factors &factors, Substitution here, const std::vector<Var> &args, const std::vector<Var> &own,
              const Halide::Region &loops, const Expr &first, const Expr &initial) {
    Piece piece{Func("sum"), own, {}, {}, {}, {}, {}, {}};
    piece.tile = RegisterTile(micro_kernel_, micro_kernel_.splits() ? split::loops(loops[0].extent) : loops);
    std::vector<Var> k; // stand for the reduction loops in staged factors
    Substitution summed = here_in_panel_;
    for (size_t i = 0; i < factors.loops.size(); ++i) {
      k.push_back(Var("k" + std::to_string(i)));
      here[factors.loops[i]] = k.back();
      summed[k[i].name()] = i + 1 < factors.loops.size() ? piece.tile.term(i) : first + piece.tile.term(i);
    }
    Inliner inline_all(kernel_);
    Expr narrow = inline_all(replaced(here, factors.narrow)), wide = inline_all(replaced(here, factors.wide));
    if (micro_kernel_.splits())
      return split_piece(std::move(piece), narrow, wide, k[0], args, factors.terms, first, initial);
    Operands operands(kernel_, micro_kernel_, k[0], factors.terms);
    if (Expr condition; has_tiles_) {
      wide = without_condition(wide, condition);
      if (condition.defined())
        piece.tile.where(condition); // a tile without rows has no terms
    }
    narrow = operand_of(micro_kernel_, narrow);
    if (!micro_kernel_.takes_any_type())
      narrow = Halide::cast(micro_kernel_.row, narrow);
    narrow = stage_narrow(piece, operands, narrow, args, k);
    if (const KernelInput *rows = piece.narrow.func.defined() ? nullptr : input_read_by(kernel_, narrow);
        rows && loops.size() == 1 && hi::is_const(loops[0].extent, row_length(*rows)))
      piece.prefetch.rows = rows_;
    if (KernelInput *input = input_read_by(kernel_, wide); input && panel_width(micro_kernel_, *input) == width_)
      piece.panels = input->param.name();
    std::optional<int64_t> innermost = hi::as_const_int(loops[0].extent);
    wide = stage_wide(piece, operands, operand_of(micro_kernel_, wide), args, k, innermost && *innermost % lanes_ == 0);
    piece.tile.define(piece.func, own, width_, initial, replaced(summed, narrow), replaced(summed, wide));
    return piece;
  }

  /// The same of both factors' parts, whose first term is that of a step.
  Piece split_piece(Piece piece, const Expr &narrow, const Expr &wide, const Var &term, const std::vector<Var> &args,
                    const Expr &terms, const Expr &first, const Expr &initial) {
    std::vector<Var> of_rows(args.begin() + 2, args.end()), of_panels(args.begin() + 1, args.end());
    if (KernelInput *input = input_read_by(kernel_, wide); input && panel_width(micro_kernel_, *input) == width_)
      piece.panels = input->param.name();
    piece.narrow = split::rows(narrow, term, terms, args[1], row_.extent, used_by(narrow, of_rows));
    piece.wide = split::panels(wide, term, terms, args[0], width_, has_whole_panels() ? Expr() : lane_.extent,
                               used_by(wide, of_panels));
    auto operand = [&](const Copy &copy) { return replaced(here_in_panel_, split::read(copy, piece.tile, first)); };
    piece.tile.define(piece.func, piece.args, width_, initial, operand(piece.narrow), operand(piece.wide));
    return piece;
  }

  /// The factor without lanes, through a Func that holds one block of rows unless it is read in place. Widening rows is
  /// so little work beside the products of one panel that every task does it for itself.
  Expr stage_narrow(Piece &piece, const Operands &operands, const Expr &factor, const std::vector<Var> &args,
                    const std::vector<Var> &k) {
    bool plain = operands.is_plain_read(factor);
    if (copies_)
      return plain ? copy_rows(piece, operands, factor, args, k) : fail("rows are copied that are no input's");
    if (plain && !is_widened(factor) && operands.is_in_groups(factor))
      return factor;
    Expr filled = operands.filled(factor);
    std::vector<Var> own = used_by(filled, loops_and_others(args, k));
    piece.narrow.func = Func("rows");
    piece.narrow.func(own) = filled;
    rows_outside_ |= !plain && !has_tiles_;
    std::vector<Expr> at(own.begin(), own.end());
    return piece.narrow.func(at);
  }

  /// The factor without lanes, through a copy in the order in which tiles read it.
  Expr copy_rows(Piece &piece, const Operands &operands, const Expr &factor, const std::vector<Var> &args,
                 const std::vector<Var> &k) {
    std::vector<Var> own = k;
    own.insert(own.end(), args.begin() + 2, args.end());
    Expr rows = row_.size >= 0 && row_.size % rows_ == 0 ? Expr() : row_.extent;
    piece.narrow = operands.packed(factor, args[1], rows_, rows, used_by(factor, own));
    rows_outside_ = true;
    return piece.narrow.read;
  }

  /// The factor with lanes: a weight in panels of this width as it lies, anything else packed into such panels.
  Expr stage_wide(Piece &piece, const Operands &operands, const Expr &factor, const std::vector<Var> &args,
                  const std::vector<Var> &k, bool whole_vectors) {
    int64_t width = operands.panel_width(factor, args[0]);
    if (width > 0 && width != width_)
      return fail("the weights have panels of " + std::to_string(width) + ", and the schedule of " +
                  std::to_string(width_));
    if (width > 0 && !(widens_ && is_widened(factor)))
      return factor;
    bool whole = width > 0 || has_whole_panels();
    piece.wide = operands.packed(factor, args[0], width_, whole ? Expr() : lane_.extent,
                                 used_by(operands.filled(factor), loops_and_others(args, k)), whole_vectors);
    piece.widened = width > 0;
    return piece.wide.read;
  }

  /// The loops of the sum and all axes but the lanes'.
  static std::vector<Var> loops_and_others(const std::vector<Var> &args, std::vector<Var> k) {
    k.insert(k.end(), args.begin() + 1, args.end());
    return k;
  }

  void schedule(Func &result) {
    Var panel("panel"), member("member"), column("column"), tiles("tiles"), tile("tile"), part("part"), row("row"),
        block("block"), group("group");
    result.split(lane_.var, panel, column, width_,
                 has_whole_panels() ? TailStrategy::RoundUp : TailStrategy::GuardWithIf);
    // Tasks have one index of each of the two outermost other axes; further ones are loops of the task
    // (fuse_into_tasks).
    std::vector<VarOrRVar> order = {column}, inside;
    if (abreast_ > 1) {
      result.split(panel, panel, member, abreast_, TailStrategy::RoundUp);
      order.push_back(member);
    }
    std::vector<Var> outer, others; // what tasks are made of, innermost first
    for (size_t i = 0; i < others_.size(); ++i)
      if (i + 2 < others_.size())
        inside.push_back(others_[i].var);
      else
        others.push_back(others_[i].var);
    if (has_rows_) {
      bool whole_tiles = row_.size >= 0 && row_.size % rows_ == 0;
      result.split(row_.var, tiles, row, rows_, whole_tiles ? TailStrategy::RoundUp : TailStrategy::GuardWithIf);
      order.push_back(row);
      if (has_tiles_) {
        result.rename(tiles, part).split(tile_.var, block, tile, blocks().tiles_in_block(), TailStrategy::GuardWithIf);
        order.push_back(part);
      } else {
        result.split(tiles, block, tile, blocks().tiles_in_block(), TailStrategy::GuardWithIf);
      }
      Var columns = panel; // of a task
      order.push_back(tile);
      if (chunk_ > 0) {
        result.split(panel, group, member, blocks().panels_in_task(), TailStrategy::GuardWithIf);
        order.push_back(member);
        columns = group;
      }
      if (rows_outside_) {
        order.push_back(columns);
        outer = {block};
      } else {
        outer = {columns, block};
      }
    } else if (!rows_outside_ || others_.empty()) {
      outer = {panel};
    } else {
      order.push_back(panel);
    }
    outer.insert(outer.end(), others.begin(), others.end());
    order.insert(order.end(), inside.begin(), inside.end());
    order.insert(order.end(), outer.begin(), outer.end());
    result.reorder(order).vectorize(column, lanes_).unroll(column);
    // Sums go from registers to the epilogue; with few registers they would not stay there.
    if (has_rows_ && !micro_kernel_.takes_tiles() && chunk_ == 0 && target_.registers >= 32)
      result.unroll(row).partition(tile, Halide::Partition::Never);
    if (abreast_ > 1)
      result.unroll(member);
    Var all = fuse_into_tasks(result, outer);
    if (has_rows_ && chunk_ == 0 && ahead_ != Ahead::nothing && !has_tiles_)
      kernel_.passes.push_back(make_pass(RowsPrefetch{result.name(), "." + tile.name(), "." + row.name(), tiles_ahead,
                                                      micro_kernel_.takes_tiles() ? width_ : 0}));
    VarOrRVar same = inside.empty() ? VarOrRVar(all) : inside.front(); // the loop in which all other axes are fixed
    for (Accumulation &sum : sums_)
      if (chunk_ > 0)
        schedule_chunks(sum, result, same, member);
      else
        schedule_piece(sum.pieces[0], result, "",
                       has_tiles_      ? VarOrRVar(part)
                       : has_rows_     ? VarOrRVar(tile)
                       : rows_outside_ ? VarOrRVar(panel)
                                       : same,
                       has_tiles_      ? VarOrRVar(tile)
                       : rows_outside_ ? VarOrRVar(panel)
                                       : same,
                       Halide::LoopLevel(result, has_tiles_ ? VarOrRVar(tile) : same));
  }

  /// The sums of a task, one chunk of terms after the other: the rows and the panels of a chunk stay in the cache. Of a
  /// single chunk there are those of a panel at a time.
  void schedule_chunks(Accumulation &sum, Func &result, const VarOrRVar &task, const VarOrRVar &panel) {
    std::vector<Var> args = sum.func.args();
    const bool once = sum.pieces.size() == 1 && sum.pieces[0].args.size() == args.size();
    Func(sum.func).compute_at(Halide::LoopLevel(result, once ? panel : task)).bound(args[0], 0, width_);
    for (size_t i = 2; i + 1 < args.size(); ++i)
      sum.func.bound_extent(args[i], 1);
    sum.func.bound_storage(args[1], blocks().most_rows_in_block());
    sum.func.bound_storage(args.back(), once ? Expr(1) : blocks().most_panels_in_task());
    sum.func.vectorize(args[0], lanes_).unroll(args[0]);
    for (size_t i = 0; i < sum.pieces.size(); ++i) {
      std::string number = std::to_string(i);
      Var tile("tile" + number), row("row" + number);
      bool chunks = sum.pieces[i].args.size() > args.size();
      Halide::Stage update = sum.func.update(int(i));
      const bool tiles = micro_kernel_.takes_tiles(); // of any number of rows
      update.split(args[1], tile, row, rows_, tiles ? TailStrategy::GuardWithIf : TailStrategy::RoundUp);
      std::vector<VarOrRVar> order = {args[0], row, tile, args.back()};
      order.insert(order.end(), args.begin() + 2, args.end() - 1);
      if (chunks)
        order.push_back(sum.chunks);
      update.reorder(order).vectorize(args[0], lanes_).unroll(args[0]);
      if (!tiles)
        update.unroll(row);
      schedule_piece(sum.pieces[i], sum.func, once ? panel.name() : args.back().name(), tile, args.back(),
                     chunks ? Halide::LoopLevel(sum.func, sum.chunks) : Halide::LoopLevel(result, task));
    }
  }

  /// `panels`, `inner`: loops over panels and, of `user`, over tiles. `per_panel`, `per_block`: where a panel and a
  /// block of rows is the same.
  void schedule_piece(Piece &piece, Func &user, const std::string &panels, const VarOrRVar &inner,
                      const VarOrRVar &per_panel, const Halide::LoopLevel &per_block) {
    const std::vector<Var> &args = piece.args;
    // Indices of an axis that is neither lanes nor rows: panels, which are the last, may be several.
    auto of_tile = [&](size_t axis) { return axis + 1 == args.size() ? abreast_ : 1; };
    auto at = [&](const Func &func, const VarOrRVar &loop) { Func(func).compute_at(Halide::LoopLevel(user, loop)); };
    at(piece.func, inner);
    piece.func.bound(args[0], 0, width_);
    bool tiled = has_rows_;
    std::vector<Var> unrolled;
    if (micro_kernel_.takes_tiles()) {
      piece.func.bound_storage(args[1], rows_); // so that it is known to fit the stack
      MatrixTile tile = matrix_tile(micro_kernel_, piece.func, args[0].name(), args[1], piece.tile);
      tile.columns = width_;
      if (ahead_ != Ahead::nothing && !has_tiles_ && !rows_outside_ && !piece.panels.empty()) {
        tile.ahead = {"." + inner.name(), ".row", rows_, min(blocks().tiles_in_block() * rows_, row_.extent)};
        if (micro_kernel_.splits()) {
          tile.ahead->copy = piece.wide.func.name();
          tile.ahead->source = piece.panels;
          tile.ahead->panels = "." + panels;
        }
      }
      kernel_.passes.push_back(make_pass(tile));
    } else if (tiled) {
      piece.func.bound_extent(args[1], rows_);
      unrolled.push_back(args[1]);
    }
    for (size_t i = tiled ? 2 : 1; i < args.size(); ++i)
      piece.func.bound_extent(args[i], of_tile(i));
    if (abreast_ > 1)
      unrolled.push_back(args.back());
    if (!micro_kernel_.takes_tiles())
      piece.tile.keep_in_registers(piece.func, args[0], unrolled, lanes_);
    int64_t terms = chunk_ > 0 ? chunk_ : depth();
    bool two_fit = !has_tiles_ && two_panels_fit(terms, width_, micro_kernel_, target_);
    if (packs_ && piece.wide.func.defined())
      piece.panels = piece.wide.func.name();
    bool asks = ahead_ == Ahead::this_panel || (ahead_ == Ahead::next_panel && two_fit);
    if (tiled && asks && !micro_kernel_.takes_tiles() && !piece.panels.empty() &&
        (packs_ || piece.widened || !piece.wide.func.defined()) && piece.tile.loops().size() == 1)
      kernel_.passes.push_back(make_pass(prefetch(piece, inner)));
    if (tiled && piece.widened && piece.tile.loops().size() == 1)
      kernel_.passes.push_back(
          make_pass(Widening{piece.wide.func.name(), copy_loop(piece), sum_loop(piece), "." + inner.name()}));
    if (tiled && rows_ > 1 && !micro_kernel_.takes_tiles()) // after what else stands in the loop over the sum
      kernel_.passes.push_back(make_pass(PartialTile{piece.func.name(), rows_, width_}));
    // A task has one index of each of the other axes; Halide can't see that through the fused loops.
    auto fix_others = [&](Func &staged, bool tile_by_tile) {
      std::vector<Var> vars = staged.args();
      vars.resize(vars.size() - tile_by_tile); // tiles are numbered like panels
      for (const Var &var : vars)
        for (size_t i = tiled ? 2 : 1; i < args.size(); ++i)
          if (var.same_as(args[i]))
            staged.bound_extent(var, of_tile(i));
    };
    if (Func &rows = piece.narrow.func; rows.defined()) {
      fix_others(rows, copies_);
      rows.compute_at(per_block);
      if (micro_kernel_.splits())
        split::schedule_rows(piece.narrow, piece.tile.extent(2));
      else if (copies_)
        Operands::schedule_copied_rows(rows, rows_);
      else if (!rows.args().empty())
        rows.vectorize(rows.args()[0], lanes_, TailStrategy::GuardWithIf);
    }
    if (Func &panels = piece.wide.func; panels.defined()) {
      if (packs_) {
        panels.compute_root().parallel(panels.args().back());
      } else {
        fix_others(panels, false);
        at(panels, per_panel);
      }
      if (micro_kernel_.splits())
        split::schedule_panels(piece.wide, width_);
      else
        Operands::schedule_packed(micro_kernel_, piece.wide, width_, lanes_, packs_ ? 0 : abreast_);
    }
  }

  static std::string sum_loop(const Piece &piece) { return piece.func.name() + ".s1." + piece.tile.loops()[0].name(); }
  static std::string copy_loop(const Piece &piece) { // over innermost terms
    return piece.wide.func.name() + ".s0." + piece.wide.func.args()[1].name();
  }

  PanelPrefetch prefetch(const Piece &piece, const VarOrRVar &tiles) {
    PanelPrefetch prefetch = piece.prefetch;
    prefetch.weights = piece.panels;
    if (piece.widened) {
      prefetch.copy = piece.wide.func.name();
      prefetch.copy_loop = copy_loop(piece);
    }
    prefetch.sum_loop = sum_loop(piece);
    prefetch.tile_loop = "." + tiles.name();
    prefetch.width = width_ * micro_kernel_.group;
    prefetch.terms = groups_of(micro_kernel_, prefetch.terms);
    prefetch.chunk = prefetch.chunk / micro_kernel_.group;
    if (prefetch.first.defined())
      prefetch.first = hi::simplify(prefetch.first / micro_kernel_.group);
    prefetch.tiles = blocks().tiles_in_block();
    prefetch.of_this_panel = ahead_ == Ahead::this_panel;
    return prefetch;
  }

  bool has_whole_panels() const { return lane_.size >= 0 && lane_.size % width_ == 0; }

  /// Terms of a sum, as far as known.
  int64_t depth() {
    for (LoweredOp &stage : kernel_.stages)
      if (stage.func.name() == sums_.front().stage)
        return sizes::terms_of(stage.op);
    return 1;
  }

  /// How the result is cut into tasks; whether rows are staged for all panels is known by then.
  Blocks blocks() const {
    const int rows = has_tiles_ ? int(row_.size) : rows_;
    Expr tiles = has_tiles_ ? tile_.extent : has_rows_ ? (row_.extent + rows - 1) / rows : Expr();
    Expr panels = (lane_.extent + width_ - 1) / width_;
    return {shape_, tiles, panels, rows, has_tiles_, !others_.empty(), rows_outside_};
  }

  Expr fail(const std::string &what) {
    if (!error_)
      error_ = Error{what};
    return 0.f;
  }

  LoweredKernel &kernel_;
  KernelOutput &output_;
  const Shape &shape_;
  int rows_, width_;
  int chunk_;   // terms of a chunk; 0: the sum is not cut
  int abreast_; // panels of a tile
  Ahead ahead_;
  bool widens_, copies_, packs_;
  const MicroKernel &micro_kernel_;
  int lanes_;
  const Target &target_;
  OutputAxis lane_, row_, tile_; // tile_: of rows that have the place of the wide factor in common
  bool has_rows_, has_tiles_;
  std::vector<OutputAxis> others_; // innermost first
  std::vector<Accumulation> sums_;
  Substitution here_in_panel_; // the column as (lane, panel)
  bool rows_outside_;          // a block of rows is shared by all panels of a task, as one that is staged
  std::optional<Error> error_;
};

} // namespace

Status schedule(LoweredKernel &kernel, const Shape &shape, const Target &target) {
  if (shape.width % target.lanes != 0)
    return Error{"panels of " + std::to_string(shape.width) + " columns are no whole vectors of " +
                 std::to_string(target.lanes)};
  std::optional<std::vector<std::vector<Reached>>> results = match(kernel.function);
  if (!results)
    return Error{"a contraction's schedule needs a product behind every result"};
  for (const std::vector<Reached> &products : *results)
    if (shape.depth > 0 && row_axis(products.front()) < 0)
      return Error{"a sum is cut into chunks only where rows share them"};
  join_outputs(kernel);
  for (size_t i = 0; i < kernel.outputs.size(); ++i) {
    const Reached &product = (*results)[i].front();
    int64_t columns = kernel.outputs[i].axes.back().size, panels = (columns + shape.width - 1) / shape.width;
    if (shape.abreast > 1 && (columns < 0 || panels % shape.abreast != 0))
      return Error{"tiles of " + std::to_string(shape.abreast) + " panels where there may be one more or less"};
    if (tile_axis(product) >= 0 && (shape.depth > 0 || rows_of_tile(product) % shape.rows != 0))
      return Error{"tiles of " + std::to_string(rows_of_tile(product)) + " rows that have a place in common"};
    if (Status status =
            ContractionNest(kernel, kernel.outputs[i], shape, row_axis(product), tile_axis(product), target).build();
        !status)
      return status;
  }
  return Done();
}

} // namespace heddle::contraction
