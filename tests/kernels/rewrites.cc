// Each row of compiler/halide/rewrites has a kernel, tests/kernels/rewrites/<name>.mlir, that is right with it and, on
// one target at least, not without it: it doesn't compile, computes something else, breaks a rule of the harness, or
// its lowered statement lacks the text after `// statement:`. When Halide no longer needs a rewrite, this says so.
#include "harness.h"

#include "compiler/halide/rewrites/rewrites.h"
#include "compiler/ir/dialect.h"

#include "runtime/cpu_features.h"

#include <gtest/gtest-spi.h>

#include <bit>
#include <fstream>
#include <sstream>

namespace heddle::test {
namespace {

/// What stands after `// <key>:` in a test's kernel.
std::string comment(const std::string &text, const std::string &key) {
  size_t at = text.find("// " + key + ":");
  if (at == std::string::npos)
    return "";
  at += key.size() + 5;
  return text.substr(at, text.find('\n', at) - at);
}

/// A rewrite's kernel, with what the evaluator says that it computes: once, since it is slow.
struct Case {
  std::string text;
  KernelText kernel;
  std::vector<int64_t> sizes;
  std::vector<Values> inputs;
  std::vector<Values> expected;

  explicit Case(const std::string &from) : text(from), kernel(from) {
    std::istringstream numbers(comment(text, "sizes"));
    sizes = {std::istream_iterator<int64_t>(numbers), {}};
    inputs = random_inputs(kernel.function(), sizes, 1);
    if (text.find("// NaN first") != std::string::npos) // with all bits of its payload
      inputs.front().data.front() = std::bit_cast<double>(~uint64_t(0) >> 1);
    expected = evaluate(kernel.function(), sizes, inputs);
  }
};

/// The first thing that is wrong with the kernel without a rewrite, or nothing.
std::string failure(const Case &of, const Target &target, std::string_view without) {
  testing::TestPartResultArray failures;
  {
    testing::ScopedFakeTestPartResultReporter reporter(
        testing::ScopedFakeTestPartResultReporter::INTERCEPT_ONLY_CURRENT_THREAD, &failures);
    CompiledKernel compiled(of.kernel.function(), 0, target, false, without);
    EXPECT_TRUE(close(compiled.run(of.sizes, of.inputs), of.expected, 8e-3));
    if (std::string wanted = comment(of.text, "statement"); !wanted.empty()) {
      EmitOptions options;
      options.form = KernelForm::statement;
      options.without_rewrite = without;
      Result<KernelObject> statement = emit_kernel(of.kernel.function(), 0, target, options);
      EXPECT_TRUE(statement && statement->bytes.find(wanted.substr(1)) != std::string::npos);
    }
  }
  return failures.size() ? failures.GetTestPartResult(0).message() : "";
}

TEST(Rewrites, each_is_needed) {
  for (const Rewrite &rewrite : rewrites()) {
    std::ifstream file(HEDDLE_SOURCE_DIR "/tests/kernels/rewrites/" + std::string(rewrite.name) + ".mlir");
    ASSERT_TRUE(file) << rewrite.name << " has no kernel that shows what it is for";
    Case of({std::istreambuf_iterator<char>(file), {}});
    // Where the CPU can't run the one target that shows it, only that the kernel is right is tested.
    std::string only_on = comment(of.text, "wrong on");
    bool needed = !only_on.empty() && (find_target(only_on)->base & ~heddle_host_cpu_features());
    for (const Target &target : targets())
      if (!(target.base & ~heddle_host_cpu_features())) {
        EXPECT_EQ(failure(of, target, ""), "") << rewrite.name << ", " << target.name;
        needed = needed || !failure(of, target, rewrite.name).empty();
      }
    EXPECT_TRUE(needed) << rewrite.name << ": its kernel is right without it on every target";
  }
}

} // namespace
} // namespace heddle::test
