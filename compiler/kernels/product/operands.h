// Where the factors of a product are read by a register tile: in place, where they lie as the micro-kernel takes them,
// or from a copy that is made so. A micro-kernel takes groups of terms of the sum side by side; the factor that lanes
// run along lies in panels of a few vectors.
#pragma once

#include "compiler/kernels/product/register_tile.h"

#include "compiler/halide/lower.h"

#include <cstdint>
#include <string>
#include <vector>

namespace heddle {

/// The read that a factor is, apart from casts; null where it is anything else.
const Halide::Internal::Call *read_of(const Halide::Expr &factor);

/// The input of the kernel that a factor reads, apart from casts; null where it is anything else.
KernelInput *input_read_by(LoweredKernel &kernel, const Halide::Expr &factor);

/// Whether a factor is read, wherever it comes from, from neighbouring places for neighbours along `term`.
bool all_reads_lie_by(const Halide::Expr &factor, const Halide::Var &term);

/// Elements of a row of an input, where its rows follow one another; 0 where they don't, or nothing is known.
int64_t row_length(const KernelInput &input);

/// Columns of the panels that an input is stored in, with the micro-kernel's groups of terms; 0: it isn't.
int64_t panel_width(const MicroKernel &micro_kernel, const KernelInput &input);

/// Whether a factor is read from elements narrower than what it is multiplied as.
bool is_widened(const Halide::Expr &factor);

/// A factor of a product as the micro-kernel takes it: where it has types of its own, before it is widened to the
/// sum's.
Halide::Expr operand_of(const MicroKernel &micro_kernel, const Halide::Expr &factor);

/// A factor over the sum's innermost loop, 0 .. terms - 1, with zeros up to the end of the last group of so many: it
/// then uses `innermost` even if the factor does not.
Halide::Expr filled(int group, const Halide::Expr &factor, const Halide::Var &innermost, const Halide::Expr &terms);

/// A factor over the columns of panels, `lane_of_panel` and `panel_of_columns` instead of `column`. `columns`: how many
/// there are, behind which is zero; undefined: the factor has whole panels.
Halide::Expr in_panels(const Halide::Expr &factor, const Halide::Var &column, int width, const Halide::Expr &columns);
/// What is over panels, at a column.
Halide::Expr at_column(const Halide::Expr &value, const Halide::Var &column, int width);
inline Halide::Var lane_of_panel() { return Halide::Var("lane"); }
inline Halide::Var panel_of_columns() { return Halide::Var("p"); }

/// A factor that is 0 unless a condition holds, without it.
Halide::Expr without_condition(const Halide::Expr &factor, Halide::Expr &condition);

/// The variables of `candidates` that an expression uses, in that order.
std::vector<Halide::Var> used_by(const Halide::Expr &expr, const std::vector<Halide::Var> &candidates);

/// A factor copied for a tile, and how an element of it is read.
struct Copy {
  Halide::Func func;
  Halide::Expr read;
  Halide::Func turned; // of a copy in panels: where defined, it is written through a transposition of vectors
};

/// A copy over `dims`, innermost first, read at these same variables; where `innermost`, the innermost of the sum's
/// loops, is one of them, whole groups of its terms lie side by side, as a first dim `member_of_group`.
Copy copy_in_groups(const MicroKernel &micro_kernel, const std::string &name, const Halide::Expr &factor,
                    const std::vector<Halide::Var> &dims, const Halide::Var &innermost, const Halide::Expr &terms);
inline Halide::Var member_of_group() { return Halide::Var("member"); }

/// A copy of a factor that lies term by term, for lanes along another of its dims: first as it lies, over (terms..,
/// lane, others..), then transposed, over (lane, terms.., others..), a group of the innermost terms at a time. The
/// factor is filled up to whole groups, and `terms` are the loops of the sum that it then uses.
struct Transposed {
  Halide::Func natural, func;
  Halide::Expr read; // at the variables
};
Transposed transpose(const MicroKernel &micro_kernel, const std::string &natural, const std::string &name,
                     const Halide::Expr &factor, const std::vector<Halide::Var> &loops, const Halide::Var &lane,
                     const std::vector<Halide::Var> &others, const Halide::Var &innermost);

/// The factors of one sum of a kernel.
class Operands {
public:
  /// `innermost`: stands for the innermost of the sum's loops, which has so many terms.
  Operands(LoweredKernel &kernel, const MicroKernel &micro_kernel, Halide::Var innermost, Halide::Expr terms);

  /// Whether a micro-kernel can take a factor where it lies: groups are single terms, or an input has them side by
  /// side.
  bool is_in_groups(const Halide::Expr &factor) const;

  /// Columns of the panels of the input that a factor reads, where they lie along `column` and the groups along the
  /// innermost loop; 0: they don't.
  int64_t panel_width(const Halide::Expr &factor, const Halide::Var &column) const;

  /// Whether a factor is an input, read in place at plain variables, which may be bounded.
  bool is_plain_read(const Halide::Expr &factor) const;

  /// Whether a factor is read from neighbouring places for neighbouring terms.
  bool lies_by_terms(const Halide::Expr &factor) const;

  /// A factor over the terms, with zeros up to the end of the last group.
  Halide::Expr filled(const Halide::Expr &factor) const;

  /// A copy of a factor in panels of `width` columns, over (lane, others.., panel), with a first dim more where terms
  /// lie in groups. `columns`: how many there are; undefined: the factor has whole panels. What is behind the last one
  /// is zero. `others`: innermost first. `whole_vectors`: the innermost loop's terms
  /// are whole vectors, of which one is read at a time where a factor lies term by term.
  Copy packed(const Halide::Expr &factor, const Halide::Var &column, int width, const Halide::Expr &columns,
              const std::vector<Halide::Var> &others, bool whole_vectors = false) const;
  /// Such a copy is written by whole vectors of `lanes`; `panels`: at a time, 0: all.
  static void schedule_packed(const MicroKernel &micro_kernel, Copy &copy, int width, int lanes, int panels = 1);
  /// The copy of a block of rows that lie side by side, in "panels" as high as a tile: neighbouring tiles are written
  /// together, as their rows share lines.
  static void schedule_copied_rows(Halide::Func &rows, int height);

private:
  LoweredKernel &kernel_;
  const MicroKernel &micro_kernel_;
  Halide::Var innermost_;
  Halide::Expr terms_;
};

} // namespace heddle
