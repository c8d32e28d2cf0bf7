// One program through everything: parser, printer, checker, evaluator, interval bounds, compiler, linker, library.
#pragma once

#include <cstdint>
#include <string>

namespace heddle::fuzz {

struct Verdict {
  enum Kind {
    agrees,
    refused,   // by the checker
    unstable,  // the printer does not give back what it read
    evaluator, // it refuses for what the checker had excluded
    not_compiled,
    call_failed,  // the library refused a call that the evaluator took, or the other way round
    wrong_bounds, // evaluator and interval bounds differ
    mismatch,     // library and bounds differ
    threads,      // other bits with two threads
    crash,        // set by the campaign: the process died
    hang,
  } kind = agrees;
  std::string what;         // one line for a person
  int64_t compared = 0;     // elements that the bounds hold to something
  int64_t free = 0;         // elements about which they say nothing
  std::string kernels = {}; // the kinds of its kernels, each followed by a blank
  double seconds = 0;       // of CPU that it took
};

const char *kind_name(Verdict::Kind kind);

/// Runs a program in the form of generator.h. `compile` false: all but compiler and library.
Verdict examine(const std::string &text, bool compile = true);

} // namespace heddle::fuzz
