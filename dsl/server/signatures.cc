// Signature help: what the call takes whose parentheses the cursor stands in, which of it comes next, and what the
// comment beside the function says of each.
#include "dsl/server/cursor.h"
#include "dsl/server/server.h"
#include "dsl/server/words.h"

#include "llvm/ADT/StringExtras.h"

#include <algorithm>

namespace heddle::server {

using syntax::Token;

namespace {

/// What a comment says of parameters: `x: the new inputs. u, w: the two biases.`, by name.
std::map<std::string, std::string> about_parameters(const std::string &comment, const std::vector<std::string> &names) {
  auto word = [&](size_t at) {
    size_t end = at;
    while (end < comment.size() && (llvm::isAlnum(comment[end]) || comment[end] == '_'))
      ++end;
    return comment.substr(at, end - at);
  };
  auto known = [&](const std::string &name) { return std::find(names.begin(), names.end(), name) != names.end(); };
  std::map<std::string, std::string> out;
  std::vector<std::string> described; // by the part that is being read
  size_t begin = 0;
  auto close = [&](size_t end) {
    llvm::StringRef text = llvm::StringRef(comment).slice(begin, end).trim();
    for (const std::string &name : described)
      out.emplace(name, text.str());
  };
  for (size_t at = 0; at < comment.size(); ++at) {
    if (at > 0 && comment[at - 1] != ' ' && comment[at - 1] != '\n')
      continue;
    std::vector<std::string> list = {word(at)};
    size_t end = at + list[0].size();
    while (known(list.back()) && comment.compare(end, 2, ", ") == 0) {
      list.push_back(word(end + 2));
      end += 2 + list.back().size();
    }
    if (!std::all_of(list.begin(), list.end(), known) || comment.compare(end, 2, ": ") != 0)
      continue;
    close(at);
    described = list;
    begin = at = end + 2;
  }
  close(comment.size());
  return out;
}

/// A label that is put together part by part, of which some are parameters.
class Signature {
public:
  explicit Signature(std::string name) { out_.label = std::move(name) + "("; }

  void parameter(std::string_view text, const std::string &about = "") {
    if (!out_.parameters.empty())
      out_.label += ", ";
    unsigned begin = units();
    for (char c : text) // on one line
      if (!llvm::isSpace(c) || !llvm::isSpace(out_.label.back()))
        out_.label += llvm::isSpace(c) ? ' ' : c;
    lsp::ParameterInformation &one = out_.parameters.emplace_back();
    one.labelOffsets = {begin, units()};
    one.documentation = about;
  }
  lsp::SignatureInformation end(const std::string &rest, const std::string &about) {
    out_.label += ")" + rest;
    out_.documentation = about;
    return std::move(out_);
  }

private:
  unsigned units() const { return Text(out_.label).position(static_cast<int>(out_.label.size())).character; }
  lsp::SignatureInformation out_;
};

lsp::SignatureInformation of_function(const FileSymbols &file, const Definition &definition, const std::string &name) {
  const syntax::Function &fn = *definition.fn;
  auto text = [&](int begin, int end) { return std::string_view(file.text).substr(begin, end - begin); };
  std::string comment = file.comment(definition);
  std::vector<std::string> names;
  for (const syntax::Formal &formal : fn.formals)
    names.push_back(formal.name.text);
  auto about = about_parameters(comment, names);
  Signature out(name);
  for (const syntax::Formal &formal : fn.formals)
    out.parameter(text(formal.name.span.begin, formal.type.span.end), about[formal.name.text]);
  std::string results;
  for (const syntax::Type &type : fn.results)
    results += std::string(results.empty() ? "" : ", ") + std::string(text(type.span.begin, type.span.end));
  return out.end(" -> " + (fn.results.size() > 1 ? "(" + results + ")" : results), comment);
}

lsp::SignatureInformation of_module(const FileSymbols &file, const Definition &definition) {
  const syntax::Module &module = *file.modules[definition.module_number].tree;
  std::string comment = file.comment(definition);
  std::vector<std::string> names;
  for (const syntax::Name &size : module.sizes)
    names.push_back(size.text);
  auto about = about_parameters(comment, names);
  Signature out(definition.name);
  for (const std::string &size : names)
    out.parameter(size, about[size]);
  return out.end("", comment);
}

/// What the name before the parenthesis is, as something that is called; nullopt: nothing that is.
std::optional<lsp::SignatureInformation> signature_of(const Cursor::Named &named) {
  const Definition &definition = named.file->definitions[named.definition];
  if (definition.fn)
    return of_function(*named.file, definition, definition.name);
  if (definition.kind == Definition::module)
    return of_module(*named.file, definition);
  if (definition.kind != Definition::sub)
    return std::nullopt;
  const FileSymbols *home = nullptr;
  const ModuleSymbols *module = named.file->find_module(definition.made_of, home);
  auto call = module ? module->members.find("call") : std::map<std::string, int>::const_iterator();
  if (!module || call == module->members.end() || !home->definitions[call->second].fn)
    return std::nullopt;
  return of_function(*home, home->definitions[call->second], definition.name);
}

/// `max(x, y)`, `real(x)`, `sum[i](x)`: what the language itself calls so.
std::optional<lsp::SignatureInformation> signature_of_word(const std::string &name, bool subscripts) {
  if (syntax::is_reducer(name) && subscripts) {
    Signature out(name + "[i]");
    out.parameter("x");
    return out.end("", word_help(name));
  }
  if (syntax::is_scalar_type(name)) {
    Signature out(name);
    out.parameter(name == "index" ? "N" : "x");
    return out.end(name == "index" ? "(n)" : "", word_help(name));
  }
  for (const BuiltIn &function : builtin_functions())
    if (function.name == name) {
      Signature out(name);
      for (int i = 0; i < function.arguments; ++i)
        out.parameter(i == 0 ? "x" : "y");
      return out.end("", word_help(name));
    }
  return std::nullopt;
}

} // namespace

Answer Server::signature_help(Document &d, const PositionParams &params) {
  Cursor cursor(symbols(d), d.text.offset(params.position));
  if (cursor.in != Cursor::code)
    return nullptr;
  // Backwards to the parenthesis that is open here, out of those that only group.
  int depth = 0, commas = 0;
  for (size_t i = cursor.tokens.size(); i-- > 0;) {
    std::string_view text = cursor.tokens[i].text;
    if (cursor.tokens[i].kind != Token::symbol)
      continue;
    if (text == ")" || text == "]") {
      ++depth;
    } else if (depth > 0) {
      depth -= text == "(" || text == "[";
    } else if (text == ",") {
      ++commas;
    } else if (text == "{" || text == "}") {
      break;
    } else if (text == "[") {
      commas = 0;
    } else if (text == "(") {
      Cursor::Named named = cursor.named_before(i);
      std::string_view before = named.first > 0 ? cursor.tokens[named.first - 1].text : "";
      if (before == "fn" || before == "entry" || before == "module")
        return nullptr; // it is being declared
      auto signature =
          named.file ? signature_of(named) : signature_of_word(named.name, cursor.tokens[i - (i > 0)].text == "]");
      if (!signature) {
        commas = 0;
        continue;
      }
      lsp::SignatureHelp help;
      help.signatures = {*signature};
      help.activeParameter = commas;
      return help;
    }
  }
  return nullptr;
}

} // namespace heddle::server
