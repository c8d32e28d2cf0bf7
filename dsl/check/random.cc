// `random(key, ..i)` and `fold(key, n)`. A key is two whole numbers. The first four indices are a Philox counter, of
// which word 0 is the number; of more indices each four make another key of words 0 and 1 first. A folded key is words
// 2 and 3 of the counter n, so that it meets no number of the key that it comes from.
#include "dsl/check/random.h"
#include "dsl/check/expressions.h"

#include <utility>

namespace heddle::checking {

std::optional<std::vector<const Expr *>> Random::key_of(const Tree &e, const char *call, Frame &frame) {
  const Tree &arg = *e.args[0];
  bool outer = std::exchange(frame.per_element, false);
  Entity key = expressions_.eval(arg, frame);
  frame.per_element = outer;
  if (key.kind == Entity::error)
    return std::nullopt;
  if (key.kind == Entity::lazy) {
    std::vector<Extent> shape = key.extents();
    const Tensor *made = steps_.materialise(key, frame.path + "key", arg.span);
    if (!made)
      return std::nullopt;
    key = entity(made, shape);
  }
  bool fits =
      key.kind == Entity::tensor && key.read->type == Type::i32 && key.read->shape == std::vector<Size>{Size(2)};
  if (!fits) {
    report(Code::E087, arg.span, {text(arg.span), call});
    return std::nullopt;
  }
  std::vector<const Expr *> words;
  for (int word : {0, 1})
    words.push_back(build_.read(key.read, {build_.integer(word)}, true, arg.span));
  return words;
}

Entity Random::number(const Tree &e, Frame &frame) {
  if (e.args.empty()) {
    report(Code::E029, e.span, {"random", "a key and indices", "nothing", "number(key, ..i)"});
    return {};
  }
  auto key = key_of(e, "random", frame);
  std::vector<const Expr *> counter;
  for (size_t i = 1; i < e.args.size() && key; ++i) {
    const Expr *index = expressions_.scalar(*e.args[i], frame);
    if (!index)
      return {};
    if (!is_integer(index->type)) {
      report(Code::E031, e.args[i]->span, {text(e.args[i]->span), type_name(index->type), "a whole number"});
      return {};
    }
    counter.push_back(build_.convert(index, Type::i32));
  }
  for (const syntax::Place &place : e.places) {
    auto pack = frame.index_packs.find(place.name.text);
    if (pack == frame.index_packs.end()) {
      report(Code::E020, place.span,
             {".." + place.name.text, "an index pack stands on the left side too: `y[.." + place.name.text + "] = …`"});
      return {};
    }
    for (int variable : pack->second)
      counter.push_back(build_.index(variable));
  }
  if (!key)
    return {};
  for (; counter.size() > 4; counter.erase(counter.begin(), counter.begin() + 4)) {
    std::vector<const Expr *> args = *key;
    args.insert(args.end(), counter.begin(), counter.begin() + 4);
    *key = {build_.philox(0, args), build_.philox(1, args)};
  }
  std::vector<const Expr *> args = *key;
  args.insert(args.end(), counter.begin(), counter.end());
  args.resize(6, build_.integer(0));
  // 24 bits, as many as f32 holds.
  const Expr *word = build_.philox(0, args);
  const Expr *high = build_.apply(Expr::floor_div, Type::i32, {word, build_.integer(256)}, e.span);
  const Expr *bits = build_.apply(Expr::add, Type::i32, {high, build_.integer(1 << 23)}, e.span);
  const Expr *number = build_.convert(bits, Type::f32);
  number = build_.apply(Expr::mul, Type::f32, {number, build_.real(0x1p-24, Type::f32)}, e.span);
  return entity(build_.convert(number, real_));
}

Entity Random::fold(const Tree &e, Frame &frame) {
  if (e.args.size() != 2) {
    report(Code::E029, e.span, {"fold", "2 arguments", std::to_string(e.args.size()), "fold(key, n)"});
    return {};
  }
  auto key = key_of(e, "fold", frame);
  bool outer = std::exchange(frame.per_element, false);
  const Expr *n = expressions_.scalar(*e.args[1], frame);
  frame.per_element = outer;
  if (!key || !n)
    return {};
  if (!is_integer(n->type)) {
    report(Code::E031, e.args[1]->span, {text(e.args[1]->span), type_name(n->type), "a whole number"});
    return {};
  }
  std::vector<const Expr *> args = *key;
  args.push_back(build_.convert(n, Type::i32));
  args.resize(6, build_.integer(0));
  auto formula = std::make_shared<Lazy>();
  formula->shape = {{Size(2), ""}};
  formula->variables = {indices_.new_variable("word", formula->shape[0])};
  const Expr *first =
      build_.apply(Expr::equal, Type::boolean, {build_.index(formula->variables[0]), build_.integer(0)}, e.span);
  formula->value = build_.select(first, build_.philox(2, args), build_.philox(3, args));
  Entity folded;
  folded.kind = Entity::lazy;
  folded.formula = std::move(formula);
  return folded;
}

} // namespace heddle::checking
