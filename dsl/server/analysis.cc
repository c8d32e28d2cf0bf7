// The checker runs with a listener for names; what it says about a place is kept under the name that is defined there.
#include "dsl/server/analysis.h"

#include "dsl/check/parts.h"
#include "dsl/syntax/parser.h"

#include <algorithm>
#include <deque>
#include <set>

namespace heddle::server {

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

/// Messages that something is not proven, which a requirement elsewhere may do.
static bool is_of_proofs(Code code) {
  return code == Code::E021 || code == Code::E022 || code == Code::E056 || code == Code::E060 || code == Code::E072;
}

static bool has_model(const syntax::File &tree) {
  return std::any_of(tree.declarations.begin(), tree.declarations.end(),
                     [](const syntax::Declaration &d) { return d.module_body && d.module_body->is_model; });
}

namespace {

/// One check of one file together with what it uses.
class Checked {
public:
  Checked(const std::string &path, const Texts &texts) : path_(path), texts_(texts) {
    int source = sources_.add(path, texts.read(path).value_or(""));
    tree_ = syntax::parse(sources_, source, diagnostics_);
  }

  bool has_model() const { return server::has_model(tree_); }

  /// The files that it reaches through `use`, itself included.
  std::set<std::string> reached() {
    std::set<std::string> out = {path_};
    std::vector<const syntax::File *> left = {&tree_};
    std::deque<syntax::File> others;
    while (!left.empty()) {
      const syntax::File &file = *left.back();
      left.pop_back();
      for (const syntax::Declaration &d : file.declarations)
        if (auto used = d.kind == syntax::Declaration::use ? texts_.used(path_, d.name.text) : std::nullopt)
          if (out.insert(used->first).second) {
            Diagnostics quiet(sources_);
            others.push_back(syntax::parse(sources_, sources_.add(used->first, used->second), quiet));
            left.push_back(&others.back());
          }
    }
    return out;
  }

  void run(Analysis &out) {
    CheckOptions options;
    options.settings.by_key = texts_.config(path_, out.config_error);
    options.find_file = [&](const std::string &name) {
      auto file = texts_.used(path_, name);
      return file ? sources_.add(file->first, file->second) : -1;
    };
    options.note = [&](Span at, const std::function<std::string()> &what) {
      std::string &known = said_[{at.file, at.begin}];
      if (known.empty())
        known = what();
    };
    if (has_model())
      check(sources_, tree_, options, diagnostics_);
    else
      parts_ = check_parts(sources_, tree_, options);
  }

  /// Adds what was found, of the file at `only` where that is not empty.
  void add_findings(Analysis &out, const std::string &only) const {
    std::vector<Diagnostic> all = diagnostics_.all();
    all.insert(all.end(), parts_.begin(), parts_.end());
    for (const Diagnostic &d : all) {
      Finding finding{d.span.valid() ? sources_.path(d.span.file) : path_, d.span.begin, d.span.end, d, {}};
      bool known = std::any_of(out.findings.begin(), out.findings.end(), [&](const Finding &other) {
        return other.path == finding.path && other.begin == finding.begin && other.diagnostic.code == d.code;
      });
      if (known || (!only.empty() && finding.path != only))
        continue;
      find_fix(finding, sources_, tree_);
      out.findings.push_back(std::move(finding));
    }
  }

  /// Adds what was said of names, under the names that are defined at those places.
  void add_notes(Analysis &out) {
    std::set<int> files;
    for (const auto &[at, what] : said_)
      files.insert(at.first);
    for (int file : files) {
      FileSymbols symbols;
      symbols.path = sources_.path(file);
      symbols.text = sources_.text(file);
      symbols.source = file;
      Diagnostics quiet(sources_);
      symbols.tree = syntax::parse(sources_, file, quiet);
      declare_symbols(symbols);
      resolve_uses(symbols);
      for (const Definition &definition : symbols.definitions)
        if (auto found = said_.find({file, definition.span.begin});
            found != said_.end() && !found->second.empty() && found->second != definition.name)
          out.notes.emplace(std::pair(symbols.path, definition.qualified), found->second);
    }
  }

private:
  std::string path_;
  const Texts &texts_;
  Sources sources_;
  Diagnostics diagnostics_{sources_};
  syntax::File tree_;
  std::vector<Diagnostic> parts_;
  std::map<std::pair<int, int>, std::string> said_; // by file and first byte
};

} // namespace

Analysis analyse(const std::string &path, int64_t version, const Texts &texts) {
  Analysis out;
  out.path = path;
  out.version = version;
  Checked own(path, texts);
  own.run(out);
  own.add_findings(out, "");
  own.add_notes(out);
  if (own.has_model())
    return out;
  // What only its callers know is what the models say that use it; what they require may prove what nothing else does.
  Analysis of_models;
  bool used = false;
  for (const std::string &other : texts.beside(path)) {
    Checked model(other, texts);
    if (other == path || !model.has_model() || !model.reached().count(path))
      continue;
    used = true;
    model.run(of_models);
    model.add_findings(of_models, path);
    model.add_notes(out);
  }
  auto said_in = [](const Analysis &analysis, const Finding &finding) {
    return std::any_of(analysis.findings.begin(), analysis.findings.end(), [&](const Finding &other) {
      return other.path == finding.path && other.begin == finding.begin &&
             other.diagnostic.code == finding.diagnostic.code;
    });
  };
  std::erase_if(out.findings, [&](const Finding &finding) {
    return used && is_of_proofs(finding.diagnostic.code) && !said_in(of_models, finding);
  });
  for (Finding &finding : of_models.findings)
    if (!said_in(out, finding))
      out.findings.push_back(std::move(finding));
  return out;
}

} // namespace heddle::server
