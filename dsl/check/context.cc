#include "dsl/check/context.h"

namespace heddle::checking {

Context::Context(Sources &sources, const CheckOptions &options, Diagnostics &diagnostics)
    : sources(sources), options(options), messages(sources, diagnostics, *program), budget(messages), indices(build),
      knowledge(*program, build, indices, messages), steps(*program, build, indices, knowledge, messages),
      hovers(options, declared, indices, messages), scopes(sources, build, messages, hovers) {}

Services::Services(Context &context)
    : sources_(context.sources), options_(context.options), program_(*context.program), real_(context.real),
      declared_(context.declared), build_(context.build), messages_(context.messages), budget_(context.budget),
      indices_(context.indices), knowledge_(context.knowledge), steps_(context.steps), hovers_(context.hovers),
      scopes_(context.scopes) {}

Type Services::type_of(const syntax::Type &type) const {
  static const std::map<std::string, Type> types = {{"f32", Type::f32},  {"f16", Type::f16}, {"bf16", Type::bf16},
                                                    {"i32", Type::i32},  {"i8", Type::i8},   {"bool", Type::boolean},
                                                    {"index", Type::i32}};
  auto found = types.find(type.scalar);
  return found == types.end() ? real_ : found->second;
}

} // namespace heddle::checking
