// Deletes and shortens blindly, from large parts to small ones; whatever the checker refuses was needed. A result goes
// together with its place in the last line.
#include "tests/fuzz/programs/minimise.h"

#include "tests/fuzz/programs/attempt.h"

#include <algorithm>
#include <cctype>
#include <chrono>
#include <sstream>
#include <vector>

namespace heddle::fuzz {

namespace {

using Words = std::vector<std::string>;

Words lines_of(const std::string &text) {
  Words out;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);)
    out.push_back(line + "\n");
  return out;
}

/// Names, numbers and signs, each with the blanks before it; comment lines are one word.
Words words_of(const std::string &text) {
  Words out;
  auto is_word = [&](size_t i) { return std::isalnum(static_cast<unsigned char>(text[i])) || text[i] == '_'; };
  for (size_t at = 0; at < text.size();) {
    size_t end = at;
    while (end < text.size() && std::isspace(static_cast<unsigned char>(text[end])))
      ++end;
    if (end < text.size() && text[end] == '#')
      end = std::min(text.find('\n', end), text.size());
    else if (end < text.size() && text[end] == '"')
      end = std::min(text.find('"', end + 1), text.size() - 1) + 1;
    else if (end < text.size() && is_word(end))
      while (end < text.size() && (is_word(end) || (text[end] == '.' && end + 1 < text.size() && is_word(end + 1))))
        ++end;
    else if (end < text.size())
      ++end;
    out.push_back(text.substr(at, end - at));
    at = end;
  }
  return out;
}

std::string joined(const Words &words) {
  std::string out;
  for (const std::string &word : words)
    out += word;
  return out;
}

class Minimiser {
public:
  Minimiser(std::string text, Verdict::Kind kind, int seconds)
      : text_(std::move(text)), kind_(kind), end_(Clock::now() + std::chrono::seconds(seconds)) {}

  std::string run() {
    for (bool smaller = true; smaller && Clock::now() < end_;) {
      size_t before = text_.size();
      drop_results();
      drop([](const std::string &text) { return lines_of(text); }, 8);
      drop(words_of, 24);
      halve_numbers();
      smaller = text_.size() < before;
    }
    return text_;
  }

private:
  using Clock = std::chrono::steady_clock;

  bool try_text(const std::string &candidate) {
    if (Clock::now() > end_ || candidate == text_)
      return false;
    bool front = kind_ == Verdict::refused || kind_ == Verdict::unstable || kind_ == Verdict::wrong_bounds ||
                 kind_ == Verdict::evaluator;
    // The front costs little and refuses most attempts.
    Verdict verdict = attempt(candidate, false);
    if (!front && verdict.kind == Verdict::agrees)
      verdict = attempt(candidate, true);
    if (verdict.kind != kind_)
      return false;
    text_ = candidate;
    return true;
  }

  /// Runs of parts, long ones first. A comment goes only where another of its kind stays.
  void drop(const std::function<Words(const std::string &)> &parts_of, size_t longest) {
    for (size_t length = longest; length > 0; length = length * 2 / 3)
      for (size_t at = 0; Clock::now() < end_;) {
        Words parts = parts_of(text_);
        if (at + length > parts.size())
          break;
        std::string removed;
        for (size_t i = at; i < at + length; ++i)
          removed += parts[i];
        bool directive = removed.find("# data") != std::string::npos || removed.find("# target") != std::string::npos ||
                         removed.find("# real") != std::string::npos;
        parts.erase(parts.begin() + at, parts.begin() + at + length);
        bool callable = joined(parts).find("# call") != std::string::npos;
        if (directive || !callable || !try_text(joined(parts)))
          ++at;
      }
  }

  /// Results of an entry go together with their places in its last line.
  void drop_results() {
    for (size_t at = 0; Clock::now() < end_; ++at) {
      Words lines = lines_of(text_);
      std::vector<size_t> results; // the `at`-th of all, and its companions
      size_t last = 0, seen = 0, place = 0;
      bool here = false;
      for (size_t i = 0; i < lines.size() && last == 0; ++i) {
        if (lines[i].find("    out") == 0) {
          if (seen == at) {
            here = true;
            place = results.size();
          }
          ++seen;
          results.push_back(i);
        }
        if (lines[i].find("    return ") == 0) {
          if (here)
            last = i;
          else
            results.clear();
        }
      }
      if (last == 0)
        return;
      if (results.size() < 2)
        continue;
      Words names;
      std::istringstream list(lines[last].substr(11));
      for (std::string name; std::getline(list, name, ',');)
        names.push_back(name);
      if (names.size() != results.size())
        return;
      names.erase(names.begin() + place);
      std::string returned;
      for (const std::string &name : names) {
        size_t begin = name.find_first_not_of(" \n"), end = name.find_last_not_of(" \n");
        returned += (returned.empty() ? "" : ", ") + name.substr(begin, end + 1 - begin);
      }
      lines[last] = "    return " + returned + "\n";
      if (place + 1 == results.size()) { // the one before becomes the last: without comma, with what ends the header
        std::string &before = lines[results[place - 1]];
        before = before.substr(0, before.rfind(',')) + " {\n";
      }
      lines.erase(lines.begin() + results[place]);
      if (try_text(joined(lines)))
        --at;
    }
  }

  void halve_numbers() {
    for (size_t at = 0; Clock::now() < end_; ++at) {
      Words words = words_of(text_);
      if (at >= words.size())
        return;
      size_t digit = words[at].find_first_not_of(" \n");
      if (digit == std::string::npos || !std::isdigit(static_cast<unsigned char>(words[at][digit])))
        continue;
      int value = std::atoi(words[at].c_str() + digit);
      if (value < 2)
        continue;
      words[at] = words[at].substr(0, digit) + std::to_string(value / 2);
      if (try_text(joined(words)))
        --at;
    }
  }

  std::string text_;
  Verdict::Kind kind_;
  Clock::time_point end_;
};

} // namespace

std::string minimise(const std::string &text, Verdict::Kind kind, int seconds) {
  return Minimiser(text, kind, seconds).run();
}

} // namespace heddle::fuzz
