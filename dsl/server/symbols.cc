// One walk over the tree with a stack of scopes. File-level names and members are defined before anything is read, for
// they may be used above their declaration; the rest in the order of the text.
#include "dsl/server/symbols.h"

#include <algorithm>
#include <optional>

namespace heddle::server {

using namespace syntax;

namespace {

class Walker {
public:
  explicit Walker(FileSymbols &file) : file_(file), whole_{file.source, 0, static_cast<int>(file.text.size())} {}

  void declare() {
    for (const Declaration &d : file_.tree.declarations)
      declare(d);
  }

  void resolve() {
    scopes_.push_back({whole_, file_.top});
    for (const Declaration &d : file_.tree.declarations)
      walk(d);
  }

private:
  struct Scope {
    Span span;
    std::map<std::string, int> names;
  };

  int add(Definition::Kind kind, const Name &name, Span whole, Span scope) {
    Definition d{.kind = kind,
                 .name = name.text,
                 .span = name.span,
                 .whole = whole,
                 .scope = scope,
                 .qualified = {},
                 .made_of = {}};
    d.qualified = container_ + (container_.empty() ? "" : ".") + name.text;
    d.module_number = module_;
    file_.definitions.push_back(std::move(d));
    return static_cast<int>(file_.definitions.size()) - 1;
  }
  int define(Definition::Kind kind, const Name &name, Span whole) {
    int number = add(kind, name, whole, {file_.source, name.span.begin, scopes_.back().span.end});
    scopes_.back().names[name.text] = number;
    return number;
  }

  // --- declarations, before the walk
  void declare(const Declaration &d) {
    auto top = [&](Definition::Kind kind, const Name &name) {
      int number = add(kind, name, d.span, whole_);
      file_.top[name.text] = number;
      return number;
    };
    for (const Setting &setting : d.settings)
      top(Definition::config, setting.name);
    for (const Bound &bound : d.bounds)
      top(Definition::dim, bound.name);
    if (d.kind == Declaration::let)
      for (const Name &name : d.names)
        top(Definition::let, name);
    if (d.fn)
      file_.definitions[top(Definition::function, d.fn->name)].fn = d.fn.get();
    if (d.module_body) {
      const Module &module = *d.module_body;
      int number = top(module.is_model ? Definition::model : Definition::module, module.name);
      file_.definitions[number].module_number = static_cast<int>(file_.modules.size());
      file_.modules.push_back({module.name.text, &module, {}});
      container_ = module.name.text;
      module_ = static_cast<int>(file_.modules.size()) - 1;
      for (const Name &size : module.sizes)
        file_.modules.back().members[size.text] = add(Definition::size, size, size.span, module.span);
      declare_members(module.members, module.span);
      container_.clear();
      module_ = -1;
    }
  }
  void declare_members(const std::vector<Member> &members, Span scope) {
    auto member = [&](Definition::Kind kind, const Name &name, const Member &m) -> Definition & {
      int number = add(kind, name, m.span, scope);
      file_.modules[module_].members[name.text] = number;
      return file_.definitions[number];
    };
    for (const Member &m : members) {
      if (m.kind == Member::param || m.kind == Member::sub) {
        Definition &one = member(m.kind == Member::param ? Definition::param : Definition::sub, m.name, m);
        one.made_of = m.module.text;
        if (!m.alias)
          one.unaliased = m.is_array ? end_of_brackets(file_.text, m.name.span.end) : m.name.span.end;
      } else if (m.kind == Member::state)
        member(Definition::state, m.name, m);
      else if (m.kind == Member::let)
        for (const Name &name : m.names.empty() ? std::vector<Name>{m.name} : m.names)
          member(Definition::let, name, m);
      else if (m.kind == Member::function && m.fn)
        member(Definition::function, m.fn->name, m).fn = m.fn.get();
      else if (m.kind == Member::entry && m.entry_point)
        member(Definition::entry, m.entry_point->name, m).entry_point = m.entry_point.get();
      declare_members(m.members, scope);
      declare_members(m.otherwise, scope);
    }
  }

  // --- the walk
  void walk(const Declaration &d) {
    for (const Setting &setting : d.settings)
      walk(setting.initial);
    for (const Bound &bound : d.bounds)
      walk(bound.most);
    walk(d.expr);
    if (d.kind == Declaration::use) {
      for (const Name &name : d.names) {
        const FileSymbols *home = nullptr;
        int number = -1;
        for (const auto &[imported, symbols] : file_.imported)
          if (imported == name.text && symbols)
            if (auto found = symbols->top.find(name.text); found != symbols->top.end()) {
              home = symbols;
              number = found->second;
            }
        use(name.span, number, home);
      }
    }
    if (d.fn)
      walk(*d.fn);
    if (d.module_body) {
      const Module &module = *d.module_body;
      container_ = module.name.text;
      for (module_ = 0; file_.modules[module_].tree != &module;)
        ++module_;
      scopes_.push_back({module.span, file_.modules[module_].members});
      walk(module.members);
      scopes_.pop_back();
      container_.clear();
      module_ = -1;
    }
  }

  void walk(const std::vector<Member> &members) {
    for (const Member &m : members) {
      scopes_.push_back({m.span, {}});
      if (m.is_array && m.count.kind == Place::range)
        define(Definition::index, m.count.name, m.count.span);
      walk(m.count.expr);
      walk(m.count.upper);
      walk(m.type);
      walk(m.stored);
      for (const ExprPtr &arg : m.args)
        walk(arg);
      walk(m.expr);
      if (m.alias)
        walk_alias(m);
      if (m.kind == Member::sub) {
        auto [home, number] = file_.global(m.module.text);
        use(m.module.span, number, home);
      }
      if (m.fn)
        walk(*m.fn);
      if (m.entry_point)
        walk(*m.entry_point);
      walk(m.members);
      walk(m.otherwise);
      scopes_.pop_back();
    }
  }

  /// `as "bias_l{LAYER}"`: names in braces. The string is the first one behind the member's name.
  void walk_alias(const Member &m) {
    const std::string &text = file_.text;
    size_t at = m.name.span.end, end = m.span.end;
    while (at < end && text[at] != '"' && text[at] != '\'')
      if (text[at++] == '#')
        at = std::min(text.find('\n', at), end);
    if (at >= end)
      return;
    end = std::min(text.find(text[at], at + 1), end);
    while ((at = text.find('{', at + 1)) < end) {
      size_t close = std::min(text.find('}', at), end);
      if (std::string name = text.substr(at + 1, close - at - 1); !name.empty())
        name_use({name, {file_.source, static_cast<int>(at) + 1, static_cast<int>(close)}});
    }
  }

  void walk(const Function &fn) {
    std::string outer = container_;
    container_ += (container_.empty() ? "" : ".") + fn.name.text;
    scopes_.push_back({fn.span, {}});
    for (const Formal &formal : fn.formals)
      define_sizes(formal.type);
    for (const Formal &formal : fn.formals)
      walk_formal(formal);
    for (const Type &type : fn.results)
      walk(type);
    walk(fn.expr);
    walk(fn.body);
    scopes_.pop_back();
    container_ = outer;
  }

  void walk(const Entry &entry) {
    std::string outer = container_;
    container_ += (container_.empty() ? "" : ".") + entry.name.text;
    scopes_.push_back({entry.span, {}});
    for (const Formal &formal : entry.formals)
      walk_formal(formal);
    for (const Formal &result : entry.results)
      walk(result.type);
    walk(entry.body);
    scopes_.pop_back();
    container_ = outer;
  }

  void walk_formal(const Formal &formal) {
    walk(formal.type);
    walk(formal.initial);
    define(Definition::input, formal.name, formal.name.span.to(formal.type.span));
  }

  /// A name in a signature that means nothing yet is a size parameter; `..S` too.
  void define_sizes(const Type &type) {
    for (const Place &place : type.shape) {
      if (place.kind == Place::pack && !known(place.name.text))
        define(Definition::size, place.name, place.span);
      if (place.kind == Place::value && place.expr && place.expr->kind == Expr::name && !known(place.expr->text))
        define(Definition::size, {place.expr->text, name_span(*place.expr, file_)}, place.span);
    }
  }

  void walk(const Type &type) {
    walk(type.range);
    walk(type.shape);
  }
  void walk(const std::vector<Place> &places) {
    for (const Place &place : places) {
      walk(place.expr);
      walk(place.upper);
      if (place.kind == Place::pack)
        name_use(place.name);
    }
  }

  void walk(const Block &block) {
    for (const Stmt &s : block)
      walk(s);
  }

  void walk(const Stmt &s) {
    switch (s.kind) {
    case Stmt::let:
      walk(s.exprs);
      for (const Name &name : s.names)
        define(Definition::value, name, s.span);
      return;
    case Stmt::assign:
    case Stmt::update: {
      scopes_.push_back({s.span, {}});
      for (const Target &target : s.targets)
        for (const Place &place : target.places)
          target_place(place);
      walk(s.exprs);
      scopes_.pop_back();
      for (const Target &target : s.targets) {
        auto found = lookup(target.name.text);
        auto kind = found ? file_.definitions[*found].kind : Definition::config;
        if (s.kind == Stmt::update || kind == Definition::value || kind == Definition::input)
          name_use(target.name); // what a loop carries, or builds slice by slice, is defined once
        else
          define_in_function(target.name, s.span);
      }
      return;
    }
    case Stmt::loop:
      walk(s.exprs);
      for (size_t i = 1; i < s.names.size(); ++i)
        name_use(s.names[i]);
      scopes_.push_back({s.span, {}});
      if (!s.names.empty())
        define(Definition::iteration, s.names[0], s.span);
      walk(s.body);
      scopes_.pop_back();
      return;
    case Stmt::when:
      walk(s.exprs);
      walk(s.body);
      walk(s.otherwise);
      return;
    case Stmt::require:
    case Stmt::give:
      walk(s.exprs);
      return;
    case Stmt::invalid:
      return;
    }
  }

  /// A tensor defined inside a loop is seen after it.
  void define_in_function(const Name &name, Span whole) {
    size_t level = scopes_.size() - 1;
    while (level > 0 && loop_scope(scopes_[level].span))
      --level;
    int number = add(Definition::value, name, whole, {file_.source, name.span.begin, scopes_[level].span.end});
    scopes_[level].names[name.text] = number;
  }
  bool loop_scope(Span span) const {
    std::string_view text(file_.text);
    return text.substr(span.begin, 4) == "for ";
  }

  void target_place(const Place &place) {
    if (place.kind == Place::range) {
      walk(place.expr);
      for (const Place &piece : place.pieces)
        target_place(piece);
      define(Definition::index, place.name, place.span);
    } else if (place.kind == Place::pack) {
      define(Definition::index, place.name, place.span);
    } else if (place.kind == Place::value && place.expr) {
      if (place.expr->kind == Expr::name && !known(place.expr->text))
        define(Definition::index, {place.expr->text, name_span(*place.expr, file_)}, place.span);
      else
        walk(place.expr);
    }
  }

  void walk(const std::vector<ExprPtr> &exprs) {
    for (const ExprPtr &e : exprs)
      walk(e);
  }
  void walk(const ExprPtr &e) {
    if (e)
      walk(*e);
  }
  void walk(const Expr &e) {
    if (e.kind == Expr::name)
      return name_use({e.text, name_span(e, file_)});
    if (e.kind == Expr::reduce) {
      scopes_.push_back({e.span, {}});
      for (const Place &place : e.places) {
        walk(place.expr);
        walk(place.upper);
        for (const Place &piece : place.pieces)
          target_place(piece);
        define(Definition::index, place.name, place.span);
      }
      walk(e.outside);
      walk(e.args);
      scopes_.pop_back();
      return;
    }
    walk(e.callee);
    walk(e.args);
    walk(e.places);
    walk(e.outside);
    if (e.kind == Expr::field && e.callee) {
      const FileSymbols *home = nullptr;
      const ModuleSymbols *module = module_of(*e.callee, file_, home);
      Span name = name_span(e, file_);
      if (module)
        if (auto found = module->members.find(e.text); found != module->members.end())
          return use(name, found->second, home);
      use(name, -1, nullptr);
    }
  }

  // --- names
  std::optional<int> lookup(const std::string &name) const {
    for (size_t i = scopes_.size(); i-- > 0;)
      if (auto found = scopes_[i].names.find(name); found != scopes_[i].names.end())
        return found->second;
    return std::nullopt;
  }
  bool known(const std::string &name) const { return lookup(name) || file_.global(name).first; }
  void name_use(const Name &name) {
    if (auto local = lookup(name.text))
      return use(name.span, *local, &file_);
    auto [home, number] = file_.global(name.text);
    use(name.span, number, home);
  }
  void use(Span span, int number, const FileSymbols *home) { file_.uses[span.begin] = {span, number, home}; }

  FileSymbols &file_;
  Span whole_;
  std::vector<Scope> scopes_;
  std::string container_;
  int module_ = -1;
};

} // namespace

void declare_symbols(FileSymbols &file) {
  Walker(file).declare();
  file.declared = file.definitions.size();
}

void resolve_uses(FileSymbols &file) {
  file.definitions.resize(file.declared);
  file.uses.clear();
  Walker(file).resolve();
}

Span name_span(const Expr &e, const FileSymbols &file) {
  const std::string &text = file.text;
  size_t at = e.kind == Expr::field && e.callee ? e.callee->span.end : e.span.begin;
  while (at < text.size() && std::string_view(" \t\r\n(.#").find(text[at]) != std::string_view::npos)
    at = text[at] == '#' ? std::min(text.find('\n', at), text.size()) : at + 1;
  return {e.span.file, static_cast<int>(at), static_cast<int>(at + e.text.size())};
}

int end_of_brackets(const std::string &text, int at) {
  size_t open = text.find_first_not_of(" \t\r\n", at);
  if (open == std::string::npos || text[open] != '[')
    return at;
  int depth = 0;
  for (size_t i = open; i < text.size(); ++i) {
    depth += text[i] == '[' ? 1 : text[i] == ']' ? -1 : 0;
    if (depth == 0)
      return static_cast<int>(i) + 1;
  }
  return at;
}

std::pair<const FileSymbols *, int> FileSymbols::global(const std::string &name) const {
  if (auto own = top.find(name); own != top.end())
    return {this, own->second};
  if (auto other = imported.find(name); other != imported.end() && other->second)
    if (auto found = other->second->top.find(name); found != other->second->top.end())
      return {other->second, found->second};
  for (const FileSymbols *file : prelude)
    if (auto found = file->top.find(name); found != file->top.end())
      return {file, found->second};
  return {nullptr, -1};
}

const ModuleSymbols *FileSymbols::find_module(const std::string &name, const FileSymbols *&home) const {
  auto [file, number] = global(name);
  if (!file)
    return nullptr;
  const Definition &d = file->definitions[number];
  if (d.kind != Definition::module && d.kind != Definition::model)
    return nullptr;
  home = file;
  return &file->modules[d.module_number];
}

const ModuleSymbols *module_of(const Expr &e, const FileSymbols &file, const FileSymbols *&home) {
  if (e.kind == Expr::access && e.callee)
    return module_of(*e.callee, file, home);
  if (e.kind != Expr::name && e.kind != Expr::field)
    return nullptr;
  auto use = file.uses.find(name_span(e, file).begin);
  if (use == file.uses.end() || !use->second.file)
    return nullptr;
  const Definition &d = use->second.file->definitions[use->second.definition];
  return d.kind == Definition::sub ? use->second.file->find_module(d.made_of, home) : nullptr;
}

std::pair<const FileSymbols *, int> FileSymbols::at(int offset) const {
  auto after = uses.upper_bound(offset);
  if (after != uses.begin()) {
    const Use &use = std::prev(after)->second;
    if (offset <= use.span.end && use.file)
      return {use.file, use.definition};
  }
  for (size_t i = 0; i < definitions.size(); ++i)
    if (definitions[i].span.begin <= offset && offset <= definitions[i].span.end)
      return {this, static_cast<int>(i)};
  return {nullptr, -1};
}

std::vector<int> FileSymbols::visible(int offset) const {
  std::vector<int> out;
  for (size_t i = 0; i < definitions.size(); ++i)
    if (definitions[i].scope.begin <= offset && offset <= definitions[i].scope.end)
      out.push_back(static_cast<int>(i));
  auto size = [&](int i) { return definitions[i].scope.end - definitions[i].scope.begin; };
  std::sort(out.begin(), out.end(), [&](int a, int b) { return std::pair(size(a), a) < std::pair(size(b), b); });
  return out;
}

} // namespace heddle::server
