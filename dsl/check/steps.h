// Puts the steps of the entry at hand together: stages with their results, and requirements.
#pragma once

#include "dsl/check/knowledge.h"

#include <utility>

namespace heddle::checking {

class Steps {
public:
  Steps(Program &program, Builder &build, Indices &indices, Knowledge &knowledge, Messages &messages)
      : program_(program), build_(build), indices_(indices), knowledge_(knowledge), messages_(messages) {}

  /// From here on steps are added to that list: null among declarations, where nothing is computed. Returns the one
  /// before.
  std::vector<Step> *into(std::vector<Step> *steps) { return std::exchange(steps_, steps); }
  bool any() const { return steps_; }
  void add(Step step) { steps_->push_back(std::move(step)); }
  /// Takes back the update with that value; false where it is not among the steps at hand.
  bool remove_update(const Tensor *value);
  void begin_entry() { exact_.clear(); }

  // --- tensors

  const Tensor *new_tensor(Tensor::Kind kind, const std::string &name, Type type, std::vector<Size> shape, Span span);
  std::string unique_name(const std::string &name);
  /// The names of all tensors, for a loop that is tried again.
  const std::set<std::string> &names() const { return tensor_names_; }
  void set_names(std::set<std::string> names) {
    tensor_names_ = std::move(names);
    next_number_.clear();
  }
  std::vector<Extent> shape_of(const Tensor *tensor) const;

  // --- stages

  /// The stage that gives `value` for each value of `variables`, or null when `value` needs an index that isn't there.
  const Tensor *stage(const std::string &name, const std::vector<int> &variables, const Expr *value, Span span);
  const Tensor *reduction(const std::string &name, const std::vector<int> &variables, Reducer reducer,
                          const std::vector<int> &over, const Expr *value, Span span);
  /// A reduction that was made before keeps its name and place.
  void forget_reduction() { last_reduction_ = nullptr; }
  const Tensor *materialise(const Entity &e, const std::string &name, Span span);
  /// The element of `e` at some indices.
  const Expr *element(const Entity &e, const std::vector<int> &variables, Span span);
  /// A formula without indices, as the program keeps it.
  const Expr *kept(const Expr *e);

  // --- requirements

  /// A step that fails the call unless `test` holds for every index, wherever the conditions around it do.
  /// `path`: what the names of its stages begin with.
  void need(const Expr *test, const std::string &message, Span span, const std::string &path);
  /// Requires of what doubles would not hold, and of `e` if it is a number, that it fits 32 bits.
  void keep_exact(const Expr *e, const std::string &path, Span span);

private:
  void free_name(const std::string &name);
  const Expr *finished(const Expr *e, const std::map<int, int> &positions, std::map<const Expr *, const Expr *> &done);
  void require_32_bits(const Expr *e, const std::string &path, Span span);
  /// Adds what a test of all elements of a tensor says about each.
  void learn(const Expr *test, const std::string &path);

  Program &program_;
  Builder &build_;
  Indices &indices_;
  Knowledge &knowledge_;
  Messages &messages_;
  std::vector<Step> *steps_ = nullptr;
  std::set<std::string> tensor_names_;
  std::map<std::string, int> next_number_; // of a name that is taken: those below it are, too
  std::map<const Tensor *, std::vector<std::string>> extent_names_;
  std::set<const Expr *> exact_;           // are required to fit 32 bits
  const Tensor *last_reduction_ = nullptr; // the stage just made, which may still take its definition's name
};

} // namespace heddle::checking
