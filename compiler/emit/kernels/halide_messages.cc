#include "compiler/emit/kernels/halide_messages.h"

#include "llvm/Support/Regex.h"

#include <cstdlib>
#include <mutex>

namespace heddle {

namespace {

class SilentReporter : public Halide::CompileTimeErrorReporter {
public:
  void warning(const char *) override {}
  void error(const char *message) override { throw Halide::CompileError(message); }
};

} // namespace

void report_by_exceptions() {
  static SilentReporter reporter;
  static std::once_flag once;
  std::call_once(once, [] {
    Halide::set_custom_compile_time_error_reporter(&reporter);
    // LLVM would gather the addresses of a tile's rows in a vector and take them out again at every term of the sum.
    // All that should be a vector is one already. Halide reads options for LLVM from here only.
    setenv("HL_LLVM_ARGS", "-vectorize-slp=false", 0);
  });
}

std::string message_of(const Halide::Error &error) {
  std::string text = error.what();
  while (!text.empty() && text.back() == '\n')
    text.pop_back();
  for (char &c : text)
    if (c == '\n')
      c = ' ';
  text.erase(0, text.starts_with("Error: ") ? 7 : 0);
  for (llvm::Regex unique("[$]n?[0-9]+"); unique.match(text);)
    text = unique.sub("", text);
  return text.empty() ? "internal error" : text;
}

} // namespace heddle
