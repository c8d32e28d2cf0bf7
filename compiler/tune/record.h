// A measurement with everything that it was made under, and records as text: sorted, a line for each, so that a
// change reads well beside what was there before.
//
//   heddle tuning records, format 1
//
//   [AMD EPYC 7R13 Processor, family 25 model 1 | x86-64-v3 | 1 thread]
//   8f3a1c2b9d0e4f67 contraction | 128 | 2: d0 floordiv 16, d1, d0 mod 16 | tiles/1 ahead=1 rows=6 width=16 fma | 951.3
//   us
#pragma once

#include "dsl/errors/result.h"

#include <string>
#include <string_view>
#include <vector>

namespace heddle::tune {

/// Where a measurement was made.
struct Place {
  std::string machine, target;
  int threads = 1;
  auto operator<=>(const Place &) const = default;
};

/// What was measured, in the words of compiler/choose/records.h.
struct Subject {
  std::string structure, kind;
  std::vector<int64_t> sizes;
  std::string layouts, row;
  auto operator<=>(const Subject &) const = default;
};

struct Record {
  Place place;
  Subject subject;
  double seconds = 0;
  std::string fault; // why it is of no use: it crashed, hung, was wrong. Empty: it is
};

/// "1 128", and back; nothing where the text is no such list.
std::string sizes_text(const std::vector<int64_t> &sizes);
Result<std::vector<int64_t>> read_sizes(std::string_view text);

/// A fault as a record has it: one line without bars.
std::string fault_text(std::string why);

/// Sorted, as read_records reads it.
std::string to_text(std::vector<Record> records);
/// `name`: of the file, for messages, which also have the line. Two records of one subject are refused.
Result<std::vector<Record>> read_records(std::string_view text, const std::string &name);

} // namespace heddle::tune
