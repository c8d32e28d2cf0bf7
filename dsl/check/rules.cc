#include "dsl/check/rules.h"

#include "dsl/check/prune.h"
#include "dsl/check/unused_names.h"

namespace heddle::checking {

Rules::Rules(Context &context) : Services(context), context(context) {}

std::unique_ptr<Program> Rules::check_model(const syntax::File &file) {
  FileScope *own = files.load_with_prelude(file);
  configs.check_known();
  if (declared_.settings_refused || !messages_.left_out().checkable)
    return nullptr;
  const syntax::Module *model = nullptr;
  for (const syntax::Declaration &d : file.declarations)
    if (d.kind == syntax::Declaration::module && d.module_body->is_model) {
      if (model)
        report(Code::E051, d.module_body->name.span, {"model"}).help =
            "a file has one model: move one of them to its own";
      else
        model = d.module_body.get();
    }
  if (!model) {
    report(Code::E059, {file.source, 0, 0});
    return nullptr;
  }
  program_.name = model->name.text;
  Instance *instance = modules.instantiate(*model, own, {}, "", {""}, model->name.span);
  if (instance && declared_.entries.empty()) {
    std::string choices;
    for (const std::string &c : declared_.entry_conditions)
      choices += (choices.empty() ? "`" : " or `") + c + "`";
    report(Code::E045, model->name.span,
           {model->name.text, choices.empty() ? "add `entry NAME(…) -> … { … }`" : "one needs " + choices});
  }
  for (const syntax::Entry *entry : declared_.entries)
    if (instance)
      entries.add(*entry, *instance);
  if (messages_.has_errors())
    return nullptr;
  warn_unused(sources_, messages_.diagnostics(), *own->tree);
  list_used(program_, declared_.weights, declared_.states);
  std::set<Size> products = knowledge_.products();
  program_.products.assign(products.begin(), products.end());
  entries.check_states();
  params.check_paths();
  if (messages_.has_errors())
    return nullptr;
  params.begin_as_weights();
  return std::move(context.program);
}

} // namespace heddle::checking

namespace heddle {

std::unique_ptr<Program> check(Sources &sources, const syntax::File &file, const CheckOptions &options,
                               Diagnostics &diagnostics) {
  checking::Context context(sources, options, diagnostics);
  return checking::Rules(context).check_model(file);
}

} // namespace heddle
