// The checker runs with a listener for names; what it says about a place is kept under the name that is defined there.
#include "dsl/server/analysis.h"

#include "dsl/syntax/parser.h"

#include <algorithm>
#include <set>

namespace heddle::server {

std::string folder_of(const std::string &path) {
  size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : path.substr(0, slash);
}

std::optional<std::string> Texts::read(const std::string &path) const {
  if (auto open = open_.find(path); open != open_.end())
    return open->second;
  return hooks_.read_text(path);
}

std::optional<std::pair<std::string, std::string>> Texts::used(const std::string &from, const std::string &name) const {
  std::string beside = folder_of(from) + "/" + name + ".heddle";
  if (auto text = read(beside))
    return std::pair(beside, *text);
  return hooks_.carried_model(name);
}

std::map<std::string, Value> Texts::config(const std::string &path, std::string &error) const {
  std::string beside = folder_of(path) + "/config.json";
  if (!hooks_.read_text(beside))
    return {};
  auto values = hooks_.read_config(beside);
  if (!values) {
    error = values.error().message;
    return {};
  }
  return *values;
}

/// The text between the last pair of backquotes of `help`.
static std::string last_quoted(const std::string &help) {
  size_t end = help.rfind('`');
  size_t begin = end == std::string::npos || end == 0 ? std::string::npos : help.rfind('`', end - 1);
  return begin == std::string::npos ? "" : help.substr(begin + 1, end - begin - 1);
}

/// The smallest access whose text holds the span.
static const syntax::Expr *access_around(const syntax::Expr &e, Span span) {
  if (span.begin < e.span.begin || span.end > e.span.end)
    return nullptr;
  const syntax::Expr *found = e.kind == syntax::Expr::access ? &e : nullptr;
  auto visit = [&](const syntax::ExprPtr &child) {
    if (child)
      if (const syntax::Expr *inner = access_around(*child, span))
        found = inner;
  };
  visit(e.callee);
  for (const auto &arg : e.args)
    visit(arg);
  for (const auto &place : e.places) {
    visit(place.expr);
    visit(place.upper);
    for (const auto &piece : place.pieces)
      visit(piece.expr);
  }
  visit(e.outside);
  return found;
}

static const syntax::Expr *access_around(const syntax::Block &block, Span span) {
  for (const syntax::Stmt &s : block) {
    for (const auto &e : s.exprs)
      if (auto found = access_around(*e, span))
        return found;
    for (const syntax::Block *inner : {&s.body, &s.otherwise})
      if (auto found = access_around(*inner, span))
        return found;
  }
  return nullptr;
}

static const syntax::Expr *access_around(const syntax::Function *fn, const syntax::Entry *entry, Span span) {
  if (fn && fn->expr)
    if (auto found = access_around(*fn->expr, span))
      return found;
  const syntax::Block *body = fn ? &fn->body : entry ? &entry->body : nullptr;
  return body ? access_around(*body, span) : nullptr;
}

static const syntax::Expr *access_around(const std::vector<syntax::Member> &members, Span span) {
  for (const syntax::Member &m : members) {
    if (auto found = access_around(m.fn.get(), m.entry_point.get(), span))
      return found;
    for (const auto *inner : {&m.members, &m.otherwise})
      if (auto found = access_around(*inner, span))
        return found;
  }
  return nullptr;
}

static const syntax::Expr *access_around(const syntax::File &tree, Span span) {
  for (const syntax::Declaration &d : tree.declarations) {
    if (auto found = access_around(d.fn.get(), nullptr, span))
      return found;
    if (d.module_body)
      if (auto found = access_around(d.module_body->members, span))
        return found;
  }
  return nullptr;
}

/// Cures that are a replacement: the nearest name, a value for what lies outside, `_`.
static void find_fix(Finding &finding, const Sources &sources, const syntax::File &tree) {
  const Diagnostic &d = finding.diagnostic;
  finding.fix_begin = finding.begin;
  finding.fix_end = finding.end;
  if (d.help.starts_with("did you mean `")) {
    finding.fix = last_quoted(d.help);
    std::string_view at = sources.slice(d.span); // of `a.b` only `b` is wrong
    if (size_t dot = at.rfind('.'); dot != std::string_view::npos)
      finding.fix_begin += static_cast<int>(dot) + 1;
  } else if (d.code == Code::E036) {
    finding.fix = "_";
  } else if (d.code == Code::E021 || d.code == Code::E022) {
    if (d.span.file != tree.source)
      return;
    const syntax::Expr *access = access_around(tree, d.span);
    std::string cure = last_quoted(d.help);
    if (cure.empty() && d.help.find('(') != std::string::npos)
      return;
    if (access && cure.ends_with("]")) {
      finding.fix = cure;
      finding.fix_begin = access->span.begin;
      finding.fix_end = access->span.end;
    }
  }
}

Analysis analyse(const std::string &path, const std::string &text, int version, const Texts &texts) {
  Analysis out;
  out.path = path;
  out.version = version;
  Sources sources;
  Diagnostics diagnostics(sources);
  int source = sources.add(path, text);
  FileSymbols symbols;
  symbols.path = path;
  symbols.text = text;
  symbols.source = source;
  symbols.tree = syntax::parse(sources, source, diagnostics);
  bool slipped = diagnostics.has_errors();

  CheckOptions options;
  options.settings.by_key = texts.config(path, out.config_error);
  std::vector<int> used;
  options.find_file = [&](const std::string &name) {
    auto file = texts.used(path, name);
    if (!file)
      return -1;
    used.push_back(sources.add(file->first, file->second));
    return used.back();
  };
  std::map<std::pair<int, int>, std::string> said; // by file and first byte
  options.note = [&](Span at, const std::function<std::string()> &what) {
    std::string &known = said[{at.file, at.begin}];
    if (known.empty())
      known = what();
  };
  bool has_model = std::any_of(symbols.tree.declarations.begin(), symbols.tree.declarations.end(),
                               [](const auto &d) { return d.module_body && d.module_body->is_model; });
  // A tree with slips is checked too, for what it tells about its names; what it lacks is no news.
  Diagnostics ignored(sources);
  check(sources, symbols.tree, options, slipped || !has_model ? ignored : diagnostics);

  for (const Diagnostic &d : diagnostics.all()) {
    Finding finding{d.span.valid() ? sources.path(d.span.file) : path, d.span.begin, d.span.end, d, {}};
    find_fix(finding, sources, symbols.tree);
    out.findings.push_back(std::move(finding));
  }

  // What was said, under the names that are defined at those places.
  find_symbols(symbols);
  std::vector<FileSymbols> files;
  std::set<int> others;
  for (const auto &[at, what] : said)
    if (at.first != source)
      others.insert(at.first);
  auto keep = [&](const FileSymbols &file) {
    for (const Definition &definition : file.definitions)
      if (auto found = said.find({file.source, definition.span.begin}); found != said.end() && !found->second.empty())
        out.notes.emplace(std::pair(file.path, definition.qualified), found->second);
  };
  keep(symbols);
  for (int other : others) {
    FileSymbols file;
    file.path = sources.path(other);
    file.text = sources.text(other);
    file.source = other;
    Diagnostics quiet(sources);
    file.tree = syntax::parse(sources, other, quiet);
    find_symbols(file);
    keep(file);
  }
  return out;
}

} // namespace heddle::server
