#include "compiler/ir/import_sizes.h"

#include "mlir/IR/Builders.h"

namespace heddle::ir {

using namespace mlir;
using HExpr = heddle::Expr;

void ModuleSizes::find_products(const Size &size) {
  std::function<void(const Size::Atom &)> look = [&](const Size::Atom &atom) {
    if (atom.inner)
      find_products(*atom.inner);
    for (const Size::Atom &factor : atom.factors)
      look(factor);
    if (atom.kind == Size::Atom::product && !llvm::is_contained(products_, Size::of_atom(atom)))
      products_.push_back(Size::of_atom(atom));
  };
  for (const Size::Term &term : size.terms())
    look(term.atom);
}

void ModuleSizes::find_products(const std::vector<Step> &steps) {
  for (const Step &step : steps) {
    if (auto *stage = std::get_if<Stage>(&step.what)) {
      for (const Index &index : stage->over)
        find_products(index.extent);
      for (const HExpr *expr : nodes_of(stage->value))
        find_products(expr->extent);
    }
    if (auto *loop = std::get_if<Loop>(&step.what)) {
      find_products(loop->index.extent);
      find_products(loop->steps);
    }
  }
}

ModuleSizes::ModuleSizes(const Program &program, const std::vector<std::vector<Step>> &entries,
                         const std::deque<Tensor> &made, MLIRContext &context)
    : program_(program), context_(context) {
  for (const std::deque<Tensor> *tensors : {&program.tensors, &made})
    for (const Tensor &tensor : *tensors)
      for (const Size &size : tensor.shape)
        find_products(size);
  for (const HExpr &expr : program.exprs)
    find_products(expr.extent);
  for (const Size &size : program.products) {
    find_products(size);
    bool known = size.is_constant() || (size.terms().size() == 1 && size == Size::of_atom(size.terms()[0].atom));
    if (!known && !llvm::is_contained(products_, size)) // one factor: as each size, it is tested for its bits
      products_.push_back(size);
  }
  for (const std::vector<Step> &steps : entries)
    find_products(steps);
  for (const Entry &entry : program.entries)
    for (const Input &input : entry.inputs)
      find_products(input.below.value_or(Size()));
}

AffineExpr ModuleSizes::to_affine(const Size::Atom &atom) const {
  if (atom.kind == Size::Atom::dim)
    return getAffineDimExpr(atom.dim_index, &context_);
  if (atom.kind == Size::Atom::product)
    return getAffineDimExpr(program_.dims.size() + (llvm::find(products_, Size::of_atom(atom)) - products_.begin()),
                            &context_);
  AffineExpr inner = to_affine(*atom.inner);
  return atom.kind == Size::Atom::floor_div ? inner.floorDiv(atom.divisor) : inner % atom.divisor;
}

AffineExpr ModuleSizes::to_affine(const Size &size) const {
  AffineExpr out = getAffineConstantExpr(size.constant(), &context_);
  for (const Size::Term &term : size.terms())
    out = out + to_affine(term.atom) * term.factor;
  return out;
}

std::string ModuleSizes::name(unsigned number) const {
  size_t own = program_.dims.size();
  return number < own ? program_.dims[number].name : products_[number - own].text(program_.dim_names());
}

ArrayAttr ModuleSizes::attribute() const {
  Builder builder(&context_);
  SmallVector<Attribute> dims;
  for (unsigned number = 0; number < count(); ++number) {
    SmallVector<NamedAttribute> row{builder.getNamedAttr("name", builder.getStringAttr(name(number)))};
    if (number >= program_.dims.size()) {
      SmallVector<AffineExpr> factors;
      const Size &size = products_[number - program_.dims.size()];
      const Size::Atom &atom = size.terms()[0].atom;
      if (size == Size::of_atom(atom) && atom.kind == Size::Atom::product)
        for (const Size::Atom &factor : atom.factors)
          factors.push_back(to_affine(factor));
      else
        factors.push_back(to_affine(size));
      AffineMap product = AffineMap::get(count(), 0, factors, &context_);
      row.push_back(builder.getNamedAttr("product", AffineMapAttr::get(product)));
    } else if (auto most = program_.dims[number].most) {
      row.push_back(builder.getNamedAttr("most", builder.getI64IntegerAttr(*most)));
    }
    dims.push_back(builder.getDictionaryAttr(row));
  }
  return builder.getArrayAttr(dims);
}

} // namespace heddle::ir
