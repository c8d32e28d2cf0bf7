// What names stand for while a program is elaborated: constants, run-time scalars, tensors, modules with their sizes
// bound, functions. A whole-tensor expression stays a `Lazy` (one scalar formula over fresh indices) until something
// needs it as a tensor, so that `a * b + c` is one stage.
#pragma once

#include "dsl/check/check.h"
#include "dsl/check/prover.h"

namespace heddle::checking {

using Tree = syntax::Expr;

struct Instance;
struct FileScope;

struct Extent {
  Size size;
  std::string name; // "M": as the author wrote it, where folding would show 150
};

struct Lazy {
  std::vector<Extent> shape;
  std::vector<int> variables; // one per dimension
  const Expr *value;
};

struct ScalarFunction {
  std::string_view name;
  Expr::Op op; // of meaning `scalar`
  size_t arguments;
  enum Meaning { scalar, gradient, stop, params, random, fold } meaning = scalar;
};

struct Entity {
  enum Kind { error, text, list, scalar, tensor, lazy, instance, array, function, builtin, tuple, family } kind = error;
  std::string string;                        // text
  std::vector<Entity> items;                 // list, tuple
  const Expr *value = nullptr;               // scalar
  const Tensor *read = nullptr;              // tensor
  std::vector<Extent> shape;                 // tensor, with the names its declaration gives the extents
  std::shared_ptr<const Lazy> formula;       // lazy
  Instance *module = nullptr;                // instance
  std::vector<Instance *> modules;           // array
  int64_t first = 0;                         // array: the number of its first member
  const syntax::Function *code = nullptr;    // function
  Instance *self = nullptr;                  // function: whose member it is, or null
  FileScope *home = nullptr;                 // function: where its other names mean something
  const ScalarFunction *operation = nullptr; // builtin
  /// family: a state for each param of some modules, by the param.
  std::shared_ptr<const std::map<const Tensor *, Entity>> by_param = nullptr;

  bool tensor_like() const { return kind == tensor || kind == lazy; }
  const std::vector<Extent> &extents() const { return kind == lazy ? formula->shape : shape; }
};

/// A number; an error where it is null.
inline Entity entity(const Expr *value) {
  Entity e;
  if (value) {
    e.kind = Entity::scalar;
    e.value = value;
  }
  return e;
}
inline Entity entity(const Tensor *tensor, const std::vector<Extent> &shape) {
  Entity e;
  if (tensor) {
    e.kind = Entity::tensor;
    e.read = tensor;
    e.shape = shape;
  }
  return e;
}

using Names = std::map<std::string, Entity>;

/// One file: its configs, dims, lets, functions and modules. Sizes are seen in their own file only.
struct FileScope {
  const syntax::File *tree = nullptr;
  bool is_prelude = false;
  Names names;
  std::map<std::string, const syntax::Function *> functions;
  std::map<std::string, const syntax::Module *> modules;
  std::map<std::string, FileScope *> imported; // by name, through `use`
};

/// A module with its sizes bound and its place in the weights file known.
struct Instance {
  const syntax::Module *module = nullptr;
  FileScope *home = nullptr;
  std::string path;                  // by the author's names: "layers.3.attn"
  std::vector<std::string> prefixes; // of weight names, in the order in which they are tried
  Names members;
};

/// A statement block that is being run. Names defined in a loop's body end with the iteration.
struct Scope {
  Names names;
  bool arm = false; // of an `if` that is decided at run time: what both arms define is joined after it
  std::map<std::string, std::string> halves; // names that the arms of such an `if` do not agree on, and in what
  const syntax::Stmt *loop = nullptr;
  std::set<std::string> carried;
  Loop *run_time = nullptr; // a loop that stays a loop
  int depth = -1;           // of that loop
  Names collected;          // tensors that this loop builds, seen after it
  /// Slices that the iterations of an unrolled loop have defined so far: at which place of the tensor each stands.
  struct Slice {
    std::vector<std::optional<int64_t>> places;
    const Tensor *tensor;
    std::vector<Extent> shape;
  };
  std::map<std::string, std::vector<Slice>> slices;
  std::set<std::pair<std::string, std::vector<std::optional<int64_t>>>> sliced; // tensors and places that are there
};

/// A function or entry being elaborated.
struct Frame {
  FileScope *home = nullptr;
  Instance *self = nullptr;
  std::string path;     // prefix of the names of its tensors: "layers.3.attn."
  std::string defining; // the definition at hand: its reductions are named after it
  std::vector<Scope> scopes;
  std::map<std::string, std::vector<Extent>> packs; // ..S of the signature
  std::map<std::string, int> indices;
  std::map<std::string, Size> firsts; // of the indices that do not begin at 0
  std::map<std::string, std::vector<int>> index_packs;
  bool per_element = false; // scalar formulas over indices are being read: whole tensors have no meaning
  std::map<const syntax::Expr *, Entity> evaluated; // tensors that a definition's subscripts are applied to
  bool returned = false;
  std::vector<Entity> results;
};

/// "bert|" is {"bert", ""}.
std::vector<std::string> alternatives(const std::string &text);
} // namespace heddle::checking
