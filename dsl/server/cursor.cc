// Strings and comments end with their line, so that the line in front of the cursor says what it stands in.
#include "dsl/server/cursor.h"

namespace heddle::server {

using syntax::Token;

Cursor::Cursor(const FileSymbols &file, int offset) : file(file), offset(offset) {
  const std::string &text = file.text;
  size_t newline = offset > 0 ? text.rfind('\n', offset - 1) : std::string::npos;
  int begin = newline == std::string::npos ? 0 : static_cast<int>(newline) + 1;
  int open = 0;
  for (int i = begin; i < offset && in != comment; ++i) {
    if (in == code && text[i] == '#') {
      in = comment;
    } else if (in == string && text[i] == '\\') {
      ++i;
    } else if (in == string && text[i] == text[open]) {
      in = code;
    } else if (in == code && (text[i] == '"' || text[i] == '\'')) {
      in = string;
      open = i;
    }
  }
  if (in == string)
    before_string = text.substr(begin, open - begin);
  Diagnostics ignored(sources_);
  tokens = syntax::lex(sources_, sources_.add("", text.substr(0, offset)), ignored).list;
  tokens.pop_back(); // the end
}

bool Cursor::is(size_t from_end, std::string_view text) const {
  return tokens.size() > from_end && tokens[tokens.size() - 1 - from_end].text == text;
}

Cursor::Named Cursor::named_before(size_t end) const {
  // Backwards over `.name` and `[…]`.
  std::vector<std::string> path;
  size_t at = end;
  for (;;) {
    int depth = 0;
    while (at > 0 && (tokens[at - 1].text == "]" || depth > 0)) {
      depth += tokens[at - 1].text == "]" ? 1 : tokens[at - 1].text == "[" ? -1 : 0;
      --at;
    }
    if (at == 0 || (tokens[at - 1].kind != Token::name && tokens[at - 1].kind != Token::keyword))
      return {};
    path.insert(path.begin(), std::string(tokens[--at].text));
    if (at == 0 || tokens[at - 1].text != ".")
      break;
    --at;
  }
  Named out{nullptr, -1, at, path.back()};
  // Forwards from the first name through the members of modules.
  const FileSymbols *home = nullptr;
  int number = -1;
  for (int seen : file.visible(tokens[at].span.begin))
    if (!home && file.definitions[seen].name == path[0]) {
      home = &file;
      number = seen;
    }
  if (!home)
    std::tie(home, number) = file.global(path[0]);
  for (size_t i = 1; home && i < path.size(); ++i) {
    const Definition &sub = home->definitions[number];
    const ModuleSymbols *module = sub.kind == Definition::sub ? home->find_module(sub.made_of, home) : nullptr;
    auto member = module ? module->members.find(path[i]) : std::map<std::string, int>::const_iterator();
    if (!module || member == module->members.end())
      return out;
    number = member->second;
  }
  out.file = home;
  out.definition = number;
  return out;
}

} // namespace heddle::server
