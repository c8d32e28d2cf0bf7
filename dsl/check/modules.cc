// Members under conditions are chosen; a weight is found by the path of its modules, of which each step may have
// several names.
#include "dsl/check/modules.h"
#include "dsl/check/conversions.h"
#include "dsl/check/expressions.h"
#include "dsl/check/nearest.h"
#include "dsl/check/params.h"
#include "dsl/check/requirements.h"

#include <algorithm>
#include <set>

namespace heddle::checking {

using syntax::Member;

namespace {

constexpr size_t deepest_module = 32;
constexpr int64_t most_members = 65536;            // of one array
constexpr int64_t most_numbers = int64_t(1) << 44; // of one weight: that no file has more keeps sums within 64 bits

constexpr size_t most_paths = 1024; // of one weight: alternatives multiply along its modules

} // namespace

std::optional<std::vector<std::string>> Modules::paths(const std::vector<std::string> &prefixes, const Member &m,
                                                       Frame &frame) {
  std::vector<std::string> out, steps = path_steps(m, frame);
  std::set<std::string> known;
  if (prefixes.size() * steps.size() > most_paths) {
    budget_.stop();
    report(Code::E071, m.name.span).help = "alternatives of names multiply along modules in modules, here to " +
                                           std::to_string(prefixes.size() * steps.size()) +
                                           " paths: give fewer of them in `as`";
    return std::nullopt;
  }
  for (const std::string &prefix : prefixes)
    for (const std::string &step : steps) {
      std::string path = prefix.empty() || step.empty() ? prefix + step : prefix + "." + step;
      if (known.insert(path).second)
        out.push_back(path);
    }
  return out;
}

Instance *Modules::instantiate(const syntax::Module &module, FileScope *home, std::vector<Entity> args,
                               std::string path, std::vector<std::string> prefixes, Span span) {
  if (args.size() != module.sizes.size()) {
    std::string sizes;
    for (const syntax::Name &size : module.sizes)
      sizes += (sizes.empty() ? "" : ", ") + size.text;
    report(Code::E029, span,
           {module.name.text, count_of(module.sizes.size(), "size"), std::to_string(args.size()),
            module.name.text + (sizes.empty() ? "" : "(" + sizes + ")")});
    return nullptr;
  }
  if (static_cast<size_t>(std::count(path.begin(), path.end(), '.')) >= deepest_module) {
    budget_.stop();
    report(Code::E050, span,
           {module.name.text, "contains", "a module is made of other modules, down to those with weights"});
    return nullptr;
  }
  if (!budget_.spend(span))
    return nullptr;
  Instance &instance = instances_.emplace_back();
  instance.module = &module;
  instance.home = home;
  instance.path = std::move(path);
  instance.prefixes = std::move(prefixes);
  for (size_t i = 0; i < args.size(); ++i) {
    note(module.sizes[i].span, args[i]);
    instance.members[module.sizes[i].text] = args[i];
  }
  Frame frame;
  frame.home = home;
  frame.self = &instance;
  frame.scopes.resize(1);
  return add_members(instance, module.members, frame) ? &instance : nullptr;
}

bool Modules::add_members(Instance &instance, const std::vector<Member> &members, Frame &frame) {
  auto add = [&](const syntax::Name &name, Entity value) {
    note(name.span, value);
    if (!instance.members.emplace(name.text, std::move(value)).second)
      report(Code::E051, name.span, {name.text});
  };
  for (const Member &m : members) {
    switch (m.kind) {
    case Member::param:
      add(m.name, param(instance, m, frame));
      break;
    case Member::sub:
      add(m.name, sub(instance, m, frame));
      break;
    case Member::let: {
      Entity value = expressions_.eval(*m.expr, frame);
      std::vector<Entity> values = value.kind == Entity::tuple ? value.items : std::vector<Entity>{value};
      std::vector<syntax::Name> names = m.names.empty() ? std::vector<syntax::Name>{m.name} : m.names;
      values.resize(names.size());
      for (size_t i = 0; i < names.size(); ++i)
        add(names[i], values[i]);
      break;
    }
    case Member::function: {
      Entity e;
      e.kind = Entity::function;
      e.code = m.fn.get();
      e.self = &instance;
      e.home = instance.home;
      add(m.fn->name, e);
      break;
    }
    case Member::state:
    case Member::entry:
      if (m.kind == Member::state)
        add(m.name, m.type.scalar.empty() ? params_.state_of_params(m, frame) : state(m, frame));
      else
        declared_.entries.push_back(m.entry_point.get());
      break;
    case Member::require:
      if (!requirements_.declare(*m.expr, m.message, m.span, frame))
        return false; // what these settings do to the rest is not worth a message
      break;
    case Member::condition: {
      const Expr *test = expressions_.condition(*m.expr, frame);
      auto known = test ? truth(test) : std::nullopt;
      if (test && !known)
        report(Code::E041, m.expr->span, {text(m.expr->span)});
      if (!known) {
        add_unknown(instance, m.members);
        add_unknown(instance, m.otherwise);
        break;
      }
      for (const Member &inner : m.members)
        if (inner.kind == Member::entry && !*known)
          declared_.entry_conditions.push_back(text(m.expr->span));
      if (!add_members(instance, *known ? m.members : m.otherwise, frame))
        return false;
      break;
    }
    }
  }
  return true;
}

void Modules::add_unknown(Instance &instance, const std::vector<Member> &members) {
  for (const Member &m : members) {
    std::vector<syntax::Name> names = m.names.empty() ? std::vector<syntax::Name>{m.fn ? m.fn->name : m.name} : m.names;
    for (const syntax::Name &name : names)
      instance.members.emplace(name.text, Entity());
    add_unknown(instance, m.members);
    add_unknown(instance, m.otherwise);
  }
}

Entity Modules::param(Instance &instance, const Member &m, Frame &frame) {
  if (m.type.scalar == "index") { // nothing looks at the numbers of a file
    std::string range = text(m.type.range->span);
    report(Code::E013, m.type.span,
           {"a weight is no `index(" + range + ")`: nothing tests the numbers of its file",
            "declare it as `i32`, and say where it is read what it is an index of: `index(" + range + ")(…)`"});
    return {};
  }
  auto constants = [&](const std::vector<syntax::Place> &places, std::vector<Extent> &out) {
    for (const syntax::Place &place : places) {
      if (place.kind != syntax::Place::value) {
        report(Code::E043, place.span, {"an extent of a weight"});
        return false;
      }
      auto one = expressions_.extent(*place.expr, frame);
      if (!one)
        return false;
      if (!declared_.is_fixed(one->size)) {
        report(Code::E041, place.span, {text(place.span)});
        return false;
      }
      out.push_back(*one);
    }
    return true;
  };
  std::vector<Extent> shape, stored;
  if (!constants(m.type.shape, shape) || !constants(m.has_stored ? m.stored : m.type.shape, stored))
    return {};
  auto count = [](const std::vector<Extent> &extents) {
    int64_t product = 1;
    for (const Extent &e : extents)
      product =
          e.size.constant() != 0 && product > INT64_MAX / e.size.constant() ? INT64_MAX : product * e.size.constant();
    return product;
  };
  auto is_number = [](const Extent &e) { return e.size.is_constant(); };
  bool numbers =
      std::all_of(shape.begin(), shape.end(), is_number) && std::all_of(stored.begin(), stored.end(), is_number);
  if (numbers && count(shape) != count(stored)) {
    report(Code::E042, m.name.span,
           {m.name.text, text(shape), std::to_string(count(shape)), text(stored), std::to_string(count(stored))});
    return {};
  }
  if (numbers && count(shape) > most_numbers) {
    report(Code::E048, m.name.span,
           {"`" + m.name.text + "` has more than " + std::to_string(most_numbers) + " numbers", "make it smaller"});
    return {};
  }
  std::vector<Size> sizes;
  Weight weight;
  for (const Extent &e : shape)
    sizes.push_back(e.size);
  for (const Extent &e : stored)
    weight.stored.push_back(e.size.constant());
  auto names = paths(instance.prefixes, m, frame);
  if (!names)
    return {};
  weight.names = std::move(*names);
  if (options_.has_weight) {
    auto there = std::find_if(weight.names.begin(), weight.names.end(), options_.has_weight);
    if (there != weight.names.end())
      weight.names = {std::string(*there)};
  }
  std::string name = instance.path + (instance.path.empty() ? "" : ".") + m.name.text;
  const Tensor *tensor = steps_.new_tensor(Tensor::weight, name, type_of(m.type), sizes, m.name.span);
  weight.tensor = tensor;
  declared_.weights[tensor] = weight;
  return entity(tensor, shape);
}

std::vector<std::string> Modules::path_steps(const Member &m, Frame &frame) {
  std::string alias = m.alias.value_or(m.name.text);
  for (size_t open = alias.find('{'); open != std::string::npos; open = alias.find('{', open)) {
    size_t close = std::min(alias.find('}', open), alias.size());
    std::string name = alias.substr(open + 1, close - open - 1);
    if (name.empty()) { // `{}` of an array: nowhere
      alias.erase(open, 2);
      continue;
    }
    auto found = find(name, frame);
    std::optional<int64_t> number;
    if (found && found->kind == Entity::scalar)
      number = whole_constant(found->value);
    if (!declared_.symbols.empty() && found && !number && found->kind != Entity::text) { // a caller's number or string
      open = close;
      continue;
    }
    if (!number && !(found && found->kind == Entity::text)) {
      report(Code::E020, m.span,
             {"{" + name + "}", "in the name of a weight stands a whole number or a string that is known here"});
      return {};
    }
    std::string value = number ? std::to_string(*number) : found->string;
    alias.replace(open, close + 1 - open, value);
    open += value.size();
  }
  return alternatives(alias);
}

Entity Modules::sub(Instance &instance, const Member &m, Frame &frame) {
  FileScope *home = nullptr;
  const syntax::Module *module = scopes_.find_module(instance.home, m.module.text, home);
  if (!module) {
    std::vector<std::string> known;
    for (FileScope *file : {instance.home, scopes_.prelude()})
      if (file)
        for (const auto &[name, declared] : file->modules)
          known.push_back(name);
    std::string close = nearest_of(m.module.text, known);
    report(Code::E020, m.module.span,
           {m.module.text, close.empty() ? "declare `module " + m.module.text + "`" : "did you mean `" + close + "`?"});
    return {};
  }
  std::string path = instance.path + (instance.path.empty() ? "" : ".") + m.name.text;
  bool named = m.is_array && m.count.kind == syntax::Place::range;
  auto holds = [&](const std::string &part) { return m.alias && m.alias->find(part) != std::string::npos; };
  // An array's alias may say where the number stands: `as "layer{l}"`, or nowhere: `as "rnn{}"`.
  bool placed = m.is_array && (holds("{}") || (named && holds("{" + m.count.name.text + "}")));
  std::optional<std::vector<std::string>> prefixes;
  if (!placed && !(prefixes = paths(instance.prefixes, m, frame)))
    return {};
  auto make = [&](std::string own_path, std::vector<std::string> own_prefixes) -> Instance * {
    std::vector<Entity> args;
    for (const auto &arg : m.args) {
      Entity value = expressions_.eval(*arg, frame);
      if (value.kind == Entity::error)
        return nullptr;
      if (value.kind == Entity::scalar && !constant(value.value) && !as_size(value.value)) {
        report(Code::E041, arg->span, {text(arg->span)});
        return nullptr;
      }
      args.push_back(value);
    }
    return instantiate(*module, home, std::move(args), std::move(own_path), std::move(own_prefixes), m.module.span);
  };
  Entity e;
  if (!m.is_array) {
    e.module = make(path, *prefixes);
    e.kind = e.module ? Entity::instance : Entity::error;
    return e;
  }
  auto number = [&](const syntax::ExprPtr &expr) -> std::optional<int64_t> {
    auto value = expressions_.size(*expr, frame, "the number of members");
    if (value && !declared_.is_fixed(*value))
      report(Code::E041, expr->span, {text(expr->span)});
    return value && value->is_constant() ? std::optional(value->constant()) : std::nullopt;
  };
  auto first = m.count.upper ? number(m.count.expr) : std::optional<int64_t>(0);
  auto end = number(m.count.upper ? m.count.upper : m.count.expr);
  if (!first || !end)
    return {};
  if (*end < *first) {
    report(Code::E056, m.count.span, {"the number of members", std::to_string(*end - *first), " for these settings"});
    return {};
  }
  e.kind = Entity::array;
  e.first = *first;
  if (*end - *first > most_members) {
    report(Code::E071, m.name.span);
    return {};
  }
  for (int64_t i = *first; i < *end && !budget_.stopped(); ++i) {
    if (named)
      frame.scopes.back().names[m.count.name.text] = entity(build_.integer(i));
    std::optional<std::vector<std::string>> own;
    if (placed) {
      own = paths(instance.prefixes, m, frame);
    } else {
      own.emplace();
      for (const std::string &prefix : *prefixes)
        own->push_back(prefix + (prefix.empty() ? "" : ".") + std::to_string(i));
    }
    Instance *member = own ? make(path + "." + std::to_string(i), *own) : nullptr;
    if (named)
      frame.scopes.back().names.erase(m.count.name.text);
    if (!member)
      return {};
    e.modules.push_back(member);
  }
  return e;
}

Entity Modules::state(const Member &m, Frame &frame) {
  std::vector<Extent> shape;
  std::vector<Size> sizes;
  for (const syntax::Place &place : m.type.shape) {
    if (place.kind != syntax::Place::value) {
      report(Code::E043, place.span, {"an extent of a state"});
      return {};
    }
    auto one = expressions_.extent(*place.expr, frame);
    if (!one)
      return {};
    shape.push_back(*one);
    sizes.push_back(one->size);
  }
  std::optional<double> initial;
  if (m.expr && !(initial = conversions_.initial(*m.expr, type_of(m.type), frame)))
    return {};
  std::optional<int64_t> below;
  const Tensor *tensor = steps_.new_tensor(Tensor::state, m.name.text, type_of(m.type), sizes, m.name.span);
  if (m.type.scalar == "index") {
    auto range = expressions_.size(*m.type.range, frame, "the range of an index");
    if (!range)
      return {};
    if (!range->is_constant()) { // the state outlives the call whose dims say what it is
      report(Code::E041, m.type.range->span, {text(m.type.range->span)});
      return {};
    }
    if (initial && (*initial < 0 || *initial >= range->constant())) {
      report(Code::E070, m.expr->span, {text(m.expr->span), text(m.type.range->span)});
      return {};
    }
    knowledge_.set_bound(tensor, Prover::Bound{*range});
    below = range->constant();
  }
  declared_.states.push_back({tensor, initial, below});
  return entity(tensor, shape);
}

} // namespace heddle::checking
