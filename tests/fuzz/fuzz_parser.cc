// Any bytes give a tree or messages; what is read without a message is printed, read again as the same words, and
// printed as itself.
#include "dsl/syntax/parser.h"

#include <cstdio>
#include <cstdlib>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  using namespace heddle;
  Sources sources;
  Diagnostics diagnostics(sources);
  syntax::File tree = syntax::parse(
      sources, sources.add("input.heddle", std::string(reinterpret_cast<const char *>(data), size)), diagnostics);
  diagnostics.render();
  std::string once = syntax::print(sources, tree);
  if (!diagnostics.all().empty())
    return 0;
  syntax::File again = syntax::parse(sources, sources.add("printed.heddle", once), diagnostics);
  std::string twice = syntax::print(sources, again);
  if (!diagnostics.all().empty() || once != twice) {
    std::fprintf(stderr, "--- printed\n%s--- printed again\n%s%s", once.c_str(), twice.c_str(),
                 diagnostics.render().c_str());
    std::abort();
  }
  return 0;
}
