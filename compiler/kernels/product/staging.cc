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

bool Staging::copies(const Nest &nest, const Factor &factor, Type element) {
  PlainRead plain = plain_read(factor.value);
  LinalgOp op = nest.product.op;
  unsigned along = nest.terms.back();
  return plain.read && plain.read.getType() == element && reads_argument(op, plain.read) &&
         lies_in_groups(op, plain.read, along, terms_of_line(element) / groups) &&
         llvm::none_of(plain.conditions, [&](Value c) { return loops_behind(op, c).test(along); });
}

Staging::Staging(gpu::Program &program, gpu::Program::Thread &thread, const Nest &nest, Type element, Lines lines,
                 ValueRange loops, ValueRange extents, Value buffers)
    : Arithmetic(thread.b, thread.loc), program(program), thread(thread), nest(nest), element(element), lines(lines),
      extents(extents), buffers(buffers), of_group(terms_of_line(element) / groups),
      value(staged_value(*lines.factor, element)), plain(plain_read(lines.factor->value)),
      copied(copies(nest, *lines.factor, element)) {
  constexpr int64_t near = 4; // elements apart, so that a sector has several
  LinalgOp op = nest.product.op;
  Value read = element_read(lines.factor->value);
  bool lines_lie_together = !copied && llvm::any_of(lines.loops, [&](unsigned loop) {
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
    group.loops.assign(loops.begin(), loops.end());
    SmallVector<Value> own_extents =
        llvm::map_to_vector(lines.loops, [&](unsigned loop) { return this->extents[loop]; });
    for (auto [loop, digit] : llvm::zip_equal(lines.loops, gpu::digits(thread, line, own_extents)))
      group.loops[loop] = digit;
    own.push_back(std::move(group));
  }
}

Value Staging::place(Value buffer, Value line, Value group) {
  Value at = add(mul(buffer, index(lines.count * line_bytes)), mul(line, index(line_bytes)));
  return program.shared_address(thread, buffers, add(at, mul(group, index(group_bytes))), b.getI8Type());
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

LogicalResult Staging::for_own(llvm::function_ref<LogicalResult()> write) {
  OpBuilder::InsertionGuard guard(b);
  if (has_own)
    b.setInsertionPointToStart(scf::IfOp::create(b, loc, has_own, /*withElseRegion=*/false).thenBlock());
  return write();
}

LogicalResult Staging::copy(const Group &group, Value term, Value term_count, Value buffer) {
  SmallVector<Value> loops = at_term(group, term);
  Value inside = both(group.inside, below(term, term_count));
  for (Value condition : plain.conditions) {
    Value holds = thread.elements.inner(nest.product.op, condition, loops);
    if (!holds)
      return failure();
    inside = both(inside, holds);
  }
  std::optional<Value> from = thread.elements.address_of(nest.product.op, plain.read, loops);
  if (!from)
    return failure();
  auto bytes = [&](int64_t count) { return arith::ConstantIntOp::create(b, loc, count, 32).getResult(); };
  NVVM::CpAsyncOp::create(b, loc, place(buffer, group.line, group.number), *from, uint32_t(group_bytes),
                          NVVM::LoadCacheModifierKind::CG, choose(inside, bytes(group_bytes), bytes(0)));
  return success();
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

/// A group as a vector of its terms.
Value Staging::gathered(const Group &group, Value term, Value term_count) {
  OpBuilder::InsertionGuard guard(b);
  Type type = VectorType::get(of_group, element);
  Value none = arith::ConstantOp::create(b, loc, b.getZeroAttr(type));
  Value inside = both(group.inside, below(term, term_count));
  if (has_own)
    inside = both(inside, has_own);
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
  auto term_of = [&](const Group &group) { return add(first_term, mul(group.number, index(of_group))); };
  if (copied)
    return for_own([&] {
      return success(llvm::all_of(
          own, [&](const Group &group) { return succeeded(copy(group, term_of(group), term_count, buffer)); }));
    });
  fetched.clear();
  for (const Group &group : own) {
    fetched.push_back(gathered(group, term_of(group), term_count));
    if (!fetched.back())
      return failure();
  }
  return success();
}

void Staging::put(Value buffer) {
  if (copied)
    return;
  (void)for_own([&] {
    for (auto [group, terms] : llvm::zip_equal(own, fetched))
      LLVM::StoreOp::create(b, loc, terms, place(buffer, group.line, group.number), group_bytes);
    return success();
  });
}

} // namespace heddle::contraction
