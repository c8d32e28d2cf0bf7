// Collects messages and writes them: place, code, source line with its number, caret, label, cure. A source
// line is shown in columns, not bytes: tabs become spaces, a UTF-8 character takes one column, what a terminal
// should not see is replaced, and of a very long line only the part around the caret is shown.
#include "dsl/errors/diagnostics.h"

#include "embedded/error_pages.h"

#include <algorithm>
#include <tuple>

namespace heddle {
namespace {

struct Row {
  const char *name;
  Severity severity;
  const char *message;
  const char *help;
};

constexpr Row rows[] = {
#define HEDDLE_ERROR(code, severity, message, help) {#code, Severity::severity, message, help},
#include "dsl/errors/errors.def"
#undef HEDDLE_ERROR
};

constexpr size_t hint_column = 70; // where `heddle explain` stands after a short cure
constexpr size_t widest_line = 160;

constexpr ptrdiff_t most_compared = 1000;

/// The template with {0}, {1}, … replaced by the arguments; a missing argument stays visible.
std::string fill(std::string_view form, const std::vector<std::string> &args) {
  std::string out;
  for (size_t i = 0; i < form.size(); ++i) {
    if (form[i] == '{' && i + 2 < form.size() && form[i + 1] >= '0' && form[i + 1] <= '9' && form[i + 2] == '}' &&
        static_cast<size_t>(form[i + 1] - '0') < args.size()) {
      out += args[form[i + 1] - '0'];
      i += 2;
    } else {
      out += form[i];
    }
  }
  return out;
}

/// Bytes of the UTF-8 character that begins at `at`; 0 where there is none.
size_t character_length(std::string_view text, size_t at) {
  unsigned char first = text[at];
  size_t length = first < 0x80                    ? 1
                  : first >= 0xc2 && first < 0xe0 ? 2
                  : (first & 0xf0) == 0xe0        ? 3
                  : first >= 0xf0 && first < 0xf5 ? 4
                                                  : 0;
  if (length == 0 || at + length > text.size())
    return 0;
  for (size_t i = 1; i < length; ++i)
    if ((static_cast<unsigned char>(text[at + i]) & 0xc0) != 0x80)
      return 0;
  return length;
}

/// Whether a terminal would act on the character that begins at `at` instead of showing it: it has `length` bytes.
bool is_control(std::string_view text, size_t at, size_t length) {
  unsigned char first = text[at];
  return first < 0x20 || first == 0x7f ||
         (length == 2 && first == 0xc2 && static_cast<unsigned char>(text[at + 1]) < 0xa0);
}

/// One string per column.
struct Columns {
  std::vector<std::string> cells;
  size_t mark_begin = 0, mark_end = 0;
};

Columns columns_of(std::string_view line, size_t begin, size_t end) {
  Columns out;
  for (size_t at = 0; at < line.size();) {
    if (at == begin)
      out.mark_begin = out.cells.size();
    if (at == end)
      out.mark_end = out.cells.size();
    size_t length = character_length(line, at);
    if (line[at] == '\t') {
      do
        out.cells.push_back(" ");
      while (out.cells.size() % 4 != 0);
    } else if (length == 0 || is_control(line, at, length)) {
      out.cells.push_back("?");
    } else {
      out.cells.push_back(std::string(line.substr(at, length)));
    }
    size_t next = at + std::max<size_t>(length, 1);
    if (begin > at && begin < next) // inside a character: show the whole of it
      out.mark_begin = out.cells.size() - 1;
    if (end > at && end < next)
      out.mark_end = out.cells.size();
    at = next;
  }
  if (begin >= line.size())
    out.mark_begin = out.cells.size();
  if (end >= line.size())
    out.mark_end = out.cells.size();
  out.mark_end = std::max(out.mark_end, out.mark_begin + 1);
  return out;
}

/// Keeps the part of a long line that has the mark.
void shorten(Columns &columns) {
  if (columns.cells.size() <= widest_line)
    return;
  size_t first = columns.mark_begin > widest_line / 2 ? columns.mark_begin - widest_line / 2 : 0;
  size_t last = std::min(columns.cells.size(), first + widest_line);
  std::vector<std::string> kept(columns.cells.begin() + first, columns.cells.begin() + last);
  if (first > 0)
    kept.front() = "…";
  if (last < columns.cells.size())
    kept.back() = "…";
  columns.cells = std::move(kept);
  columns.mark_begin -= first;
  columns.mark_end = std::max(columns.mark_begin + 1, std::min(columns.mark_end - first, last - first));
}

// What a terminal writes in which colour; the words are the same without.
constexpr const char *bold = "1", *red = "1;31", *yellow = "1;33", *blue = "34", *cyan = "36", *faint = "2";

std::string painted(Paint paint, const char *how, const std::string &text) {
  return paint == Paint::none || text.empty() ? text : "\033[" + std::string(how) + "m" + text + "\033[0m";
}

/// Words of a message, which may quote strings of the model or of a config.json.
std::string one_line(std::string_view text) {
  std::string out = printable(text);
  std::replace_if(out.begin(), out.end(), [](char c) { return c == '\n' || c == '\t'; }, ' ');
  return out;
}

std::string render_one(const Sources &sources, const Diagnostic &d, Paint paint) {
  bool error = d.severity == Severity::error;
  const char *loud = error ? red : yellow;
  std::string head = painted(paint, loud, (error ? "error[" : "warning[") + code_name(d.code) + "]:") + " " +
                     painted(paint, bold, one_line(d.message)) + "\n";
  std::string out;
  if (d.span.valid()) {
    Sources::Position place = sources.position(d.span.file, d.span.begin);
    std::string number = std::to_string(place.line);
    out = painted(paint, bold, sources.path(d.span.file) + ":" + number + ":" + std::to_string(place.column) + ":") +
          " " + head;

    std::string_view line = sources.line(d.span.file, place.line);
    size_t begin = place.column - 1;
    size_t end = std::min(line.size(), begin + static_cast<size_t>(std::max(0, d.span.end - d.span.begin)));
    Columns columns = columns_of(line, begin, end);
    shorten(columns);
    out += painted(paint, blue, "  " + number + " |") + " ";
    for (const std::string &cell : columns.cells)
      out += cell;
    while (out.back() == ' ')
      out.pop_back();
    std::string mark(columns.mark_end - columns.mark_begin, '^');
    out += "\n" + painted(paint, blue, "  " + std::string(number.size(), ' ') + " |") + " " +
           std::string(columns.mark_begin, ' ') +
           painted(paint, loud, mark + (d.label.empty() ? "" : " " + one_line(d.label))) + "\n";
  } else {
    out = head;
  }
  out += "  ";
  if (!d.help.empty()) {
    std::string help = "  help: " + one_line(d.help);
    size_t width = std::count_if(help.begin(), help.end(), [](unsigned char c) { return (c & 0xc0) != 0x80; });
    out += painted(paint, cyan, "help:") + help.substr(7) +
           std::string(width + 2 > hint_column ? 2 : hint_column - width, ' ');
  }
  return out + painted(paint, faint, "heddle explain " + code_name(d.code)) + "\n";
}

} // namespace

Diagnostic &Diagnostics::report(Code code, Span span, std::vector<std::string> args) {
  // Twice is said what is found twice in a row or nearly so; a file of a million errors is not compared with itself.
  auto end = list_.rbegin() + std::min<ptrdiff_t>(list_.size(), most_compared);
  for (auto d = list_.rbegin(); d != end; ++d)
    if (d->code == code && d->span.file == span.file && d->span.begin == span.begin && d->span.end == span.end)
      return *d;
  const Row &row = rows[static_cast<int>(code)];
  list_.push_back({code, row.severity, span, fill(row.message, args), "", fill(row.help, args)});
  return list_.back();
}

bool Diagnostics::has_errors() const {
  return std::any_of(list_.begin(), list_.end(), [](const Diagnostic &d) { return d.severity == Severity::error; });
}

std::string Diagnostics::render(int limit, Paint paint) const {
  std::vector<const Diagnostic *> order;
  for (const Diagnostic &d : list_)
    order.push_back(&d);
  std::sort(order.begin(), order.end(), [](const Diagnostic *a, const Diagnostic *b) {
    return std::tuple(a->span.file, a->span.begin, a) < std::tuple(b->span.file, b->span.begin, b);
  });
  std::string out;
  for (size_t i = 0; i < order.size() && static_cast<int>(i) < limit; ++i)
    out += render_one(*sources_, *order[i], paint);
  int rest = static_cast<int>(order.size()) - limit;
  if (rest > 0)
    out += "and " + std::to_string(rest) + (rest == 1 ? " more message\n" : " more messages\n");
  return out;
}

bool is_printable(std::string_view text, size_t at, size_t &length) {
  length = std::max<size_t>(character_length(text, at), 1);
  return character_length(text, at) > 0 && !is_control(text, at, length);
}

std::string printable(std::string_view text) {
  std::string out;
  for (size_t at = 0, length = 0; at < text.size(); at += length)
    if (is_printable(text, at, length) || text[at] == '\n' || text[at] == '\t')
      out += text.substr(at, length);
    else
      out += '?';
  return out;
}

std::string error_word(Paint paint) { return painted(paint, red, "error:"); }

std::string code_name(Code code) { return rows[static_cast<int>(code)].name; }

std::optional<Code> find_code(std::string_view name) {
  for (size_t i = 0; i < std::size(rows); ++i)
    if (name == rows[i].name)
      return static_cast<Code>(i);
  return std::nullopt;
}

std::string_view explanation(Code code) {
  std::string path = "dsl/errors/" + code_name(code) + ".md";
  for (const EmbeddedFile &page : embedded::error_pages())
    if (page.path == path)
      return page.bytes;
  return {};
}

} // namespace heddle
