// Answers about a place in a document. Hover joins what the text says (declaration, comment) with what the last check
// found out (type and shape).
#include "dsl/server/server.h"

#include "dsl/syntax/lexer.h"
#include "dsl/syntax/parser.h"

#include <algorithm>

namespace heddle::server {

static int offset_of(const Text &text, const Json &params) {
  const Json &position = params.at("position");
  auto number = [](const Json &n) { return static_cast<int>(std::clamp<int64_t>(n.get<int64_t>(), 0, INT32_MAX)); };
  return text.offset({number(position.at("line")), number(position.at("character"))});
}

/// The word around an offset, and where it is.
static std::string word_at(const std::string &text, int offset, int &begin, int &end) {
  auto part = [&](int i) { return std::isalnum((unsigned char)text[i]) || text[i] == '_'; };
  begin = end = offset;
  while (begin > 0 && part(begin - 1))
    --begin;
  while (end < static_cast<int>(text.size()) && part(end))
    ++end;
  return text.substr(begin, end - begin);
}

Json Server::hover(Document &d, const Json &params) {
  int offset = offset_of(d.text, params);
  const FileSymbols &own = symbols(d);
  auto [file, number] = own.at(offset);
  int begin = 0, end = 0;
  std::string word = word_at(own.text, offset, begin, end), says;
  if (file) {
    const Definition &definition = file->definitions[number];
    std::string note = note_of(d, *file, definition);
    says = "```heddle\n" + file->signature(definition) + "\n```";
    if (!note.empty())
      says += "\n\n`" + definition.name + "`: `" + note + "`";
    if (std::string comment = file->comment(definition); !comment.empty())
      says += "\n\n" + comment;
  } else if (std::string help = word_help(word); !help.empty()) {
    says = help;
  } else {
    return nullptr;
  }
  return {{"contents", {{"kind", "markdown"}, {"value", says}}}, {"range", range(d.text, begin, end)}};
}

Json Server::definition(Document &d, const Json &params) {
  auto [file, number] = symbols(d).at(offset_of(d.text, params));
  return file ? location(*file, file->definitions[number].span) : Json(nullptr);
}

/// Places in one file of a definition and its uses.
static std::vector<Span> places_of(const FileSymbols &own, const FileSymbols *file, int number) {
  std::vector<Span> out;
  if (file == &own)
    out.push_back(own.definitions[number].span);
  for (const auto &[begin, use] : own.uses)
    if (use.file == file && use.definition == number)
      out.push_back(use.span);
  std::sort(out.begin(), out.end(), [](Span a, Span b) { return a.begin < b.begin; });
  return out;
}

Json Server::references(Document &d, const Json &params) {
  const FileSymbols &own = symbols(d);
  auto [file, number] = own.at(offset_of(d.text, params));
  Json out = Json::array();
  if (!file)
    return out;
  bool declaration = !params.contains("context") || params["context"].value("includeDeclaration", true);
  for (Span span : places_of(own, file, number))
    if (declaration || file != &own || span.begin != file->definitions[number].span.begin)
      out.push_back({{"uri", d.uri}, {"range", range(d.text, span.begin, span.end)}});
  return out;
}

Json Server::highlights(Document &d, const Json &params) {
  const FileSymbols &own = symbols(d);
  auto [file, number] = own.at(offset_of(d.text, params));
  Json out = Json::array();
  if (file)
    for (Span span : places_of(own, file, number))
      out.push_back({{"range", range(d.text, span.begin, span.end)}});
  return out;
}

/// The protocol's numbers of kinds of symbols.
static int symbol_kind(Definition::Kind kind) {
  switch (kind) {
  case Definition::module:
  case Definition::model:
    return 5; // class
  case Definition::function:
    return 12;
  case Definition::entry:
    return 6; // method
  case Definition::param:
  case Definition::state:
    return 8; // field
  case Definition::sub:
    return 19; // object
  case Definition::config:
  case Definition::dim:
    return 14; // constant
  default:
    return 13; // variable
  }
}

Json Server::document_symbols(Document &d) {
  const FileSymbols &own = symbols(d);
  auto item = [&](const Definition &definition) -> Json {
    bool fn = definition.fn || definition.entry_point;
    Json out = {{"name", definition.name},
                {"kind", symbol_kind(definition.kind)},
                {"range", range(d.text, std::min(definition.whole.begin, definition.span.begin),
                                std::max(definition.whole.end, definition.span.end))},
                {"selectionRange", range(d.text, definition.span.begin, definition.span.end)}};
    std::string detail = own.signature(definition);
    if (!fn && detail.find('\n') == std::string::npos)
      out["detail"] = detail;
    return out;
  };
  Json out = Json::array();
  std::vector<std::pair<std::string, int>> top(own.top.begin(), own.top.end());
  std::sort(top.begin(), top.end(), [&](const auto &a, const auto &b) {
    return own.definitions[a.second].span.begin < own.definitions[b.second].span.begin;
  });
  for (const auto &[name, number] : top) {
    const Definition &definition = own.definitions[number];
    Json one = item(definition);
    if (definition.kind == Definition::module || definition.kind == Definition::model) {
      const auto &members = own.modules[definition.module_number].members;
      std::vector<int> inside;
      for (const auto &[member, at] : members)
        if (own.definitions[at].kind != Definition::size)
          inside.push_back(at);
      std::sort(inside.begin(), inside.end(),
                [&](int a, int b) { return own.definitions[a].span.begin < own.definitions[b].span.begin; });
      one["children"] = Json::array();
      for (int at : inside)
        one["children"].push_back(item(own.definitions[at]));
    }
    out.push_back(std::move(one));
  }
  return out;
}

Json Server::formatting(Document &d) {
  Sources sources;
  Diagnostics diagnostics(sources);
  int source = sources.add(d.path, d.text.text());
  syntax::File tree = syntax::parse(sources, source, diagnostics);
  if (diagnostics.has_errors())
    return nullptr; // the messages say why
  std::string after = syntax::print(sources, tree);
  if (after == d.text.text())
    return Json::array();
  int end = static_cast<int>(d.text.text().size());
  return Json::array({{{"range", range(d.text, 0, end)}, {"newText", after}}});
}

Json Server::code_actions(Document &d, const Json &params) {
  Json out = Json::array();
  const Json &wanted = params.at("range");
  auto offset = [&](const char *end) {
    Json at = {{"position", wanted.at(end)}};
    return offset_of(d.text, at);
  };
  int from = offset("start"), to = offset("end");
  if (d.analysis.version != d.version)
    return out; // its places are those of another text
  for (const Finding &finding : d.analysis.findings) {
    if (finding.path != d.path || finding.end < from || finding.begin > to || finding.fix.empty())
      continue;
    Json edit = {{"range", range(d.text, finding.fix_begin, finding.fix_end)}, {"newText", finding.fix}};
    out.push_back({{"title", "Replace by `" + valid_utf8(finding.fix) + "`"},
                   {"kind", "quickfix"},
                   {"isPreferred", true},
                   {"edit", {{"changes", {{d.uri, Json::array({edit})}}}}}});
  }
  return out;
}

// --- words of the language

std::vector<std::string> builtin_functions() {
  return {
#define HEDDLE_SCALAR(name, op, arguments) name,
#include "dsl/check/scalars.def"
#undef HEDDLE_SCALAR
  };
}

std::string word_help(const std::string &word) {
  static const std::map<std::string, const char *> help = {
      {"sum", "`sum[i](x[i])`: the sum over every `i`; over none it is 0"},
      {"prod", "`prod[i](x[i])`: the product over every `i`; over none it is 1"},
      {"max", "`max[i](x[i])`: the largest over every `i`, over none -inf; `max(a, b)`: the larger of two numbers"},
      {"min", "`min[i](x[i])`: the smallest over every `i`, over none inf; `min(a, b)`: the smaller of two numbers"},
      {"mean", "`mean[i](x[i])`: the sum over every `i` by their number"},
      {"argmax", "`argmax[i](x[i])`: the first `i` at which `x` is largest"},
      {"argmin", "`argmin[i](x[i])`: the first `i` at which `x` is smallest"},
      {"any", "`any[i](c[i])`: whether the condition holds for some `i`; over none it is false"},
      {"all", "`all[i](c[i])`: whether the condition holds for every `i`; over none it is true"},
      {"exp", "`exp(x)`: e to the power of x"},
      {"log", "`log(x)`: the natural logarithm"},
      {"sqrt", "`sqrt(x)`: the square root"},
      {"sin", "`sin(x)`: the sine of x radians"},
      {"cos", "`cos(x)`: the cosine of x radians"},
      {"tanh", "`tanh(x)`: the hyperbolic tangent"},
      {"erf", "`erf(x)`: the error function"},
      {"floor", "`floor(x)`: the largest whole number that is not above x, as a real"},
      {"abs", "`abs(x)`: x without its sign"},
      {"config",
       "`config D \"hidden_size\" = 768`: a value fixed when the model is compiled, by `--set` or a config.json"},
      {"dim", "`dim S <= 512`: a size of every call, with its bound"},
      {"param", "`param weight: real[O, I]`: a tensor of the weights file, found by its path"},
      {"sub", "`sub layers[L] = Layer(D)`: a module inside this one, or an array of them"},
      {"state", "`state mem: real[B, M, D]`: a tensor that a session keeps from call to call"},
      {"entry", "`entry run(x: real[B, D]) -> y: real[B, D] { … }`: one function of the compiled library"},
      {"real", "the type of weights and activations: f32 unless `--precision` says otherwise"},
      {"index", "`index(N)`: a whole number from 0 to N - 1; inputs of this type are checked on every call"},
      {"stored", "`stored [3 * D, D]`: the shape in the weights file, of which the declared shape is a row-major view"},
      {"with", "`for l in L with x`: what one turn passes to the next"},
      {"where", "`sum[j where mask[j] != 0](x[j])`: drops the terms for which the condition does not hold"},
      {"require", "`require M <= 512 else \"…\"`: what must hold; tested when compiling or on every call"},
      {"inf", "infinity; `-inf` is the score of what is not admitted to a softmax"},
  };
  auto found = help.find(word);
  return found == help.end() ? "" : found->second;
}

} // namespace heddle::server
