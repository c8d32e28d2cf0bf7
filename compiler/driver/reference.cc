// Numbers come in as the types that the program declares and go out as files hold them.
#include "compiler/driver/reference.h"

namespace heddle {

std::string entry_of_call(const std::vector<std::string> &entries, size_t call) {
  return entries.empty() ? "" : entries[entries.size() == 1 ? 0 : call];
}

Result<const Entry *> find_entry(const Program &program, const std::string &name) {
  std::string names;
  for (const Entry &entry : program.entries) {
    if (entry.name == (name.empty() ? "forward" : name) || (name.empty() && program.entries.size() == 1))
      return &entry;
    names += (names.empty() ? "" : ", ") + entry.name;
  }
  return Error{(name.empty() ? "the model has several entries; choose one with --entry: "
                             : "there is no entry `" + name + "`; there are: ") +
               names};
}

Reference::Reference(const Model &model, bool keep_all)
    : interpreter_(*model.program, [this, &model](const std::string &name) -> Result<Array> {
        const TensorView *tensor = model.weights ? model.weights->find(name) : nullptr;
        if (!tensor)
          return Error{"there is no tensor `" + name + "`"};
        return weight_array(*tensor, weight_types_.at(name), name);
      }) {
  for (const Weight &weight : model.program->weights)
    for (const std::string &name : weight.names)
      weight_types_.emplace(name, weight.tensor->type);
  interpreter_.keep_all(keep_all);
}

Result<TensorMap> Reference::run(const Entry &entry, const TensorMap &inputs) {
  std::map<std::string, Array> arrays;
  for (const auto &[name, tensor] : inputs) {
    Type wanted = natural_type(tensor.dtype);
    for (const Input &input : entry.inputs)
      if (input.name == name)
        wanted = input.tensor->type;
    auto array = input_array(tensor.view(), wanted, name);
    if (!array)
      return array.error();
    arrays.emplace(name, std::move(*array));
  }
  auto results = interpreter_.run(entry.name, arrays);
  if (!results)
    return results.error();
  TensorMap out;
  for (const auto &[name, array] : *results)
    out.emplace(name, host_tensor(array));
  return out;
}

TensorMap Reference::kept() const {
  TensorMap out;
  for (const auto &[name, array] : interpreter_.kept())
    out.emplace(name, host_tensor(array));
  return out;
}

} // namespace heddle
