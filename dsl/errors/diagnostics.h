// Messages to the author of a model. Each has a code (a row of errors.def, explained at length by
// `heddle explain CODE`), a place, the source line with a caret, and one cure. Rooms collect messages
// here instead of stopping at the first; nothing is printed until the caller asks.
//
//   vit.heddle:13:44: error[E021]: `past` is read at row -3; its rows are 0 to M - 1
//     13 |     c[b, j] = past[b, j - T]
//        |                       ^^^^^ goes from -T to -1
//     help: say what lies outside (`past[b, j - T | 0]`)                  heddle explain E021
#pragma once

#include "dsl/errors/source.h"

#include <optional>
#include <string>
#include <vector>

namespace heddle {

/// One value per row of errors.def.
enum class Code {
#define HEDDLE_ERROR(code, severity, message, help) code,
#include "dsl/errors/errors.def"
#undef HEDDLE_ERROR
};

enum class Severity { error, warning };

struct Diagnostic {
  Code code;
  Severity severity;
  Span span;
  std::string message; // the row's template with {0}, {1}, … replaced
  std::string label;   // stands after the caret; may be empty
  std::string help;    // one line; may be empty
};

/// Whether text is for a terminal that shows colours.
enum class Paint { none, terminal };

class Diagnostics {
public:
  explicit Diagnostics(const Sources &sources) : sources_(&sources) {}

  /// Adds the message of `code` with its arguments put in. Returns it, so that the caller may set
  /// `label` or replace `help`. Repeats (same code and span) are dropped.
  Diagnostic &report(Code code, Span span, std::vector<std::string> args = {});

  bool has_errors() const;
  const std::vector<Diagnostic> &all() const { return list_; }
  const Sources &sources() const { return *sources_; }
  /// Everything as text: at most `limit` messages in the order of their places, then a count of the rest.
  std::string render(int limit = 10, Paint paint = Paint::none) const;

private:
  const Sources *sources_;
  std::vector<Diagnostic> list_;
};

/// Whether at a place of a text begins a UTF-8 character that a terminal shows; `length` becomes its bytes.
bool is_printable(std::string_view text, size_t at, size_t &length);

/// `text` with `?` for all that a terminal does not show but may act on, and for what is no UTF-8.
std::string printable(std::string_view text);

/// "error:", which begins a message without a place.
std::string error_word(Paint paint);

/// "E021" and back; nullopt for a code that doesn't exist.
std::string code_name(Code code);
std::optional<Code> find_code(std::string_view name);
/// The long explanation (dsl/errors/E021.md), for `heddle explain`.
std::string_view explanation(Code code);

} // namespace heddle
