// Neighbours among threads bring groups that lie together in memory: those of a line, or the same group of lines.
#include "compiler/kernels/product/staging.h"

#include "compiler/kernels/product/micro_kernel.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

namespace heddle::contraction {

using namespace mlir;
using linalg::LinalgOp;

/// What is staged of a factor: a narrow number as it is; one that a condition makes 0 was widened before.
static Value staged_value(const Factor &factor, Type element) {
  return factor.value.getType() == element ? factor.value : unwidened(factor.value);
}

/// Whether what a body reads is an argument of the kernel, and so lies in memory.
static bool reads_argument(LinalgOp op, Value read) {
  auto element = dyn_cast<BlockArgument>(read);
  Value tensor = element ? op->getOperand(element.getArgNumber()) : read.getDefiningOp<tensor::ExtractOp>().getTensor();
  return isa<BlockArgument>(tensor);
}

/// Whether a value of a body is made from elements of tensors.
static bool reads_data(LinalgOp op, Value value) {
  return llvm::any_of(values_behind(op, value), [](Value behind) {
    return isa<BlockArgument>(behind) || behind.getDefiningOp<tensor::ExtractOp>();
  });
}

/// Whether a factor's place, or what makes it 0, depends on data.
static bool is_led_by_data(LinalgOp op, const PlainRead &plain) {
  auto leads = [&](Value value) { return reads_data(op, value); };
  auto read = plain.read ? plain.read.getDefiningOp<tensor::ExtractOp>() : tensor::ExtractOp();
  return llvm::any_of(plain.conditions, leads) || (read && llvm::any_of(read.getIndices(), leads));
}

Copied Staging::copies(const Nest &nest, const Factor &factor, Type element) {
  PlainRead plain = plain_read(factor.value);
  LinalgOp op = nest.product.op;
  unsigned along = nest.terms.back();
  if (!plain.read || plain.read.getType() != element || !reads_argument(op, plain.read) ||
      !lies_together(op, plain.read, along) ||
      llvm::any_of(plain.conditions, [&](Value c) { return loops_behind(op, c).test(along); }))
    return Copied::none;
  return lies_in_groups(op, plain.read, along, terms_of_line(element) / groups) ? Copied::all : Copied::where_aligned;
}

Staging::Staging(gpu::Program &program, gpu::Program::Thread &thread, const Nest &nest, Type element, Lines lines,
                 ValueRange loops, ValueRange extents, Value buffers)
    : Arithmetic(thread.b, thread.loc), program(program), thread(thread), nest(nest), element(element), lines(lines),
      extents(extents), buffers(buffers), of_group(terms_of_line(element) / groups),
      value(staged_value(*lines.factor, element)), plain(plain_read(lines.factor->value)),
      copied(copies(nest, *lines.factor, element)),
      led_by_data(copied != Copied::none && is_led_by_data(nest.product.op, plain)) {
  constexpr int64_t near = 4; // elements apart, so that a sector has several
  LinalgOp op = nest.product.op;
  Value read = element_read(lines.factor->value);
  bool lines_lie_together = copied == Copied::none && llvm::any_of(lines.loops, [&](unsigned loop) {
                              std::optional<int64_t> step = step_of(op, read, loop);
                              return step && *step != 0 && std::abs(*step) <= near;
                            });
  int64_t all = lines.count * groups;
  if (all < threads_of_tile)
    has_own = below(thread.number, index(all));
  for (int64_t i = 0; i < std::max<int64_t>(all / threads_of_tile, 1); ++i) {
    Value mine = add(thread.number, index(i * threads_of_tile));
    Group group;
    group.line = lines_lie_together ? rem(mine, index(lines.count)) : div(mine, index(groups));
    group.number = lines_lie_together ? div(mine, index(lines.count)) : rem(mine, index(groups));
    Value line = add(lines.first, group.line);
    group.inside = below(line, lines.end);
    if (led_by_data)
      line = choose(group.inside, line, lines.first);
    group.loops.assign(loops.begin(), loops.end());
    SmallVector<Value> own_extents =
        llvm::map_to_vector(lines.loops, [&](unsigned loop) { return this->extents[loop]; });
    for (auto [loop, digit] : llvm::zip_equal(lines.loops, gpu::digits(thread, line, own_extents)))
      group.loops[loop] = digit;
    own.push_back(std::move(group));
  }
}

Value Staging::place(Value buffer, Value line, Value group) {
  Value at = add(mul(buffer, index(lines.count * groups)), swizzled(line, group, groups));
  return program.shared_address(thread, buffers, mul(at, index(group_bytes)), b.getI8Type());
}

SmallVector<Value> Staging::at_term(const Group &group, Value term) {
  SmallVector<Value> out(group.loops);
  SmallVector<Value> of_terms = llvm::map_to_vector(nest.terms, [&](unsigned loop) { return extents[loop]; });
  for (auto [loop, digit] : llvm::zip_equal(nest.terms, gpu::digits(thread, term, of_terms)))
    out[loop] = digit;
  for (Value &loop : out) // the factor depends on none of the others
    loop = loop ? loop : index(0);
  return out;
}

void Staging::where(Value condition, llvm::function_ref<void()> write) {
  OpBuilder::InsertionGuard guard(b);
  if (condition)
    b.setInsertionPointToStart(scf::IfOp::create(b, loc, condition, /*withElseRegion=*/false).thenBlock());
  write();
}

/// Whether a group, whose first term is at a place of the last loop of terms, lies in its line, and in memory so that
/// it can be copied, unless nothing of it is read.
Value Staging::lies_whole(Value from, Value last_loop, Value is_read) {
  Value yes = arith::ConstantIntOp::create(b, loc, 1, 1);
  Value number = LLVM::PtrToIntOp::create(b, loc, b.getI64Type(), from);
  Value rest = arith::AndIOp::create(b, loc, number, arith::ConstantIntOp::create(b, loc, group_bytes - 1, 64));
  Value is_aligned =
      arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, rest, arith::ConstantIntOp::create(b, loc, 0, 64));
  return both(choose(is_read, is_aligned, yes), below(add(last_loop, index(of_group - 1)), extents[nest.terms.back()]));
}

FailureOr<Staging::Made> Staging::bring(const Group &group, Value term, Value term_count, Value buffer) {
  Made out;
  if (copied == Copied::none) {
    out.terms = gathered(group, term, term_count, has_own);
    if (!out.terms)
      return failure();
    return out;
  }
  Value is_term = below(term, term_count);
  SmallVector<Value> loops = at_term(group, led_by_data ? choose(is_term, term, index(0)) : term);
  Value inside = both(group.inside, is_term), is_read = inside; // where nothing is, zeros are copied
  for (Value condition : plain.conditions) {
    Value holds = thread.elements.inner(nest.product.op, condition, loops);
    if (!holds)
      return failure();
    is_read = both(is_read, holds);
  }
  std::optional<Value> from = thread.elements.address_of(nest.product.op, plain.read, loops);
  if (!from)
    return failure();
  Value is_copied = has_own;
  if (copied == Copied::where_aligned) {
    Value yes = arith::ConstantIntOp::create(b, loc, 1, 1), own = has_own ? has_own : yes;
    Value whole = choose(inside, lies_whole(*from, loops[nest.terms.back()], is_read), yes);
    out.is_made = both(own, arith::XOrIOp::create(b, loc, whole, yes));
    is_copied = both(own, whole);
    out.terms = gathered(group, term, term_count, out.is_made);
    if (!out.terms)
      return failure();
  }
  where(is_copied, [&] {
    auto bytes = [&](int64_t count) { return arith::ConstantIntOp::create(b, loc, count, 32).getResult(); };
    NVVM::CpAsyncOp::create(b, loc, place(buffer, group.line, group.number), *from, uint32_t(group_bytes),
                            NVVM::LoadCacheModifierKind::CG, choose(is_read, bytes(group_bytes), bytes(0)));
  });
  return out;
}

Value Staging::term_or_zero(const Group &group, Value term, Value term_count) {
  OpBuilder::InsertionGuard guard(b);
  auto is_term = scf::IfOp::create(b, loc, element, below(term, term_count), /*withElseRegion=*/true);
  b.setInsertionPointToStart(is_term.elseBlock());
  scf::YieldOp::create(b, loc, arith::ConstantOp::create(b, loc, b.getZeroAttr(element)).getResult());
  b.setInsertionPointToStart(is_term.thenBlock());
  Value found = thread.elements.inner(nest.product.op, value, at_term(group, term));
  if (found && found.getType() != element)
    found = isa<FloatType>(element) ? arith::TruncFOp::create(b, loc, element, found).getResult()
                                    : arith::TruncIOp::create(b, loc, element, found).getResult();
  if (!found)
    return {};
  scf::YieldOp::create(b, loc, found);
  return is_term.getResult(0);
}

/// A group as a vector of its terms, where this thread is asked for it.
Value Staging::gathered(const Group &group, Value term, Value term_count, Value asked) {
  OpBuilder::InsertionGuard guard(b);
  Type type = VectorType::get(of_group, element);
  Value none = arith::ConstantOp::create(b, loc, b.getZeroAttr(type));
  Value inside = both(group.inside, below(term, term_count));
  if (asked)
    inside = both(inside, asked);
  auto some = scf::IfOp::create(b, loc, type, inside, /*withElseRegion=*/true);
  b.setInsertionPointToStart(some.elseBlock());
  scf::YieldOp::create(b, loc, none);
  b.setInsertionPointToStart(some.thenBlock());
  Value all = none;
  for (int64_t i = 0; i < of_group; ++i) {
    Value term_i = term_or_zero(group, add(term, index(i)), term_count);
    if (!term_i)
      return {};
    all = LLVM::InsertElementOp::create(b, loc, all, term_i, arith::ConstantIntOp::create(b, loc, i, 32));
  }
  scf::YieldOp::create(b, loc, all);
  return some.getResult(0);
}

LogicalResult Staging::fetch(Value first_term, Value term_count, Value buffer) {
  made.clear();
  for (const Group &group : own) {
    auto brought = bring(group, add(first_term, mul(group.number, index(of_group))), term_count, buffer);
    if (failed(brought))
      return failure();
    made.push_back(*brought);
  }
  return success();
}

void Staging::put(Value buffer) {
  for (auto [group, part] : llvm::zip_equal(own, made))
    if (part.terms)
      where(part.is_made ? part.is_made : has_own, [&, &group = group, &part = part] {
        LLVM::StoreOp::create(b, loc, part.terms, place(buffer, group.line, group.number), group_bytes);
      });
}

} // namespace heddle::contraction
