// What a module has outside the bodies of its functions: directives, variables, signatures (program.h: parse).
#include "tests/gpu/driver/device/memory.h"
#include "tests/gpu/driver/ptx/builder.h"

#include <algorithm>
#include <cstring>

namespace ptx {

Type type_named(std::string_view name) {
  if (name == "pred")
    return {'p', 1};
  if (name == "bf16")
    return {'h', 16};
  if (name == "tf32")
    return {'t', 32};
  if (name == "f16x2")
    return {'F', 32};
  if (name == "bf16x2")
    return {'H', 32};
  if (name.size() < 2 || name.size() > 3 || !strchr("usfb", name[0]))
    return {'b', 0};
  Number bits;
  if (!parse_number(name.substr(1), bits) || (bits.bits != 8 && bits.bits != 16 && bits.bits != 32 && bits.bits != 64))
    return {'b', 0};
  return {name[0], u8(bits.bits)};
}

namespace {

u64 read_number(Lexer &lexer) {
  Token token = lexer.next();
  Number number;
  if (token.kind != Token::number || !parse_number(token.text, number))
    malformed(token.line, "expected a number, found '" + std::string(token.text) + "'");
  return number.bits;
}

/// One value, or {…} of values, which may be nested.
void read_initial(Lexer &lexer, Declaration &variable, const ModuleNames &names, size_t &at) {
  unsigned bytes = variable.type.bytes();
  if (lexer.eat('{')) {
    while (!lexer.eat('}')) {
      read_initial(lexer, variable, names, at);
      lexer.eat(',');
    }
    return;
  }
  u64 value = 0;
  if (lexer.peek().kind == Token::word) { // a variable's address, perhaps as generic(name), perhaps with + n
    bool generic = lexer.eat("generic") && lexer.eat('(');
    Token name = lexer.next();
    auto variable_named = names.variables.find(name.text);
    if (variable_named == names.variables.end())
      malformed(name.line, "the address of '" + std::string(name.text) + "' is not known here");
    if (generic)
      lexer.eat(')');
    value = variable_named->second;
    if (lexer.eat('+'))
      value += read_number(lexer);
  } else {
    bool minus = lexer.eat('-');
    Token token = lexer.next();
    Number number;
    if (token.kind != Token::number || !parse_number(token.text, number))
      malformed(token.line, "expected a value, found '" + std::string(token.text) + "'");
    value = number_bits(number, bytes);
    if (minus)
      value = number.kind == Number::integer ? -value : value ^ 1ull << (8 * bytes - 1);
  }
  if (at + bytes > variable.initial.size())
    malformed(variable.line, "more values than '" + std::string(variable.name) + "' has room for");
  memcpy(&variable.initial[at], &value, bytes);
  at += bytes;
}

} // namespace

Declaration read_declaration(Lexer &lexer, const ModuleNames &names) {
  Declaration d;
  d.line = lexer.peek().line;
  u64 vector = 1;
  bool pointer = false;
  for (;;) {
    Token token = lexer.next();
    if (token.kind != Token::word)
      malformed(token.line, "expected a declaration, found '" + std::string(token.text) + "'");
    if (token.is(".align")) {
      u32 align = u32(read_number(lexer));
      if (!pointer) // behind .ptr it is what the pointer points to
        d.align = align;
    } else if (token.is(".ptr"))
      pointer = true;
    else if (token.is(".v2") || token.is(".v4"))
      vector = token.is(".v2") ? 2 : 4;
    else if (token.is(".attribute")) {
      while (!lexer.eat(')'))
        lexer.next();
    } else if (token.text[0] == '.') {
      if (Type type = type_named(token.text.substr(1)); type.bits)
        d.type = type;
      else if (!token.is(".global") && !token.is(".const") && !token.is(".shared") && !token.is(".local") &&
               !token.is(".param"))
        malformed(token.line, "'" + std::string(token.text) + "' is not read in a declaration");
    } else {
      d.name = token.text;
      break;
    }
  }
  if (!d.type.bits)
    malformed(d.line, "'" + std::string(d.name) + "' has no type");
  d.bytes = d.type.bytes() * vector;
  d.align = std::max(d.align, u32(d.bytes));
  while (lexer.eat('[')) {
    if (lexer.eat(']')) {
      d.unsized = true;
      d.bytes = 0;
      continue;
    }
    d.bytes *= read_number(lexer);
    lexer.eat(']');
  }
  if (lexer.eat('=')) {
    d.initial.resize(d.bytes);
    size_t at = 0;
    read_initial(lexer, d, names, at);
  }
  return d;
}

namespace {

class Parser {
public:
  Parser(Lexer &lexer, Module &module) : lexer(lexer), module(module) {}

  void run() {
    while (lexer.peek().kind != Token::end)
      directive();
  }

private:
  void directive() {
    Token token = lexer.next();
    if (token.is(".version")) {
      Token number = lexer.next();
      size_t dot = number.text.find('.');
      module.version = atoi(std::string(number.text).c_str()) * 10;
      if (dot != number.text.npos)
        module.version += atoi(std::string(number.text.substr(dot + 1)).c_str());
    } else if (token.is(".target")) {
      Token name = lexer.next();
      if (name.text.substr(0, 3) != "sm_")
        malformed(name.line, "'" + std::string(name.text) + "' is no target");
      module.target = atoi(std::string(name.text.substr(3)).c_str());
      while (lexer.eat(','))
        lexer.next();
    } else if (token.is(".address_size")) {
      if (read_number(lexer) != 64)
        malformed(token.line, "only addresses of 64 bits are executed");
    } else if (token.is(".file") || token.is(".loc"))
      lexer.skip_line(token.line);
    else if (token.is(".section"))
      skip_braces();
    else if (token.is(".visible") || token.is(".weak") || token.is(".extern") || token.is(".common"))
      external = token.is(".extern");
    else if (token.is(".entry"))
      entry();
    else if (token.is(".func"))
      function();
    else if (token.is(".global") || token.is(".const") || token.is(".shared"))
      variables(token);
    else if (!token.is(';'))
      malformed(token.line, "'" + std::string(token.text) + "' is not read outside functions");
  }

  void skip_braces() {
    while (lexer.peek().kind != Token::end && !lexer.peek().is('{'))
      lexer.next();
    int depth = 0;
    do {
      Token token = lexer.next();
      if (token.kind == Token::end)
        malformed(token.line, "the text ends in a body");
      depth += token.is('{') - token.is('}');
    } while (depth);
  }

  void variables(const Token &space) {
    do {
      Declaration d = read_declaration(lexer, names);
      if (space.is(".shared")) {
        names.shared.push_back(d);
        continue;
      }
      Allocation *a = device_memory().allocate(std::max<u64>(d.bytes, 1), std::string(d.name), d.align);
      module.owned.push_back(a->base);
      a->write(0, a->bytes); // what has no value begins as 0
      memset(a->data, 0, a->bytes);
      std::copy(d.initial.begin(), d.initial.end(), a->data);
      a->read_only = space.is(".const");
      module.variables[std::string(d.name)] = {a->base, d.bytes};
      names.variables[d.name] = a->base;
    } while (lexer.eat(','));
    lexer.eat(';');
    external = false;
  }

  std::vector<Declaration> parameters() {
    std::vector<Declaration> list;
    if (!lexer.eat('('))
      return list;
    while (!lexer.eat(')')) {
      if (!lexer.eat(".param") && !lexer.eat(".reg"))
        malformed(lexer.peek().line, "expected a parameter");
      list.push_back(read_declaration(lexer, names));
      lexer.eat(',');
    }
    return list;
  }

  void entry() {
    auto kernel = std::make_unique<Kernel>();
    kernel->module = &module;
    kernel->name = lexer.next().text;
    std::vector<Declaration> declared = parameters();
    while (!lexer.peek().is('{')) {
      Token token = lexer.next();
      if (token.kind == Token::end || (token.kind == Token::word && token.text[0] != '.'))
        malformed(token.line, "'" + std::string(token.text) + "' is not read between a kernel's name and its body");
      if (token.is(".maxntid") || token.is(".reqntid")) {
        u64 threads = 1;
        do
          threads *= read_number(lexer);
        while (lexer.eat(','));
        kernel->max_threads = u32(std::min<u64>(threads, 1024));
      }
    }
    // The body needs all functions and variables of the module, so it is decoded at the end.
    kernels.push_back({std::move(kernel), std::move(declared), lexer.position()});
    skip_braces();
    external = false;
  }

  void function() {
    FunctionText f;
    f.results = parameters();
    std::string_view name = lexer.next().text;
    f.parameters = parameters();
    while (lexer.peek().kind == Token::word && lexer.peek().text[0] == '.') // .noreturn
      lexer.next();
    external = false;
    if (lexer.eat(';')) {
      names.functions.try_emplace(name, f);
      return;
    }
    f.defined = true;
    f.body = lexer.position();
    names.functions[name] = f;
    skip_braces();
  }

public:
  void decode() {
    for (Undecoded &u : kernels) {
      lexer.go_to(u.body);
      KernelBuilder(lexer, names, *u.kernel).build(u.parameters);
      std::string name = u.kernel->name;
      module.kernels[name] = std::move(u.kernel);
    }
  }

private:
  struct Undecoded {
    std::unique_ptr<Kernel> kernel;
    std::vector<Declaration> parameters;
    Lexer::Position body;
  };
  Lexer &lexer;
  Module &module;
  ModuleNames names;
  std::vector<Undecoded> kernels;
  bool external = false;
};

} // namespace

std::unique_ptr<Module> parse(const std::string &text) {
  auto module = std::make_unique<Module>();
  for (std::string_view line : split(text, '\n'))
    module->lines.emplace_back(line);
  try {
    Lexer lexer(text);
    Parser parser(lexer, *module);
    parser.run();
    parser.decode();
  } catch (...) {
    for (u64 address : module->owned)
      device_memory().release(address);
    throw;
  }
  return module;
}

} // namespace ptx
