// fuzz_mutations [--count N] [--seed S]: mutations in valid programs (words deleted, doubled, swapped or taken from
// elsewhere, numbers changed, lines moved), each through parser, checker and printer of the checked program. Whatever
// the text, the checker answers within a time limit, and a refusal has a message with a place that is not its own
// excuse (E079). Models, prelude and random programs of tests/fuzz/programs are what mutations happen in. The same
// holds for the functions and modules by themselves, of which those of a random program as it is have no mistake.
#include "dsl/check/check.h"
#include "dsl/check/parts.h"
#include "dsl/syntax/parser.h"
#include "tests/fuzz/programs/generator.h"

#include <cctype>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>
#include <unistd.h>

using namespace heddle;

namespace {

constexpr int seconds_per_program = 20;

/// What is being checked, for the handler of a crash or an alarm.
std::string current;

void last_words(int signal) {
  const char *what = signal == SIGALRM ? "\nno answer in time for:\n" : "\ncrashed on:\n";
  for (auto [text, size] : {std::pair(what, std::strlen(what)), std::pair(current.c_str(), current.size())})
    if (write(2, text, size) < 0)
      break;
  _exit(1);
}

[[noreturn]] void fail(const char *what) {
  std::fprintf(stderr, "\n%s:\n%s", what, current.c_str());
  std::exit(1);
}

std::string read_file(const std::filesystem::path &path) {
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

/// Words, numbers, strings and signs, each with the blanks before it; without comments.
std::vector<std::string> words_of(const std::string &text) {
  std::vector<std::string> out;
  auto is_word = [&](size_t i) { return std::isalnum(static_cast<unsigned char>(text[i])) || text[i] == '_'; };
  for (size_t at = 0; at < text.size();) {
    size_t begin = at;
    while (begin < text.size() && std::isspace(static_cast<unsigned char>(text[begin])))
      ++begin;
    if (begin < text.size() && text[begin] == '#') {
      at = std::min(text.find('\n', begin), text.size());
      continue;
    }
    size_t end = begin;
    while (end < text.size() && is_word(end))
      ++end;
    if (end == begin && end < text.size())
      end = text[end] == '"' ? std::min(text.find('"', end + 1), text.size() - 1) + 1 : end + 1;
    out.push_back(text.substr(at, end - at));
    at = end;
  }
  return out;
}

class Mutations {
public:
  Mutations(std::vector<std::vector<std::string>> seeds, uint64_t seed) : seeds_(std::move(seeds)), random_(seed) {}

  std::string next() {
    std::vector<std::string> words = seeds_[below(seeds_.size())];
    for (size_t mutations = 1 + below(3); mutations > 0 && words.size() > 4; --mutations)
      mutate(words);
    std::string text;
    for (const std::string &word : words)
      text += word;
    return text;
  }

private:
  size_t below(size_t n) { return random_() % n; }

  void mutate(std::vector<std::string> &words) {
    size_t a = below(words.size()), b = below(words.size()), length = 1 + below(12);
    switch (below(9)) {
    case 0:
      words.erase(words.begin() + a);
      break;
    case 1:
      words.erase(words.begin() + a, words.begin() + std::min(a + length, words.size()));
      break;
    case 2:
      words.insert(words.begin() + a, words[a]);
      break;
    case 3:
      std::swap(words[a], words[b]);
      break;
    case 4: {
      const auto &other = seeds_[below(seeds_.size())];
      words[a] = other[below(other.size())];
      break;
    }
    case 5: // a number
      for (size_t i = a; i < words.size(); ++i) {
        size_t digit = words[i].find_first_not_of(" \n\t");
        if (digit == std::string::npos || !std::isdigit(static_cast<unsigned char>(words[i][digit])))
          continue;
        const char *values[] = {"0",  "1",       "2",          "3",          "-1",  "7",
                                "64", "1000000", "2147483647", "9999999999", "0.5", "1e9"};
        words[i] = words[i].substr(0, digit) + values[below(std::size(values))];
        break;
      }
      break;
    case 6: { // a run of words, to another place
      std::vector<std::string> run(words.begin() + a, words.begin() + std::min(a + length, words.size()));
      words.erase(words.begin() + a, words.begin() + a + run.size());
      words.insert(words.begin() + std::min(b, words.size()), run.begin(), run.end());
      break;
    }
    case 7: { // a line, to another place
      auto line_begin = [&](size_t i) {
        while (i > 0 && words[i].find('\n') == std::string::npos)
          --i;
        return i;
      };
      size_t begin = line_begin(a), end = begin + 1;
      while (end < words.size() && words[end].find('\n') == std::string::npos)
        ++end;
      std::vector<std::string> line(words.begin() + begin, words.begin() + end);
      words.erase(words.begin() + begin, words.begin() + end);
      if (!words.empty())
        words.insert(words.begin() + line_begin(below(words.size())), line.begin(), line.end());
      break;
    }
    default:
      static const char *pool[] = {
          " 0",    " -",      "+",   "*",      "//",        " %",      " if",     " then",  " else",    "(",
          ")",     "[",       "]",   "|",      ":",         " ..s",    " in",     " sum",   " where",   " and",
          " not",  " inf",    "<",   "==",     " _",        ",",       " for",    " let",   " return",  " <-",
          " with", " stored", " as", " state", " require",  " argmax", " true",   " \"a\"", " softmax", "**",
          "{",     "}",       ".",   " real",  " index(3)", " dim",    " config", " use"};
      words.insert(words.begin() + a, pool[below(std::size(pool))]);
    }
  }

  std::vector<std::vector<std::string>> seeds_;
  std::mt19937_64 random_;
};

} // namespace

int main(int count, char **words) {
  constexpr const char *help =
      "usage: fuzz_mutations [--count N] [--seed S]\n"
      "\n"
      "Mutations in valid programs, through parser and checker: N of them (200000), those of seed S (1).\n";
  uint64_t programs = 200'000, seed = 1;
  for (int i = 1; i < count; ++i) {
    std::string word = words[i];
    if (word == "--help") {
      std::printf("%s", help);
      return 0;
    }
    bool known = word == "--count" || word == "--seed";
    if (!known || i + 1 == count) {
      std::fprintf(stderr, "fuzz_mutations: %s\n%s",
                   (known ? word + " takes a value" : "there is no option " + word).c_str(), help);
      return 2;
    }
    (word == "--count" ? programs : seed) = std::strtoull(words[++i], nullptr, 10);
  }
  for (int signal : {SIGSEGV, SIGABRT, SIGFPE, SIGILL, SIGBUS, SIGALRM})
    std::signal(signal, last_words);

  std::vector<std::vector<std::string>> seeds;
  for (const char *folder : {"models", "dsl/prelude", "examples"})
    for (const auto &file : std::filesystem::recursive_directory_iterator(HEDDLE_SOURCE_DIR "/" + std::string(folder)))
      if (file.path().extension() == ".heddle")
        seeds.push_back(words_of(read_file(file)));
  CheckOptions options;
  options.find_file = [](const std::string &) { return -1; };
  for (uint64_t program = 1; program <= 200; ++program) {
    current = fuzz::generate(program);
    Sources sources;
    Diagnostics diagnostics(sources);
    syntax::File tree = syntax::parse(sources, sources.add("right.heddle", current), diagnostics);
    for (const Diagnostic &d : check_parts(sources, tree, options))
      if (d.severity == Severity::error)
        fail(("a mistake in a part of a right program: " + d.message).c_str());
    seeds.push_back(words_of(current));
  }
  Mutations mutations(std::move(seeds), seed);

  auto begun = std::chrono::steady_clock::now(), shown = begun;
  uint64_t refused = 0;
  double slowest = 0;
  for (uint64_t i = 1; i <= programs; ++i) {
    current = mutations.next();
    auto start = std::chrono::steady_clock::now();
    alarm(seconds_per_program);
    Sources sources;
    Diagnostics diagnostics(sources);
    syntax::File tree = syntax::parse(sources, sources.add("mutated.heddle", current), diagnostics);
    std::vector<Diagnostic> of_parts;
    if (!diagnostics.has_errors())
      of_parts = check_parts(sources, tree, options);
    std::unique_ptr<Program> program = check(sources, tree, options, diagnostics);
    std::string messages = diagnostics.render();
    alarm(0);
    if (program && to_text(*program).empty())
      fail("a program without text");
    if (!program && !diagnostics.has_errors())
      fail("refused without a message");
    of_parts.insert(of_parts.end(), diagnostics.all().begin(), diagnostics.all().end());
    for (const Diagnostic &d : of_parts) {
      if (!d.span.valid())
        fail(("a message without a place: " + d.message).c_str());
      if (d.code == Code::E079)
        fail("E079");
    }
    refused += !program;
    auto now = std::chrono::steady_clock::now();
    slowest = std::max(slowest, std::chrono::duration<double>(now - start).count());
    if (now - shown > std::chrono::seconds(20) || i == programs) {
      std::printf("%llu mutations, %llu refused, slowest %.2f s\n", (unsigned long long)i, (unsigned long long)refused,
                  slowest);
      std::fflush(stdout);
      shown = now;
    }
  }
  return 0;
}
