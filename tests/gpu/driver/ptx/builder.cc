// Makes a Kernel of a body of PTX (builder.h).
#include "tests/gpu/driver/ptx/builder.h"
#include "tests/gpu/driver/isa.h"
#include "tests/gpu/driver/isa/common.h"

#include <algorithm>
#include <cstring>

namespace ptx {

static constexpr u32 red_zone = 256; // bytes between two variables in shared memory

static u64 round_up(u64 n, u64 to) { return (n + to - 1) / to * to; }

KernelBuilder::KernelBuilder(Lexer &lexer, const ModuleNames &names, Kernel &kernel)
    : kernel(kernel), lexer(lexer), names(names) {
  scopes.emplace_back();
}

u32 KernelBuilder::new_register(unsigned lane_bytes) {
  u32 offset = register_bytes;
  // Rows of whole vectors: a predicate takes as much as a lane's 4 bytes would for 16 lanes.
  register_bytes += lane_bytes ? lane_bytes * warp_size : 64;
  return offset;
}

u32 KernelBuilder::constant(u64 value, unsigned lane_bytes) {
  auto [place, added] = constants.try_emplace({value, lane_bytes}, 0);
  if (added) {
    place->second = new_register(lane_bytes);
    initials.push_back({place->second, lane_bytes, value});
  }
  return place->second;
}

bool KernelBuilder::special(std::string_view name, unsigned lane_bytes, u32 &offset) {
  int what = special_register(name);
  if (what < 0)
    return false;
  auto [place, added] = specials.try_emplace(name, 0);
  if (added) {
    place->second = new_register(8); // readable as 4 bytes per lane only where it is defined so
    kernel.specials.push_back({u8(what), place->second});
  }
  if (special_lane_bytes(what) != lane_bytes)
    return false;
  offset = place->second;
  return true;
}

const Symbol *KernelBuilder::find(std::string_view name) const {
  for (auto scope = scopes.rbegin(); scope != scopes.rend(); ++scope)
    if (auto i = scope->find(name); i != scope->end())
      return &i->second;
  return nullptr;
}

u32 KernelBuilder::list(const std::vector<u32> &offsets) {
  u32 at = u32(kernel.lists.size());
  kernel.lists.insert(kernel.lists.end(), offsets.begin(), offsets.end());
  return at;
}

void KernelBuilder::push(Op op) {
  op.index = u32(kernel.ops.size());
  kernel.ops.push_back(op);
}

void KernelBuilder::place_shared(const Declaration &variable) {
  kernel.shared_bytes = u32(round_up(kernel.shared_bytes, variable.align) + variable.bytes);
  u32 begin = kernel.shared_extent ? kernel.shared_extent + red_zone : 0;
  begin = u32(round_up(begin, variable.align));
  kernel.shared_extent = u32(begin + variable.bytes);
  kernel.shared_variables.push_back({begin, kernel.shared_extent});
  scopes.back()[variable.name] = {Symbol::shared, variable.type, begin, variable.bytes};
}

Symbol KernelBuilder::place_local(const Declaration &variable, Symbol::Kind kind) {
  kernel.local_bytes = u32(round_up(kernel.local_bytes, std::max(variable.align, 1u)));
  Symbol symbol{kind, variable.type, kernel.local_bytes, variable.bytes};
  kernel.local_bytes += u32(variable.bytes);
  return symbol;
}

void KernelBuilder::build(const std::vector<Declaration> &parameters) {
  for (const Declaration &p : parameters) {
    kernel.parameter_bytes = u32(round_up(kernel.parameter_bytes, p.align));
    kernel.parameters.push_back({kernel.parameter_bytes, u32(p.bytes)});
    scopes.back()[p.name] = {Symbol::parameter, p.type, kernel.parameter_bytes, p.bytes};
    kernel.parameter_bytes += u32(p.bytes);
  }
  for (auto &[name, address] : names.variables)
    scopes.back()[name] = {Symbol::global, {}, address, 0};
  for (const Declaration &variable : names.shared)
    if (!variable.unsized)
      place_shared(variable);
    else {
      kernel.dynamic_align = std::max(kernel.dynamic_align, variable.align);
      scopes.back()[variable.name] = {Symbol::dynamic_shared, variable.type, 0, 0};
    }
  body();
  auto kernel_scope = scopes.front();
  for (size_t i = 0; i < to_decode.size(); i++) { // grows while functions call further ones
    function = to_decode[i];
    function->entry = u32(kernel.ops.size());
    for (size_t r = 0; r < function->results.size(); r++)
      kernel_scope[function->text->results[r].name] = function->results[r];
    for (size_t p = 0; p < function->parameters.size(); p++)
      kernel_scope[function->text->parameters[p].name] = function->parameters[p];
    scopes = {kernel_scope};
    Lexer::Position back = lexer.position();
    lexer.go_to(function->text->body);
    body();
    lexer.go_to(back);
  }
  finish();
}

void KernelBuilder::body() {
  if (!lexer.eat('{'))
    malformed(lexer.peek().line, "expected '{'");
  labels.clear(), tables.clear(), jumps.clear(), indexed.clear();
  scopes.emplace_back();
  for (size_t outermost = scopes.size(); scopes.size() >= outermost;) {
    const Token &token = lexer.peek();
    if (token.kind == Token::end)
      malformed(token.line, "the text ends in a body");
    if (lexer.eat('{'))
      scopes.emplace_back();
    else if (token.is('}')) {
      if (scopes.size() == outermost) { // an end without ret
        Op end;
        end.line = token.line;
        end.count_as = Class::control;
        end.flow = function ? Flow::leave : Flow::exit;
        end.a = function ? function->return_register : 0;
        push(end);
        finish_labels();
      }
      lexer.next();
      scopes.pop_back();
    } else if (!lexer.eat(';'))
      statement();
  }
}

void KernelBuilder::declare_registers() {
  Token type_token = lexer.next();
  if (type_token.is(".v2") || type_token.is(".v4"))
    malformed(type_token.line, "registers that are vectors are not read");
  Type type = type_named(type_token.text.substr(1));
  if (!type.bits)
    malformed(type_token.line, "'" + std::string(type_token.text) + "' is no type of a register");
  unsigned lane_bytes = type.kind == 'p' ? 0 : type.bits == 64 ? 8 : 4;
  do {
    Token name = lexer.next();
    if (!lexer.eat('<')) {
      kernel.registers += std::max(1u, lane_bytes / 4);
      scopes.back()[name.text] = {Symbol::reg, type, new_register(lane_bytes), 0};
      continue;
    }
    Number count;
    parse_number(lexer.next().text, count);
    lexer.eat('>');
    kernel.registers += u32(count.bits) * std::max(1u, lane_bytes / 4);
    for (u64 i = 0; i < count.bits; i++) {
      std::string numbered = std::string(name.text) + std::to_string(i);
      scopes.back()[*spellings.insert(std::move(numbered)).first] = {Symbol::reg, type, new_register(lane_bytes), 0};
    }
  } while (lexer.eat(','));
  lexer.eat(';');
}

void KernelBuilder::statement() {
  Token first = lexer.peek();
  if (first.kind == Token::word && first.text[0] == '.') {
    lexer.next();
    if (first.is(".reg"))
      return declare_registers();
    if (first.is(".shared") || first.is(".local") || first.is(".param")) {
      do {
        Declaration variable = read_declaration(lexer, names);
        if (first.is(".shared"))
          place_shared(variable);
        else
          scopes.back()[variable.name] =
              place_local(variable, first.is(".local") ? Symbol::local : Symbol::call_parameter);
      } while (lexer.eat(','));
      lexer.eat(';');
      return;
    }
    if (first.is(".loc") || first.is(".file"))
      return lexer.skip_line(first.line);
    while (lexer.peek().kind != Token::end && !lexer.eat(';')) // .pragma and its like
      lexer.next();
    return;
  }
  if (first.kind == Token::word) { // a label?
    Lexer::Position before = lexer.position();
    lexer.next();
    if (lexer.eat(':')) {
      if (lexer.eat(".branchtargets")) {
        std::vector<std::string_view> &targets = tables[first.text];
        do
          targets.push_back(lexer.next().text);
        while (lexer.eat(','));
        lexer.eat(';');
      } else if (lexer.peek().is(".callprototype") || lexer.peek().is(".calltargets")) {
        while (lexer.peek().kind != Token::end && !lexer.eat(';'))
          lexer.next();
      } else
        labels[first.text] = u32(kernel.ops.size());
      return;
    }
    lexer.go_to(before);
  }
  Statement s = read_statement(lexer);
  Decoder decoder(*this, s);
  Op &op = decoder.op;
  op.line = s.line;
  if (!s.guard.empty()) {
    Operand guard;
    guard.text = s.guard;
    op.guarded = true, op.guard_negated = s.guard_negated;
    op.guard = decoder.source(guard, 0);
  }
  if (s.parts[0] == "call") {
    if (op.guarded)
      malformed(s.line, "a call under a guard");
    return call(s);
  }
  const Instruction *row = instruction_table().find(s);
  Op before = op;
  size_t jumps_before = jumps.size(), indexed_before = indexed.size();
  try {
    if (!row)
      throw Unsupported{};
    op.execute = row->execute, op.count_as = row->count_as;
    row->decode(decoder, *row);
  } catch (const Unsupported &) {
    op = before;
    op.execute = execute_unknown;
    jumps.resize(jumps_before), indexed.resize(indexed_before);
  }
  push(op);
}

KernelBuilder::Function *KernelBuilder::function_named(std::string_view name, const FunctionText &text) {
  std::unique_ptr<Function> &f = functions[name];
  if (!f) {
    f = std::make_unique<Function>();
    f->name = name, f->text = &text;
    f->return_register = new_register(4);
    for (const Declaration &d : text.results)
      f->results.push_back(place_local(d, Symbol::call_parameter));
    for (const Declaration &d : text.parameters)
      f->parameters.push_back(place_local(d, Symbol::call_parameter));
    to_decode.push_back(f.get());
  }
  return f.get();
}

void KernelBuilder::call(const Statement &s) {
  // call (results), name, (arguments): each part but the name may be absent.
  std::span<const Operand> operands = s.operands, results, arguments;
  if (!operands.empty() && operands[0].kind == Operand::list)
    results = operands[0].items, operands = operands.subspan(1);
  if (operands.empty())
    malformed(s.line, "call of nothing");
  std::string_view name = operands[0].text;
  if (operands.size() > 1 && operands[1].kind == Operand::list)
    arguments = operands[1].items;
  Op op;
  op.line = s.line, op.count_as = Class::control;
  auto text = names.functions.find(name);
  if (text == names.functions.end() || !text->second.defined) {
    op.execute = execute_undefined_call;
    return push(op);
  }
  Function *callee = function_named(name, text->second);
  auto copy = [&](const Symbol &to, const Operand &operand, bool back) {
    const Symbol *other = find(operand.text);
    if (!other || other->kind != Symbol::call_parameter || other->bytes != to.bytes)
      malformed(s.line, "'" + std::string(operand.text) + "' does not fit the parameter of " + std::string(name));
    Op c;
    c.line = s.line, c.count_as = Class::local, c.execute = execute_copy_local;
    c.offset = s64(back ? other->value : to.value), c.second_offset = s64(back ? to.value : other->value);
    c.immediate = s64(to.bytes);
    push(c);
  };
  if (results.size() != callee->results.size() || arguments.size() != callee->parameters.size())
    malformed(s.line, "call of " + std::string(name) + " with another number of arguments");
  for (size_t i = 0; i < arguments.size(); i++)
    copy(callee->parameters[i], arguments[i], false);
  op.flow = Flow::call;
  op.d = callee->return_register;
  calls.push_back({u32(kernel.ops.size()), function, callee});
  push(op);
  for (size_t i = 0; i < results.size(); i++)
    copy(callee->results[i], results[i], true);
}

void KernelBuilder::finish_labels() {
  auto label = [&](u32 op, std::string_view name) {
    auto i = labels.find(name);
    if (i == labels.end())
      malformed(kernel.ops[op].line, "no label '" + std::string(name) + "'");
    return i->second;
  };
  for (auto &[op, name] : jumps)
    kernel.ops[op].target = label(op, name);
  for (auto &[op, name] : indexed) {
    auto table = tables.find(name);
    if (table == tables.end())
      malformed(kernel.ops[op].line, "no .branchtargets '" + std::string(name) + "'");
    std::vector<u32> targets;
    for (std::string_view target : table->second)
      targets.push_back(label(op, target));
    kernel.ops[op].list_at = list(targets);
    kernel.ops[op].immediate = s64(targets.size());
  }
}

void KernelBuilder::refuse_recursion() {
  for (const Call &c : calls)
    if (c.caller)
      c.caller->calls.insert(c.callee);
  for (const Call &c : calls) {
    kernel.ops[c.op].target = c.callee->entry;
    std::set<Function *> reached;
    std::vector<Function *> open{c.callee};
    while (!open.empty()) {
      Function *f = open.back();
      open.pop_back();
      for (Function *next : f->calls)
        if (reached.insert(next).second)
          open.push_back(next);
    }
    if (reached.count(c.callee))
      kernel.ops[c.op].flow = Flow::normal, kernel.ops[c.op].execute = execute_recursion;
  }
}

void KernelBuilder::finish() {
  refuse_recursion();
  // The dynamic part of shared memory follows the static one, behind a red zone of its own.
  u32 dynamic = kernel.shared_extent ? u32(round_up(kernel.shared_extent + red_zone, kernel.dynamic_align)) : 0;
  kernel.shared_extent = dynamic;
  for (const DynamicUse &use : dynamic_uses)
    initials.push_back({use.offset, use.lane_bytes, dynamic + use.displacement});
  kernel.image.resize(register_bytes);
  constexpr u32 never_written = 0x7fbadbad; // a signalling NaN, and far outside any array
  for (u32 at = 0; at < register_bytes; at += 4)
    memcpy(&kernel.image[at], &never_written, 4);
  for (const Initial &i : initials)
    for (u32 lane = 0; lane < warp_size; lane++)
      if (i.lane_bytes)
        memcpy(&kernel.image[i.offset + i.lane_bytes * lane], &i.value, i.lane_bytes);
      else
        memcpy(&kernel.image[i.offset], &i.value, 4);
  for (Op &op : kernel.ops)
    op.list = kernel.lists.data() + op.list_at;
  kernel.counters.resize(kernel.ops.size());
  kernel.local_bytes = u32(round_up(kernel.local_bytes, 16));
}

} // namespace ptx
