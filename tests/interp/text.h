// Programs as text for tests of their meaning: through parser, checker and evaluator.
#pragma once

#include "dsl/check/check.h"
#include "dsl/syntax/parser.h"

#include "programs.h"

namespace heddle {

/// A program from text, with weights made on demand (a pattern that depends on the name's length).
class Text {
public:
  explicit Text(const std::string &text, std::map<std::string, std::vector<int64_t>> weights = {})
      : shapes_(std::move(weights)) {
    int file = sources_.add("test.heddle", text);
    Diagnostics diagnostics(sources_);
    syntax::File tree = syntax::parse(sources_, file, diagnostics);
    CheckOptions options;
    options.find_file = [](const std::string &) { return -1; };
    program_ = check(sources_, tree, options, diagnostics);
    if (diagnostics.has_errors() || !program_)
      ADD_FAILURE() << diagnostics.render();
    else
      interpreter_ = std::make_unique<Interpreter>(*program_, [this](const std::string &name) { return weight(name); });
  }

  Result<Array> weight(const std::string &name) const {
    auto found = shapes_.find(name);
    if (found == shapes_.end())
      return Error{"no such tensor"};
    return pattern(found->second, int(name.size()));
  }
  Array operator()(const std::map<std::string, Array> &inputs, const std::string &output = "y",
                   const std::string &entry = "run") {
    if (!interpreter_)
      return {};
    auto results = interpreter_->run(entry, inputs);
    if (!results) {
      ADD_FAILURE() << results.error().message;
      return {};
    }
    return results->at(output);
  }
  /// An entry without results.
  void run(const std::string &entry, const std::map<std::string, Array> &inputs) {
    auto results = interpreter_->run(entry, inputs);
    EXPECT_TRUE(bool(results)) << (results ? "" : results.error().message);
  }
  std::string message(const std::map<std::string, Array> &inputs) {
    auto results = interpreter_->run("run", inputs);
    return results ? "no error" : results.error().message;
  }

private:
  Sources sources_;
  std::map<std::string, std::vector<int64_t>> shapes_;
  std::unique_ptr<Program> program_;
  std::unique_ptr<Interpreter> interpreter_;
};

/// Each stage rounds to f32, so results differ from unrounded loops by some of its steps.
inline void expect_near(const Array &got, const std::vector<int64_t> &shape, const std::vector<double> &want,
                        double tolerance = 1e-5) {
  ASSERT_EQ(got.shape, shape);
  ASSERT_EQ(got.data.size(), want.size());
  for (size_t i = 0; i < want.size(); ++i)
    if (std::isfinite(want[i]))
      EXPECT_NEAR(got.data[i], want[i], tolerance * std::max(1.0, std::fabs(want[i]))) << "at " << i;
    else
      EXPECT_EQ(got.data[i], want[i]) << "at " << i;
}

} // namespace heddle
