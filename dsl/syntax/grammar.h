// The parser: one function per grammar rule, in declarations.cc, statements.cc and expressions.cc; its
// tokens, messages and recovery are in parser.cc. After an error is reported the parser sees nothing but the end
// of the file (`failed_`) until the statement, member or declaration around it recovers, so every loop ends and
// nothing is reported twice. What could not be read is left out of the tree.
#pragma once

#include "dsl/syntax/lexer.h"

#include <utility>

namespace heddle::syntax {

class Parser {
public:
  Parser(const Sources &sources, int source, Diagnostics &diagnostics);
  File file();

private:
  enum class Level { declaration, member, statement };

  // --- tokens (parser.cc)
  const Token &current() const { return failed_ ? tokens_.list.back() : tokens_.list[at_]; }
  const Token &next(size_t by = 1) const {
    return failed_ || at_ + by >= tokens_.list.size() ? tokens_.list.back() : tokens_.list[at_ + by];
  }
  const Token &previous() const { return tokens_.list[at_ > 0 ? at_ - 1 : 0]; }
  bool at(std::string_view text) const;
  bool at_name() const { return current().kind == Token::name; }
  bool at_end() const { return current().kind == Token::end; }
  bool next_is(std::string_view text) const;
  bool eat(std::string_view text);
  bool need(std::string_view text);
  /// The bracket that closes `opener`.
  bool close(std::string_view text, const Token &opener);
  /// A brace; also where it is missing but what follows belongs into it.
  bool open_brace(Level level);
  /// The brace that closes `opener`. A missing one is reported once per file, and what it should close is kept.
  void close_brace(const Token &opener);
  const Token &advance();
  Name name(std::string_view what = "a name");
  std::vector<Name> names();
  std::string string(std::string_view what);
  /// From the beginning of `first` to the end of the last token read.
  Span since(Span first) const { return {first.file, first.begin, std::max(first.end, previous().span.end)}; }
  int column(const Token &token) const;
  int line(const Token &token) const;
  /// The column in which the line of `token` begins.
  int line_column(const Token &token) const;

  // --- messages and recovery (parser.cc)
  std::string shown() const;
  /// The current token, with its line where it is not on the line before the gap.
  std::string found() const;
  /// Where something is missing: the token found, or the end of the one before where that ends its line.
  Span gap() const;
  /// `help`, where it is given, replaces what the code says.
  void error(Code code, Span span, std::vector<std::string> args, std::string label = "", std::string help = "");
  void expected(std::string_view what) { error(Code::E004, gap(), {std::string(what), found()}); }
  /// Goes on behind what begins at `first` and could not be read; `whole` is where that which is left out begins.
  void recover(Level level, size_t first, size_t whole);
  void recover(Level level, size_t first) { recover(level, first, first); }
  void skip(Level level, size_t first);
  size_t error_begin(Level level, size_t first, size_t last) const;
  Stmt skipped(size_t first, bool nameless = false);
  bool starts(Level level, size_t token) const;
  std::string meant(Level level) const;
  void misplaced(Level level);
  bool deeper(Span span);
  struct Depth {
    explicit Depth(Parser &parser) : parser(parser) { ++parser.depth_; }
    ~Depth() { --parser.depth_; }
    Parser &parser;
  };
  struct BlockDepth : Depth { // of statements and members
    explicit BlockDepth(Parser &parser) : Depth(parser), outer(std::exchange(parser.block_depth_, parser.depth_)) {}
    ~BlockDepth() { parser.block_depth_ = outer; }
    int outer;
  };

  // --- declarations.cc
  Declaration begun(Declaration::Kind kind);
  Declaration declaration();
  Declaration use();
  Declaration config();
  Setting setting();
  Declaration dim();
  Bound bound();
  Declaration let_declaration();
  Declaration require_declaration();
  Declaration module(bool is_model);
  void members(std::vector<Member> &out, bool in_model, const Token &opener);
  Member member(bool in_model);
  Member param();
  Member sub();
  Member let_member();
  Member require_member();
  Member state();
  Member condition(bool in_model);
  std::optional<std::string> alias();
  std::unique_ptr<Function> function();
  std::unique_ptr<Entry> entry();
  std::vector<Formal> formals(bool in_entry);
  Formal formal(bool may_default);
  std::vector<Type> result();
  Type type();
  std::vector<Place> shape();
  Place extent();
  Place count();
  Place pack();
  Place range(bool may_offset, bool may_merge = false);
  Place merged(Place out);
  bool after_slashes(Span place) const;

  // --- statements.cc
  Block block();
  Stmt stmt();
  Stmt let();
  Stmt assign_or_update();
  ExprPtr value();
  Stmt loop();
  Stmt when();
  Stmt require();
  Stmt give();
  Target target();
  Place place();

  // --- expressions.cc
  ExprPtr expr();
  ExprPtr if_expr();
  bool value_after_if() const;
  void trailing_if(const Expr &value);
  ExprPtr or_expr();
  ExprPtr and_expr();
  ExprPtr not_expr();
  ExprPtr compare();
  ExprPtr add();
  ExprPtr mul();
  ExprPtr unary();
  ExprPtr power();
  ExprPtr postfix();
  ExprPtr call(ExprPtr callee);
  ExprPtr access(ExprPtr callee);
  Place subscript();
  ExprPtr atom();
  ExprPtr number();
  ExprPtr list();
  ExprPtr cast();
  ExprPtr reduce();
  Place over(std::string_view reducer);
  std::vector<ExprPtr> args(std::string_view end);
  ExprPtr make(Expr::Kind kind, Span span);
  ExprPtr binary(Operator op, ExprPtr left, ExprPtr right);
  ExprPtr measured(ExprPtr expr);
  void no_expression();

  const Sources &sources_;
  int source_;
  Diagnostics &diagnostics_;
  Tokens tokens_;
  size_t at_ = 0;
  int depth_ = 0, block_depth_ = 0; // the latter: of the statement or member at hand
  bool failed_ = false;
  LeftOut left_out_;
  std::set<std::string> misnamed_; // reserved words that something was to be called
  bool lost_ = false;              // a brace too many or too few has been reported: what follows may be misplaced
};

/// The word of a closed list nearest to `word`, if it is near; else "".
std::string nearest(std::string_view word, const std::vector<std::string_view> &words);

} // namespace heddle::syntax
