// Files and what they declare: settings take their values, modules become instances with sizes bound and weights
// found by path, members under conditions are chosen. The prelude is a file like any other, in scope everywhere.
#include "dsl/check/elaborate.h"
#include "dsl/check/nearest.h"
#include "dsl/syntax/parser.h"

#include "embedded/prelude.h"

#include <algorithm>
#include <set>

namespace heddle::checking {

using syntax::Declaration;
using syntax::Member;

namespace {

constexpr size_t deepest_module = 32;
constexpr int64_t most_members = 65536; // of one array

std::string kind_of(const Value &value) {
  constexpr const char *names[] = {"a bool", "a whole number", "a real number", "a string", "a list"};
  return names[value.what.index()];
}

/// "bert|" is {"bert", ""}.
std::vector<std::string> alternatives(const std::string &alias) {
  std::vector<std::string> out;
  for (size_t at = 0; at <= alias.size();) {
    size_t end = std::min(alias.find('|', at), alias.size());
    out.push_back(alias.substr(at, end - at));
    at = end + 1;
  }
  return out;
}

std::vector<std::string> joined(const std::vector<std::string> &prefixes, const std::vector<std::string> &steps) {
  std::vector<std::string> out;
  for (const std::string &prefix : prefixes)
    for (const std::string &step : steps) {
      std::string path = prefix.empty() || step.empty() ? prefix + step : prefix + "." + step;
      if (std::find(out.begin(), out.end(), path) == out.end())
        out.push_back(path);
    }
  return out;
}

} // namespace

// --- settings

Entity Elaborator::value_entity(const Value &value) {
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

Entity Elaborator::setting_value(const syntax::Setting &setting, const Value &given, const Entity &initial) {
  Entity value = value_entity(given);
  const char *wanted = "a list";
  bool fits = value.kind == initial.kind;
  if (initial.kind == Entity::text)
    wanted = "a string";
  if (initial.kind == Entity::scalar) {
    Type type = initial.value->type;
    wanted = type == Type::boolean ? "a bool" : is_integer(type) ? "a whole number" : "a real number";
    if (fits && is_floating(type) && value.value->type == Type::i32)
      value = entity(build_.convert(value.value, type));
    fits = fits && value.value->type == type;
    auto *whole = std::get_if<int64_t>(&given.what);
    if (fits && whole && (*whole > INT32_MAX || *whole < INT32_MIN)) {
      report(Code::E048, setting.name.span,
             {"`" + setting.name.text + "` is set to a whole number that does not fit 32 bits",
              "set it to at most " + std::to_string(INT32_MAX)});
      return {};
    }
  }
  if (!fits) {
    report(Code::E039, setting.name.span, {setting.name.text, wanted, kind_of(given)});
    return {};
  }
  return value;
}

void Elaborator::declare_settings(FileScope &file, const Declaration &d) {
  Frame frame;
  frame.home = &file;
  frame.scopes.resize(1);
  auto declare = [&](const syntax::Name &name, Entity value) {
    note(name.span, value);
    if (!file.names.emplace(name.text, std::move(value)).second)
      report(Code::E051, name.span, {name.text});
  };
  if (d.kind == Declaration::config)
    for (const syntax::Setting &setting : d.settings) {
      Entity initial = eval(*setting.initial, frame);
      if (initial.kind == Entity::scalar && !constant(initial.value)) {
        report(Code::E041, setting.initial->span, {text(setting.initial->span)});
        initial = {};
      }
      setting_names_.emplace_back(setting.name.text, setting.key.value_or(""));
      const Value *given = nullptr;
      const auto &by_name = options_.settings.by_name, &by_key = options_.settings.by_key;
      if (auto found = by_name.find(setting.name.text); found != by_name.end())
        given = &found->second;
      else if (setting.key && by_name.count(*setting.key))
        given = &by_name.at(*setting.key);
      else if (setting.key && by_key.count(*setting.key))
        given = &by_key.at(*setting.key);
      if (given && initial.kind != Entity::error)
        initial = setting_value(setting, *given, initial);
      declare(setting.name, initial);
    }
  if (d.kind == Declaration::dim)
    for (const syntax::Bound &bound : d.bounds) {
      std::optional<int64_t> most;
      if (bound.most) {
        auto limit = size(*bound.most, frame, "the bound of a dim");
        if (limit && !limit->is_constant())
          report(Code::E041, bound.most->span, {text(bound.most->span)});
        else if (limit)
          most = limit->constant();
      }
      int number = program_->dims.size();
      for (size_t i = 0; i < program_->dims.size(); ++i)
        if (program_->dims[i].name == bound.name.text)
          number = i; // the same dim in two files
      if (number == static_cast<int>(program_->dims.size()))
        program_->dims.push_back({bound.name.text, most, bound.name.span});
      declare(bound.name, entity(build_.of_size(Size::of_dim(number))));
    }
  if (d.kind == Declaration::require)
    settings_refused_ |= !add_requirement(*d.expr, d.message, d.span, frame);
  if (d.kind == Declaration::let) {
    Entity value = eval(*d.expr, frame);
    std::vector<Entity> values = value.kind == Entity::tuple ? value.items : std::vector<Entity>{value};
    values.resize(d.names.size());
    for (size_t i = 0; i < d.names.size(); ++i)
      declare(d.names[i], values[i]);
  }
}

void Elaborator::check_settings_known(const FileScope &file) {
  std::vector<std::string> known;
  for (const auto &[name, key] : setting_names_) {
    known.push_back(name);
    if (!key.empty())
      known.push_back(key);
  }
  for (const auto &[name, value] : options_.settings.by_name) {
    if (std::find(known.begin(), known.end(), name) != known.end())
      continue;
    if (name == "real") {
      auto *type = std::get_if<std::string>(&value.what);
      if (!type || (*type != "f32" && *type != "bf16" && *type != "f16"))
        report(Code::E048, {}, {"`real` is set to something else than a real type", "it is `f32`, `bf16` or `f16`"});
      continue;
    }
    std::string close = nearest_of(name, known), all;
    std::set<std::string> listed; // several files may declare one
    for (const auto &[n, key] : setting_names_)
      if (listed.insert(n).second)
        all += (all.empty() ? "" : ", ") + n;
    report(Code::E040, {}, {name, close.empty() ? "the model's settings are " + all : "did you mean `" + close + "`?"});
  }
}

// --- files

FileScope *Elaborator::load(const syntax::File &tree, bool is_prelude) {
  FileScope *file = is_prelude ? prelude_ : nullptr;
  if (!file) {
    file = &files_.emplace_back();
    file->is_prelude = is_prelude;
    file->tree = &tree;
  }
  for (const Declaration &d : tree.declarations) {
    if (d.kind == Declaration::function && !file->functions.emplace(d.fn->name.text, d.fn.get()).second)
      report(Code::E051, d.fn->name.span, {d.fn->name.text});
    if (d.kind == Declaration::module && !file->modules.emplace(d.module_body->name.text, d.module_body.get()).second)
      report(Code::E051, d.module_body->name.span, {d.module_body->name.text});
  }
  for (const Declaration &d : tree.declarations) {
    if (d.kind != Declaration::use) {
      declare_settings(*file, d);
      continue;
    }
    FileScope *&other = used_files_[d.name.text];
    if (!other) {
      int number = options_.find_file ? options_.find_file(d.name.text) : -1;
      if (number < 0) {
        report(Code::E055, d.name.span,
               {"there is no file `" + d.name.text + ".heddle`", "it is looked for beside this file"});
        continue;
      }
      trees_.push_back(syntax::parse(sources_, number, diagnostics_));
      other = load(trees_.back(), false);
    }
    for (const syntax::Name &name : d.names) {
      if (!other->functions.count(name.text) && !other->modules.count(name.text)) {
        std::vector<std::string> known;
        for (const auto &[n, f] : other->functions)
          known.push_back(n);
        for (const auto &[n, m] : other->modules)
          known.push_back(n);
        std::string close = nearest_of(name.text, known);
        report(Code::E055, name.span,
               {"`" + d.name.text + "` has no function or module `" + name.text + "`",
                close.empty() ? "only functions and modules are taken from other files"
                              : "did you mean `" + close + "`?"});
        continue;
      }
      file->imported[name.text] = other;
    }
  }
  return file;
}

const syntax::Module *Elaborator::find_module(FileScope *from, const std::string &name, FileScope *&home) {
  auto imported = from->imported.find(name);
  for (FileScope *file : {from, imported == from->imported.end() ? nullptr : imported->second, prelude_})
    if (file)
      if (auto found = file->modules.find(name); found != file->modules.end()) {
        home = file;
        return found->second;
      }
  return nullptr;
}

// --- modules

Instance *Elaborator::instantiate(const syntax::Module &module, FileScope *home, std::vector<Entity> args,
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
    stopped_ = true;
    report(Code::E050, span,
           {module.name.text, "contains", "a module is made of other modules, down to those with weights"});
    return nullptr;
  }
  if (!spend(span))
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

bool Elaborator::add_members(Instance &instance, const std::vector<Member> &members, Frame &frame) {
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
      Entity value = eval(*m.expr, frame);
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
        add(m.name, state(instance, m, frame));
      else
        entries_.push_back(m.entry_point.get());
      break;
    case Member::require:
      if (!add_requirement(*m.expr, m.message, m.span, frame))
        return false; // what these settings do to the rest is not worth a message
      break;
    case Member::condition: {
      const Expr *test = condition(*m.expr, frame);
      if (!test)
        break;
      auto known = truth(test);
      if (!known) {
        report(Code::E041, m.expr->span, {text(m.expr->span)});
        break;
      }
      for (const Member &inner : m.members)
        if (inner.kind == Member::entry && !*known)
          entry_conditions_.push_back(text(m.expr->span));
      if (!add_members(instance, *known ? m.members : m.otherwise, frame))
        return false;
      break;
    }
    }
  }
  return true;
}

Entity Elaborator::param(Instance &instance, const Member &m, Frame &frame) {
  auto constants = [&](const std::vector<syntax::Place> &places, std::vector<Extent> &out) {
    for (const syntax::Place &place : places) {
      if (place.kind != syntax::Place::value) {
        report(Code::E043, place.span, {"an extent of a weight"});
        return false;
      }
      auto one = extent(*place.expr, frame);
      if (!one)
        return false;
      if (!one->size.is_constant()) {
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
  if (count(shape) != count(stored)) {
    report(Code::E042, m.name.span,
           {m.name.text, text(shape), std::to_string(count(shape)), text(stored), std::to_string(count(stored))});
    return {};
  }
  std::vector<Size> sizes;
  Weight weight;
  for (const Extent &e : shape)
    sizes.push_back(e.size);
  for (const Extent &e : stored)
    weight.stored.push_back(e.size.constant());
  weight.names = joined(instance.prefixes, steps(m, frame));
  if (options_.has_weight) {
    auto there = std::find_if(weight.names.begin(), weight.names.end(), options_.has_weight);
    if (there != weight.names.end())
      weight.names = {std::string(*there)};
  }
  std::string name = instance.path + (instance.path.empty() ? "" : ".") + m.name.text;
  const Tensor *tensor = new_tensor(Tensor::weight, name, *type_of(m.type), sizes, m.name.span);
  weight.tensor = tensor;
  weights_[tensor] = weight;
  return entity(tensor, shape);
}

std::vector<std::string> Elaborator::steps(const Member &m, Frame &frame) {
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

Entity Elaborator::sub(Instance &instance, const Member &m, Frame &frame) {
  FileScope *home = nullptr;
  const syntax::Module *module = find_module(instance.home, m.module.text, home);
  if (!module) {
    std::vector<std::string> known;
    for (FileScope *file : {instance.home, prelude_})
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
  std::vector<std::string> prefixes;
  if (!placed)
    prefixes = joined(instance.prefixes, steps(m, frame));
  auto make = [&](std::string own_path, std::vector<std::string> own_prefixes) -> Instance * {
    std::vector<Entity> args;
    for (const auto &arg : m.args) {
      Entity value = eval(*arg, frame);
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
    e.module = make(path, prefixes);
    e.kind = e.module ? Entity::instance : Entity::error;
    return e;
  }
  auto number = [&](const syntax::ExprPtr &expr) -> std::optional<int64_t> {
    auto value = size(*expr, frame, "the number of members");
    if (value && !value->is_constant()) {
      report(Code::E041, expr->span, {text(expr->span)});
      return std::nullopt;
    }
    return value ? std::optional(value->constant()) : std::nullopt;
  };
  auto first = m.count.upper ? number(m.count.expr) : std::optional<int64_t>(0);
  auto end = number(m.count.upper ? m.count.upper : m.count.expr);
  if (!first || !end)
    return {};
  e.kind = Entity::array;
  e.first = *first;
  if (*end - *first > most_members) {
    report(Code::E071, m.name.span);
    return {};
  }
  for (int64_t i = *first; i < *end && !stopped_; ++i) {
    if (named)
      frame.scopes.back().names[m.count.name.text] = entity(build_.integer(i));
    std::vector<std::string> own;
    if (placed)
      own = joined(instance.prefixes, steps(m, frame));
    else
      for (const std::string &prefix : prefixes)
        own.push_back(prefix + (prefix.empty() ? "" : ".") + std::to_string(i));
    Instance *member = make(path + "." + std::to_string(i), own);
    if (named)
      frame.scopes.back().names.erase(m.count.name.text);
    if (!member)
      return {};
    e.modules.push_back(member);
  }
  return e;
}

Entity Elaborator::state(Instance &instance, const Member &m, Frame &frame) {
  std::vector<Extent> shape;
  std::vector<Size> sizes;
  for (const syntax::Place &place : m.type.shape) {
    if (place.kind != syntax::Place::value) {
      report(Code::E043, place.span, {"an extent of a state"});
      return {};
    }
    auto one = extent(*place.expr, frame);
    if (!one)
      return {};
    shape.push_back(*one);
    sizes.push_back(one->size);
  }
  std::optional<double> initial;
  if (m.expr) {
    const Expr *value = scalar(*m.expr, frame);
    if (!value)
      return {};
    if (!constant(value)) {
      report(Code::E041, m.expr->span, {text(m.expr->span)});
      return {};
    }
    initial = constant(value);
  }
  const Tensor *tensor = new_tensor(Tensor::state, m.name.text, *type_of(m.type), sizes, m.name.span);
  if (m.type.scalar == "index") {
    auto range = size(*m.type.range, frame, "the range of an index");
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
    below_[tensor] = *range;
  }
  states_.push_back({tensor, initial});
  return entity(tensor, shape);
}

} // namespace heddle::checking
