// A stack machine, of which only the instructions that build data are here; those that make objects or import by other
// ways are refused by their number. Values belong to one arena, as they may refer to each other in circles.
#include "compiler/io/pickle.h"

#include <cstring>
#include <unordered_map>

namespace heddle {

class Pickle::Machine {
public:
  Machine(Pickle &owner, std::span<const std::byte> bytes, size_t at) : owner_(owner), bytes_(bytes), at_(at) {}

  Result<const PickleValue *> run() {
    while (error_.empty()) {
      uint8_t code = number<uint8_t>();
      if (!error_.empty())
        break;
      if (code == '.') {
        PickleValue *value = pop();
        if (error_.empty())
          return value;
        break;
      }
      step(code);
    }
    return Error{owner_.path_ + ": " + error_};
  }
  size_t at() const { return at_; }

private:
  static constexpr size_t most_values = 50'000'000; // a file of so many instructions is no model

  void fail(const std::string &why) {
    if (error_.empty())
      error_ = why;
  }
  void damaged() { fail("its pickle is damaged or truncated (at byte " + std::to_string(at_) + ")"); }

  template <class T> T number() {
    T out{};
    if (sizeof out > bytes_.size() - at_) {
      damaged();
      return out;
    }
    std::memcpy(&out, bytes_.data() + at_, sizeof out);
    at_ += sizeof out;
    return out;
  }
  std::string take(uint64_t count) {
    if (count > bytes_.size() - at_) {
      damaged();
      return "";
    }
    std::string out(reinterpret_cast<const char *>(bytes_.data()) + at_, count);
    at_ += count;
    return out;
  }
  std::string line() {
    std::string_view rest(reinterpret_cast<const char *>(bytes_.data()) + at_, bytes_.size() - at_);
    size_t end = rest.find('\n');
    if (end == rest.npos) {
      damaged();
      return "";
    }
    at_ += end + 1;
    return std::string(rest.substr(0, end));
  }

  PickleValue *make(PickleValue::Kind kind) {
    if (owner_.values_.size() >= most_values)
      fail("its pickle makes more than " + std::to_string(most_values) + " values");
    owner_.values_.emplace_back().kind = kind;
    return &owner_.values_.back();
  }
  PickleValue *push(PickleValue *value) {
    stack_.push_back(value);
    return value;
  }
  void push_number(PickleValue::Kind kind, int64_t value) { push(make(kind))->number = value; }
  void push_text(std::string value) { push(make(PickleValue::Kind::text))->text = std::move(value); }
  PickleValue *pop() {
    if (stack_.empty() || (!marks_.empty() && stack_.size() <= marks_.back())) {
      damaged();
      return make(PickleValue::Kind::none);
    }
    PickleValue *out = stack_.back();
    stack_.pop_back();
    return out;
  }
  std::vector<const PickleValue *> pop_to_mark() {
    if (marks_.empty()) {
      damaged();
      return {};
    }
    std::vector<const PickleValue *> out(stack_.begin() + ptrdiff_t(marks_.back()), stack_.end());
    stack_.resize(marks_.back());
    marks_.pop_back();
    return out;
  }
  void push_items(std::vector<const PickleValue *> items) {
    push(make(PickleValue::Kind::list))->items = std::move(items);
  }
  void push_tuple(size_t count) {
    std::vector<const PickleValue *> items(count);
    for (size_t i = count; i-- > 0;)
      items[i] = pop();
    push_items(std::move(items));
  }

  void add_pairs(const std::vector<const PickleValue *> &items) {
    PickleValue *to = pop();
    if (items.size() % 2 || (to->kind != PickleValue::Kind::dict && !to->is_call("collections.OrderedDict")))
      return damaged();
    for (size_t i = 0; i < items.size(); i += 2)
      to->pairs.emplace_back(items[i], items[i + 1]);
    push(to);
  }
  void add_items(const std::vector<const PickleValue *> &items) {
    PickleValue *to = pop();
    if (to->kind != PickleValue::Kind::list)
      return damaged();
    to->items.insert(to->items.end(), items.begin(), items.end());
    push(to);
  }
  void push_name(const std::string &module, const std::string &name) {
    std::string whole = module + "." + name;
    if (error_.empty() && !owner_.known_(whole))
      return fail("its pickle asks for `" + whole +
                  "`, which no tensor needs; nothing of it was executed. Save the tensors alone: "
                  "torch.save(model.state_dict(), …)");
    push(make(PickleValue::Kind::name))->text = whole;
  }
  void memoize(uint64_t slot) {
    if (stack_.empty())
      return damaged();
    memo_[slot] = stack_.back();
  }
  void recall(uint64_t slot) {
    auto found = memo_.find(slot);
    if (found == memo_.end())
      return damaged();
    push(found->second);
  }
  /// A whole number of any length.
  void push_long(uint64_t count) {
    std::string digits = take(count);
    if (digits.size() > sizeof(int64_t)) {
      push(make(PickleValue::Kind::integer))->text = digits;
      return;
    }
    int64_t value = !digits.empty() && digits.back() < 0 ? -1 : 0;
    std::memcpy(&value, digits.data(), digits.size());
    push_number(PickleValue::Kind::integer, value);
  }

  void step(uint8_t code);

  Pickle &owner_;
  std::span<const std::byte> bytes_;
  size_t at_;
  std::string error_;
  std::vector<PickleValue *> stack_;
  std::vector<size_t> marks_;
  std::unordered_map<uint64_t, PickleValue *> memo_;
};

/// The instructions under the names of Python's pickletools.
void Pickle::Machine::step(uint8_t code) {
  switch (code) {
  case 0x80: // PROTO
    if (number<uint8_t>() > 5)
      fail("its pickle is of a protocol above 5");
    return;
  case 0x95: // FRAME
    number<uint64_t>();
    return;
  case '(': // MARK
    return marks_.push_back(stack_.size());
  case '0': // POP
    pop();
    return;
  case '1': // POP_MARK
    pop_to_mark();
    return;

  case 'N': // NONE
    push(make(PickleValue::Kind::none));
    return;
  case 0x88: // NEWTRUE
  case 0x89: // NEWFALSE
    return push_number(PickleValue::Kind::boolean, code == 0x88);
  case 'J': // BININT
    return push_number(PickleValue::Kind::integer, number<int32_t>());
  case 'K': // BININT1
    return push_number(PickleValue::Kind::integer, number<uint8_t>());
  case 'M': // BININT2
    return push_number(PickleValue::Kind::integer, number<uint16_t>());
  case 0x8a: // LONG1
    return push_long(number<uint8_t>());
  case 0x8b: // LONG4
    return push_long(number<uint32_t>());
  case 'G': // BINFLOAT
    number<uint64_t>();
    push(make(PickleValue::Kind::real));
    return;
  case 'X': // BINUNICODE
  case 'T': // BINSTRING
  case 'B': // BINBYTES
    return push_text(take(number<uint32_t>()));
  case 0x8c: // SHORT_BINUNICODE
  case 'U':  // SHORT_BINSTRING
  case 'C':  // SHORT_BINBYTES
    return push_text(take(number<uint8_t>()));
  case 0x8d: // BINUNICODE8
  case 0x8e: // BINBYTES8
    return push_text(take(number<uint64_t>()));

  case ')': // EMPTY_TUPLE
  case ']': // EMPTY_LIST
    return push_items({});
  case '}': // EMPTY_DICT
    push(make(PickleValue::Kind::dict));
    return;
  case 't': // TUPLE
  case 'l': // LIST
    return push_items(pop_to_mark());
  case 0x85: // TUPLE1
  case 0x86: // TUPLE2
  case 0x87: // TUPLE3
    return push_tuple(code - 0x84);
  case 'd': // DICT
  {
    std::vector<const PickleValue *> items = pop_to_mark();
    push(make(PickleValue::Kind::dict));
    return add_pairs(items);
  }
  case 'u': // SETITEMS
    return add_pairs(pop_to_mark());
  case 's': // SETITEM
  {
    const PickleValue *value = pop(), *key = pop();
    return add_pairs({key, value});
  }
  case 'e': // APPENDS
    return add_items(pop_to_mark());
  case 'a': // APPEND
    return add_items({pop()});

  case 'q': // BINPUT
    return memoize(number<uint8_t>());
  case 'r': // LONG_BINPUT
    return memoize(number<uint32_t>());
  case 0x94: // MEMOIZE
    return memoize(memo_.size());
  case 'h': // BINGET
    return recall(number<uint8_t>());
  case 'j': // LONG_BINGET
    return recall(number<uint32_t>());

  case 'c': // GLOBAL
  {
    std::string module = line();
    return push_name(module, line());
  }
  case 0x93: // STACK_GLOBAL
  {
    const PickleValue *name = pop(), *module = pop();
    return push_name(module->text, name->text);
  }
  case 'R': // REDUCE
  {
    const PickleValue *arguments = pop(), *callee = pop();
    if (callee->kind != PickleValue::Kind::name || arguments->kind != PickleValue::Kind::list)
      return damaged();
    push(make(PickleValue::Kind::call))->items = {callee, arguments};
    return;
  }
  case 'Q': // BINPERSID
  {
    const PickleValue *id = pop();
    push(make(PickleValue::Kind::persistent))->items = {id};
    return;
  }
  case 'b': // BUILD: attributes of an OrderedDict, which no tensor depends on
    pop();
    if (stack_.empty() || !stack_.back()->is_call("collections.OrderedDict"))
      damaged();
    return;
  }
  static constexpr char hex[] = "0123456789abcdef";
  fail("its pickle has the instruction 0x" + std::string{hex[code >> 4], hex[code & 15]} +
       ", which no file of tensors needs; nothing of it was executed. Save the tensors alone: "
       "torch.save(model.state_dict(), …)");
}

Result<const PickleValue *> Pickle::read(std::span<const std::byte> bytes, size_t &at) {
  Machine machine(*this, bytes, at);
  Result<const PickleValue *> out = machine.run();
  at = machine.at();
  return out;
}

} // namespace heddle
