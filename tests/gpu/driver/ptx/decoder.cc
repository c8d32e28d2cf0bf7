// Operands on their way from text to Op (decoder.h).
#include "tests/gpu/driver/ptx/decoder.h"

#include <algorithm>

namespace ptx {

static unsigned lane_bytes_of(Type type) { return type.kind == 'p' ? 0 : type.bits == 64 ? 8 : 4; }

const Operand &Decoder::operand(size_t i) const {
  if (i >= statement.operands.size())
    malformed(statement.line, std::string(statement.opcode) + " needs more operands");
  return statement.operands[i];
}

u32 Decoder::named(const Operand &operand, unsigned lane_bytes, bool source) {
  std::string name(operand.text);
  const Symbol *symbol = builder.find(operand.text);
  if (symbol && symbol->kind == Symbol::reg) {
    unsigned has = lane_bytes_of(symbol->type);
    if (has != lane_bytes)
      malformed(statement.line, name + " has " + std::to_string(has * 8) + " bits per lane, " +
                                    std::string(statement.opcode) + " takes " + std::to_string(lane_bytes * 8));
    return u32(symbol->value);
  }
  if (!source)
    malformed(statement.line, "'" + name + "' is no register");
  u32 offset = 0;
  if (builder.special(operand.text, lane_bytes, offset))
    return offset;
  if (!symbol)
    malformed(statement.line, "'" + name + "' is not declared");
  u32 at = symbol->kind == Symbol::dynamic_shared ? builder.new_register(lane_bytes) : 0;
  if (symbol->kind == Symbol::dynamic_shared) {
    // Its address is known when all static variables have been placed.
    builder.dynamic_uses.push_back({at, lane_bytes, u64(operand.offset)});
    return at;
  }
  return builder.constant(symbol->value + u64(operand.offset), lane_bytes);
}

u32 Decoder::destination(const Operand &operand, unsigned lane_bytes) {
  if (operand.kind == Operand::word && operand.text == "_")
    return builder.new_register(lane_bytes);
  if (operand.kind != Operand::word)
    malformed(statement.line, "the destination of " + std::string(statement.opcode) + " is no register");
  return named(operand, lane_bytes, false);
}

u32 Decoder::source(const Operand &operand, unsigned lane_bytes) {
  if (operand.kind == Operand::number) {
    if (lane_bytes == 0)
      return builder.constant(operand.value.bits ? all_lanes : 0, 0);
    return builder.constant(number_bits(operand.value, lane_bytes), lane_bytes);
  }
  if (operand.kind != Operand::word)
    malformed(statement.line, std::string(statement.opcode) + " takes no vector or address here");
  return named(operand, lane_bytes, true);
}

u32 Decoder::predicate(const Operand &operand, bool &negated) {
  negated = operand.negated;
  return source(operand, 0);
}

Type Decoder::register_type(const Operand &operand) const {
  const Symbol *symbol = operand.kind == Operand::word ? builder.find(operand.text) : nullptr;
  return symbol && symbol->kind == Symbol::reg ? symbol->type : Type{'b', 0};
}

void Decoder::address(const Operand &operand, bool second) {
  if (operand.kind != Operand::address || operand.items.empty())
    malformed(statement.line, std::string(statement.opcode) + " takes an address in brackets here");
  const Operand &base = operand.items[0];
  u32 at = 0;
  bool narrow = false;
  s64 offset = base.offset;
  if (Type type = register_type(base); type.bits) {
    at = named(base, lane_bytes_of(type), true);
    narrow = type.bits == 32;
  } else {
    at = source(base, 8); // the offset of a variable is in the constant
    offset = 0;
    const Symbol *symbol = base.kind == Operand::word ? builder.find(base.text) : nullptr;
    if (symbol && symbol->kind == Symbol::call_parameter && op.space == Space::param)
      op.space = Space::local;
  }
  if (op.space == Space::param && builder.in_function())
    op.space = Space::local; // parameters of functions lie beside local variables
  if (second)
    op.b = at, op.second_offset = offset, op.second_address32 = narrow;
  else
    op.a = at, op.offset = offset, op.address32 = narrow;
}

std::span<const Operand> Decoder::elements(size_t i) const {
  const Operand &o = operand(i);
  return o.kind == Operand::vector ? std::span<const Operand>(o.items) : std::span<const Operand>(&o, 1);
}

u64 Decoder::number(size_t i) const {
  if (operand(i).kind != Operand::number)
    malformed(statement.line,
              "operand " + std::to_string(i + 1) + " of " + std::string(statement.opcode) + " must be a number");
  return operand(i).value.bits;
}

void Decoder::space_of_modifiers() {
  static constexpr std::pair<std::string_view, Space> spaces[] = {{"global", Space::global},
                                                                  {"shared", Space::shared},
                                                                  {"local", Space::local},
                                                                  {"const", Space::constant},
                                                                  {"param", Space::param}};
  for (std::string_view part : statement.parts)
    for (auto [name, space] : spaces)
      if (part.substr(0, part.find(':')) == name) {
        op.space = space;
        return;
      }
}

void Decoder::uses_shared(unsigned bytes) {
  if (op.space == Space::shared || op.space == Space::generic)
    builder.kernel.shared_granule = std::min(builder.kernel.shared_granule, std::max(1u, bytes));
}

} // namespace ptx
