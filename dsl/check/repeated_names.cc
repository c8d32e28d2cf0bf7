// Looks at the text alone, so that what no entry calls and what a setting leaves out is looked at, too.
#include "dsl/check/repeated_names.h"

#include <set>
#include <string>
#include <vector>

namespace heddle::checking {

using syntax::Declaration;
using syntax::Formal;
using syntax::Member;
using syntax::Name;
using syntax::Stmt;

namespace {

class Finder {
public:
  explicit Finder(const std::function<void(const Name &)> &found) : found_(found) {}

  void declaration(const Declaration &d) {
    if (d.fn)
      function(*d.fn);
    if (!d.module_body)
      return;
    list(d.module_body->sizes);
    members(d.module_body->members);
  }

private:
  void list(const std::vector<Name> &names) {
    std::set<std::string> seen;
    for (const Name &name : names)
      if (!name.text.empty() && !seen.insert(name.text).second) // empty: it could not be read
        found_(name);
  }

  void list(const std::vector<Formal> &formals) {
    std::vector<Name> names;
    for (const Formal &formal : formals)
      names.push_back(formal.name);
    list(names);
  }

  void function(const syntax::Function &f) {
    list(f.formals);
    block(f.body);
  }

  void block(const syntax::Block &statements) {
    for (const Stmt &s : statements) {
      if (s.kind == Stmt::loop)
        list(s.names);
      block(s.body);
      block(s.otherwise);
    }
  }

  void members(const std::vector<Member> &all) {
    for (const Member &m : all) {
      if (m.fn)
        function(*m.fn);
      if (m.entry_point) {
        list(m.entry_point->formals);
        list(m.entry_point->results);
        block(m.entry_point->body);
      }
      members(m.members);
      members(m.otherwise);
    }
  }

  const std::function<void(const Name &)> &found_;
};

} // namespace

void find_repeated(const syntax::File &file, const std::function<void(const Name &)> &found) {
  Finder finder(found);
  for (const Declaration &d : file.declarations)
    finder.declaration(d);
}

} // namespace heddle::checking
