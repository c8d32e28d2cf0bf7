// The instruction table (isa.h): its families together, and looking up.
#include "tests/gpu/driver/isa.h"

#include <algorithm>

namespace ptx {

std::string join_without(const Statement &statement, std::initializer_list<std::string_view> without) {
  std::string name;
  for (std::string_view part : statement.parts)
    if (name.empty() || std::find(without.begin(), without.end(), part) == without.end())
      name.append(name.empty() ? "" : ".").append(part);
  return name;
}

void Table::finish() {
  for (const Instruction &row : rows)
    if (!by_name.emplace(row.name, &row).second)
      throw std::logic_error("two rows of the instruction table are named " + row.name);
}

const Instruction *Table::find(const Statement &statement) const {
  auto family = keys.find(std::string(statement.parts[0]));
  std::string key = family != keys.end() ? family->second(statement) : join_without(statement, {"rn", "uni"});
  auto row = by_name.find(key);
  return row == by_name.end() ? nullptr : row->second;
}

const Table &instruction_table() {
  static const Table &table = *[] { // never destroyed: programs free device memory in destructors
    auto *t = new Table;
    for (auto add : {add_integer_rows, add_bit_rows, add_float_rows, add_approximate_rows, add_half_rows,
                     add_compare_rows, add_convert_rows, add_move_rows, add_control_rows, add_load_rows,
                     add_atomic_rows, add_warp_rows, add_matrix_rows, add_wmma_rows, add_async_copy_rows})
      add(*t);
    t->finish();
    return t;
  }();
  return table;
}

void decode_lanes(Decoder &d, const Instruction &row) {
  u32 *sources[] = {&d.op.a, &d.op.b, &d.op.c};
  if (d.count() != row.operands.size())
    malformed(d.statement.line, row.name + " takes " + std::to_string(row.operands.size()) + " operands");
  d.op.d = d.destination(0, row.operands[0]);
  for (size_t i = 1; i < row.operands.size(); i++) {
    if (d.operand(i).negated)
      throw Unsupported{"a negated operand"};
    *sources[i - 1] = d.source(i, row.operands[i]);
  }
}

} // namespace ptx
