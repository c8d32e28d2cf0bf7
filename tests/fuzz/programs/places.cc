// Numbers of the call decide where: updates of a state and reads at places that are data, counters that states hold,
// requirements that keep them inside, also for numbers near the ends of 32 bits; and reads of products of sizes whose
// factors may be 0, some of which the checker must refuse.
#include "tests/fuzz/programs/generator.h"

#include <algorithm>

namespace heddle::fuzz {

/// A number that each call gives (generator.h: `# call at=3`), mostly small, sometimes at an end of its type.
std::string Generator::wild_number(int64_t ordinary) {
  std::string name = input(whole, {});
  std::erase_if(variables_, [&](const Variable &v) { return v.name == name; }); // formulas would only overflow
  inputs_.back() = name + ": i32";
  wild_.push_back({entry_name_, name, ordinary});
  return name;
}

int64_t Generator::wild_value(int64_t ordinary, bool tame) {
  static const int64_t ends[] = {2147483647, -2147483648, 2147483646,  -2147483647, 2147483640, 2147483625,
                                 1073741824, 1073741823,  -1073741824, 1431655766,  715827883,  -1,
                                 -2,         -24,         -40,         4294967,     65536,      2147483608};
  if (tame)
    return below(int(std::min<int64_t>(ordinary, 4)) + 1);
  if (chance(0.45))
    return below(int(ordinary) + 2);
  return ends[below(int(std::size(ends)))];
}

/// A formula of data without indices and, before it, the lines that keep it and the `count` places from it on inside of
/// `room`. At least `least_room` places there are, and `count` is at most 24.
std::string Generator::place_in(const Extent &room, const std::string &count, int64_t least_room,
                                const std::string &counter) {
  std::string at;
  int64_t ordinary = least_room - (count == "1" ? 1 : least_room / 3);
  std::string otherwise = one_of({"", "", " else \"no room\"", " else \"outside of the state\""});
  bool elements = false;
  switch (below(12)) {
  case 0:
  case 1:
    at = wild_number(ordinary);
    break;
  case 2:
    at = "(" + wild_number(ordinary / 2) + " + " + wild_number(ordinary / 2) + ")";
    break;
  case 3:
    at =
        "(" + std::to_string(2 + below(3)) + " * " + wild_number(ordinary / 3) + " + " + std::to_string(below(3)) + ")";
    break;
  case 4:
    at = "(" + wild_number(ordinary) + one_of({" + 5", " - 3", " - ", " + "});
    at += at.back() == ' ' ? dim().text + ")" : ")";
    break;
  case 5: { // one of several numbers, each of which is kept inside or only this one
    int64_t n = 1 + below(4);
    std::string numbers = input(whole, {number_extent(n)});
    inputs_.back() = numbers + ": i32[" + std::to_string(n) + "]";
    wild_.push_back({entry_name_, numbers, ordinary});
    at = numbers + "[" + std::to_string(below(int(n))) + "]";
    if (chance(0.5)) {
      line("require all[i](0 <= " + numbers + "[i] and " + numbers + "[i] + " + count + " <= " + room.text + ")" +
           otherwise);
      elements = true;
    }
    break;
  }
  case 6: {
    std::string numbers = need(whole, {dim()}, false, false), sum = fresh("n");
    line(sum + " = " + one_of({"sum", "max"}) + "[i](" + numbers + "[i])" +
         (chance(0.5) ? " + " + wild_number(ordinary) : ""));
    at = sum;
    break;
  }
  case 7:                                    // kept inside by what it is
    if (least_room >= 24 && room.constant()) // a dim may be 0
      return "max(0, min(" + wild_number(ordinary) + ", " + room.text + " - " + count + "))";
    [[fallthrough]];
  case 8:
    if (count == "1" && room.constant() && chance(0.4)) // by its type
      return input(position, {}, room);
    if (count == "1" && room.constant()) {
      std::string n = counter.empty() ? wild_number(ordinary) : counter;
      return chance(0.5) ? "(" + n + " % " + room.text + ")" : "((" + n + " + 1) % " + room.text + ")";
    }
    [[fallthrough]];
  default:
    at = counter.empty() ? wild_number(ordinary) : counter;
  }
  if (elements)
    return at;
  switch (below(5)) {
  case 0:
    line("require " + at + " >= 0 and " + at + " <= " + room.text + " - " + count + otherwise);
    break;
  case 1:
    line("require not (" + at + " < 0 or " + at + " + " + count + " > " + room.text + ")" + otherwise);
    break;
  case 2:
    line("require " + count + " <= " + room.text + " - " + at + otherwise);
    line("require " + at + " >= 0" + otherwise);
    break;
  default:
    line("require 0 <= " + at + " and " + at + " + " + count + " <= " + room.text + otherwise);
  }
  return at;
}

/// A part of a tensor from a place on that is data.
void Generator::part_of_data() {
  Extent steps = chance(0.6) ? dim() : number_extent(1 + below(9)),
         room = chance(0.5) ? dim() : number_extent(24 + below(20)), width = fixed(5);
  bool rows = chance(0.5);
  std::vector<Extent> shape{room}, out{steps};
  if (rows) {
    shape.push_back(width);
    out.push_back(width);
  }
  std::string from = need(real, shape, false, false),
              at = place_in(room, steps.text, room.constant() ? room.value : 1, ""), y = fresh("y"),
              rest = rows ? ", d" : "";
  line(y + "[t in " + steps.text + (rows ? ", d" : "") + "] = " + from + "[" + at + " + t" + rest + "]" +
       one_of({"", " * 2", " + t"}));
  add(y, real, out);
}

void Generator::declare_store() {
  store_ = {fresh("past"), number_extent(1 + below(3)), number_extent(24 + below(20)), number_extent(1 + below(4))};
  if (chance(0.2)) { // as long as its dim allows
    dims_["P"] = store_.room.value;
    store_.room = {"P"};
  }
  members_.push_back("state " + store_.name + ": real" + bracketed({store_.batch, store_.room, store_.width}) + " = " +
                     one_of({"0", "1"}));
  if (chance(0.6)) {
    counter_ = fresh("seen");
    members_.push_back("state " + counter_ + ": i32 = " + one_of({"0", "0", "3"}));
  }
}

/// Rows of the call put into the store, and what was there before.
void Generator::use_store() {
  auto &[past, batch, room, width] = store_;
  std::string counter = chance(0.6) ? counter_ : "";
  Extent steps = chance(0.25) ? number_extent(1) : chance(0.7) ? dim() : number_extent(1 + below(9));
  bool one = steps.constant() && steps.value == 1;
  int64_t least_room = room.constant() ? room.value : dims_["P"];
  std::string x = one ? input(real, {batch, width}) : input(real, {batch, steps, width}),
              at = place_in(room, steps.text, least_room, counter), there = one ? at : at + " + t", y = fresh("y"),
              of_x = x + (one ? "[b, d]" : "[b, t, d]"), of_past = past + "[b, " + there + ", d]",
              in = one ? "[b, d]" : "[b, t, d]";
  if (chance(0.5)) {
    line(y + (one ? "[b, d] = " : "[b, t in " + steps.text + ", d] = ") + of_past + one_of({" + ", " - ", " * "}) +
         of_x);
    add(y, real, one ? std::vector<Extent>{batch, width} : std::vector<Extent>{batch, steps, width});
  } else {
    line(y + "[b, d] = " + one_of({"sum", "max"}) + "[j in " + room.text + "](" + past + "[b, j, d])");
    add(y, real, {batch, width});
  }
  std::string value = chance(0.6)   ? of_x
                      : chance(0.5) ? of_x + " * 0.5 + " + of_past
                                    : "if " + of_x + " > 0 then " + of_x + " else 1";
  std::string place = past + "[b, " + there + ", d]";
  switch (below(6)) {
  case 0: // the same places by either arm
    updates_.push_back("if " + wild_number(3) + " > 1 { " + place + " <- " + of_x + " } else { " + place + " <- " +
                       of_x + " * 2 }");
    break;
  case 1: // only sometimes
    updates_.push_back("if " + dim().text + " < 5 { " + place + " <- " + value + " }");
    break;
  case 2: // plane by plane
    updates_.push_back("for l in " + batch.text + " { " + past + "[l, " + there + ", d] <- " + x +
                       (one ? "[l, d] }" : "[l, t, d] }"));
    break;
  default:
    updates_.push_back(place + " <- " + value);
  }
  if (counter_.empty() || chance(0.15))
    return;
  std::string next;
  switch (below(6)) {
  case 0:
    next = counter_ + " + " + wild_number(9); // by any number: also back
    break;
  case 1: {
    std::string by = wild_number(9);
    line("require " + by + " >= 0 else \"only forward\"");
    next = counter_ + " + " + by;
    break;
  }
  case 2:
    next = "(" + counter_ + " + 1) % " + room.text;
    if (!room.constant())
      next = counter_ + " + 1";
    break;
  case 3:
    next = wild_number(least_room / 2);
    break;
  case 4:
    next = at + " + " + steps.text;
    break;
  default:
    next = counter_ + " + " + steps.text;
  }
  updates_.push_back(counter_ + " <- " + next);
}

/// Reads of an axis that is a product of sizes, beside others of the same axis. Which of them may leave it, where a
/// factor is 0 or 1, the checker has to know: each program is refused, or the evaluator finds every read inside.
void Generator::doubtful_reads() {
  Extent a = dim(), b = dim();
  std::string t = a.text, m = b.text, tm = t + " * " + m;
  std::string flat = input(real, {Extent{tm}}), square = input(real, {a, b}),
              three = input(real, {Extent{tm + " * 2"}});
  std::string tokens = fresh("y");
  line(tokens + "[n in (y in " + t + ", x in " + m + ")] = " + square + "[y, x]");
  struct Row {
    std::string ranges, formula;
    std::vector<Extent> shape;
  };
  for (int count = 2 + below(4); count > 0; --count) {
    std::string from = chance(0.6) ? flat : tokens;
    const Row rows[] = {
        {"m in " + m, from + "[m]", {b}},
        {"m in " + m, from + "[m * " + t + "]", {b}},
        {"m in " + t, from + "[m]", {a}},
        {"m in " + t, from + "[m * " + m + "]", {a}},
        {"m in " + t, from + "[m * " + m + " + " + m + " - 1]", {a}},
        {"m in " + t, "sum[x in " + m + "](" + from + "[m * " + m + " + x])", {a}},
        {"y in " + t + ", x in " + m, from + "[y * " + m + " + x]", {a, b}},
        {"y in " + t + ", x in " + m, from + "[x * " + t + " + y]", {a, b}},
        {"y in " + t + ", x in " + m, from + "[y + x]", {a, b}},
        {"y in " + t + ", x in " + m, three + "[(y * " + m + " + x) * 2 + 1]", {a, b}},
        {"y in " + t + ", x in " + m, three + "[y * " + m + " * 2 + x]", {a, b}},
        {"n in " + tm, from + "[" + tm + " - 1 - n]", {Extent{tm}}},
        {"n in " + tm, three + "[2 * n + 1]", {Extent{tm}}},
        {"n in " + tm, three + "[n + " + tm + "]", {Extent{tm}}},
        {"i in 3", from + "[0]", {number_extent(3)}},
        {"i in 3", from + "[" + tm + " - 1]", {number_extent(3)}},
        {"m in " + m, "if " + t + " > 0 then " + from + "[m] else 0", {b}},
        {"m in " + m, "if " + t + " != 0 then " + from + "[m] else 0", {b}},
        {"m in " + m, "if " + m + " > 0 then " + from + "[m] else 0", {b}},
        {"m in " + m, "if " + tm + " > 0 then " + from + "[m] else 0", {b}},
        {"m in " + m, "if m < " + tm + " then " + from + "[m] else 1", {b}},
        {"y in " + t, square + "[y, 0]", {a}},
        {"x in " + m, square + "[0, x]", {b}},
        {"x in " + m, square + "[" + t + " - 1, x]", {b}},
        {"x in " + m, "max[y in " + t + "](" + square + "[y, x])", {b}},
        {"x in " + m, "sum[y in " + t + "](" + square + "[y, 0])", {b}},
        {"y in " + t + ", n in " + tm, square + "[y, 0] + " + from + "[n]", {a, Extent{tm}}},
        {"y in " + t + ", n in " + tm, square + "[0, 0] + " + from + "[y]", {a, Extent{tm}}},
    };
    const Row &row = rows[below(int(std::size(rows)))];
    std::string name = fresh("r");
    line(name + "[" + row.ranges + "] = " + row.formula + one_of({"", " * 2", " + 1"}));
    add(name, real, row.shape);
  }
}

} // namespace heddle::fuzz
