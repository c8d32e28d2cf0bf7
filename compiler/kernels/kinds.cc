// The table of kinds, and the schedule of a kernel as the attribute `heddle.schedule`, so that what was chosen can
// be read, edited and round-tripped as text. Relies on nothing but the kinds' own answers.
#include "compiler/kernels/kinds.h"

#include "compiler/ir/dialect.h"
#include "compiler/kernels/product/micro_kernel.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinAttributes.h"

#include <algorithm>

namespace heddle {

#define HEDDLE_KIND(name) extern const KernelKind name##_kind;
#include "compiler/kernels/kinds.def"
#undef HEDDLE_KIND

static const KernelKind *const table[] = {
#define HEDDLE_KIND(name) &name##_kind,
#include "compiler/kernels/kinds.def"
#undef HEDDLE_KIND
};

std::span<const KernelKind *const> kinds() { return table; }

const KernelKind &kind_of(mlir::func::FuncOp kernel) {
  for (const KernelKind *kind : table)
    if (kind->matches(kernel))
      return *kind;
  return *table[std::size(table) - 1];
}

const Variant *KernelKind::find_variant(std::string_view wanted) const {
  auto found = std::ranges::find(variants, wanted, &Variant::name);
  return found == variants.end() ? nullptr : *found;
}

const KernelKind *find_kind(std::string_view name) {
  for (const KernelKind *kind : table)
    if (kind->name == name)
      return kind;
  return nullptr;
}

const KernelKind *named_kind(mlir::func::FuncOp kernel) {
  auto name = kernel->getAttrOfType<mlir::StringAttr>(ir::names::kernel);
  return name ? find_kind(name.getValue()) : nullptr;
}

mlir::ArrayAttr schedule_attribute(mlir::MLIRContext *context, std::span<const ScheduleRow> rows) {
  mlir::Builder builder(context);
  llvm::SmallVector<mlir::Attribute> list;
  for (const ScheduleRow &row : rows) {
    llvm::SmallVector<mlir::NamedAttribute> params;
    for (const auto &[name, value] : row.params)
      params.push_back(builder.getNamedAttr(name, builder.getI64IntegerAttr(value)));
    llvm::SmallVector<mlir::NamedAttribute> fields = {
        builder.getNamedAttr("variant", builder.getStringAttr(row.variant)),
        builder.getNamedAttr("params", builder.getDictionaryAttr(params))};
    if (row.when)
      fields.push_back(builder.getNamedAttr("when", mlir::IntegerSetAttr::get(*row.when)));
    if (!row.micro_kernel.empty())
      fields.push_back(builder.getNamedAttr("micro_kernel", builder.getStringAttr(row.micro_kernel)));
    list.push_back(builder.getDictionaryAttr(fields));
  }
  return builder.getArrayAttr(list);
}

Result<std::vector<ScheduleRow>> schedule_rows(mlir::func::FuncOp kernel) {
  auto list = kernel->getAttrOfType<mlir::ArrayAttr>(ir::names::schedule);
  auto wrong = [&](const std::string &what) { return Error{"kernel @" + kernel.getName().str() + ": " + what}; };
  if (!list || list.empty())
    return wrong("`heddle.schedule` has no rows");
  std::vector<ScheduleRow> rows;
  for (mlir::Attribute entry : list) {
    auto fields = llvm::dyn_cast<mlir::DictionaryAttr>(entry);
    auto variant = fields ? fields.getAs<mlir::StringAttr>("variant") : nullptr;
    if (!variant)
      return wrong("a row of `heddle.schedule` names no variant");
    ScheduleRow row;
    row.variant = variant.str();
    if (auto params = fields.getAs<mlir::DictionaryAttr>("params"))
      for (mlir::NamedAttribute param : params) {
        auto value = llvm::dyn_cast<mlir::IntegerAttr>(param.getValue());
        if (!value)
          return wrong("the parameter `" + param.getName().str() + "` of `heddle.schedule` is not an integer");
        row.params[param.getName().str()] = value.getInt();
      }
    if (auto when = fields.getAs<mlir::IntegerSetAttr>("when"))
      row.when = when.getValue();
    if (auto name = fields.getAs<mlir::StringAttr>("micro_kernel")) {
      row.micro_kernel = name.str();
      if (!find_micro_kernel(row.micro_kernel))
        return wrong("there is no micro-kernel `" + row.micro_kernel + "`");
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

int row_of_code(mlir::func::FuncOp kernel, int row) {
  auto rows = kernel->getAttrOfType<mlir::ArrayAttr>(ir::names::schedule);
  if (!rows || row < 0 || row >= int(rows.size()))
    return row;
  auto code = [&](mlir::Attribute entry) -> mlir::Attribute {
    auto fields = llvm::dyn_cast<mlir::DictionaryAttr>(entry);
    if (!fields)
      return entry;
    mlir::NamedAttrList of_code(fields);
    of_code.erase("when");
    return of_code.getDictionary(kernel.getContext());
  };
  return int(llvm::find_if(rows, [&](auto entry) { return code(entry) == code(rows[row]); }) - rows.begin());
}

std::string to_text(const ScheduleRow &row) {
  std::string out = row.variant;
  for (const auto &[name, value] : row.params)
    out += " " + name + "=" + std::to_string(value);
  return out;
}

Status check_row(const KernelKind &kind, const ScheduleRow &row) {
  auto wrong = [&](const std::string &what) {
    return Error{"a schedule of the kind `" + std::string(kind.name) + "`: " + what};
  };
  const Variant *variant = kind.find_variant(row.variant);
  if (!variant)
    return wrong("there is no variant `" + row.variant + "`");
  std::string of = "variant `" + row.variant + "` ";
  for (const Parameter &parameter : variant->parameters) {
    auto given = row.params.find(std::string(parameter.name));
    if (given == row.params.end())
      return wrong(of + "lacks the parameter `" + std::string(parameter.name) + "`");
    if (given->second < parameter.least || given->second > parameter.most)
      return wrong(of + "has " + given->first + " = " + std::to_string(given->second) + "; it lies in " +
                   std::to_string(parameter.least) + " .. " + std::to_string(parameter.most));
  }
  for (const auto &[name, value] : row.params)
    if (std::ranges::find(variant->parameters, name, &Parameter::name) == variant->parameters.end())
      return wrong(of + "has no parameter `" + name + "`");
  if (variant->multiplies != (find_micro_kernel(row.micro_kernel) != nullptr))
    return wrong(of + (variant->multiplies ? "names no micro-kernel" : "has no micro-kernel"));
  return Done();
}

Result<VariantRow> checked_row(mlir::func::FuncOp kernel, int row) {
  auto wrong = [&](const std::string &what) { return Error{"kernel @" + kernel.getName().str() + ": " + what}; };
  const KernelKind *kind = named_kind(kernel);
  if (!kind)
    return wrong("`heddle.kernel` names no kind of kernel");
  Result<std::vector<ScheduleRow>> rows = schedule_rows(kernel);
  if (!rows)
    return rows.error();
  if (row < 0 || size_t(row) >= rows->size())
    return wrong("`heddle.schedule` has no row " + std::to_string(row));
  if (Status status = check_row(*kind, (*rows)[row]); !status)
    return wrong(status.error().message);
  return VariantRow{kind->find_variant((*rows)[row].variant), std::move((*rows)[row])};
}

uint32_t cpu_features(const ScheduleRow &row, const Target &target) {
  const MicroKernel *micro_kernel = find_micro_kernel(row.micro_kernel);
  return target.base | (micro_kernel ? micro_kernel->needs & target.cpu_features() : 0);
}

} // namespace heddle
