// The slow, exact evaluator of a checked program: the meaning of the language and the oracle of every
// test. Computes in double and rounds at declared types. Shares only parser and checker with the compiler.
#pragma once

#include "dsl/check/program.h"
#include "dsl/errors/result.h"

#include <functional>
#include <map>

namespace heddle {

/// A dense row-major array; every type's values are held as double.
struct Array {
  Type type = Type::f32;
  std::vector<int64_t> shape;
  std::vector<double> data;
};

class Interpreter {
public:
  /// `weight` returns the tensor of that name of the weights file, or nothing.
  using WeightSource = std::function<Result<Array>(const std::string &name)>;

  Interpreter(const Program &program, WeightSource weight);
  ~Interpreter();

  /// One call of an entry. Inputs by name; an optional input may be absent. States persist between calls.
  /// Checks what the compiled library checks (dtype class, rank, extents against dims and bounds, index range,
  /// require).
  Result<std::map<std::string, Array>> run(const std::string &entry, const std::map<std::string, Array> &inputs);
  void reset();
  /// Whether real numbers are rounded at their declared types, as they are unless this says not: differences that stand
  /// for derivatives need all bits of a double.
  void round(bool rounds);
  /// Every tensor of the last call, by its name in the program (for `heddle compare`); optional memory cost.
  void keep_all(bool keep);
  const std::map<std::string, Array> &kept() const;

private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

} // namespace heddle
