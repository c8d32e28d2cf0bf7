// The tree of a .heddle file: one struct per grammar rule that has something to remember
// (docs/language.md holds the grammar). The parser makes it, the printer writes it back, the checker reads it.
// Comments are kept beside the tree (`File::comments`) for the printer.
#pragma once

#include "dsl/errors/source.h"

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace heddle::syntax {

struct Expr;
using ExprPtr = std::unique_ptr<Expr>;

struct Name {
  std::string text;
  Span span;
};

/// One place of a shape, a target, a subscript list or a reduction's index list.
///   pack  `..S`      all      `:`      wildcard `_`
///   range `j in N`   (also `j in A .. B` where the rule allows an offset), or `n in (y in Y, x in X)` with its pieces
///   value any expression
struct Place {
  enum Kind { value, pack, range, all, wildcard } kind = value;
  Name name;    // pack, range
  ExprPtr expr; // value; range: the extent, or its first value where `upper` is set, or null where it has pieces
  ExprPtr upper;
  std::vector<Place> pieces; // ranges, outermost first: `n` counts all their values
  Span span;
};

enum class Operator {
  add,
  sub,
  mul,
  div,
  floor_div,
  mod,
  power, // + - * / // % **
  less,
  less_equal,
  greater,
  greater_equal,
  equal,
  not_equal,
  logical_and,
  logical_or,
  logical_not,
  negate,
};

struct Expr {
  enum Kind {
    integer,   // `number`, integral
    real,      // `number` with a point or exponent; `inf`
    boolean,   // true, false
    string,    // "gelu"
    list,      // [3, 4, 6, 3]                                args
    name,      // text
    unary,     // op, args[0]
    binary,    // op, args[0], args[1]
    condition, // if args[0] then args[1] else args[2]
    call,      // callee(args..., places...): the places are packs
    access,    // callee[places | outside]
    field,     // callee.text
    cast,      // text(args[0]) with text one of the scalar types; index(N)(value) has args {value, N}
    reduce,    // text[places where outside](args[0]); a place is a pack or a range, `expr` null without `in`
  } kind;
  Span span;
  std::string text;
  double number = 0;
  Operator op = Operator::add;
  ExprPtr callee;
  std::vector<ExprPtr> args;
  std::vector<Place> places;
  ExprPtr outside;        // access: the value after `|`; reduce: the condition after `where`
  bool in_parens = false; // the author put it in parentheses, which `span` includes
  int height = 1; // of this tree; the parser keeps it at most `max_height`, so that recursion over a tree is safe
};

inline constexpr int max_height = 1000;

struct Type {
  std::string scalar; // real f32 bf16 f16 i8 i32 bool index
  ExprPtr range;      // index(range); of a state, with an empty `scalar`: params(…)
  bool has_shape = false;
  std::vector<Place> shape; // value, pack or wildcard
  Span span;
};

struct Formal {
  Name name;
  Type type;
  ExprPtr initial; // an entry's optional input
};

struct Stmt;
using Block = std::vector<Stmt>;

struct Target {
  Name name;
  bool has_places = false;
  std::vector<Place> places; // value, pack or range
  Span span;
};

struct Stmt {
  enum Kind { let, assign, update, loop, when, require, give, invalid } kind; // invalid: what could not be read
  Span span;
  std::vector<Name> names; // let: the names; loop: names[0] is the index, the rest the carried names; invalid: names
                           // that it may have defined
  std::vector<Target> targets; // assign; update has exactly one
  std::vector<ExprPtr> exprs;  // let, assign, update: the right side; loop: the extent, or the first value and the end;
                               // when, require: the condition; give: the values
  Block body;                  // loop, when
  Block otherwise;             // when
  std::string message;         // require … else "message"
};

struct Function {
  Name name;
  std::vector<Formal> formals;
  std::vector<Type> results;
  ExprPtr expr; // `= expr`, else null
  Block body;
  Span span;
};

struct Entry {
  Name name;
  std::vector<Formal> formals;
  std::vector<Formal> results;
  Block body;
  Span span;
};

struct Setting {
  Name name;
  /// Of config.json; a dotted key goes into nested objects; alternatives are separated by `|`.
  std::optional<std::string> key;
  ExprPtr initial; // null: it has no default
};

struct Bound {
  Name name;
  ExprPtr most; // `<= most`, or null
};

/// A member of a module or a model. `condition` groups members: if config-condition { … } else { … }
struct Member {
  enum Kind { param, sub, let, function, state, entry, condition, require } kind;
  Span span;
  Name name; // of param, sub, let, state

  std::optional<std::string> alias; // as "STRING": the path step; alternatives are separated by `|`
  Type type;                        // param, state
  std::vector<Place> stored;        // param … stored [shape]
  bool has_stored = false;

  bool is_array = false; // sub name[place]
  Place count;           // value: the number of members; range `i in A .. B`: members A … B - 1, `i` seen by `args`
  Name module;           // sub … = Module(args)
  std::vector<ExprPtr> args;

  ExprPtr expr;            // let: the value; state: the initial value or null; condition, require: the condition
  std::string message;     // require … else "message"
  std::vector<Name> names; // let a, b = …
  std::unique_ptr<Function> fn;
  std::unique_ptr<Entry> entry_point;
  std::vector<Member> members;   // condition: then
  std::vector<Member> otherwise; // condition: else
};

struct Module {
  Name name;
  std::vector<Name> sizes; // empty for a model
  bool is_model = false;
  std::vector<Member> members;
  Span span;
};

struct Declaration {
  enum Kind { use, config, dim, let, function, module, require } kind; // module: also a model
  Span span;
  Name name;                     // use: the file's name
  std::vector<Name> names;       // use: what is taken from it; let: the names
  std::vector<Setting> settings; // config
  std::vector<Bound> bounds;     // dim
  ExprPtr expr;                  // let; require: the condition
  std::string message;           // require … else "message"
  std::unique_ptr<Function> fn;
  std::unique_ptr<Module> module_body;
};

struct Comment {
  Span span;  // from `#` to the end of the line, without it
  bool alone; // nothing but blanks before it on its line
};

/// What could not be read, and is no part of the tree; in bodies a statement `invalid` stands for it.
struct LeftOut {
  bool any = false;
  bool checkable = true;                // the rest means without it what it means with it, but for what is defined
  bool nameless = false;                // some of it may define a name that is not among these
  std::set<std::string> names, defined; // all in it; those that it declares
};

struct File {
  int source = -1; // number in Sources
  std::vector<Declaration> declarations;
  std::vector<Comment> comments;
  LeftOut left_out;
};

} // namespace heddle::syntax
