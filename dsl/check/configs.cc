// What a setting took is noted in the program, so that a compilation can say where its numbers came from.
#include "dsl/check/configs.h"
#include "dsl/check/expressions.h"
#include "dsl/check/nearest.h"

#include <algorithm>
#include <set>

namespace heddle::checking {

std::vector<std::string> alternatives(const std::string &text) {
  std::vector<std::string> out;
  for (size_t at = 0; at <= text.size();) {
    size_t end = std::min(text.find('|', at), text.size());
    out.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return out;
}

namespace {

/// A list of lists, say: no setting takes one.
bool is_nested(const Value &value) {
  auto *list = std::get_if<std::vector<Value>>(&value.what);
  return list && std::any_of(list->begin(), list->end(),
                             [](const Value &item) { return std::holds_alternative<std::vector<Value>>(item.what); });
}

std::string kind_of(const Value &value) {
  constexpr const char *names[] = {"a bool", "a whole number", "a real number", "a string", "a list"};
  return is_nested(value) ? "a list of other things than numbers, bools and strings" : names[value.what.index()];
}

/// Its keys of config.json, in the order in which they are tried.
std::vector<std::string> keys_of(const syntax::Setting &setting) {
  std::vector<std::string> keys = setting.key ? alternatives(*setting.key) : std::vector<std::string>();
  std::erase(keys, "");
  return keys;
}

std::string one_of(const std::vector<std::string> &words) {
  std::string out;
  for (const std::string &word : words)
    out += (out.empty() ? "`" : " or `") + word + "`";
  return out;
}

/// Whether the file has an extent, a bound or a number of members that is just this name: a whole number then.
class Sizes {
public:
  explicit Sizes(const std::string &name) : name_(name) {}

  bool have(const syntax::Declaration &d) const {
    auto is_bound = [&](const syntax::Bound &bound) { return is(bound.most); };
    if (std::any_of(d.bounds.begin(), d.bounds.end(), is_bound) || (d.fn && have(*d.fn)))
      return true;
    if (!d.module_body)
      return false;
    const std::vector<syntax::Name> &own = d.module_body->sizes;
    auto hides = [&](const syntax::Name &size) { return size.text == name_; };
    return std::none_of(own.begin(), own.end(), hides) && have(d.module_body->members);
  }

private:
  bool is(const syntax::ExprPtr &e) const { return e && e->kind == Tree::name && e->text == name_; }
  bool have(const std::vector<syntax::Place> &places) const {
    return std::any_of(places.begin(), places.end(), [&](const syntax::Place &place) { return is(place.expr); });
  }
  bool have(const syntax::Type &type) const { return is(type.range) || have(type.shape); }
  bool have(const std::vector<syntax::Formal> &formals) const {
    return std::any_of(formals.begin(), formals.end(), [&](const syntax::Formal &formal) { return have(formal.type); });
  }
  bool have(const syntax::Function &fn) const {
    auto has = [&](const syntax::Type &type) { return have(type); };
    return have(fn.formals) || std::any_of(fn.results.begin(), fn.results.end(), has);
  }
  bool have(const std::vector<syntax::Member> &members) const {
    return std::any_of(members.begin(), members.end(), [&](const syntax::Member &m) {
      return have(m.type) || have(m.stored) || is(m.count.expr) || is(m.count.upper) || (m.fn && have(*m.fn)) ||
             (m.entry_point && (have(m.entry_point->formals) || have(m.entry_point->results))) || have(m.members) ||
             have(m.otherwise);
    });
  }

  const std::string &name_;
};

/// What an entity of these kinds would be given as; nothing for one that is no constant.
std::optional<Value> value_of(const Entity &e) {
  if (e.kind == Entity::text)
    return Value{e.string};
  if (e.kind == Entity::scalar && e.value->op == Expr::boolean)
    return Value{e.value->whole != 0};
  if (e.kind == Entity::scalar && e.value->op == Expr::integer)
    return Value{e.value->whole};
  if (e.kind == Entity::scalar && e.value->op == Expr::real)
    return Value{e.value->number};
  if (e.kind != Entity::list)
    return std::nullopt;
  std::vector<Value> items;
  for (const Entity &item : e.items) {
    std::optional<Value> value = value_of(item);
    if (!value)
      return std::nullopt;
    items.push_back(std::move(*value));
  }
  return Value{std::move(items)};
}

} // namespace

Entity Configs::value_entity(const Value &value) {
  Entity e;
  if (auto *b = std::get_if<bool>(&value.what))
    return entity(build_.boolean(*b));
  if (auto *i = std::get_if<int64_t>(&value.what))
    return entity(build_.integer(*i));
  if (auto *d = std::get_if<double>(&value.what))
    return entity(build_.real(*d, real_));
  if (auto *s = std::get_if<std::string>(&value.what)) {
    e.kind = Entity::text;
    e.string = *s;
    return e;
  }
  e.kind = Entity::list;
  for (const Value &item : std::get<std::vector<Value>>(value.what))
    e.items.push_back(value_entity(item));
  return e;
}

/// The kind of value that a setting with this default takes.
static std::string wanted_of(const Entity *initial) {
  if (!initial)
    return "a number, a bool, a string or a list of these";
  if (initial->kind != Entity::scalar)
    return initial->kind == Entity::text ? "a string" : "a list";
  Type type = initial->value->type;
  return type == Type::boolean ? "a bool" : is_floating(type) ? "a real number" : "a whole number";
}

/// Whether its whole numbers, which may stand in a list, are whole numbers of the language.
static bool fits_32_bits(const Value &given) {
  if (auto *whole = std::get_if<int64_t>(&given.what))
    return *whole <= INT32_MAX && *whole >= INT32_MIN;
  auto *list = std::get_if<std::vector<Value>>(&given.what);
  return !list || std::all_of(list->begin(), list->end(), fits_32_bits);
}

Entity Configs::setting_value(const syntax::Setting &setting, const Value &given, const Entity *initial,
                              const FileScope &file) {
  Entity value = value_entity(given);
  bool fits = !is_nested(given) && (!initial || value.kind == initial->kind), is_real = false;
  if (initial && initial->kind == Entity::scalar) {
    Type type = initial->value->type;
    is_real = is_floating(type);
    if (fits && is_real && value.value->type == Type::i32)
      value = entity(build_.convert(value.value, type));
    fits = fits && value.value->type == type;
  }
  std::string wanted = wanted_of(initial);
  if (fits && !initial && (value.kind != Entity::scalar || value.value->type != Type::i32)) {
    const std::vector<syntax::Declaration> &all = file.tree->declarations;
    Sizes sizes(setting.name.text);
    if (std::any_of(all.begin(), all.end(), [&](const syntax::Declaration &d) { return sizes.have(d); })) {
      fits = false;
      wanted = "a whole number";
    }
  }
  if (fits && !is_real && !fits_32_bits(given)) {
    report(Code::E048, setting.name.span,
           {"`" + setting.name.text + "` is set to a whole number that does not fit 32 bits",
            "set it to one from " + std::to_string(INT32_MIN) + " to " + std::to_string(INT32_MAX)});
    return {};
  }
  if (!fits) {
    Diagnostic &d = report(Code::E039, setting.name.span, {setting.name.text, wanted, kind_of(given)});
    if (wanted == "a bool")
      d.help = "give `true` or `false`";
    return {};
  }
  return value;
}

Entity Configs::value(const syntax::Setting &setting, Frame &frame) {
  Entity initial;
  if (setting.initial) {
    initial = expressions_.eval(*setting.initial, frame);
    if (initial.kind == Entity::scalar && !constant(initial.value)) {
      report(Code::E041, setting.initial->span, {text(setting.initial->span)});
      initial = {};
    }
  }
  std::vector<std::string> keys = keys_of(setting);
  settings_.push_back({setting.name.text, keys});
  Program::Setting taken{setting.name.text, "", {}, Program::Setting::initial};
  const Value *given = nullptr;
  auto look = [&](const std::map<std::string, Value> &values, const std::string &key, Program::Setting::From from) {
    auto found = given ? values.end() : values.find(key);
    if (found == values.end())
      return;
    given = &found->second;
    taken.key = key;
    taken.from = from;
  };
  std::vector<std::string> asked; // under each of its names; one of them would be ignored
  for (const auto &[name, _] : options_.settings.by_name)
    if (name == setting.name.text || std::find(keys.begin(), keys.end(), name) != keys.end())
      asked.push_back(name);
  if (asked.size() > 1) {
    report(Code::E048, setting.name.span,
           {"`" + setting.name.text + "` is set twice, as `" + asked[0] + "` and as `" + asked[1] + "`",
            "leave one of them out"});
    return {};
  }
  look(options_.settings.by_name, setting.name.text, Program::Setting::asked);
  for (const std::string &key : keys)
    look(options_.settings.by_name, key, Program::Setting::asked);
  for (const std::string &key : keys)
    look(options_.settings.by_key, key, Program::Setting::config);

  Entity value = initial;
  if (given && (!setting.initial || initial.kind != Entity::error))
    value = setting_value(setting, *given, setting.initial ? &initial : nullptr, *frame.home);
  for (const std::string &key : keys) { // what stands in a nested object has dotted keys
    auto inside = options_.settings.by_key.lower_bound(key + ".");
    if (!given && inside != options_.settings.by_key.end() && inside->first.starts_with(key + ".")) {
      report(Code::E039, setting.name.span,
             {setting.name.text, wanted_of(setting.initial ? &initial : nullptr), "an object"});
      return {};
    }
  }
  if (!given && !setting.initial) {
    Diagnostic &d = report(Code::E080, setting.name.span, {setting.name.text, one_of(keys)});
    if (keys.empty())
      d.help = "give `--set " + setting.name.text + "=VALUE`";
    return {};
  }
  if (std::optional<Value> plain = value_of(value)) {
    taken.value = std::move(*plain);
    bool known = false; // several files may declare one
    for (const Program::Setting &other : program_.settings)
      known |= other.name == taken.name && other.key == taken.key && other.from == taken.from;
    if (!known)
      program_.settings.push_back(std::move(taken));
  }
  return value;
}

void Configs::check_known() {
  std::vector<std::string> known;
  for (const auto &[name, keys] : settings_) {
    known.push_back(name);
    known.insert(known.end(), keys.begin(), keys.end());
  }
  for (const auto &[name, value] : options_.settings.by_name) {
    if (std::find(known.begin(), known.end(), name) != known.end())
      continue;
    if (name == "real") {
      auto *type = std::get_if<std::string>(&value.what);
      if (!type || (*type != "f32" && *type != "bf16" && *type != "f16"))
        report(Code::E048, {}, {"`real` is set to something else than a real type", "it is `f32`, `bf16` or `f16`"});
      program_.settings.push_back({name, name, value, Program::Setting::asked});
      continue;
    }
    std::string close = nearest_of(name, known), all;
    std::set<std::string> listed; // several files may declare one
    for (const auto &[n, keys] : settings_)
      if (listed.insert(n).second)
        all += (all.empty() ? "" : ", ") + n;
    std::string which = all.empty() ? "the model has no settings" : "the model's settings are " + all;
    report(Code::E040, {}, {name, close.empty() ? which : "did you mean `" + close + "`?"});
  }
}

} // namespace heddle::checking
