// Each file is read once, by whatever ways it is used. A circle is found by the list of the files that are being read,
// each of them used by the one before it. The prelude is a file like any other, in scope everywhere.
#include "dsl/check/files.h"
#include "dsl/check/configs.h"
#include "dsl/check/expressions.h"
#include "dsl/check/nearest.h"
#include "dsl/check/repeated_names.h"
#include "dsl/check/requirements.h"
#include "dsl/syntax/parser.h"

#include "embedded/prelude.h"

#include <algorithm>

namespace heddle::checking {

using syntax::Declaration;

namespace {

constexpr size_t deepest_use = 64;

/// "attention.heddle" of "models/bert/attention.heddle".
std::string file_name(const std::string &path) { return path.substr(path.rfind('/') + 1); }

} // namespace

// --- declarations

void Files::declare(FileScope &file, const Declaration &d) {
  Frame frame;
  frame.home = &file;
  frame.scopes.resize(1);
  auto declare = [&](const syntax::Name &name, Entity value) {
    note(name.span, value);
    if (!file.names.emplace(name.text, std::move(value)).second)
      report(Code::E051, name.span, {name.text});
  };
  if (d.kind == Declaration::config)
    for (const syntax::Setting &setting : d.settings)
      declare(setting.name, configs_.value(setting, frame));
  if (d.kind == Declaration::dim)
    for (const syntax::Bound &bound : d.bounds) {
      std::optional<int64_t> most;
      if (bound.most) {
        auto limit = expressions_.size(*bound.most, frame, "the bound of a dim");
        if (limit && !limit->is_constant())
          report(Code::E041, bound.most->span, {text(bound.most->span)});
        else if (limit)
          most = limit->constant();
      }
      int number = program_.dims.size();
      for (size_t i = 0; i < program_.dims.size(); ++i)
        if (program_.dims[i].name == bound.name.text)
          number = i; // the same dim in two files
      if (number == static_cast<int>(program_.dims.size()))
        program_.dims.push_back({bound.name.text, most, bound.name.span});
      auto &known = program_.dims[number].most;
      known = known && most ? std::min(known, most) : known ? known : most; // each file counts on its own bound
      declare(bound.name, entity(build_.of_size(Size::of_dim(number))));
    }
  if (d.kind == Declaration::require)
    declared_.settings_refused |= !requirements_.declare(*d.expr, d.message, d.span, frame);
  if (d.kind == Declaration::let) {
    Entity value = declared_.settings_refused ? Entity() : expressions_.eval(*d.expr, frame);
    std::vector<Entity> values = value.kind == Entity::tuple ? value.items : std::vector<Entity>{value};
    values.resize(d.names.size());
    for (size_t i = 0; i < d.names.size(); ++i)
      declare(d.names[i], values[i]);
  }
}

// --- files

FileScope *Files::load_with_prelude(const syntax::File &tree) {
  if (auto given = options_.settings.by_name.find("real"); given != options_.settings.by_name.end())
    if (auto *type = std::get_if<std::string>(&given->second.what))
      context_.real = *type == "bf16" ? Type::bf16 : *type == "f16" ? Type::f16 : Type::f32;
  for (const EmbeddedFile &embedded : embedded::prelude()) {
    int number = sources_.add(std::string(embedded.path), std::string(embedded.bytes));
    trees_.push_back(syntax::parse(sources_, number, messages_.diagnostics()));
    scopes_.set_prelude(load(trees_.back(), true));
  }
  return load(tree, false);
}

FileScope *Files::load(const syntax::File &tree, bool is_prelude) {
  FileScope *file = is_prelude ? scopes_.prelude() : nullptr;
  if (!file) {
    file = &files_.emplace_back();
    file->is_prelude = is_prelude;
    file->tree = &tree;
  }
  messages_.leave_out(tree.left_out);
  loading_.push_back(file);
  for (const Declaration &d : tree.declarations) {
    if (d.kind == Declaration::function && !file->functions.emplace(d.fn->name.text, d.fn.get()).second)
      report(Code::E051, d.fn->name.span, {d.fn->name.text});
    if (d.kind == Declaration::module && !file->modules.emplace(d.module_body->name.text, d.module_body.get()).second)
      report(Code::E051, d.module_body->name.span, {d.module_body->name.text});
  }
  find_repeated(tree, [&](const syntax::Name &name) { report(Code::E051, name.span, {name.text}); });
  for (const Declaration &d : tree.declarations) {
    if (d.kind != Declaration::use) {
      declare(*file, d);
      continue;
    }
    FileScope *other = used_file(d.name);
    if (!other)
      continue;
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
  loading_.pop_back();
  return file;
}

FileScope *Files::used_file(const syntax::Name &name) {
  if (auto known = used_files_.find(name.text); known != used_files_.end())
    return known->second;
  int number = options_.find_file ? options_.find_file(name.text) : -1;
  if (number == CheckOptions::unreadable) {
    report(Code::E055, name.span,
           {"`" + name.text + ".heddle` beside this file cannot be read", "a file that may be read must stand there"});
    return nullptr;
  }
  if (number < 0) {
    report(Code::E055, name.span, {"there is no file `" + name.text + ".heddle`", "it is looked for beside this file"});
    return nullptr;
  }
  auto same = std::find_if(loading_.begin(), loading_.end(), [&](const FileScope *file) {
    return sources_.path(file->tree->source) == sources_.path(number);
  });
  if (same != loading_.end()) {
    std::string circle, own = "`" + name.text + ".heddle`";
    for (auto file = same + 1; file != loading_.end(); ++file)
      circle += ", which uses `" + file_name(sources_.path((*file)->tree->source)) + "`";
    if (circle.empty())
      report(Code::E055, name.span, {own + " uses itself", "leave this out: a file has its own functions and modules"});
    else
      report(Code::E055, name.span,
             {"this closes a circle: " + own + circle + ", which uses " + own,
              "move what both need to a file that uses neither"});
    return *same; // what it declares is known: no message about its names follows
  }
  if (loading_.size() >= deepest_use) {
    report(Code::E055, name.span,
           {"more than " + std::to_string(deepest_use) + " files use one another in a row", "use fewer files"});
    return nullptr;
  }
  trees_.push_back(syntax::parse(sources_, number, messages_.diagnostics()));
  return used_files_[name.text] = load(trees_.back(), false);
}

} // namespace heddle::checking

bool heddle::is_in_prelude(const Sources &sources, Span place) {
  return std::ranges::any_of(embedded::prelude(), [&](const EmbeddedFile &embedded) {
    return place.valid() && sources.path(place.file) == embedded.path;
  });
}
