// <name>_model.py, which lies beside a library: its entries as methods whose parameters and results have types, for
// people and their editors. It does nothing that python/heddle doesn't.
#pragma once

#include "compiler/emit/host/model_interface.h"

namespace heddle {

std::string python_module(const ModelInterface &model);

} // namespace heddle
