// One instruction on its way from text to Op: what the rows of the instruction table decode with.
#pragma once

#include "tests/gpu/driver/ptx/builder.h"

#include <span>

namespace ptx {

/// Thrown where a known opcode has modifiers or operands that the emulator doesn't execute. The instruction becomes
/// one that is a fault when it is executed.
struct Unsupported {
  std::string why;
};

class Decoder {
public:
  Decoder(KernelBuilder &builder, const Statement &statement) : builder(builder), statement(statement) {}

  KernelBuilder &builder;
  const Statement &statement;
  Op op;

  bool has(std::string_view part) const { return statement.has(part); }
  std::string_view last() const { return statement.parts.back(); }
  size_t count() const { return statement.operands.size(); }
  const Operand &operand(size_t i) const;

  /// Offsets of registers whose lanes have 4 or 8 bytes, or 0 for a predicate. A source may also be a number, a
  /// special register or a variable's address.
  u32 destination(const Operand &operand, unsigned lane_bytes);
  u32 source(const Operand &operand, unsigned lane_bytes);
  u32 destination(size_t i, unsigned lane_bytes) { return destination(operand(i), lane_bytes); }
  u32 source(size_t i, unsigned lane_bytes) { return source(operand(i), lane_bytes); }
  /// A predicate that may be written !p.
  u32 predicate(const Operand &operand, bool &negated);
  Type register_type(const Operand &operand) const;

  /// [register + offset], [variable + offset], [number]: into a, offset and address32, or the second ones with b.
  void address(const Operand &operand, bool second = false);
  void address(size_t i, bool second = false) { address(operand(i), second); }
  /// The elements of {…}, or the operand itself.
  std::span<const Operand> elements(size_t i) const;
  void list(const std::vector<u32> &offsets) { op.list_at = builder.list(offsets); }
  /// A number that must stand in the text.
  u64 number(size_t i) const;
  /// .shared, .global, … among the modifiers.
  void space_of_modifiers();
  void uses_shared(unsigned bytes);

private:
  u32 named(const Operand &operand, unsigned lane_bytes, bool source);
};

} // namespace ptx
