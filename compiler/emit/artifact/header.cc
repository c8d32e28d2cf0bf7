// The functions are inline, so one header serves a program that links the library and one that opens it with
// heddle_open, and heddle_last_error() works in both.
#include "compiler/emit/artifact/header.h"

#include "compiler/ir/dialect.h"
#include "compiler/ir/precision.h"
#include "compiler/version.h"

#include <cctype>
#include <sstream>

namespace heddle {

static std::string join(const std::vector<std::string> &items, const char *separator) {
  std::string out;
  for (const std::string &item : items)
    out += (out.empty() ? "" : separator) + item;
  return out;
}

static std::string number_text(double value) {
  std::ostringstream out;
  out << value;
  return out.str();
}

/// "input_ids [B, S], each in 0 .. 30521; NULL: every element 1"
static std::string describe(const InterfaceValue &value, bool input) {
  std::string out = value.name + " [" + join(value.extents, ", ") + "]";
  if (value.below)
    out += ", each from 0 to below " + *value.below;
  if (value.optional)
    out += "; NULL: every element is " + number_text(value.initial);
  else if (!input)
    out += "; NULL: not wanted";
  return out;
}

/// What stands in a comment to the end of its line, whatever the model's author wrote: quoted, so that no backslash
/// ends the line.
static std::string quoted(const std::string &text) {
  std::string out = "\"";
  for (char c : text)
    out += static_cast<unsigned char>(c) < ' ' ? ' ' : c;
  return out + "\"";
}

// Parameters are named by their kind and the model's name, so that no name of the model can be a word of C, a macro or
// a name that the function's body uses.
static std::string parameter(const std::string &dim) { return "dim_" + dim; }
static std::string input_parameter(const InterfaceValue &value) { return "in_" + value.name; }
static std::string result_parameter(const InterfaceValue &value) { return "out_" + value.name; }

static void write_entry(std::ostream &out, const ModelInterface &model, const InterfaceEntry &entry, int number) {
  out << "// Entry `" << entry.name << "`. Tensors are dense and row-major.\n";
  for (int dim : entry.dims) {
    out << "//   " << model.dims[dim];
    if (model.most[dim] >= 0)
      out << ": at most " << model.most[dim];
    else
      out << ": any size";
    out << "\n";
  }
  out << "// in:\n";
  for (const InterfaceValue &value : entry.inputs)
    out << "//   " << describe(value, true) << "\n";
  out << "// out:\n";
  for (const InterfaceValue &value : entry.results)
    out << "//   " << describe(value, false) << "\n";

  for (const InterfaceUse &use : entry.uses)
    out << "// state " << use.state << ": "
        << (!use.updates ? "read"
            : !use.reads ? "set"
                         : "read and updated")
        << (use.in_place ? " in place" : "") << "\n";
  for (const std::string &message : entry.requirements)
    out << "// requires: " << quoted(message) << "\n";
  out << "static inline heddle_status " << entry.symbol << "(heddle_session *session";
  for (int dim : entry.dims)
    out << ", int64_t " << parameter(model.dims[dim]);
  for (const InterfaceValue &value : entry.inputs)
    out << ",\n    const " << c_type_name(value.abi_type) << " *" << input_parameter(value);
  for (const InterfaceValue &value : entry.results)
    out << ",\n    " << c_type_name(value.abi_type) << " *" << result_parameter(value);
  out << ") {\n";
  std::vector<std::string> dims(model.dims.size(), "0"), inputs, results;
  for (int dim : entry.dims)
    dims[dim] = parameter(model.dims[dim]);
  for (const InterfaceValue &value : entry.inputs)
    inputs.push_back(input_parameter(value));
  for (const InterfaceValue &value : entry.results)
    results.push_back(result_parameter(value));
  if (dims.empty())
    dims.push_back("0");
  if (inputs.empty())
    inputs.push_back("NULL");
  if (results.empty())
    results.push_back("NULL");
  out << "  const int64_t heddle_dims[] = {" << join(dims, ", ") << "};\n"
      << "  const void *const heddle_inputs[] = {" << join(inputs, ", ") << "};\n"
      << "  void *const heddle_results[] = {" << join(results, ", ") << "};\n"
      << "  return HEDDLE_CALL(session, run_typed, session, " << number << ", " << entry.signature
      << "u, heddle_dims, heddle_inputs,\n                     heddle_results);\n}\n\n";
}

/// What sessions keep, with the numbers by which heddle_session_state asks for it.
static void write_states(std::ostream &out, const ModelInterface &model) {
  if (model.states.empty())
    return;
  out << "// What a session keeps between calls:\n";
  for (const InterfaceState &state : model.states) {
    out << "//   " << state.name << " [" << join(state.extents, ", ") << "], " << abi_type_name(state.abi_type);
    if (state.initial)
      out << ", at first " << number_text(*state.initial);
    if (!state.parameter.empty())
      out << ", at first " << state.parameter << " of the weights file";
    out << "\n";
  }
  out << "enum {";
  for (size_t i = 0; i < model.states.size(); ++i)
    out << (i ? ", " : " ") << model.states[i].symbol << " = " << i;
  out << " };\n\n";
}

/// What `--precision` and `--keep` made of the numbers.
static std::string numerics(mlir::ModuleOp module) {
  std::string precision = ir::precision_of(module);
  std::string out = precision == "f32"    ? "f32"
                    : precision == "tf32" ? "f32, but products of tf32 with sums of f32"
                    : precision == "bf16" ? "f32, but products of bf16 with sums of f32"
                                          : "f32, but products of 8 bits with sums of i32, or of bf16";
  if (auto kept = module->getAttrOfType<mlir::DictionaryAttr>(ir::names::keep))
    for (auto [i, part] : llvm::enumerate(kept))
      out +=
          (i ? ", " : "; kept: ") + part.getName().str() + " in " + mlir::cast<mlir::StringAttr>(part.getValue()).str();
  return out;
}

std::string c_header(const ModelInterface &model, const std::vector<std::string> &targets, mlir::ModuleOp module) {
  std::string guard = "HEDDLE_MODEL_" + model.name + "_H";
  for (char &c : guard)
    c = std::toupper(c);
  std::ostringstream out;
  out << "// Made by Heddle " << version << ": the entries of `" << model.name << "` as C functions.\n"
      << "// Compiled for " << join(targets, ", ")
      << (targets.size() > 1 ? "; the first that fits the machine is used" : "") << ".\n"
      << "// Computes in " << numerics(module) << ". Any number of threads gives the same bits.\n"
      << "//\n"
      << "//     heddle_model *model;\n"
      << "//     heddle_session *session;\n"
      << "//     heddle_open(\"path/of/this/folder\", NULL, &model);      // or, linked with -l" << model.name << ":\n"
      << "//     " << model.name << "_load(NULL, &model);\n"
      << "//     heddle_session_create(model, NULL, &session);\n"
      << "//     if (" << (model.entries.empty() ? model.name + "_entry" : model.entries[0].symbol)
      << "(session, …)) puts(heddle_last_error());\n"
      << "//\n"
      << "// heddle.h says what holds for every function. The library exports functions of the same names and "
         "parameters\n"
      << "// for languages that call C without a compiler; their messages are in its own table.\n"
      << "#ifndef " << guard << "\n#define " << guard << "\n\n#include \"heddle.h\"\n\n"
      << "#ifdef __cplusplus\nextern \"C\"\n#endif\n"
      << "const heddle_api *" << model.name << "_heddle_api(void); // in the library\n\n"
      << "// For a program that is linked with the library: maps the weights file and makes a model. NULL: the weights "
         "are "
         "in\n// the library, or in "
      << model.name << ".weights beside it (beside the program, if the library is a part of it).\n"
      << "static inline heddle_status " << model.name << "_load(const char *weights, heddle_model **model) {\n"
      << "  heddle_model_options options = HEDDLE_INIT(heddle_model_options);\n  options.weights = weights;\n"
      << "  const heddle_api *api = " << model.name << "_heddle_api();\n"
      << "  if (api->size < sizeof(heddle_api))\n"
      << "    return heddle_fail(HEDDLE_BAD_LIBRARY, \"%s: %s\", \"lib" << model.name
      << "\", \"older than the header; compile the program with the header beside it\");\n"
      << "  return heddle_pass_on(api, api->model_load(&options, model));\n}\n\n";
  write_states(out, model);
  for (size_t i = 0; i < model.entries.size(); ++i)
    write_entry(out, model, model.entries[i], i);
  out << "#endif\n";
  return out.str();
}

} // namespace heddle
