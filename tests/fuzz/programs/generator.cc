// Declarations around the statements, and what a program is called with.
#include "tests/fuzz/programs/generator.h"

#include <algorithm>
#include <sstream>

namespace heddle::fuzz {

std::string generate(uint64_t seed) { return Generator(seed % with_gradients, seed >= with_gradients).program(); }

Generator::Generator(uint64_t seed, bool gradients)
    : random_(seed * 0x9E3779B97F4A7C15 + 1), widths_(seed), gradients_(gradients) {
  variables_.reserve(256);
}

void Generator::line(const std::string &text) { body_.push_back(std::string(2 * indent_, ' ') + text); }

std::string Generator::list(const std::vector<Extent> &shape) {
  std::string out;
  for (const Extent &e : shape)
    out += (out.empty() ? "" : ", ") + e.text;
  return out;
}

std::string Generator::type_name(Kind kind, const Extent &below) {
  return kind == real ? "real" : kind == whole ? "i32" : kind == boolean ? "bool" : "index(" + below.text + ")";
}

std::string Generator::width(Kind kind) {
  static const char *const reals[] = {"bf16", "f16", "f32"};
  bool other = widths_() % 16 == 0;
  if (kind == real)
    return other ? reals[widths_() % 3] : "real";
  return kind == whole && other ? "i8" : type_name(kind, {});
}

Generator::Variable &Generator::add(const std::string &name, Kind kind, const std::vector<Extent> &shape, bool made) {
  variables_.push_back({name, kind, shape, {}});
  variables_.back().made = made;
  return variables_.back();
}

Generator::Extent Generator::dim() {
  std::string name = dim_names_.empty() ? "B" : one_of(dim_names_);
  return {name};
}

Generator::Extent Generator::long_dim(int most) {
  auto known = dims_.try_emplace("L", most).first; // not in dim_names_: nothing else is made over it
  known->second = std::min<int64_t>(known->second, most);
  return {"L"};
}

Generator::Extent Generator::fixed(int most) {
  if (!configs_.empty() && chance(0.3)) {
    std::string text = one_of(configs_); // "D = 4"
    return {text.substr(0, 1), std::stoi(text.substr(4))};
  }
  static const int usual[] = {1, 2, 3, 4, 5, 7, 8, 9, 16, 17, 24, 33};
  int value = chance(0.03) ? 0 : usual[below(12)];
  return number_extent(value > most ? 1 + value % most : value);
}

Generator::Extent Generator::any_extent() {
  if (chance(0.5))
    return dim();
  if (chance(0.12))
    return {dim().text + " + " + std::to_string(1 + below(3))};
  return fixed();
}

std::string Generator::input(Kind kind, const std::vector<Extent> &shape, const Extent &below) {
  std::string name = fresh(kind == position ? "ids" : kind == boolean ? "mask" : kind == whole ? "num" : "x");
  // An input's extent is a dim or a constant, so that calls can bind dims by it; sums of them are bound otherwise.
  std::string type = kind == position || shape.empty() ? type_name(kind, below) : width(kind);
  inputs_.push_back(name + ": " + type + bracketed(shape) +
                    (chance(0.08) && kind != position ? kind == boolean ? " = true" : " = 1" : ""));
  add(name, kind, shape, false).below = below;
  return name;
}

std::string Generator::weight(const std::vector<Extent> &shape) {
  std::string name = fresh("w");
  int64_t count = 1;
  for (const Extent &e : shape)
    count *= e.value;
  std::string text = "param " + name;
  if (chance(0.2))
    text += " as \"" + name + ".weight\"";
  text += ": " + width(real) + bracketed(shape);
  if (shape.size() > 1 && chance(0.3)) { // a view of what is stored flat
    std::string first = shape[0].text;
    for (size_t d = 1; d + 1 < shape.size(); ++d)
      first += " * " + shape[d].text;
    text +=
        chance(0.5) ? " stored [" + std::to_string(count) + "]" : " stored [" + first + ", " + shape.back().text + "]";
  }
  members_.push_back(text);
  add(name, real, shape, false).shared = true;
  return name;
}

std::string Generator::need(Kind kind, const std::vector<Extent> &shape, bool fresh_one, bool may_be_weight) {
  std::vector<Variable *> known;
  for (Variable &v : variables_)
    if (v.kind == kind && v.shape == shape)
      known.push_back(&v);
  if (!known.empty() && !fresh_one && chance(0.85)) {
    Variable *v = one_of(known);
    ++v->reads;
    return v->name;
  }
  bool constant = std::all_of(shape.begin(), shape.end(), [](const Extent &e) { return e.constant() && e.value > 0; });
  std::string name;
  if (kind == real && constant && may_be_weight && chance(0.7))
    name = weight(shape);
  else if (kind == real && chance(0.15)) { // made of indices
    name = fresh("y");
    define_over(name, real, shape, 2);
    add(name, real, shape);
  } else
    name = input(kind, shape);
  ++variables_.back().reads;
  return name;
}

std::string Generator::functions() {
  std::string x = one_of({"x[..s, n]", "tanh(x[..s, n])", "(x[..s, n] + 1)"}), slope = constant();
  return "fn both(x: real[..S, _]) -> (real[..S], real[..S]) {\n  a[..s] = sum[n](" + x +
         ")\n  b[..s] = max[n](x[..s, n])\n"
         "  return a, b\n}\n"
         "fn bend(a: real, b: real) -> real = if a < b then a * 0.5 else b + " +
         slope +
         "\n"
         "fn mixed(x: real[..S], y: real[..S]) -> real[..S] { return bend(x, y) }\n"
         "fn centred(x: real[..S, N]) -> real[..S, N] {\n"
         "  m[..s] = sum[n](x[..s, n]) / (N + 1)\n  y[..s, n] = x[..s, n] - m[..s]\n  return y\n}\n"
         "module Block(N) {\n  sub up = Linear(N, 2 * N)\n  param down: real[N, 2 * N]\n"
         "  fn call(x: real[..S, N]) -> real[..S, N] {\n    let h = gelu(up(x))\n"
         "    y[..s, n] = x[..s, n] + sum[k](h[..s, k] * down[n, k])\n    return y\n  }\n}\n";
}

std::string Generator::calls() {
  std::string out;
  std::map<std::string, int64_t> first;
  const int usual[] = {0, 0, 1, 1, 2, 3, 4, 5, 6, 7, 8, 9, 13, 16, 17, 23}, few[] = {0, 0, 0, 1, 1, 1, 2, 3};
  int count = int(2 + entry_names_.size()) + (has_states() ? below(4) : 0) + (doubtful_ ? 3 : 0);
  bool swapped = chance(0.2); // the second entry is called first
  for (int call = 0; call < count; ++call) {
    out += "# call";
    std::string entry = entry_names_[0];
    if (entry_names_.size() > 1) {
      entry = call < 2 ? entry_names_[(call == 1) != swapped] : one_of(entry_names_);
      out += " " + entry;
    }
    for (const std::string &name : dim_names_) {
      // The first call is an ordinary one.
      int size = call == 0 ? 2 + below(7) : doubtful_ ? few[below(int(std::size(few)))] : usual[below(16)];
      if (keeps_dims_ && call > 0)
        size = int(first[name]);
      first.try_emplace(name, size);
      out += " " + name + "=" + std::to_string(std::min<int64_t>(size, dims_[name]));
    }
    if (auto known = dims_.find("L"); known != dims_.end()) {
      const int lengths[] = {1, 40, 63, 64, 65, 100, 127, 128, 129, 200, 255, 256, 257, 300, 385, 513},
                longest[] = {1, 500, 639, 1023, 1279, 1280, 1281, 1300, 1500, 2559, 2561};
      int size = call == 0             ? 257 + below(44)
                 : chance(0.05)        ? 0
                 : known->second > 600 ? longest[below(int(std::size(longest)))]
                                       : lengths[below(16)];
      if (keeps_dims_ && call > 0)
        size = int(first["L"]);
      first.try_emplace("L", size);
      out += " L=" + std::to_string(std::min<int64_t>(size, known->second));
    }
    if (auto room = dims_.find("P"); room != dims_.end()) // no input has it: it is as large as it may be
      out += " P=" + std::to_string(room->second);
    for (const Wild &wild : wild_)
      if (wild.entry == entry)
        out += " " + wild.input + "=" + std::to_string(wild_value(wild.ordinary, call == 0));
    out += "\n";
  }
  return out;
}

bool Generator::has_states() const {
  return !states_.empty() || !cache_.name.empty() || !memory_.name.empty() || !store_.name.empty() || !late_.empty();
}

std::string Generator::entry(const std::string &name) {
  entry_name_ = name;
  std::erase_if(variables_, [](const Variable &v) { return !v.shared; });
  inputs_.clear();
  body_.clear();
  long_results_.clear();
  // Every dim is the extent of some input.
  for (const std::string &dim_name : dim_names_) {
    std::vector<Extent> shape{{dim_name}};
    while (shape.size() < 4 && chance(0.6))
      shape.insert(chance(0.5) ? shape.begin() : shape.end(), chance(0.3) ? dim() : fixed());
    input(real, shape);
    inputs_.back() = inputs_.back().substr(0, inputs_.back().find(" ="));
  }
  if (chance(0.3))
    input(whole, {any_extent()});
  if (chance(0.3))
    input(boolean, {any_extent()});
  if (chance(0.2))
    input(position, {any_extent()}, number_extent(1 + below(8)));
  if (chance(0.15))
    input(whole, {});

  use_states();
  // Mostly one: what goes wrong seldom takes more, and small programs compile fast.
  int statements = chance(0.6) ? 1 : 1 + below(chance(0.3) ? 6 : 3);
  if (doubtful_ && chance(0.6)) {
    doubtful_reads();
    statements = 0;
  }
  for (int i = 0; i < statements; ++i)
    statement();
  update_states();

  // What nothing reads is a result; and the last value, so that there is one.
  std::string header, returned;
  int results = 0;
  for (size_t i = variables_.size(); i-- > 0 && results < 4;) {
    const Variable &v = variables_[i];
    if (!v.made || (results > 0 && v.reads > 0 && chance(0.8)))
      continue;
    header += (results ? ",\n" : "\n") + std::string("    out") + std::to_string(results) + ": " +
              type_name(v.kind, {}) + bracketed(v.shape);
    returned += (results ? ", " : "") + v.name;
    ++results;
  }
  for (const auto &[long_name, type] : long_results_) {
    header += (results ? ",\n" : "\n") + std::string("    out") + std::to_string(results) + ": " + type;
    returned += (results ? ", " : "") + long_name;
    ++results;
  }
  if (results == 0) {
    define();
    const Variable &v = variables_.back();
    header = "\n    out0: " + type_name(v.kind, {}) + bracketed(v.shape);
    returned = v.name;
  }
  if (gradients_)
    add_gradients(header, returned);
  std::string out = "  entry " + name + "(";
  for (size_t i = 0; i < inputs_.size(); ++i)
    out += (i ? ",\n    " : "\n    ") + inputs_[i];
  out += ")\n  ->" + header + " {\n";
  for (const std::string &text : body_)
    out += text + "\n";
  return out + "    return " + returned + "\n  }\n";
}

/// The gradients of one number that all real results make, by the real inputs and params; nothing is drawn for it.
void Generator::add_gradients(std::string &header, std::string &returned) {
  std::string loss;
  std::istringstream names(returned);
  for (std::string name; std::getline(names >> std::ws, name, ',');)
    for (const Variable &v : variables_) {
      if (v.name != name || v.kind != real)
        continue;
      std::string at, angle = "0.3";
      for (size_t axis = 0; axis < v.shape.size(); ++axis) {
        std::string index = "at" + std::to_string(axis);
        at += (axis ? ", " : "") + index;
        angle += " + " + std::to_string(axis + 1) + ".3 * " + index;
      }
      loss += (loss.empty() ? "" : " + ") +
              (at.empty() ? name + " * 0.7" : "sum[" + at + "](" + name + "[" + at + "] * sin(" + angle + "))");
    }
  if (loss.empty())
    return;
  body_.push_back("    of_all = " + loss);
  int number = 0;
  auto ask = [&](const std::string &declared) { // "x0: real[B, 3]", "param w3 as "w3.weight": real[4, 3]"
    size_t colon = declared.rfind(": real");
    if (colon == std::string::npos)
      return;
    std::string name = declared.substr(declared.starts_with("param ") ? 6 : 0);
    name = name.substr(0, name.find_first_of(": "));
    std::string shape = declared.substr(colon + 6);
    header += ",\n    gradient" + std::to_string(number++) + ": real" + shape.substr(0, shape.find(']') + 1);
    returned += ", grad(of_all, " + name + ")";
  };
  for (const std::string &one : inputs_)
    ask(one);
  for (const std::string &one : members_)
    if (one.starts_with("param "))
      ask(one);
}

std::string Generator::program() {
  for (const char *name : {"B", "T", "M"})
    if (dim_names_.empty() || chance(0.5)) {
      dim_names_.push_back(name);
      dims_[name] = 24;
    }
  for (const char *name : {"D", "H"})
    if (chance(0.4))
      configs_.push_back(std::string(name) + " = " + std::to_string(2 + below(6)));
  doubtful_ = chance(0.06);
  bool remembers = chance(0.18);
  entry_names_ = {"run"};
  if (chance(remembers ? 0.5 : 0.08))
    entry_names_.push_back("next");
  if (remembers)
    declare_states();
  for (Variable &v : variables_)
    v.shared = true; // the states
  std::string entries;
  for (const std::string &name : entry_names_)
    entries += entry(name);

  std::string out = calls() + "# data " + one_of({"whole", "normal"}) + "\n# target " +
                    one_of({"native", "native", "native", "x86-64-v3"}) + "\n";
  if (uint64_t n = widths_() % 6; n < 2)
    out += n == 0 ? "# real bf16\n" : "# real f16\n";
  if (doubtful_)
    out += "# may be refused\n";
  for (const std::string &config : configs_)
    out += "config " + config + "\n";
  for (const std::string &name : dim_names_)
    out += "dim " + name + " <= " + std::to_string(dims_[name]) + "\n";
  for (const char *name : {"L", "P"})
    if (auto known = dims_.find(name); known != dims_.end())
      out += std::string("dim ") + name + " <= " + std::to_string(known->second) + "\n";
  out += functions() + "model Fuzz {\n";
  for (const std::string &member : members_)
    out += "  " + member + "\n";
  return out + entries + "}\n";
}

} // namespace heddle::fuzz
