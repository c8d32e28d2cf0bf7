// Tests of the instructions that compute in each lane by itself. A case is a row of the emulator's table with a
// reference for one lane, written another way than the emulator's: wide integers, long double, a search among all
// numbers of 16 bits. All cases run on values at the edges of their types and on random ones.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace gpu_test {

/// An operand's type as in PTX: "u32", "f16x2", "pred".
struct Case {
  std::string row;        // of the instruction table
  std::string text;       // the instruction, with D, A, B, C for its operands
  std::string d, a, b, c; // types; "": no such operand
  std::function<uint64_t(uint64_t a, uint64_t b, uint64_t c)> reference;
  double tolerance = 0; // relative, for approximate functions; else equal bits (any NaN is a NaN)
};

std::vector<std::string> parts_of(const std::string &row);
std::string joined(const std::vector<std::string> &parts, const std::string &by = ".");
unsigned bits_of(const std::string &type);
bool is_signed(const std::string &type);
/// As a number of the type.
__int128 integer(const std::string &type, uint64_t bits);
uint64_t truncated(unsigned bits, __int128 value);
/// "add.s32 D, A, B;" for as many sources.
std::string spelled(const std::string &opcode, int sources);

/// Floats of 16, 32 and 64 bits; long double holds the products and most sums of the narrow ones exactly.
long double real(const std::string &type, uint64_t bits);
/// The nearest number of the type (even in a tie), found among its neighbours.
uint64_t nearest(const std::string &type, long double value);

// The cases for rows of one kind; they leave out rows that are not theirs.
void add_integer_cases(const std::vector<std::string> &rows, std::vector<Case> &cases);
void add_bit_cases(const std::vector<std::string> &rows, std::vector<Case> &cases);
void add_float_cases(const std::vector<std::string> &rows, std::vector<Case> &cases);
void add_half_cases(const std::vector<std::string> &rows, std::vector<Case> &cases);
void add_choice_cases(const std::vector<std::string> &rows, std::vector<Case> &cases);
void add_conversion_cases(const std::vector<std::string> &rows, std::vector<Case> &cases);

/// Rows that have a test by themselves, elsewhere: patterns of names, by the file that has the test.
const std::vector<std::pair<std::string, std::string>> &tested_elsewhere();

} // namespace gpu_test
