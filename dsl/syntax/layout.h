// The printer's page: words go in with what may stand between them, lines come out. A logical line (a statement,
// a head with its brace) is broken where the author broke it, if a line may end there, and where it is too long. The
// author's words are followed along in the source, so that comments come out at the words they stood at.
#pragma once

#include "dsl/syntax/lexer.h"

#include <initializer_list>

namespace heddle::syntax {

constexpr int page_width = 120;

/// Columns that adjacent lines of one kind share where their author aligned one of them.
enum class Column { none, alias, type, stored, equals };

class Layout {
public:
  /// `source` may be -1: nothing is known of an author's layout then.
  Layout(const Sources &sources, int source);

  /// A word after a blank, or directly after the one before.
  void word(std::string_view text) { put(text, true); }
  void tight(std::string_view text) { put(text, false); }
  /// The line may end before the next word; of the places in equally many brackets the smallest `level` is
  /// preferred (-1 withdraws it).
  void may_break(int level) { break_level_ = level; }
  void column(Column column) { column_ = column; }
  void open(std::string_view bracket, bool space = false);
  void close(std::string_view bracket);
  /// Passes over the author's next words, which say nothing and aren't printed, if they are these.
  void leave_out(std::initializer_list<std::string_view> words);

  /// Begins a logical line. Lines of one `kind` may share columns.
  void begin_line(std::string_view kind, bool closes = false);
  void end_line();
  void indent() { ++indent_, fresh_ = true; }
  void outdent() { --indent_; }
  /// Continuation lines of a head are further in than the body below it.
  void begin_head() { head_ = true; }
  void end_head() { head_ = false; }

  /// Whether the author wrote the next `{` and the `}` that closes it on one line, without a comment.
  bool author_kept_block_on_one_line() const;
  /// Tries what `words` puts: keeps it if it stands on one line of the page and breaks nothing before it, else takes it
  /// back. What is kept is never broken, whatever follows: a block's words stand on one line or each statement has its
  /// own.
  template <class Words> bool try_on_one_line(Words words) {
    State before = state();
    size_t first = pieces_.size();
    std::vector<size_t> broken = breaks();
    words();
    if (fits_on_one_line(broken)) {
      for (size_t i = first; i < pieces_.size(); ++i)
        pieces_[i].level = never;
      return true;
    }
    restore(before);
    return false;
  }

  std::string text();
  /// Whether all of the author's words were followed; else comments stand elsewhere than at their words.
  bool followed() const;

private:
  struct Piece {
    std::string text;
    bool space = false;
    int depth = 0;
    int level = never;
    bool head = false;
    bool author_break = false;
    bool wanted = false; // the author put more than one blank before it
    Column column = Column::none;
    std::vector<Comment> comments; // that stand before it
  };
  struct Mark {
    Column column;
    size_t offset;
    bool wanted;
  };
  struct Line {
    int indent = 0;
    std::string text;
    std::string kind; // empty: a part of a logical line, a comment, a blank line
    std::vector<Mark> marks;
    std::string comment;
    int comment_column = 0; // where its author put it, if further right than need be
  };
  struct State {
    size_t cursor, comment, pieces;
    int last_end, depth;
  };
  static constexpr int never = 1 << 20;

  void put(std::string_view text, bool space);
  State state() const { return {cursor_, comment_, pieces_.size(), last_end_, depth_}; }
  void restore(const State &state);
  bool fits_on_one_line(const std::vector<size_t> &broken) const;
  std::vector<size_t> breaks() const;
  int continuation(const Piece &piece) const;
  void comments_before(int offset, bool closes);
  std::string comment_text(const Comment &comment) const;
  /// Puts a comment after the words of a line, or on a line of its own.
  void add_comment(const Comment &comment, int indent);
  int newlines(int begin, int end) const;
  void align(Column column);
  void align_run(std::vector<size_t> &run, Column column);
  void align_comments();

  const Sources &sources_;
  int source_;
  Tokens tokens_;
  size_t cursor_ = 0;  // the next token of the source
  size_t comment_ = 0; // the next comment of the source
  int last_end_ = 0;   // where the last word or comment ended in the source

  std::vector<Piece> pieces_; // of the logical line
  std::string kind_;
  int break_level_ = -1;
  Column column_ = Column::none;
  int depth_ = 0;
  int indent_ = 0;
  bool head_ = false;
  bool fresh_ = true; // nothing stands in this block yet
  std::vector<Line> lines_;
};

} // namespace heddle::syntax
