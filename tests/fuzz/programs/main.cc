// fuzz_programs: random programs through evaluator and compiled library.
//   fuzz_programs [--seeds A..B] [--minutes N] [--folder DIR]   a campaign; what DIR has finished is not repeated
//   fuzz_programs --fresh --minutes N [--folder DIR]            seeds that no run had before, by the clock
//   fuzz_programs --list FILE                                   the seeds of that file, one per line
//   fuzz_programs --show SEED                                   the program of a seed
//   fuzz_programs FILE.heddle...                                examine programs; --minimise: and make them smaller
//   ... --target T, --precision P                               compiled so, whatever a program names
#include "tests/fuzz/programs/attempt.h"
#include "tests/fuzz/programs/generator.h"
#include "tests/fuzz/programs/minimise.h"

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <unistd.h>

using namespace heddle::fuzz;
namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

namespace {

volatile std::sig_atomic_t interrupted = 0;

struct Options {
  uint64_t first = 1, last = UINT64_MAX - 1;
  double minutes = 1e9;
  std::string folder = "fuzz", list, target, precision;
  bool compile = true, minimise = false, fresh = false;
  int minimise_seconds = 90;
  std::vector<std::string> files;
};

std::string read_file(const std::string &path) {
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

/// The program with `value` behind that mark in its first lines; an empty one leaves it as it is.
std::string with_line(std::string text, const std::string &mark, const std::string &value) {
  size_t at = text.find(mark);
  if (value.empty())
    return text;
  if (at == std::string::npos)
    return mark + value + "\n" + text;
  at += mark.size();
  return text.replace(at, text.find('\n', at) - at, value);
}

/// The program with the options' target and precision in its first lines, so that a failing one says what it was
/// compiled for.
std::string retargeted(std::string text, const Options &options) {
  return with_line(with_line(std::move(text), "# target ", options.target), "# precision ", options.precision);
}

/// How far a campaign has come, kept in DIR/state (and of each program a line in DIR/programs).
struct State {
  uint64_t next = 0;
  int64_t programs = 0, failures = 0, compared = 0, free = 0;
  std::map<std::string, int64_t> kernels; // by kind

  void load(const std::string &path) {
    std::ifstream in(path);
    std::string word;
    while (in >> word) {
      int64_t value = 0;
      in >> value;
      for (auto &[name, field] : fields())
        if (word == name)
          *field = value;
      if (word == "next")
        next = uint64_t(value);
      if (word.starts_with("kernels."))
        kernels[word.substr(8)] = value;
    }
  }
  void save(const std::string &path) {
    std::string unfinished = path + ".new";
    std::ofstream out(unfinished);
    out << "next " << next << "\n";
    for (auto &[name, field] : fields())
      out << name << " " << *field << "\n";
    for (auto &[kind, number] : kernels)
      out << "kernels." << kind << " " << number << "\n";
    out.close();
    std::error_code ignored;
    fs::rename(unfinished, path, ignored);
  }
  std::vector<std::pair<std::string, int64_t *>> fields() {
    return {{"programs", &programs}, {"failures", &failures}, {"compared", &compared}, {"free", &free}};
  }
};

void report_failure(const Options &options, uint64_t seed, const Verdict &verdict) {
  std::string text = retargeted(generate(seed), options), base = options.folder + "/" + std::to_string(seed);
  std::printf("\nseed %llu: %s: %s\n", (unsigned long long)seed, kind_name(verdict.kind), verdict.what.c_str());
  std::ofstream(base + ".heddle") << text;
  std::ofstream(base + ".txt") << kind_name(verdict.kind) << ": " << verdict.what << "\n";
  if (options.fresh) // nobody may have the folder
    std::printf("%s", text.c_str());
  std::fflush(stdout);
  if (options.minimise_seconds <= 0)
    return;
  std::string small = minimise(text, verdict.kind, options.minimise_seconds);
  std::ofstream(base + ".small.heddle") << small;
  std::printf("%s.small.heddle:\n%s", base.c_str(), small.c_str());
  std::fflush(stdout);
}

int campaign(const Options &options) {
  fs::create_directories(options.folder);
  State state;
  state.next = options.first;
  std::string path = options.folder + "/state";
  std::vector<uint64_t> listed;
  bool resumes = options.list.empty() && !options.fresh;
  if (options.fresh)
    std::printf("seeds %llu and on\n", (unsigned long long)options.first);
  if (!options.list.empty()) {
    std::ifstream in(options.list);
    for (uint64_t seed; in >> seed;)
      listed.push_back(seed);
  } else if (resumes) {
    state.load(path);
    state.next = std::max(state.next, options.first);
  }
  auto begun = Clock::now(), shown = begun;
  int64_t before = state.programs;
  size_t at = 0; // of the list
  auto seconds = [&] { return std::chrono::duration<double>(Clock::now() - begun).count(); };
  auto show = [&](bool last) {
    std::printf("%s%lld programs (%.1f/s), %lld failures; %.1f %% of %lld elements held to bounds%s",
                isatty(1) ? "\r" : "", (long long)state.programs, double(state.programs - before) / seconds(),
                (long long)state.failures,
                100.0 * double(state.compared) / double(std::max<int64_t>(1, state.compared + state.free)),
                (long long)(state.compared + state.free), last || !isatty(1) ? "\n" : "   ");
    std::fflush(stdout);
    shown = Clock::now();
  };
  // What each program cost and holds: seed, verdict, milliseconds of CPU, kernels.
  std::ofstream costs(options.folder + "/programs", resumes ? std::ios::app : std::ios::trunc);
  while (!interrupted && seconds() < options.minutes * 60) {
    std::vector<uint64_t> seeds;
    if (options.list.empty())
      for (uint64_t seed = state.next; seed <= options.last && seeds.size() < 32; ++seed)
        seeds.push_back(seed);
    else
      for (; at < listed.size() && seeds.size() < 32; ++at)
        seeds.push_back(listed[at]);
    if (seeds.empty())
      break;
    Worker worker(seeds, [&](uint64_t seed) { return retargeted(generate(seed), options); }, options.compile);
    while (auto finished = interrupted ? std::nullopt : worker.next()) {
      const Verdict &verdict = finished->verdict;
      ++state.programs;
      state.compared += verdict.compared;
      state.free += verdict.free;
      std::istringstream kinds(verdict.kernels);
      for (std::string kind; kinds >> kind;)
        ++state.kernels[kind];
      state.next = finished->seed + 1;
      costs << finished->seed << " " << kind_name(verdict.kind) << " " << int64_t(verdict.seconds * 1000) << " "
            << verdict.kernels << std::endl;
      if (verdict.kind != Verdict::agrees) {
        ++state.failures;
        report_failure(options, finished->seed, verdict);
      }
      if (resumes)
        state.save(path);
      if (Clock::now() - shown > std::chrono::seconds(isatty(1) ? 1 : 20))
        show(false);
      if (seconds() >= options.minutes * 60)
        break;
    }
  }
  show(true);
  for (auto &[kind, number] : state.kernels)
    std::printf("%lld %s kernels\n", (long long)number, kind.c_str());
  return state.failures ? 1 : 0;
}

int examine_files(const Options &options) {
  int failed = 0;
  for (const std::string &file : options.files) {
    std::string text = retargeted(read_file(file), options);
    Verdict verdict = attempt(text, options.compile);
    std::printf("%s: %s %s\n", file.c_str(), kind_name(verdict.kind), verdict.what.c_str());
    if (verdict.kind == Verdict::agrees)
      continue;
    ++failed;
    if (options.minimise)
      std::printf("%s", minimise(text, verdict.kind, options.minimise_seconds).c_str());
  }
  return failed ? 1 : 0;
}

constexpr const char *help =
    "usage: fuzz_programs [--seeds A..B | --list FILE | --fresh] [--minutes N] [--folder DIR] [--front]\n"
    "                     [--minimise-seconds N] [--target T] [--precision P]\n"
    "       fuzz_programs --show SEED\n"
    "       fuzz_programs [--minimise] [--front] [--target T] [--precision P] FILE.heddle...\n"
    "\n"
    "Random programs through evaluator and compiled library, or programs from files. Exit status 1: one failed.\n"
    "\n"
    "  --seeds A..B          the programs of these seeds (A: one; A..: from there on)\n"
    "  --list FILE           the seeds that stand in FILE, one per line\n"
    "  --fresh               seeds that the clock says, printed first; programs that fail are printed whole\n"
    "  --folder DIR          where failing programs and progress go; what DIR has finished is not repeated (fuzz)\n"
    "  --minutes N           stop after so long\n"
    "  --target T            what to compile for, instead of what a program names\n"
    "  --precision P         of products, instead of what a program names (f32)\n"
    "  --front               all but compiler and library\n"
    "  --minimise-seconds N  how long a failing program is made smaller; 0: not at all (90)\n"
    "  --show SEED           print the program of a seed\n"
    "  --minimise            make failing files smaller\n";

[[noreturn]] void usage(const char *why) {
  std::fprintf(stderr, "fuzz_programs: %s\n%s", why, help);
  std::exit(2);
}

} // namespace

int main(int count, char **words) {
  Options options;
  for (int i = 1; i < count; ++i) {
    std::string word = words[i];
    auto value = [&] {
      if (i + 1 >= count)
        usage((word + " takes a value").c_str());
      return std::string(words[++i]);
    };
    if (word == "--seeds") {
      std::string range = value();
      size_t dots = range.find("..");
      options.first = std::strtoull(range.c_str(), nullptr, 10);
      options.last = dots == std::string::npos  ? options.first
                     : dots + 2 == range.size() ? UINT64_MAX - 1
                                                : std::strtoull(range.c_str() + dots + 2, nullptr, 10);
    } else if (word == "--minutes") {
      options.minutes = std::atof(value().c_str());
    } else if (word == "--folder") {
      options.folder = value();
    } else if (word == "--fresh") {
      options.fresh = true;
      options.first = uint64_t(std::time(nullptr)) * 1000; // no second run starts within the programs of the first
    } else if (word == "--target") {
      options.target = value();
    } else if (word == "--precision") {
      options.precision = value();
    } else if (word == "--list") {
      options.list = value();
    } else if (word == "--minimise-seconds") {
      options.minimise_seconds = std::atoi(value().c_str());
    } else if (word == "--front") {
      options.compile = false;
    } else if (word == "--minimise") {
      options.minimise = true;
    } else if (word == "--show") {
      std::printf("%s", generate(std::strtoull(value().c_str(), nullptr, 10)).c_str());
      return 0;
    } else if (word == "--help") {
      std::printf("%s", help);
      return 0;
    } else if (word.starts_with("-")) {
      usage(("there is no option " + word).c_str());
    } else {
      options.files.push_back(word);
    }
  }
  signal(SIGINT, [](int) { interrupted = 1; });
  signal(SIGTERM, [](int) { interrupted = 1; });
  return options.files.empty() ? campaign(options) : examine_files(options);
}
