// A function is run as a call of it would be, with inputs of its declared shapes; a module is made as a `sub` would
// make it. Sizes are new dims. A pack is run with several ranks, of which all must agree on a message. A message about
// sizes (shapes that differ, a read that nothing proves) holds for a caller's sizes only where there are none to
// choose.
#include "dsl/check/parts.h"

#include "dsl/check/mentioned_names.h"
#include "dsl/check/rules.h"
#include "dsl/check/unused_names.h"
#include "dsl/syntax/lexer.h"

#include <algorithm>

namespace heddle::checking {

using syntax::Declaration;
using syntax::Formal;
using syntax::Member;
using syntax::Place;

namespace {

/// What is wrong whatever the names of a module's sizes stand for: numbers, bools, strings.
bool is_of_names(Code code) {
  switch (code) {
  case Code::E020:
  case Code::E029:
  case Code::E033:
  case Code::E034:
  case Code::E036:
  case Code::E051:
  case Code::E052:
  case Code::E054:
  case Code::E055:
  case Code::E064:
  case Code::E068:
    return true;
  default:
    return false;
  }
}

/// What is wrong whatever whole numbers the sizes are: names, kinds of things, types, ranks.
bool is_of_kinds(Code code) {
  switch (code) {
  case Code::E023:
  case Code::E025:
  case Code::E026:
  case Code::E027:
  case Code::E031:
  case Code::E035:
  case Code::E037:
  case Code::E038:
  case Code::E046:
  case Code::E047:
  case Code::E062:
  case Code::E063:
  case Code::E069:
  case Code::E076:
    return true;
  default:
    return is_of_names(code);
  }
}

/// Calls `f` for each type that a module's members and their functions declare.
template <class F> void for_each_type(const std::vector<Member> &members, const F &f) {
  for (const Member &m : members) {
    f(m.type);
    if (m.fn)
      for (const Formal &formal : m.fn->formals)
        f(formal.type);
    for_each_type(m.members, f);
    for_each_type(m.otherwise, f);
  }
}

void for_each_function(const std::vector<Member> &members, const std::function<void(const syntax::Function &)> &f) {
  for (const Member &m : members) {
    if (m.fn)
      f(*m.fn);
    for_each_function(m.members, f);
    for_each_function(m.otherwise, f);
  }
}

void for_each_named(const std::vector<Member> &members, const std::function<void(const syntax::Name &)> &f) {
  for (const Member &m : members) {
    f(m.fn ? m.fn->name : m.name);
    for (const syntax::Name &name : m.names)
      f(name);
    for_each_named(m.members, f);
    for_each_named(m.otherwise, f);
  }
}

bool has_pack(const syntax::Type &type) {
  return std::any_of(type.shape.begin(), type.shape.end(), [](const Place &p) { return p.kind == Place::pack; });
}

bool has_packs(const syntax::File &file) {
  bool found = false;
  auto in_function = [&](const syntax::Function &f) {
    for (const Formal &formal : f.formals)
      found |= has_pack(formal.type);
  };
  for (const Declaration &d : file.declarations) {
    if (d.fn)
      in_function(*d.fn);
    if (d.module_body)
      for_each_function(d.module_body->members, in_function);
  }
  return found;
}

class Parts : Services {
public:
  Parts(Rules &rules, int pack_rank) : Services(rules.context), rules_(rules), pack_rank_(pack_rank) {}

  /// Each function and module of the file by itself: what is wrong whatever calls it.
  std::vector<Diagnostic> run(const syntax::File &file);

private:
  Entity callers_number(const std::string &name, Span span);
  Entity symbolic(const syntax::Formal &formal, Frame &sizes);
  void check_part(const syntax::Function &f, FileScope *home, Instance *self);

  Rules &rules_;
  int pack_rank_; // of packs
};

} // namespace

/// A number that the caller of a part gives.
Entity Parts::callers_number(const std::string &name, Span span) {
  int number = static_cast<int>(program_.dims.size());
  program_.dims.push_back({name, std::nullopt, span});
  declared_.symbols.insert(number);
  return entity(build_.of_size(Size::of_dim(number)));
}

/// An input as a function declares it. An error where its shape is one, which has been reported.
Entity Parts::symbolic(const Formal &formal, Frame &sizes) {
  std::vector<Extent> shape;
  std::vector<Size> extents;
  auto add = [&](Extent one) {
    shape.push_back(one);
    extents.push_back(one.size);
  };
  for (const Place &place : formal.type.shape) {
    if (place.kind == Place::pack) {
      auto [pack, fresh] = sizes.packs.try_emplace(place.name.text);
      for (int i = 0; fresh && i < pack_rank_; ++i) {
        std::string number = pack_rank_ > 1 ? std::to_string(i) : "";
        pack->second.push_back({*as_size(callers_number(".." + place.name.text + number, place.span).value), ""});
      }
      std::for_each(pack->second.begin(), pack->second.end(), add);
    } else if (place.kind == Place::wildcard) {
      add({*as_size(callers_number("_", place.span).value), ""});
    } else if (auto one = place.expr ? rules_.expressions.extent(*place.expr, sizes) : std::nullopt) {
      add(*one);
    } else {
      return {};
    }
  }
  const Tensor *tensor =
      steps_.new_tensor(Tensor::input, formal.name.text, type_of(formal.type), extents, formal.name.span);
  if (formal.type.scalar == "index") {
    auto range = rules_.expressions.size(*formal.type.range, sizes, "the range of an index");
    if (!range)
      return {};
    knowledge_.set_bound(tensor, Prover::Bound{*range});
  }
  return entity(tensor, shape);
}

void Parts::check_part(const syntax::Function &f, FileScope *home, Instance *self) {
  rules_.signatures.check_size_names(f, home, self);
  knowledge_.begin_entry();
  steps_.begin_entry();
  rules_.updates.begin_entry();
  budget_.resume();
  std::vector<Step> steps;
  steps_.into(&steps);
  Frame frame, sizes;
  for (Frame *one : {&frame, &sizes}) {
    one->home = home;
    one->self = self;
    one->scopes.resize(1);
  }
  frame.path = f.name.text + ".";
  bool plain = f.results.size() == 1;
  for (const Formal &formal : f.formals) {
    plain &= !formal.type.has_shape;
    for (const Place &place : formal.type.shape)
      if (place.kind == Place::value && place.expr->kind == Tree::name) {
        auto known = find(place.expr->text, sizes);
        if (!known || known->kind == Entity::function || known->kind == Entity::builtin)
          sizes.scopes[0].names[place.expr->text] = callers_number(place.expr->text, place.expr->span);
      }
  }
  frame.per_element = plain && !f.results[0].has_shape;

  bool good = true;
  std::vector<Entity> args;
  for (const Formal &formal : f.formals)
    args.push_back(symbolic(formal, sizes));
  for (bool last : {false, true})
    for (size_t i = 0; good && i < args.size(); ++i) {
      Tree at;
      at.kind = Tree::name;
      at.span = f.formals[i].name.span;
      at.text = f.formals[i].name.text;
      if (args[i].kind == Entity::error)
        frame.scopes[0].names[at.text] = {};
      else
        good = rules_.signatures.bind_formal(f.formals[i], args[i], at, frame, last);
    }
  if (good) {
    if (f.expr) {
      Entity value = rules_.expressions.eval(*f.expr, frame);
      frame.results = value.kind == Entity::tuple ? value.items : std::vector<Entity>{value};
      frame.returned = true;
    } else {
      rules_.statements.run(f.body, frame);
    }
    rules_.signatures.results(f, frame);
  }
  steps_.into(nullptr);
}

std::vector<Diagnostic> Parts::run(const syntax::File &file) {
  FileScope *own = rules_.files.load_with_prelude(file);
  std::vector<Diagnostic> said = messages_.diagnostics().all();
  if (declared_.settings_refused || !messages_.left_out().checkable)
    return said;
  size_t seen = said.size();
  using Holds = bool (*)(Code);
  auto keep = [&](Holds holds) {
    const std::vector<Diagnostic> &all = messages_.diagnostics().all();
    for (; seen < all.size(); ++seen)
      if (!holds || holds(all[seen].code))
        said.push_back(all[seen]);
  };
  auto part = [&](const syntax::Function &f, Instance *self, Holds holds) {
    bool chosen = false; // something by the caller
    for (const Formal &formal : f.formals) {
      std::string_view type = formal.type.scalar;
      chosen |= has_pack(formal.type) ||
                (!formal.type.has_shape && type != "real" && !type.starts_with("f") && type != "bf16");
      for (const Place &place : formal.type.shape)
        chosen |= place.kind == Place::wildcard;
    }
    size_t symbols = declared_.symbols.size();
    check_part(f, own, self);
    keep(!holds && (chosen || declared_.symbols.size() > symbols) ? is_of_kinds : holds);
  };
  for (const Declaration &d : file.declarations) {
    if (d.fn)
      part(*d.fn, nullptr, nullptr);
    if (!d.module_body || d.module_body->is_model)
      continue;
    const syntax::Module &module = *d.module_body;
    std::set<std::string> in_types;
    for_each_type(module.members, [&](const syntax::Type &type) {
      mentions(type, [&](const std::string &name, Span) { in_types.insert(name); });
    });
    // A size that is subscripted, or whose length is asked for, is a list; one that no shape has may be anything.
    std::set<std::string> lists;
    Sources copy;
    Diagnostics ignored(copy);
    syntax::Tokens tokens = syntax::lex(copy, copy.add("", text(module.span)), ignored);
    for (size_t i = 0; i + 1 < tokens.list.size(); ++i)
      if (tokens.list[i + 1].text == "[" || tokens.list[i + 1].text == ".")
        lists.insert(std::string(tokens.list[i].text));
    Holds holds = module.sizes.empty() ? nullptr : is_of_kinds;
    std::vector<Entity> args;
    for (const syntax::Name &size : module.sizes) {
      bool list = lists.count(size.text);
      args.push_back(list ? Entity() : callers_number(size.text, size.span));
      if (list || !in_types.count(size.text))
        holds = is_of_names;
    }
    Instance *self = rules_.modules.instantiate(module, own, std::move(args), "", {""}, module.name.span);
    keep(holds);
    if (self)
      for_each_function(module.members, [&](const syntax::Function &f) { part(f, self, holds); });
  }
  // What other files can name may be used there.
  std::set<int> shared;
  for (const Declaration &d : file.declarations) {
    if (d.fn)
      shared.insert(d.fn->name.span.begin);
    if (d.module_body) {
      shared.insert(d.module_body->name.span.begin);
      for_each_named(d.module_body->members, [&](const syntax::Name &name) { shared.insert(name.span.begin); });
    }
  }
  if (!messages_.left_out().any) // what is left out may use it
    warn_unused(sources_, messages_.diagnostics(), *own->tree);
  for (const std::vector<Diagnostic> &all = messages_.diagnostics().all(); seen < all.size(); ++seen)
    if (!shared.count(all[seen].span.begin) || all[seen].code == Code::W104)
      said.push_back(all[seen]);
  return said;
}

} // namespace heddle::checking

namespace heddle {

std::vector<Diagnostic> check_parts(Sources &sources, const syntax::File &file, const CheckOptions &options) {
  std::vector<Diagnostic> common;
  CheckOptions quiet = options;
  quiet.note = nullptr; // the first run says what names are
  bool first = true;
  for (int rank : {1, 2, 3, 0}) {
    Diagnostics diagnostics(sources);
    checking::Context context(sources, first ? options : quiet, diagnostics);
    checking::Rules rules(context);
    auto found = checking::Parts(rules, rank).run(file);
    if (first)
      common = found;
    std::erase_if(common, [&](const Diagnostic &d) {
      return std::none_of(found.begin(), found.end(), [&](const Diagnostic &other) {
        return other.code == d.code && other.span.begin == d.span.begin &&
               (!d.span.valid() || sources.path(other.span.file) == sources.path(d.span.file));
      });
    });
    first = false;
    if (!checking::has_packs(file))
      break;
  }
  return common;
}

} // namespace heddle
