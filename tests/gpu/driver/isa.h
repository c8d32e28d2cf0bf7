// The instruction table. A row is an instruction: its name (the opcode without the modifiers that change nothing
// here), how its operands are read, and the function over the lanes of a warp that executes it. Each file in isa/
// holds the rows of one class of instructions; a row needs nothing else to be executed, listed and demanded by the
// tests.
#pragma once

#include "tests/gpu/driver/program.h"
#include "tests/gpu/driver/ptx/decoder.h"

#include <functional>
#include <string>
#include <vector>

namespace ptx {

struct Instruction;
using Decode = void (*)(Decoder &, const Instruction &);

struct Instruction {
  std::string name;
  Execute execute = nullptr;
  Decode decode = nullptr;
  Class count_as = Class::integer;
  std::vector<u8> operands = {}; // bytes per lane of destination and sources, 0: a predicate; for decode_lanes
};

/// The key under which the table has an opcode; "" where no row of this family can fit.
using Key = std::string (*)(const Statement &);

class Table {
public:
  void add(Instruction row) { rows.push_back(std::move(row)); }
  /// How opcodes that begin so are looked up; without one, all parts but .rn and .uni.
  void family(std::string_view opcode, Key key) { keys[std::string(opcode)] = key; }

  const Instruction *find(const Statement &statement) const;
  const std::vector<Instruction> &instructions() const { return rows; }
  void finish();

private:
  std::vector<Instruction> rows;
  std::unordered_map<std::string, const Instruction *> by_name;
  std::unordered_map<std::string, Key> keys;
};

const Table &instruction_table();

/// Destination and sources as row.operands says.
void decode_lanes(Decoder &decoder, const Instruction &row);

/// The parts of an opcode joined by dots, without those that are named.
std::string join_without(const Statement &statement, std::initializer_list<std::string_view> without);

// One for each file in isa/.
void add_integer_rows(Table &table);
void add_bit_rows(Table &table);
void add_float_rows(Table &table);
void add_approximate_rows(Table &table);
void add_half_rows(Table &table);
void add_compare_rows(Table &table);
void add_convert_rows(Table &table);
void add_move_rows(Table &table);
void add_control_rows(Table &table);
void add_load_rows(Table &table);
void add_atomic_rows(Table &table);
void add_warp_rows(Table &table);
void add_matrix_rows(Table &table);
void add_wmma_rows(Table &table);
void add_async_copy_rows(Table &table);

} // namespace ptx
