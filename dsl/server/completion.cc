// What may stand at the cursor: after a dot the members of what stands before it, in the string of a config the keys of
// config.json, in a `use` the names of the file, elsewhere the names that this place sees and the words of the
// language.
#include "dsl/server/cursor.h"
#include "dsl/server/server.h"
#include "dsl/server/words.h"

namespace heddle::server {

using syntax::Token;
using Kind = lsp::CompletionItemKind;

namespace {

Kind item_kind(const Definition &d) {
  switch (d.kind) {
  case Definition::function:
    return Kind::Function;
  case Definition::entry:
    return Kind::Method;
  case Definition::module:
  case Definition::model:
    return Kind::Class;
  case Definition::param:
  case Definition::state:
    return Kind::Field;
  case Definition::sub:
    return Kind::Module;
  case Definition::config:
  case Definition::dim:
  case Definition::size:
    return Kind::Constant;
  default:
    return Kind::Variable;
  }
}

bool is_module(const Definition &d) { return d.kind == Definition::module; }
bool is_shared(const Definition &d) { return d.kind == Definition::module || d.kind == Definition::function; }
bool is_no_model(const Definition &d) { return d.kind != Definition::model; }

/// The items of one answer, each name once: what comes first hides the rest.
class Items {
public:
  using Note = std::function<std::string(const FileSymbols &, const Definition &)>;

  explicit Items(Note note) : note_(std::move(note)) {}

  void hide(const std::string &name) { taken_.insert(name); }
  void add(std::string_view label, Kind kind, const std::string &detail, const std::string &about = "",
           const std::string &snippet = "") {
    if (!taken_.insert(std::string(label)).second)
      return;
    lsp::CompletionItem &item = list_.items.emplace_back();
    item.label = label;
    item.kind = kind;
    item.detail = detail;
    if (!about.empty())
      item.documentation = lsp::MarkupContent{lsp::MarkupKind::Markdown, about};
    if (!snippet.empty()) {
      item.insertText = snippet;
      item.insertTextFormat = lsp::InsertTextFormat::Snippet;
    }
  }
  void add(const FileSymbols &file, const Definition &definition) {
    std::string note = note_(file, definition);
    std::string detail = definition.fn || note.empty() ? file.signature(definition) : note;
    add(definition.name, item_kind(definition), detail.substr(0, detail.find('\n')), file.comment(definition));
  }
  /// Of the names that `file` declares those that are wanted.
  void add_declared(const FileSymbols &file, bool (*wanted)(const Definition &)) {
    for (const auto &[name, number] : file.top)
      if (wanted(file.definitions[number]))
        add(file, file.definitions[number]);
  }
  /// The same for what every place of `file` sees.
  void add_global(const FileSymbols &file, bool (*wanted)(const Definition &)) {
    add_declared(file, wanted);
    for (const auto &[name, other] : file.imported)
      if (auto found = other->top.find(name); found != other->top.end() && wanted(other->definitions[found->second]))
        add(*other, other->definitions[found->second]);
    for (const FileSymbols *prelude : file.prelude)
      add_declared(*prelude, wanted);
  }
  /// `layers[l].`: the members of the module.
  void add_members(const Cursor::Named &named) {
    if (!named.file)
      return;
    const FileSymbols *home = nullptr;
    const Definition &sub = named.file->definitions[named.definition];
    const ModuleSymbols *module = sub.kind == Definition::sub ? named.file->find_module(sub.made_of, home) : nullptr;
    if (module)
      for (const auto &[name, member] : module->members)
        add(*home, home->definitions[member]);
  }
  void add_types() {
    for (std::string_view type : syntax::all_scalar_types())
      add(type, Kind::TypeParameter, "type", word_help(std::string(type)), type == "index" ? "index(${1:N})" : "");
  }
  void add_words() {
    for (const BuiltIn &function : builtin_functions())
      if (!syntax::is_reducer(function.name))
        add(function.name, Kind::Function, "built in", word_help(function.name));
    for (std::string_view reducer : syntax::all_reducers())
      add(reducer, Kind::Snippet, "reduction", word_help(std::string(reducer)), std::string(reducer) + "[${1:i}]($0)");
    for (std::string_view word : syntax::all_keywords())
      add(word, Kind::Keyword, "", word_help(std::string(word)));
  }

  lsp::CompletionList take() { return std::move(list_); }

private:
  Note note_;
  lsp::CompletionList list_;
  std::set<std::string> taken_;
};

/// The tokens behind the `use` that the cursor stands in: the file's name, what is taken from it. Nullopt: in none.
std::optional<std::vector<std::string>> use_before(const Cursor &cursor) {
  std::vector<std::string> out;
  for (size_t i = cursor.tokens.size(); i-- > 0;) {
    const Token &token = cursor.tokens[i];
    if (token.kind == Token::keyword && token.text == "use")
      return out;
    if (token.kind != Token::name && token.text != "," && token.text != ":")
      return std::nullopt;
    out.insert(out.begin(), std::string(token.text));
  }
  return std::nullopt;
}

/// `sub x = `
bool after_sub(const Cursor &cursor) {
  bool found = false;
  if (cursor.is(0, "="))
    for (size_t i = cursor.tokens.size(); i-- > 0 && !cursor.tokens[i].first;)
      found |= i > 0 && cursor.tokens[i - 1].text == "sub";
  return found;
}

} // namespace

Answer Server::completion(Document &d, const PositionParams &params) {
  const FileSymbols &own = symbols(d);
  Cursor cursor(own, d.text.offset(params.position));
  Items items([&](const FileSymbols &file, const Definition &definition) { return note_of(d, file, definition); });
  if (cursor.in == Cursor::comment)
    return items.take();
  if (cursor.in == Cursor::string) {
    std::string ignored;
    if (llvm::StringRef(cursor.before_string).contains("config") || llvm::StringRef(cursor.before_string).contains(','))
      for (const auto &[key, value] : files_.texts().config(d.path, ignored))
        items.add(key, Kind::Property, "of config.json");
    return items.take();
  }
  // What is being typed is no name yet.
  auto &tokens = cursor.tokens;
  if (!tokens.empty() && tokens.back().span.end == cursor.offset &&
      (tokens.back().kind == Token::name || tokens.back().kind == Token::keyword))
    tokens.pop_back();

  if (cursor.is(0, ".")) {
    items.add_members(cursor.named_before(tokens.size() - 1));
  } else if (auto use = use_before(cursor)) {
    if (use->empty()) { // the files beside this one
      for (const std::string &path : files_.texts().beside(d.path))
        if (llvm::StringRef name = llvm::StringRef(path).rsplit('/').second;
            path != d.path && name.consume_back(".heddle"))
          items.add(std::string_view(name), Kind::File, "file");
    } else if (const FileSymbols *used = files_.used(d.path, use->front())) {
      items.add_declared(*used, is_shared);
    }
  } else if (after_sub(cursor)) {
    items.add_global(own, is_module);
  } else {
    if (cursor.is(0, ":") || cursor.is(0, "->"))
      items.add_types();
    for (int seen : own.visible(cursor.offset))
      if (const Definition &definition = own.definitions[seen];
          definition.span.end < cursor.offset || definition.scope.begin < definition.span.begin)
        items.add(own, definition);
    items.add_global(own, is_no_model);
    items.add_words();
  }
  return items.take();
}

} // namespace heddle::server
