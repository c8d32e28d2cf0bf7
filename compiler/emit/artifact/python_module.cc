// Names that Python or the class has already get an underscore; in calls all have their own.
#include "compiler/emit/artifact/python_module.h"

#include "compiler/version.h"
#include "runtime/abi.h"

#include <cctype>
#include <set>
#include <sstream>

namespace heddle {

static const std::set<std::string> keywords = {
    "False",  "None",     "True", "and",    "as",   "assert", "async",   "await",  "break", "class",  "continue", "def",
    "del",    "elif",     "else", "except", "for",  "from",   "finally", "global", "if",    "import", "in",       "is",
    "lambda", "nonlocal", "not",  "or",     "pass", "raise",  "return",  "try",    "while", "with",   "yield"};

/// Of heddle.Session, and what its methods' bodies use.
static const std::set<std::string> of_session = {
    "model", "threads", "memory",   "run",   "run_async", "observe", "generate", "generate_async", "stream",
    "score", "reset",   "capacity", "state", "save",      "restore", "clone",    "close"};
static const std::set<std::string> of_body = {"self", "out", "given", "heddle", "np"};

static std::string python_name(const std::string &name, const std::set<std::string> &taken) {
  bool hidden = keywords.contains(name) || taken.contains(name) || name.starts_with("_");
  return hidden ? name + "_" : name;
}

/// "EncodeResults" of "encode".
static std::string class_name(const std::string &entry) {
  std::string out;
  bool begins = true;
  for (char c : entry) {
    if (c != '_')
      out += begins ? char(std::toupper(static_cast<unsigned char>(c))) : c;
    begins = c == '_';
  }
  return out + "Results";
}

static const char *numpy_type(int abi_type) {
  switch (abi_type) {
  case HEDDLE_T_F32:
    return "np.float32";
  case HEDDLE_T_F16:
    return "np.float16";
  case HEDDLE_T_I8:
    return "np.int8";
  case HEDDLE_T_I32:
    return "np.int32";
  case HEDDLE_T_BOOL:
    return "np.bool_";
  case HEDDLE_T_I64:
    return "np.int64";
  case HEDDLE_T_U8:
    return "np.uint8";
  default: // bf16: ml_dtypes' where it is installed
    return "typing.Any";
  }
}

static std::string shape(const InterfaceValue &value) {
  std::string out = abi_type_name(value.abi_type) + std::string("[");
  for (size_t i = 0; i < value.extents.size(); ++i)
    out += (i ? ", " : "") + value.extents[i];
  return out + "]";
}

static void write_entry(std::ostream &out, const InterfaceEntry &entry) {
  std::string results = class_name(entry.name);
  out << "    def " << python_name(entry.name, of_session) << "(\n        self,\n";
  // A parameter that may be left out cannot stand before one that may not.
  for (bool optional : {false, true})
    for (const InterfaceValue &value : entry.inputs)
      if (value.optional == optional)
        out << "        " << python_name(value.name, of_body) << ": heddle.ArrayLike"
            << (optional ? " | None = None" : "") << ",\n";
  out << "        *,\n        out: dict[str, heddle.ArrayLike] | None = None,\n    ) -> " << results << ":\n"
      << "        \"\"\"Entry `" << entry.name << "`.\n\n";
  for (const InterfaceValue &value : entry.inputs) {
    out << "        " << python_name(value.name, of_body) << ": " << shape(value);
    if (value.below)
      out << ", each from 0 to below " << *value.below;
    if (value.optional)
      out << "; if not given, every element is " << value.initial;
    out << "\n";
  }
  for (const InterfaceUse &use : entry.uses)
    out << "        state " << use.state << ": "
        << (!use.updates ? "read"
            : !use.reads ? "set"
                         : "read and updated")
        << "\n";
  out << "        \"\"\"\n        given: dict[str, heddle.ArrayLike | None] = {";
  for (size_t i = 0; i < entry.inputs.size(); ++i)
    out << (i ? ", " : "") << "\"" << entry.inputs[i].name << "\": " << python_name(entry.inputs[i].name, of_body);
  out << "}\n        given = {name: array for name, array in given.items() if array is not None}\n"
      << "        return typing.cast(" << results << ", self.run(given, \"" << entry.name << "\", out))\n\n";
}

std::string python_module(const ModelInterface &model) {
  std::ostringstream out;
  std::string module = model.name + "_model";
  std::string first = model.entries.empty() ? "run" : python_name(model.entries[0].name, of_session);
  out << "\"\"\"Made by Heddle " << version << ": the entries of `" << model.name << "` with types.\n\n    import "
      << module << "                     # with this folder on sys.path\n    session = " << module
      << ".load().session()\n"
      << "    results = session." << first << "(…)\n\"\"\"\n\nfrom __future__ import annotations\n\n"
      << "import os\nimport typing\n\nimport heddle\nimport numpy as np\nfrom numpy.typing import NDArray\n\n\n";
  for (const InterfaceEntry &entry : model.entries) {
    out << class_name(entry.name) << " = typing.TypedDict(\n    \"" << class_name(entry.name) << "\",\n    {\n";
    for (const InterfaceValue &value : entry.results)
      out << "        \"" << value.name << "\": \"NDArray[" << numpy_type(value.abi_type) << "]\",  # " << shape(value)
          << "\n";
    out << "    },\n)\n\n\n";
  }
  out << "class Session(heddle.Session):\n    \"\"\"Runs the entries, one call at a time.\"\"\"\n\n";
  for (const InterfaceEntry &entry : model.entries)
    write_entry(out, entry);
  out << "\nclass Model(heddle.Model):\n    \"\"\"Weights and entries; may be shared by threads.\"\"\"\n\n"
      << "    def session(self, threads: int = 0, memory_limit: int = 0, pool: typing.Any = None) -> Session:\n"
      << "        return Session(self, threads, memory_limit, pool)\n\n\n"
      << "def load(\n    weights: str | os.PathLike[str] | None = None, copy_weights: bool = False, target: str | None "
         "= None\n"
      << ") -> Model:\n"
      << "    \"\"\"Loads the library in this folder.\"\"\"\n"
      << "    folder = os.path.dirname(os.path.abspath(__file__))\n"
      << "    return Model(os.path.join(folder, \"lib" << model.name << ".so\"), weights, copy_weights, target)\n";
  return out.str();
}

} // namespace heddle
