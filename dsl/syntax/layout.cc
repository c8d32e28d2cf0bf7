// Breaking is greedy: of the places that fit, the one in the fewest brackets and of the loosest operator. What was
// broken once is the author's break the next time, so printing is idempotent.
#include "dsl/syntax/layout.h"

#include <algorithm>

namespace heddle::syntax {
namespace {

int width(std::string_view text) {
  return static_cast<int>(std::count_if(text.begin(), text.end(), [](unsigned char c) { return (c & 0xc0) != 0x80; }));
}

constexpr int most_blanks = 13; // lines whose widths differ by more share no column

/// What the tree does not remember: doubled brackets, and a comma after the last of a list.
bool may_be_left_out(std::string_view text) {
  return text.size() == 1 && std::string_view("()[]{},").find(text) != text.npos;
}

} // namespace

Layout::Layout(const Sources &sources, int source) : sources_(sources), source_(source) {
  if (source >= 0) {
    Diagnostics ignored(sources);
    tokens_ = lex(sources, source, ignored);
  }
}

// --- words

void Layout::open(std::string_view bracket, bool space) {
  put(bracket, space);
  ++depth_;
}

void Layout::close(std::string_view bracket) {
  --depth_;
  break_level_ = -1;
  put(bracket, false);
}

void Layout::put(std::string_view text, bool space) {
  Piece piece;
  piece.text = text;
  piece.space = space && !pieces_.empty();
  piece.depth = depth_;
  piece.head = head_;
  piece.level = break_level_ < 0 || pieces_.empty() ? never : depth_ * 16 + break_level_;
  piece.column = column_;
  break_level_ = -1;
  column_ = Column::none;

  size_t at = cursor_;
  auto same = [&](const Token &token) {
    return token.kind == Token::string ? text[0] == '"' : token.kind != Token::end && token.text == text;
  };
  while (at < tokens_.list.size() && !same(tokens_.list[at]) && may_be_left_out(tokens_.list[at].text))
    ++at;
  if (at < tokens_.list.size() && same(tokens_.list[at])) {
    const Span span = tokens_.list[at].span;
    if (!pieces_.empty()) {
      for (; comment_ < tokens_.comments.size() && tokens_.comments[comment_].span.begin < span.begin; ++comment_) {
        piece.comments.push_back(tokens_.comments[comment_]);
        last_end_ = std::max(last_end_, tokens_.comments[comment_].span.end);
      }
      piece.author_break = newlines(last_end_, span.begin) > 0;
      piece.wanted = !piece.author_break && span.begin - last_end_ > 1;
    }
    last_end_ = span.end;
    cursor_ = at + 1;
  }
  pieces_.push_back(std::move(piece));
}

void Layout::leave_out(std::initializer_list<std::string_view> words) {
  size_t at = cursor_;
  auto is = [&](std::string_view word) { return at < tokens_.list.size() && tokens_.list[at].text == word; };
  while (is(")")) // of doubled ones around what stands before
    ++at;
  for (std::string_view word : words) {
    if (!is(word))
      return;
    ++at;
  }
  cursor_ = at;
  last_end_ = tokens_.list[at - 1].span.end;
}

bool Layout::followed() const {
  size_t at = cursor_;
  while (at < tokens_.list.size() && may_be_left_out(tokens_.list[at].text))
    ++at;
  return at >= tokens_.list.size() || tokens_.list[at].kind == Token::end;
}

void Layout::restore(const State &state) {
  cursor_ = state.cursor;
  comment_ = state.comment;
  last_end_ = state.last_end;
  depth_ = state.depth;
  pieces_.resize(state.pieces);
  break_level_ = -1;
  column_ = Column::none;
}

int Layout::newlines(int begin, int end) const {
  if (source_ < 0 || begin >= end)
    return 0;
  std::string_view text = sources_.slice({source_, begin, end});
  return static_cast<int>(std::count(text.begin(), text.end(), '\n'));
}

bool Layout::author_kept_block_on_one_line() const {
  size_t at = cursor_;
  while (at < tokens_.list.size() && tokens_.list[at].text != "{")
    ++at;
  int open = 0;
  for (size_t i = at; i < tokens_.list.size(); ++i) {
    if (i > at && tokens_.list[i].first)
      return false;
    if (tokens_.list[i].kind != Token::symbol)
      continue;
    open += tokens_.list[i].text == "{" ? 1 : tokens_.list[i].text == "}" ? -1 : 0;
    if (open == 0)
      return true;
  }
  return false;
}

// --- lines

std::string Layout::comment_text(const Comment &comment) const {
  std::string_view text = sources_.slice(comment.span);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t'))
    text.remove_suffix(1);
  return std::string(text);
}

void Layout::add_comment(const Comment &comment, int indent) {
  bool taken =
      lines_.empty() || lines_.back().text.empty() || lines_.back().text[0] == '#' || !lines_.back().comment.empty();
  if (comment.alone || taken) {
    lines_.push_back({indent, comment_text(comment), "", {}, "", 0});
    return;
  }
  lines_.back().comment = comment_text(comment);
  std::string_view text = sources_.text(source_);
  size_t at = comment.span.begin;
  if (at >= 3 && text.substr(at - 3, 3) == "   ")
    lines_.back().comment_column = width(text.substr(0, at)) - width(text.substr(0, text.rfind('\n', at) + 1));
}

void Layout::comments_before(int offset, bool closes) {
  auto blank = [&](int begin) {
    if (!fresh_ && newlines(last_end_, begin) > 1)
      lines_.push_back({});
  };
  for (; comment_ < tokens_.comments.size() && tokens_.comments[comment_].span.begin < offset; ++comment_) {
    const Comment &comment = tokens_.comments[comment_];
    if (comment.alone)
      blank(comment.span.begin);
    add_comment(comment, 2 * indent_);
    fresh_ = false;
    last_end_ = std::max(last_end_, comment.span.end); // one of what was left out stands before its end
  }
  if (!closes && offset > last_end_)
    blank(offset);
}

void Layout::begin_line(std::string_view kind, bool closes) {
  if (cursor_ < tokens_.list.size()) {
    // Comments before a closing brace belong to the block's body.
    indent_ += closes ? 1 : 0;
    comments_before(tokens_.list[cursor_].span.begin, closes);
    indent_ -= closes ? 1 : 0;
  }
  fresh_ = false;
  kind_ = kind;
}

int Layout::continuation(const Piece &piece) const {
  return 2 * indent_ + (piece.head ? 4 : 2 + 4 * std::min(piece.depth, 3));
}

/// The pieces before which a line of the page begins; the first is 0.
std::vector<size_t> Layout::breaks() const {
  std::vector<size_t> out;
  for (size_t begin = 0; begin < pieces_.size();) {
    out.push_back(begin);
    int column = begin == 0 ? 2 * indent_ : continuation(pieces_[begin]);
    size_t best = 0, end = begin;
    for (; end < pieces_.size(); ++end) {
      const Piece &piece = pieces_[end];
      if (end > begin && (!piece.comments.empty() || (piece.author_break && piece.level < never)))
        break;
      // A place fits where the words before it do; where none does, the first is taken.
      if (end > begin && piece.level < never &&
          (best == 0 || (column <= page_width && piece.level <= pieces_[best].level)))
        best = end;
      column += width(piece.text) + (end > begin && piece.space);
      if (column > page_width && best > 0)
        break;
    }
    begin = column > page_width && best > 0 ? best : end;
  }
  return out;
}

/// Whether the last line of the page has room for all words, with no more breaks than these.
bool Layout::fits_on_one_line(const std::vector<size_t> &broken) const {
  std::vector<size_t> at = breaks();
  if (at != broken)
    return false;
  int column = at.back() == 0 ? 2 * indent_ : continuation(pieces_[at.back()]);
  for (size_t i = at.back(); i < pieces_.size(); ++i)
    column += width(pieces_[i].text) + (i > at.back() && pieces_[i].space);
  return column <= page_width;
}

void Layout::end_line() {
  std::vector<size_t> at = breaks();
  at.push_back(pieces_.size());
  for (size_t l = 0; l + 1 < at.size(); ++l) {
    Line line;
    line.indent = l == 0 ? 2 * indent_ : continuation(pieces_[at[l]]);
    for (const Comment &comment : pieces_[at[l]].comments)
      add_comment(comment, line.indent);
    for (size_t i = at[l]; i < at[l + 1]; ++i) {
      if (i > at[l] && pieces_[i].space)
        line.text += ' ';
      if (pieces_[i].column != Column::none)
        line.marks.push_back({pieces_[i].column, line.text.size(), pieces_[i].wanted});
      line.text += pieces_[i].text;
    }
    if (at.size() == 2)
      line.kind = kind_;
    lines_.push_back(std::move(line));
  }
  pieces_.clear();
  head_ = false;
}

// --- columns

/// Finds the adjacent lines of one kind that share `column`.
void Layout::align(Column column) {
  auto mark_of = [&](const Line &line) {
    auto at =
        std::find_if(line.marks.begin(), line.marks.end(), [&](const Mark &mark) { return mark.column == column; });
    return at == line.marks.end() ? nullptr : &*at;
  };
  auto place_of = [&](const Line &line) { return width(line.text.substr(0, mark_of(line)->offset)); };
  // Only lines with the same columns before this one share it.
  auto key_of = [&](const Line &line) {
    int key = 0;
    for (const Mark &mark : line.marks)
      if (mark.column < column)
        key |= 1 << static_cast<int>(mark.column);
    return key;
  };
  for (size_t begin = 0, end; begin < lines_.size(); begin = end) {
    end = begin + 1;
    if (lines_[begin].kind.empty())
      continue;
    while (end < lines_.size() && lines_[end].kind == lines_[begin].kind && lines_[end].indent == lines_[begin].indent)
      ++end;
    for (int key = 0; key < 16; ++key) {
      std::vector<size_t> run;
      for (size_t i = begin; i < end; ++i) {
        if (!mark_of(lines_[i]) || key_of(lines_[i]) != key)
          continue;
        if (!run.empty() && std::abs(place_of(lines_[i]) - place_of(lines_[run.back()])) > most_blanks)
          align_run(run, column);
        run.push_back(i);
      }
      align_run(run, column);
    }
  }
}

/// Puts the marks of these lines under each other, where their author did so in one of them; empties the list.
void Layout::align_run(std::vector<size_t> &run, Column column) {
  bool wanted = false;
  int target = 0;
  auto mark_of = [&](size_t line) {
    return std::find_if(lines_[line].marks.begin(), lines_[line].marks.end(),
                        [&](const Mark &mark) { return mark.column == column; });
  };
  auto place_of = [&](size_t line) { return width(lines_[line].text.substr(0, mark_of(line)->offset)); };
  for (size_t i : run) {
    wanted |= mark_of(i)->wanted;
    target = std::max(target, place_of(i));
  }
  for (size_t i : run)
    wanted &= lines_[i].indent + width(lines_[i].text) + target - place_of(i) <= page_width;
  for (size_t i : wanted ? run : std::vector<size_t>()) {
    size_t offset = mark_of(i)->offset, blanks = target - place_of(i);
    lines_[i].text.insert(offset, blanks, ' ');
    for (Mark &mark : lines_[i].marks)
      if (mark.offset >= offset)
        mark.offset += blanks;
  }
  run.clear();
}

void Layout::align_comments() {
  for (size_t begin = 0, end; begin < lines_.size(); begin = end) {
    end = begin + 1;
    if (lines_[begin].comment.empty())
      continue;
    while (end < lines_.size() && !lines_[end].comment.empty())
      ++end;
    int least = 0, widest = 0, target = 0;
    for (size_t i = begin; i < end; ++i) {
      least = std::max(least, lines_[i].indent + width(lines_[i].text) + 2);
      widest = std::max(widest, width(lines_[i].comment));
      if (target == 0)
        target = lines_[i].comment_column;
    }
    bool align = target > 0;
    target = std::max(target, least);
    if (target + widest > page_width)
      target = least;
    align &= target + widest <= page_width;
    for (size_t i = begin; i < end; ++i) {
      int at = lines_[i].indent + width(lines_[i].text);
      lines_[i].text += std::string(align ? target - at : 2, ' ') + lines_[i].comment;
    }
  }
}

std::string Layout::text() {
  comments_before(source_ < 0 ? 0 : static_cast<int>(sources_.text(source_).size()) + 1, true);
  for (Column column : {Column::alias, Column::type, Column::stored, Column::equals})
    align(column);
  align_comments();
  std::string out;
  for (const Line &line : lines_) {
    if (!line.text.empty())
      out += std::string(line.indent, ' ') + line.text;
    out += '\n';
  }
  return out;
}

} // namespace heddle::syntax
