// Makes a Kernel of a body of PTX: gives registers, constants and variables their places, resolves names and labels,
// and asks the instruction table (isa.h) how each instruction is decoded. A function that the kernel calls becomes
// part of it, with registers of its own; that is why functions can't be recursive.
#pragma once

#include "tests/gpu/driver/program.h"
#include "tests/gpu/driver/ptx/statement.h"

#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

namespace ptx {

/// A variable or parameter as declared.
struct Declaration {
  std::string_view name;
  Type type;
  u32 align = 1;
  u64 bytes = 0;
  bool unsized = false; // name[]
  std::vector<u8> initial;
  u32 line = 0;
};

struct FunctionText {
  std::vector<Declaration> results, parameters;
  Lexer::Position body;
  bool defined = false;
};

/// What a module declares outside its functions.
struct ModuleNames {
  std::unordered_map<std::string_view, u64> variables; // global and constant: their addresses
  std::vector<Declaration> shared;                     // an unsized one is the dynamic part
  std::unordered_map<std::string_view, FunctionText> functions;
};

Type type_named(std::string_view name);
/// What stands between a directive such as .shared and the ';' or ',' or ')' behind it.
Declaration read_declaration(Lexer &lexer, const ModuleNames &names);

struct Symbol {
  enum Kind : u8 { reg, shared, dynamic_shared, local, call_parameter, parameter, global } kind = reg;
  Type type;
  u64 value = 0; // a register's offset, a variable's address
  u64 bytes = 0;
};

class KernelBuilder {
public:
  KernelBuilder(Lexer &lexer, const ModuleNames &names, Kernel &kernel);
  void build(const std::vector<Declaration> &parameters);

  u32 new_register(unsigned lane_bytes);
  u32 constant(u64 value, unsigned lane_bytes);
  /// The register that holds a special register; false where there is none of this name.
  bool special(std::string_view name, unsigned lane_bytes, u32 &offset);
  const Symbol *find(std::string_view name) const;
  u32 list(const std::vector<u32> &offsets);
  void jump_to(std::string_view label) { jumps.push_back({u32(kernel.ops.size()), label}); }
  void jump_by(std::string_view table) { indexed.push_back({u32(kernel.ops.size()), table}); }
  /// The call, and the copies of its arguments and results.
  void call(const Statement &statement);
  bool in_function() const { return function != nullptr; }
  u32 return_register() const { return function->return_register; }
  void push(Op op);

  Kernel &kernel;
  /// Registers that hold an address in the dynamic part of shared memory.
  struct DynamicUse {
    u32 offset;
    unsigned lane_bytes;
    u64 displacement;
  };
  std::vector<DynamicUse> dynamic_uses;

private:
  struct Function {
    std::string_view name;
    const FunctionText *text;
    u32 return_register = 0, entry = 0;
    std::vector<Symbol> results, parameters;
    std::set<Function *> calls;
  };
  struct Reference {
    u32 op;
    std::string_view name;
  };

  void body();
  void statement();
  void declare_registers();
  void place_shared(const Declaration &variable);
  Symbol place_local(const Declaration &variable, Symbol::Kind kind);
  Function *function_named(std::string_view name, const FunctionText &text);
  void finish_labels();
  void finish();
  void refuse_recursion();

  Lexer &lexer;
  const ModuleNames &names;
  std::vector<std::unordered_map<std::string_view, Symbol>> scopes;
  std::set<std::string> spellings; // of registers that were declared by their number
  std::unordered_map<std::string_view, u32> labels;
  std::unordered_map<std::string_view, std::vector<std::string_view>> tables;
  std::vector<Reference> jumps, indexed;
  std::map<std::pair<u64, unsigned>, u32> constants;
  struct Initial {
    u32 offset;
    unsigned lane_bytes;
    u64 value;
  };
  std::vector<Initial> initials;
  std::map<std::string_view, u32> specials;
  std::map<std::string_view, std::unique_ptr<Function>> functions;
  std::vector<Function *> to_decode;
  struct Call {
    u32 op;
    Function *caller, *callee;
  };
  std::vector<Call> calls;
  Function *function = nullptr; // whose body is being read; none: the kernel's
  u32 register_bytes = 0;
};

} // namespace ptx
