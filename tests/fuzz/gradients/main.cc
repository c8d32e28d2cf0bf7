// Gradients of random programs, each along a random direction (tests/differentiate/slope.h).
//
//   fuzz_gradients [--from SEED] [--count N] [--show]
//   fuzz_gradients FILE.heddle...        of the first entry of these programs (tests/fuzz/programs/generator.h)
//
// Where the differences on both sides disagree (a tie, a step, a conversion), nothing is compared.
#include "dsl/check/check.h"
#include "dsl/syntax/parser.h"
#include "tests/differentiate/slope.h"
#include "tests/fuzz/programs/generator.h"

#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <unistd.h>

namespace heddle::fuzz {
namespace {

using tests::Slope;

volatile uint64_t current_seed = 0;

void tell_seed(int signal) {
  char text[64];
  int length = std::snprintf(text, sizeof text, "died at seed %llu\n", static_cast<unsigned long long>(current_seed));
  if (write(2, text, size_t(length)) < 0)
    _exit(2);
  std::_Exit(128 + signal);
}

constexpr const char *outcome_names[] = {"compared", "refused", "not smooth", "not finite",
                                         "not run",  "without", "FAILED"};

/// The numbers of the first call of the first entry that the text's first lines give.
std::map<std::string, int64_t> call_of(const std::string &text) {
  std::map<std::string, int64_t> numbers;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string hash, what, word;
    words >> hash >> what;
    if (hash != "#" || what != "call")
      continue;
    bool first = true;
    std::map<std::string, int64_t> own;
    while (words >> word)
      if (size_t equals = word.find('='); equals != std::string::npos)
        own[word.substr(0, equals)] = std::atoll(word.c_str() + equals + 1);
      else
        first = false;
    bool none = std::any_of(own.begin(), own.end(), [](const auto &one) { return one.second == 0; });
    if (first && (numbers.empty() || !none))
      numbers = own;
    if (!numbers.empty() && !none)
      break;
  }
  return numbers;
}

Slope::Outcome examine(const std::string &text, uint64_t seed, bool show, std::string &what) {
  if (text.find("# real ") != std::string::npos)
    return Slope::without;
  Sources sources;
  int number = sources.add("m.heddle", text);
  Diagnostics diagnostics(sources);
  syntax::File tree = syntax::parse(sources, number, diagnostics);
  std::unique_ptr<Program> program = check(sources, tree, {}, diagnostics);
  if (!program) {
    what = diagnostics.render();
    return Slope::not_run;
  }
  program->entries.resize(1);
  Slope slope(*program, call_of(text), seed);
  Slope::Outcome outcome = slope.run();
  what = slope.what;
  if (show)
    std::printf("%s\n%s\n", text.c_str(), to_text(*program).c_str());
  return outcome;
}

int run(int argc, char **argv) {
  uint64_t from = 1, count = 500;
  bool show = false;
  std::vector<std::string> files;
  int failures = 0;
  for (int i = 1; i < argc; ++i) {
    bool more = i + 1 < argc;
    if (!std::strcmp(argv[i], "--from") && more)
      from = std::strtoull(argv[++i], nullptr, 10);
    else if (!std::strcmp(argv[i], "--count") && more)
      count = std::strtoull(argv[++i], nullptr, 10);
    else if (!std::strcmp(argv[i], "--show"))
      show = true;
    else if (argv[i][0] != '-')
      files.push_back(argv[i]);
    else
      return std::fprintf(stderr, "usage: fuzz_gradients [--from SEED] [--count N] [--show] [FILE...]\n"), 2;
  }
  std::signal(SIGSEGV, tell_seed);
  std::signal(SIGABRT, tell_seed);
  for (const std::string &file : files) {
    std::stringstream text;
    text << std::ifstream(file).rdbuf();
    std::string what;
    Slope::Outcome outcome = examine(text.str(), 1, show, what);
    std::printf("%s: %s %s\n", file.c_str(), outcome_names[outcome], what.c_str());
    failures += outcome == Slope::failed;
  }
  if (!files.empty())
    return failures > 0;
  std::map<Slope::Outcome, uint64_t> outcomes;
  std::map<std::string, int> reasons;
  for (uint64_t seed = from; seed < from + count; ++seed) {
    current_seed = seed;
    std::string what;
    Slope::Outcome outcome = examine(generate(seed), seed, show, what);
    ++outcomes[outcome];
    if (outcome == Slope::refused)
      ++reasons[what.substr(0, what.find('`'))];
    if (outcome == Slope::failed)
      std::printf("seed %llu: %s\n", static_cast<unsigned long long>(seed), what.c_str());
  }
  for (const auto &[outcome, times] : outcomes)
    std::printf("%s %llu\n", outcome_names[outcome], static_cast<unsigned long long>(times));
  for (const auto &[reason, times] : reasons)
    std::printf("  refused: %s (%d)\n", reason.c_str(), times);
  return outcomes[Slope::failed] > 0 || outcomes[Slope::compared] == 0;
}

} // namespace
} // namespace heddle::fuzz

int main(int argc, char **argv) { return heddle::fuzz::run(argc, argv); }
