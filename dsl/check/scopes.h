// What names mean where they stand: an index, a local name, a member, what the file or its imports declare, the
// prelude, a built-in function. Names are bound once, but for what a loop carries and the arms of an `if` define.
#pragma once

#include "dsl/check/budget.h"
#include "dsl/check/hovers.h"

namespace heddle::checking {

class Scopes {
public:
  Scopes(const Sources &sources, Builder &build, Messages &messages, const Hovers &hovers)
      : sources_(sources), build_(build), messages_(messages), hovers_(hovers) {}

  void set_prelude(FileScope *prelude) { prelude_ = prelude; }
  FileScope *prelude() const { return prelude_; }

  std::optional<Entity> find(const std::string &name, const Frame &frame) const;
  /// The same where it is no index: what an index of that name hides.
  std::optional<Entity> find_but_index(const std::string &name, const Frame &frame) const;
  /// What a name in an expression means; reports one that means nothing. `subscript`: it would be an index.
  Entity meaning(const syntax::Expr &e, const Frame &frame, bool subscript = false);
  const syntax::Module *find_module(FileScope *from, const std::string &name, FileScope *&home) const;

  /// Binds a name.
  void put(const syntax::Name &name, Entity value, Frame &frame, bool is_let);
  /// Gives a name that exists its value of the next iteration.
  void rebind(const std::string &name, Entity value, Frame &frame);
  /// What a block would have defined is an error wherever it is read.
  void fail(const syntax::Block &block, Frame &frame);

private:
  std::string nearest(const std::string &name, const Frame &frame) const;

  const Sources &sources_;
  Builder &build_;
  Messages &messages_;
  const Hovers &hovers_;
  FileScope *prelude_ = nullptr;
  std::set<std::tuple<int, int, std::string>> unknown_; // names reported, with file and line
};

} // namespace heddle::checking
