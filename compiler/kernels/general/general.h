// Why a kernel is of no other kind than `general`, for its author.
#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <string>

namespace heddle {

/// A sentence about the model's definitions, such as "both factors of `z` depend on its last index; …", with what would
/// change it where something does.
std::string why_general(mlir::func::FuncOp kernel);
/// What makes a product whose factors are both used again a row reduction, which fetches a matrix for every row: a
/// condition that leaves out terms. "": there is no such product.
std::string why_no_product(mlir::func::FuncOp kernel);

} // namespace heddle
