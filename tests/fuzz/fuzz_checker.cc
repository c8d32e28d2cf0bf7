// Any bytes through parser and checker: a program that holds what one must, or messages that all have a place.
#include "dsl/check/check.h"
#include "dsl/check/verify.h"
#include "dsl/syntax/parser.h"

#include <cstdio>
#include <cstdlib>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  using namespace heddle;
  Sources sources;
  Diagnostics diagnostics(sources);
  syntax::File tree = syntax::parse(
      sources, sources.add("input.heddle", std::string(reinterpret_cast<const char *>(data), size)), diagnostics);
  CheckOptions options;
  options.find_file = [](const std::string &) { return -1; };
  std::unique_ptr<Program> program = check(sources, tree, options, diagnostics);
  std::string messages = diagnostics.render();
  bool good = program || diagnostics.has_errors();
  for (const Diagnostic &d : diagnostics.all())
    good &= d.span.valid();
  if (program) {
    to_text(*program);
    std::string wrong = verify(*program);
    messages += wrong;
    good &= wrong.empty();
  }
  if (!good) {
    std::fprintf(stderr, "%s", messages.c_str());
    std::abort();
  }
  return 0;
}
