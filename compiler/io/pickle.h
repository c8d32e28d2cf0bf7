// Python's pickles, read as data. A pickle is a program that calls what it names; here nothing is called: a call
// becomes a value that tells what would be called with what, and a name that the caller does not know ends the reading.
#pragma once

#include "dsl/errors/result.h"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace heddle {

struct PickleValue {
  enum class Kind {
    none,
    boolean,
    integer,
    real,
    text,      // text or bytes
    list,      // items: tuples, too
    dict,      // pairs; of an OrderedDict, too
    name,      // text: "torch.FloatStorage"
    call,      // items[0]: what is called; items[1]: its arguments
    persistent // items[0]: the id of something that stands elsewhere
  };
  Kind kind = Kind::none;
  int64_t number = 0; // integer and boolean
  std::string text;   // of an integer too large: its bytes, from the lowest on
  std::vector<const PickleValue *> items;
  std::vector<std::pair<const PickleValue *, const PickleValue *>> pairs;

  bool is_call(std::string_view callee) const {
    return kind == Kind::call && items[0]->kind == Kind::name && items[0]->text == callee;
  }
};

class Pickle {
public:
  /// `known`: whether a name ("collections.OrderedDict") may stand in the pickle.
  Pickle(std::string path, std::function<bool(const std::string &)> known)
      : path_(std::move(path)), known_(std::move(known)) {}

  /// The value of the pickle that begins at `at`, which moves behind its end. It lives as long as this object.
  Result<const PickleValue *> read(std::span<const std::byte> bytes, size_t &at);

private:
  class Machine;
  std::string path_;
  std::function<bool(const std::string &)> known_;
  std::deque<PickleValue> values_;
};

} // namespace heddle
