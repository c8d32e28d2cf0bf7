// A PTX module after decoding. Each instruction is an Op: a function over the 32 lanes of a warp, with its operands as
// byte offsets into the warp's register file. A register is 32 lanes of 4 or 8 bytes; a predicate is one mask.
// Constants and special registers are registers, too, so that an operand is always an offset.
#pragma once

#include "tests/gpu/driver/counters.h"
#include "tests/gpu/driver/types.h"

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace ptx {

struct Warp;
struct Op;
struct Allocation;
using Execute = void (*)(Warp &, const Op &, Mask);

/// The type of an operand: kind is u, s, f, b as in PTX; h is bf16, t tf32, p a predicate, and F and H are pairs of
/// f16 and of bf16. 0 bits: no type.
struct Type {
  char kind = 'b';
  u8 bits = 0;
  bool operator==(const Type &) const = default;
  unsigned bytes() const { return bits / 8; }
};

/// How an instruction moves its lanes on.
enum class Flow : u8 {
  normal,
  branch,    // to `target`
  indexed,   // brx.idx: to list[register a]
  call,      // to `target`, where the return address goes into register d
  leave,     // ret of a function: to the address in register a
  exit,      // ret of a kernel, exit
  barrier,   // the whole warp must be there; the block releases it
  warp_sync, // the lanes of the member mask in register c must be there
  gather,    // activemask: whoever can still come is waited for
};

struct Op {
  Execute execute = nullptr;
  Flow flow = Flow::normal;
  Class count_as = Class::integer;
  Space space = Space::generic;
  bool guarded = false, guard_negated = false;
  bool address32 = false, second_address32 = false; // the address is in a 32-bit register
  bool flag = false;                                // of the instruction
  u8 vector = 1;                                    // elements of a vector access, registers of a list
  u8 lane_bytes = 4;                                // of the registers that a load or store moves
  u16 mode = 0;                                     // sub-operation
  Type type, source_type;
  u32 guard = 0, d = 0, a = 0, b = 0, c = 0, q = 0; // offsets of registers
  u32 target = 0, line = 0, index = 0;
  u32 list_at = 0; // where `list` begins in Kernel::lists
  s64 offset = 0, second_offset = 0, immediate = 0;
  const u32 *list = nullptr;
};

/// A special register: what it holds is known when a block begins.
struct SpecialUse {
  u8 what;
  u32 offset;
};

struct Parameter {
  u32 offset = 0, bytes = 0;
};

struct Range {
  u32 begin = 0, end = 0;
};

struct Module;

struct Kernel {
  std::string name;
  const Module *module = nullptr;
  std::vector<Op> ops;
  std::vector<u32> lists;
  std::vector<Parameter> parameters;
  u32 parameter_bytes = 0;
  std::vector<u8> image; // the register file as it is when a block begins: constants, elsewhere a pattern
  std::vector<SpecialUse> specials;
  u32 registers = 0; // that the text declares, in units of 32 bits
  u32 local_bytes = 0;
  u32 shared_bytes = 0;                // as a device counts them
  u32 shared_extent = 0;               // with red zones between the variables
  u32 dynamic_align = 16;              // of the dynamic part, which follows the static one
  std::vector<Range> shared_variables; // the static ones
  u32 shared_granule = 16;             // smallest access to shared memory
  u32 max_threads = 1024;
  u32 max_dynamic_shared = 48 * 1024; // cuFuncSetAttribute
  std::vector<Counter> counters;      // one per op, of all launches so far
  u64 launches = 0, blocks = 0, executed = 0;
};

struct Variable {
  u64 address = 0, bytes = 0;
};

struct Module {
  std::vector<std::string> lines; // of the text, for messages
  std::map<std::string, std::unique_ptr<Kernel>, std::less<>> kernels;
  std::map<std::string, Variable, std::less<>> variables;
  std::vector<u64> owned;      // addresses of its variables
  int version = 0, target = 0; // .version 7.0 is 70
};

/// Reads PTX text. Throws Error where it is not PTX; instructions that the emulator doesn't know are no error
/// before they are executed. Variables are laid into device memory.
std::unique_ptr<Module> parse(const std::string &text);

} // namespace ptx
