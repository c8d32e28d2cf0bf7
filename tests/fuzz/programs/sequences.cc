// What runs along a sequence: attention in its many forms, loops over time, and states that go from call to call.
#include "tests/fuzz/programs/generator.h"

namespace heddle::fuzz {

void Generator::attention() {
  static const int widths[] = {1, 2, 3, 4, 8, 16};
  int groups = 1 + below(3), share = chance(0.2) ? 2 + below(2) : 1;
  Extent batch = any_extent(), kept = number_extent(groups), heads = number_extent(groups * share),
         queries = chance(0.7) ? dim() : fixed(9), keys = chance(0.6) ? queries : any_extent(),
         width = number_extent(widths[below(6)]);
  bool heads_first = chance(0.25), band = chance(0.2);
  if (band)
    keys = queries;
  auto shape = [&](const Extent &n, const Extent &h) {
    return heads_first ? std::vector<Extent>{batch, h, n, width} : std::vector<Extent>{batch, n, h, width};
  };
  auto at = [&](const std::string &n, const std::string &h) {
    return heads_first ? "[b, " + h + ", " + n + ", e" : "[b, " + n + ", " + h + ", e";
  };
  std::string of_key = share == 1 ? "h" : "h // " + std::to_string(share);
  std::string q = need(real, shape(queries, heads), false, false), k = need(real, shape(keys, kept), false, false),
              v = need(real, shape(keys, kept), chance(0.5), false);
  int left = below(4), window = left + 1 + below(3);
  std::string j = band ? "i + o - " + std::to_string(left) : "j", end = band ? " | 0]" : "]";
  std::string score = "sum[e](" + q + at("i", "h") + "] * " + k + at(j, of_key) + end + ")";
  if (chance(0.2)) { // a second term, of distances: r[distance]
    Extent distances = band                                    ? number_extent(window)
                       : queries.constant() && keys.constant() ? number_extent(queries.value + keys.value)
                                                               : Extent{queries.text + " + " + keys.text};
    std::string distance = band ? "o" : "i - j + " + (keys.constant() ? keys.text : "(" + keys.text + ")");
    if (chance(0.5))
      score += " + " + need(real, {distances, width}, false, band) + "[" + distance + ", 0 | 0]";
    else
      score = "(" + score + " + sum[e](" + q + at("i", "h") + "] * " + need(real, {distances, width}, false, band) +
              "[" + distance + ", e]))";
  }
  if (chance(0.6))
    score += one_of({" / 2", " / sqrt(3.0)", " * 0.25"});
  if (chance(0.2))
    score += band ? " - 0.5 * abs(o - 1)" : " - 0.5 * abs(i - j)";
  if (chance(0.2))
    score += " + " + need(real, {heads}, false) + "[h]";
  if (!band && chance(0.15))
    score += " + " + need(real, {queries, keys}, false, false) + "[i, j]";
  std::string test;
  auto also = [&](const std::string &what) { test += (test.empty() ? "" : " and ") + what; };
  if (band) {
    if (chance(0.5))
      also(queries.constant() ? "0 <= " + j + " and " + j + " < " + queries.text
                              : "0 <= " + j + " and " + j + " < (" + queries.text + ")");
    if (chance(0.4))
      also(need(boolean, {batch, keys}, false, false) + "[b, " + j + " | " + one_of({"false", "false", "true"}) + "]");
  } else {
    if (chance(0.35))
      also(chance(0.8) ? "j <= i" : "j <= i + " + (chance(0.5) ? dim().text : "2"));
    if (chance(0.2))
      also(one_of({"i - j < 3", "abs(i - j) <= 2", "i - 4 <= j", "i < j + 3"}));
    if (chance(0.3))
      also(need(boolean, {batch, keys}, false, false) + "[b, j]");
    if (chance(0.1))
      also(need(boolean, {queries, keys}, false, false) + "[i, j]");
    if (chance(0.1))
      also(need(whole, {batch, keys}, false, false) + "[b, j] != 0");
    if (chance(0.15))
      also("j < " + need(whole, {batch}, false, false) + "[b]");
  }
  std::string s = fresh("s"), a = fresh("a"), p = fresh("p");
  Extent columns = band ? number_extent(window) : keys;
  std::string column = band ? "o" : "j";
  line(s + "[b in " + batch.text + ", h in " + heads.text + ", i in " + queries.text + ", " + column + " in " +
       columns.text + "] = " +
       (test.empty()   ? score
        : chance(0.85) ? "if " + test + " then " + score + " else -inf"
                       : "if not (" + test + ") then -inf else " + score));
  std::vector<Extent> out = {batch, queries, heads, width};
  std::string out_at = "[b, i, h, e]";
  if (!band && share == 1 && !heads_first && chance(0.5)) {
    line("let " + a + " = attend(" + s + ", " + v + ")");
  } else {
    if (chance(0.85))
      line("let " + p + " = softmax(" + s + ")");
    else
      line("let " + p + " = sigmoid(" + s + ")");
    if (chance(0.15)) {
      out = {batch, heads, queries, width};
      out_at = "[b, h, i, e]";
    }
    line(a + out_at + " = sum[" + column + "](" + p + "[b, h, i, " + column + "] * " + v + at(j, of_key) + end + ")");
    if (chance(0.2))
      add(p, real, {batch, heads, queries, columns});
  }
  add(a, real, out);
  if (chance(0.5)) {
    std::string w = weight({heads, width, number_extent(5)}), o = fresh("o");
    line(o + "[b, i, d] = sum[h, e](" + a + out_at + " * " + w + "[h, e, d])");
    add(o, real, {batch, queries, number_extent(5)});
  }
}

/// A recurrence with a product in every iteration, whose states are also collected.
void Generator::recurrence() {
  Extent batch = chance(0.8) ? any_extent() : dim(), steps = dim(), width = fixed(6);
  if (batch == steps)
    return define();
  bool backwards = chance(0.25), two = chance(0.3), collects = chance(0.7), late = chance(0.15);
  std::string t = late ? backwards ? steps.text + " - t" : "t - 1" : backwards ? steps.text + " - 1 - t" : "t";
  std::string x = need(real, {batch, steps, width}, chance(0.5), false), w = weight({width, width});
  std::string h = fresh("h"), z = fresh("z"), y = fresh("y"), c = two ? fresh("h") : "", old = fresh("old");
  std::string rows = "[b in " + batch.text + ", d in " + width.text + "] = ";
  line(h + rows + one_of({"0", "0.5", "d * 0.25"}));
  if (two)
    line(c + rows + "b * 0.125");
  std::string length = chance(0.25) ? need(whole, {batch}, false, false) : "";
  collects = collects && !late; // a tensor that is collected has all its slices
  line("for t in " + (late ? "1 .. " + steps.text + " + 1" : steps.text) + " with " + h + (two ? ", " + c : "") + " {");
  ++indent_;
  line(z + "[b, d] = " + one_of({"tanh", "sigmoid"}) + "(" + x + "[b, " + t + ", d] + sum[e](" + h + "[b, e] * " + w +
       "[d, e])" + (two ? " + " + c + "[b, d]" : "") + (chance(0.3) ? " * (if t % 2 == 0 then 1 else 0.5)" : "") + ")");
  if (two) {
    line("let " + old + " = " + h);
    line(h + " = " + z);
    line(c + " = " + c + " * 0.5 + " + old);
  } else if (!length.empty()) {
    line(h + "[b, d] = if " + t + " < " + length + "[b] then " + z + "[b, d] else " + h + "[b, d]");
  } else {
    line(h + " = " + z);
  }
  bool time_first = chance(0.25);
  if (collects)
    line(y + (time_first ? "[t, b, d] = " : "[b, t, d] = ") + z + "[b, d]" + one_of({"", " * 2", " + 1"}));
  --indent_;
  line("}");
  add(h, real, {batch, width});
  if (collects)
    add(y, real, time_first ? std::vector<Extent>{steps, batch, width} : std::vector<Extent>{batch, steps, width});
}

void Generator::time_loop() {
  int dice = below(10);
  if (dice < 5)
    return recurrence();
  Extent batch = any_extent(), steps = dim(), width = number_extent(1 + below(6));
  if (batch == steps)
    return define();
  if (dice < 7) { // the prelude's layers
    Extent wide = number_extent(1 + below(5));
    std::string x = need(real, {batch, steps, wide}, false, false), n = need(whole, {batch}, false, false),
                h = need(real, {batch, width}, false, false), c = need(real, {batch, width}, false, false),
                sub = fresh("rnn"), ys = fresh("y"), h1 = fresh("h"), c1 = fresh("h");
    members_.push_back("sub " + sub + " = Recurrent(\"" + one_of({"rnn", "lstm", "gru"}) + "\", " + wide.text + ", " +
                       width.text + ", 0, \"" + one_of({"", "_reverse"}) + "\")");
    line("let " + ys + ", " + h1 + ", " + c1 + " = " + sub + ".over(" + x + ", " + n + ", " + h + ", " + c + ")");
    add(ys, real, {batch, steps, width});
    add(h1, real, {batch, width});
    add(c1, real, {batch, width});
    return;
  }
  if (dice < 9) { // a linear recurrence: no product in an iteration
    std::string a = need(real, {batch, steps, width}, false, false),
                u = need(real, {batch, steps, width}, false, false), h = fresh("h"), next = fresh("z"), y = fresh("y"),
                t = chance(0.3) ? steps.text + " - 1 - t" : "t";
    line(h + "[b in " + batch.text + ", d in " + width.text + "] = " + one_of({"0", "1", "d"}) + " * 0.5");
    line("for t in " + steps.text + " with " + h + " {");
    ++indent_;
    line(next + "[b, d] = sigmoid(" + a + "[b, " + t + ", d]) * " + h + "[b, d] + " + u + "[b, " + t + ", d]" +
         (chance(0.3) ? " * sum[e](" + u + "[b, " + t + ", e])" : ""));
    line(y + "[b, t, d] = " + next + "[b, d]" + (chance(0.4) ? " + sum[e](" + next + "[b, e]) * 0.125" : ""));
    if (chance(0.3))
      line("if " + t + " < 3 { " + h + " = " + next + " } else { " + h + " = " + next + " * 0.5 }");
    else
      line(h + " = " + next);
    --indent_;
    line("}");
    add(y, real, {batch, steps, width});
    add(h, real, {batch, width});
    return;
  }
  // Each iteration goes on with what the one before chose.
  Extent rows = number_extent(2 + below(5));
  std::string table = weight({rows, width}), head = weight({rows, width}), token = fresh("n"), s = fresh("s"),
              best = fresh("n"), all = fresh("n");
  line(token + "[b in " + batch.text + "] = 0");
  line("for t in " + steps.text + " with " + token + " {");
  ++indent_;
  line(s + "[b, v] = sum[d](" + table + "[" + token + "[b], d | 0] * " + head +
       "[v, d]) + (if v == t then 1.5 else 0)");
  line(best + "[b] = argmax[v](" + s + "[b, v])");
  line(all + "[b, t] = " + best + "[b]");
  line(token + " = " + best);
  --indent_;
  line("}");
  add(all, whole, {batch, steps});
}

/// What both arms define, chosen at run time.
void Generator::choice() {
  std::vector<Extent> ranges;
  Variable *like = variable(real);
  if (like && chance(0.7))
    ranges = like->shape;
  while (ranges.size() < 3 && chance(0.4))
    ranges.push_back(any_extent());
  Variable *number = variable(whole);
  std::string test = number && number->shape.empty() && chance(0.6)
                         ? number->name + one_of({" > ", " <= ", " == "}) + std::to_string(below(3))
                         : dim().text + one_of({" < ", " >= ", " == "}) + std::to_string(1 + below(6));
  if (chance(0.3))
    test += one_of({" and ", " or "}) + dim().text + " != 2";
  std::vector<std::pair<std::string, Kind>> made{{fresh("y"), real}};
  if (chance(0.3))
    made.emplace_back(fresh("n"), whole);
  auto arm = [&] {
    ++indent_;
    for (const auto &[name, kind] : made)
      define_over(name, kind, ranges, 2 + below(2));
    --indent_;
  };
  line("if " + test + " {");
  arm();
  if (chance(0.2)) {
    line("} else if " + dim().text + " > 4 {");
    arm();
  }
  line("} else {");
  arm();
  line("}");
  for (const auto &[name, kind] : made)
    add(name, kind, ranges);
}

/// Values of earlier calls: some that are updated whole from old ones, rows appended at a run-time place, a memory that
/// moves on, rows written anywhere, a value that one entry sets for the other.
void Generator::declare_states() {
  if (chance(0.5))
    declare_store();
  if (entry_names_.size() > 1 && chance(0.3)) {
    Variable late{fresh("past"), real, {fixed(6)}, {}};
    if (chance(0.6))
      late.shape.push_back(dim());
    members_.push_back("state " + late.name + ": real" + bracketed(late.shape));
    keeps_dims_ |= late.shape.size() > 1;
    late_.push_back(late);
  }
  for (int count = below(3) + (store_.name.empty() && late_.empty()); count > 0; --count) {
    std::vector<Extent> shape{fixed(6)};
    while (shape.size() < 3 && chance(0.4))
      shape.insert(chance(0.5) ? shape.begin() : shape.end(), chance(0.4) ? dim() : fixed(6));
    Kind kind = chance(0.8) ? real : whole;
    std::string name = fresh("past");
    members_.push_back("state " + name + ": " + type_name(kind, {}) + bracketed(shape) + " = " +
                       one_of({"0", "0", "1"}));
    states_.push_back(name);
    add(name, kind, shape, false);
    for (const Extent &e : shape)
      keeps_dims_ |= !e.constant();
  }
  keeps_dims_ = keeps_dims_ && chance(0.8);
  if (chance(0.3)) {
    memory_ = {fresh("past"), fixed(3), number_extent(1 + below(9)), number_extent(1 + below(4))};
    members_.push_back("state " + memory_.name + ": real" + bracketed({memory_.batch, memory_.room, memory_.width}) +
                       " = 0");
  }
  if (!chance(0.35))
    return;
  cache_ = {fresh("past"), fixed(3), number_extent(40), number_extent(1 + below(4))};
  cached_ = fresh("seen");
  members_.push_back("state " + cache_.name + ": real" + bracketed({cache_.batch, cache_.room, cache_.width}) + " = 0");
  members_.push_back("state " + cached_ + ": i32 = 0");
}

/// What an entry reads of the states, and its updates of them, which are written at its end.
void Generator::use_states() {
  updates_.clear();
  if (!store_.name.empty() && chance(0.85))
    use_store();
  if (!late_.empty() && entry_name_ != entry_names_[0]) {
    variables_.push_back(late_[0]);
    ++variables_.back().reads;
    std::string y = fresh("y");
    line("let " + y + " = " + late_[0].name + " * 2");
    add(y, real, late_[0].shape);
  }
  if (!memory_.name.empty() && chance(0.8)) { // the last `room` rows of memory and input
    auto &[past, batch, room, width] = memory_;
    Extent steps = dim();
    std::string x = input(real, {batch, steps, width}), all = fresh("y"), y = fresh("y");
    line(all + "[b in " + batch.text + ", j in " + room.text + " + " + steps.text + ", d in " + width.text +
         "] = if j < " + room.text + " then " + past + "[b, j, d] else " + x + "[b, j - " + room.text + ", d]");
    line(y + "[b, t in " + steps.text + ", d] = " + one_of({"sum", "max"}) + "[u in " + room.text + "](" + all +
         "[b, t + u, d])");
    add(y, real, {batch, steps, width});
    updates_.push_back(chance(0.5) ? past + "[b, m, d] <- " + all + "[b, m + " + steps.text + ", d]"
                                   : past + "[b, m, d] <- if m + " + steps.text + " < " + room.text + " then " + past +
                                         "[b, m + " + steps.text + ", d] else " + x + "[b, m + " + steps.text + " - " +
                                         room.text + ", d]");
  }
  if (!cache_.name.empty()) {
    auto &[past, batch, room, width] = cache_;
    Extent steps = dim();
    std::string x = input(real, {batch, steps, width}), y = fresh("y");
    line("require 0 <= " + cached_ + " and " + cached_ + " + " + steps.text + " <= " + room.text + " else \"no room\"");
    if (chance(0.5)) {
      line(y + "[b, d] = sum[j in " + room.text + " where j < " + cached_ + "](" + past + "[b, j, d])");
      add(y, real, {batch, width});
    } else { // attention of the new rows to all that there are
      std::string s = fresh("s"), p = fresh("p");
      line(s + "[b, i in " + steps.text + ", j in " + room.text + "] = if j < " + cached_ + " then sum[e](" + x +
           "[b, i, e] * " + past + "[b, j, e]) else if j <= " + cached_ + " + i then sum[e](" + x + "[b, i, e] * " + x +
           "[b, j - " + cached_ + ", e]) else -inf");
      line("let " + p + " = softmax(" + s + ")");
      line(y + "[b, i, d] = sum[j](" + p + "[b, i, j] * (if j < " + cached_ + " then " + past +
           "[b, j, d] else if j < " + cached_ + " + " + steps.text + " then " + x + "[b, j - " + cached_ +
           ", d] else 0))");
      add(y, real, {batch, steps, width});
    }
    updates_.push_back(past + "[b, " + cached_ + " + t, d] <- " + x + "[b, t, d]");
    updates_.push_back(cached_ + " <- " + cached_ + " + " + steps.text);
  }
}

/// An update of all of a state.
void Generator::whole_update(const Variable &state) {
  std::string name = state.name, formula, places;
  indices_.clear();
  for (const Extent &range : state.shape)
    bind(range);
  formula = scalar_of(state.kind, 2 + below(2));
  for (const Index &index : indices_)
    places += (places.empty() ? "" : ", ") + index.name;
  line(name + "[" + places + "] <- " + formula);
  indices_.clear();
}

void Generator::update_states() {
  for (const std::string &name : states_) {
    Variable *state = nullptr;
    for (Variable &v : variables_)
      if (v.name == name)
        state = &v;
    whole_update(*state);
  }
  if (!late_.empty() && (entry_name_ == entry_names_[0] || chance(0.5)))
    whole_update(late_[0]);
  for (const std::string &update : updates_)
    line(update);
}

} // namespace heddle::fuzz
