// What may stand at the cursor. The text in front of it is read as tokens, for while one types there is no tree: after
// a dot the members of what stands before it, in the string of a config the keys of config.json, in a `use` the names
// of the file, elsewhere the names that this place sees.
#include "dsl/server/server.h"

#include "dsl/syntax/lexer.h"

#include <algorithm>

namespace heddle::server {

using syntax::Token;

namespace {

// The protocol's numbers of kinds of completions.
constexpr int kind_method = 2, kind_function = 3, kind_field = 5, kind_variable = 6, kind_class = 7, kind_module = 9,
              kind_property = 10, kind_keyword = 14, kind_snippet = 15, kind_constant = 21, kind_type = 25;

int item_kind(const Definition &d) {
  switch (d.kind) {
  case Definition::function:
    return kind_function;
  case Definition::entry:
    return kind_method;
  case Definition::module:
  case Definition::model:
    return kind_class;
  case Definition::param:
  case Definition::state:
    return kind_field;
  case Definition::sub:
    return kind_module;
  case Definition::config:
  case Definition::dim:
  case Definition::size:
    return kind_constant;
  default:
    return kind_variable;
  }
}

/// Whether the cursor stands in a string of this line, and what precedes the string.
bool in_string(const std::string &text, int offset, std::string &before) {
  size_t newline = offset > 0 ? text.rfind('\n', offset - 1) : std::string::npos;
  int begin = newline == std::string::npos ? 0 : static_cast<int>(newline) + 1;
  int open = -1;
  for (int i = begin; i < offset; ++i) {
    if (open < 0 && text[i] == '#')
      return false;
    if (open >= 0 && text[i] == '\\')
      ++i;
    else if (text[i] == '"')
      open = open < 0 ? i : -1;
  }
  if (open >= 0)
    before = text.substr(begin, open - begin);
  return open >= 0;
}

bool in_comment(const std::string &text, int offset) {
  size_t newline = offset > 0 ? text.rfind('\n', offset - 1) : std::string::npos;
  bool string = false;
  for (int i = newline == std::string::npos ? 0 : static_cast<int>(newline) + 1; i < offset; ++i) {
    if (text[i] == '"')
      string = !string;
    if (text[i] == '#' && !string)
      return true;
  }
  return false;
}

/// The tokens that end before `offset`.
std::vector<Token> tokens_before(const std::string &text, int offset, Sources &sources) {
  Diagnostics ignored(sources);
  int source = sources.add("", text.substr(0, offset));
  std::vector<Token> tokens = syntax::lex(sources, source, ignored).list;
  tokens.pop_back(); // the end
  return tokens;
}

} // namespace

Json Server::completion(Document &d, const Json &params) {
  const Json &position = params.at("position");
  auto number = [&](const char *key) {
    return static_cast<int>(std::clamp<int64_t>(position.at(key).get<int64_t>(), 0, INT32_MAX));
  };
  int offset = d.text.offset({number("line"), number("character")});
  const FileSymbols &own = symbols(d);
  Json items = Json::array();
  std::set<std::string> taken;
  auto add = [&](const std::string &label, int kind, const std::string &detail, const std::string &about = "",
                 const std::string &snippet = "") {
    if (!taken.insert(label).second)
      return;
    Json item = {{"label", label}, {"kind", kind}};
    if (!detail.empty())
      item["detail"] = detail;
    if (!about.empty())
      item["documentation"] = {{"kind", "markdown"}, {"value", about}};
    if (!snippet.empty()) {
      item["insertText"] = snippet;
      item["insertTextFormat"] = 2;
    }
    items.push_back(std::move(item));
  };
  auto add_definition = [&](const FileSymbols &file, const Definition &definition) {
    std::string note = note_of(d, file, definition);
    std::string detail = definition.fn || note.empty() ? file.signature(definition) : note;
    add(definition.name, item_kind(definition), detail.substr(0, detail.find('\n')), file.comment(definition));
  };
  Json result = {{"isIncomplete", false}};
  auto done = [&] {
    result["items"] = std::move(items);
    return result;
  };

  std::string before;
  if (in_string(own.text, offset, before)) {
    if (before.find("config") != std::string::npos || before.find(',') != std::string::npos) {
      std::string ignored;
      for (const auto &[key, value] : texts().config(d.path, ignored))
        add(key, kind_property, "of config.json");
    }
    return done();
  }
  if (in_comment(own.text, offset))
    return done();

  Sources sources;
  std::vector<Token> tokens = tokens_before(own.text, offset, sources);
  // What is being typed is no name yet.
  if (!tokens.empty() && tokens.back().span.end == offset &&
      (tokens.back().kind == Token::name || tokens.back().kind == Token::keyword))
    tokens.pop_back();
  auto is = [&](size_t from_end, std::string_view text) {
    return tokens.size() > from_end && tokens[tokens.size() - 1 - from_end].text == text;
  };

  // --- a.b[i].
  if (is(0, ".")) {
    std::vector<std::string> path;
    size_t at = tokens.size() - 1;
    for (;;) { // backwards over `.name` and `[…]`
      if (at == 0)
        return done();
      --at;
      int depth = 0;
      while (tokens[at].text == "]" || depth > 0) {
        depth += tokens[at].text == "]" ? 1 : tokens[at].text == "[" ? -1 : 0;
        if (at == 0)
          return done();
        --at;
      }
      if (tokens[at].kind != Token::name)
        return done();
      path.insert(path.begin(), std::string(tokens[at].text));
      if (at == 0 || tokens[at - 1].text != ".")
        break;
      --at;
    }
    const FileSymbols *home = &own;
    const ModuleSymbols *module = nullptr;
    for (size_t i = 0; i < path.size(); ++i) {
      const Definition *definition = nullptr;
      if (i == 0) {
        for (int number : own.visible(tokens[at].span.begin))
          if (own.definitions[number].name == path[0] && !definition)
            definition = &own.definitions[number];
      } else if (auto member = module->members.find(path[i]); member != module->members.end()) {
        definition = &home->definitions[member->second];
      }
      if (!definition || definition->kind != Definition::sub)
        return done();
      module = home->find_module(definition->made_of, home);
      if (!module)
        return done();
    }
    for (const auto &[name, member] : module->members)
      add_definition(*home, home->definitions[member]);
    return done();
  }

  // --- use file: names
  size_t line_start = tokens.size();
  while (line_start > 0 && !(tokens[line_start - 1].kind == Token::keyword && tokens[line_start - 1].text == "use") &&
         (tokens[line_start - 1].kind == Token::name || tokens[line_start - 1].text == "," ||
          tokens[line_start - 1].text == ":"))
    --line_start;
  if (line_start > 0 && tokens[line_start - 1].text == "use") {
    size_t given = tokens.size() - line_start;
    if (given == 0) {
      for (const syntax::Declaration &declaration : own.tree.declarations)
        taken.insert(declaration.name.text);
      return done();
    }
    if (auto used = texts().used(d.path, std::string(tokens[line_start].text)))
      for (const FileSymbols *other = file(used->first, used->second); const auto &[name, member] : other->top)
        if (auto kind = other->definitions[member].kind; kind == Definition::function || kind == Definition::module)
          add_definition(*other, other->definitions[member]);
    return done();
  }

  // --- sub x = Module
  bool after_sub = false;
  if (is(0, "="))
    for (size_t i = tokens.size(); i-- > 0 && !tokens[i].first;)
      after_sub |= i > 0 && tokens[i - 1].text == "sub";
  auto every_global = [&](auto wanted) {
    for (const auto &[name, member] : own.top)
      if (wanted(own.definitions[member]))
        add_definition(own, own.definitions[member]);
    for (const auto &[name, other] : own.imported)
      if (auto found = other->top.find(name); found != other->top.end() && wanted(other->definitions[found->second]))
        add_definition(*other, other->definitions[found->second]);
    for (const FileSymbols *file : prelude())
      for (const auto &[name, member] : file->top)
        if (wanted(file->definitions[member]))
          add_definition(*file, file->definitions[member]);
  };
  if (after_sub) {
    every_global([](const Definition &definition) { return definition.kind == Definition::module; });
    return done();
  }

  // --- a type
  if (is(0, ":") || is(0, "->"))
    for (const char *type : {"real", "f32", "bf16", "f16", "i8", "i32", "bool"})
      add(type, kind_type, "type", word_help(type));
  if (is(0, ":") || is(0, "->"))
    add("index", kind_type, "type", word_help("index"), "index(${1:N})");

  // --- any name that is seen here
  for (int seen : own.visible(offset))
    if (const Definition &definition = own.definitions[seen];
        definition.span.end < offset || definition.scope.begin < definition.span.begin)
      add_definition(own, definition);
  every_global([](const Definition &definition) { return definition.kind != Definition::model; });
  for (const std::string &name : builtin_functions())
    if (!syntax::is_reducer(name))
      add(name, kind_function, "built in", word_help(name));
  for (const char *reducer : {"sum", "prod", "max", "min", "mean", "argmax", "argmin", "any", "all"})
    add(reducer, kind_snippet, "reduction", word_help(reducer), std::string(reducer) + "[${1:i}]($0)");
  for (const char *word :
       {"if", "then",  "else",   "for",   "in",     "with", "let", "return", "require", "param", "sub", "state",
        "fn", "entry", "module", "model", "config", "dim",  "use", "stored", "and",     "or",    "not", "where"})
    add(word, kind_keyword, "", word_help(word));
  return done();
}

} // namespace heddle::server
