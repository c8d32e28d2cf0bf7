// Fields are between bars, which no field has: names of machines are cleared of them, all else is made by us.
#include "compiler/tune/record.h"

#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringRef.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>

namespace heddle::tune {

static constexpr llvm::StringLiteral title = "heddle tuning records, format ";
static constexpr int format = 1;

std::string sizes_text(const std::vector<int64_t> &sizes) {
  std::string out;
  for (int64_t size : sizes)
    out += (out.empty() ? "" : " ") + std::to_string(size);
  return out;
}

Result<std::vector<int64_t>> read_sizes(std::string_view text) {
  std::vector<int64_t> out;
  llvm::SmallVector<llvm::StringRef> words;
  llvm::StringRef(text).split(words, ' ', -1, /*KeepEmpty=*/false);
  for (llvm::StringRef word : words) {
    int64_t size = 0;
    if (word.getAsInteger(10, size) || size < 0)
      return Error{"`" + word.str() + "` is no size"};
    out.push_back(size);
  }
  return out;
}

std::string fault_text(std::string why) {
  for (char &letter : why)
    letter = letter == '|' ? '/' : letter >= 0 && letter < ' ' ? ' ' : letter;
  return why;
}

/// Four digits: more are noise, and would change with every measurement.
static std::string microseconds(double seconds) {
  char text[32];
  double us = seconds * 1e6;
  int decimals = us < 1 ? 4 : us < 1000 ? 3 - int(std::floor(std::log10(us))) : 0;
  std::snprintf(text, sizeof text, "%.*f us", decimals, us);
  return text;
}

std::string to_text(std::vector<Record> records) {
  std::ranges::sort(records, [](const Record &a, const Record &b) {
    return std::tie(a.place, a.subject) < std::tie(b.place, b.subject);
  });
  std::string out = title.str() + std::to_string(format) + "\n";
  const Place *place = nullptr;
  for (const Record &record : records) {
    const Subject &subject = record.subject;
    if (!place || *place != record.place)
      out += "\n[" + record.place.machine + " | " + record.place.target + " | " + std::to_string(record.place.threads) +
             (record.place.threads == 1 ? " thread]\n" : " threads]\n");
    place = &record.place;
    out += subject.structure + " " + subject.kind + " | " + sizes_text(subject.sizes) + " | " + subject.layouts +
           " | " + subject.row + " | " + (record.fault.empty() ? microseconds(record.seconds) : "! " + record.fault) +
           "\n";
  }
  return out;
}

/// "[MACHINE | TARGET | N threads]".
static bool read_place(llvm::StringRef line, Place &place) {
  llvm::SmallVector<llvm::StringRef> fields;
  if (!line.consume_front("[") || !line.consume_back("]"))
    return false;
  line.split(fields, " | ");
  if (fields.size() != 3 || fields[0].empty() || fields[1].empty())
    return false;
  place.machine = fields[0].str();
  place.target = fields[1].str();
  return !fields[2].split(' ').first.getAsInteger(10, place.threads) && place.threads > 0;
}

static bool read_record(llvm::StringRef line, Record &record) {
  llvm::SmallVector<llvm::StringRef> fields;
  line.split(fields, '|');
  if (fields.size() != 5)
    return false;
  for (llvm::StringRef &field : fields)
    field = field.trim(' ');
  auto [structure, kind] = fields[0].split(' ');
  auto sizes = read_sizes(fields[1]);
  if (structure.empty() || kind.empty() || !sizes || fields[3].empty())
    return false;
  record.subject = {structure.str(), kind.str(), *sizes, fields[2].str(), fields[3].str()};
  if (fields[4].consume_front("! ")) {
    record.fault = fields[4].str();
    return !record.fault.empty();
  }
  double us = 0;
  if (!fields[4].consume_back(" us") || fields[4].getAsDouble(us) || !(us > 0) || !std::isfinite(us))
    return false;
  record.seconds = us * 1e-6;
  return true;
}

Result<std::vector<Record>> read_records(std::string_view text, const std::string &name) {
  llvm::SmallVector<llvm::StringRef> lines;
  llvm::StringRef(text).split(lines, '\n');
  llvm::StringRef first = lines.front().rtrim("\r");
  if (!first.consume_front(title))
    return Error{name + ":1: error: these are no tuning records; `heddle tune --export FILE` writes them"};
  if (int found = 0; first.getAsInteger(10, found) || found != format)
    return Error{name + ":1: error: tuning records of format " + first.str() +
                 "; this version of Heddle reads format " + std::to_string(format)};
  std::vector<Record> out;
  std::map<std::pair<Place, Subject>, size_t> line_of;
  Place place;
  for (size_t i = 1; i < lines.size(); ++i) {
    llvm::StringRef line = lines[i].rtrim("\r");
    if (line.empty())
      continue;
    Record record;
    std::string at = name + ":" + std::to_string(i + 1) + ": error: ";
    if (line.starts_with("[")) {
      if (!read_place(line, place))
        return Error{at + "a machine is written [CPU | target | N threads]"};
      continue;
    }
    if (place.machine.empty())
      return Error{at + "no machine was named before this record"};
    if (!read_record(line, record))
      return Error{at + "a record is written KERNEL KIND | sizes | layouts | row | N us"};
    record.place = place;
    Subject subject = record.subject;
    subject.kind.clear(); // follows from the structure
    if (auto [before, is_new] = line_of.try_emplace({place, subject}, i + 1); !is_new)
      return Error{at + "line " + std::to_string(before->second) +
                   " has another record of the same; remove one of them"};
    out.push_back(std::move(record));
  }
  return out;
}

} // namespace heddle::tune
