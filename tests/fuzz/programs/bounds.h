// Evaluates a checked program on intervals: for every result, what a correct compiler's code may answer. Shares
// nothing with dsl/interp but the checked program, so that it is a third witness beside evaluator and library.
#pragma once

#include "dsl/interp/interp.h"
#include "tests/fuzz/programs/interval.h"

#include <functional>
#include <map>
#include <unordered_map>

namespace heddle::fuzz {

struct Box {
  std::vector<int64_t> shape;
  std::vector<Interval> data;
};

class Bounds {
public:
  using WeightSource = std::function<Array(const Weight &)>;
  Bounds(const Program &program, const WeightSource &weight);

  /// One call that the evaluator took, so that its requirements hold; states persist. `dims` are those of the call.
  std::map<std::string, Box> run(const Entry &entry, const std::vector<int64_t> &dims,
                                 const std::map<std::string, Array> &inputs);
  /// The messages of requirements that such a call may break; nothing is updated.
  std::vector<std::string> broken(const Entry &entry, const std::vector<int64_t> &dims,
                                  const std::map<std::string, Array> &inputs);

private:
  void bind(const Entry &entry, const std::vector<int64_t> &dims, const std::map<std::string, Array> &inputs);
  void run(const std::vector<Step> &steps);
  Box evaluate(const Stage &stage);
  void loop(const Loop &loop);
  void update(const Update &update);
  void require(const Require &require);
  Interval scalar(const Expr &e);
  /// Nodes of one expression and where they read.
  struct Flat;
  Flat flat(const Expr &e) const;
  Interval value(const Flat &flat, const std::vector<int64_t> &at, std::vector<Interval> &results) const;
  std::vector<int64_t> extents(const std::vector<Size> &shape) const;

  const Program &program_;
  std::unordered_map<const Tensor *, Box> weights_, states_, values_, updated_;
  std::vector<int64_t> dims_, loops_;
  std::vector<std::string> broken_;
  bool only_requirements_ = false;
};

} // namespace heddle::fuzz
