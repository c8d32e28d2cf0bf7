// `heddle fmt`: canonical text that keeps comments, blank lines and the author's line breaks, and that means the same.
#include "dsl/syntax/lexer.h"
#include "tests/syntax/programs.h"
#include "tests/syntax/tree_text.h"

#include <cmath>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <random>

namespace heddle::syntax {
namespace {

/// The printed text; checks that it means the same and is printed as itself.
std::string formatted(const std::string &text) {
  Sources sources;
  Diagnostics diagnostics(sources);
  File tree = parse(sources, sources.add("model.heddle", text), diagnostics);
  EXPECT_EQ(diagnostics.render(), "");
  std::string printed = print(sources, tree);
  File again = parse(sources, sources.add("printed.heddle", printed), diagnostics);
  EXPECT_EQ(diagnostics.render(), "") << printed;
  EXPECT_EQ(tree_text(tree), tree_text(again)) << printed;
  EXPECT_EQ(print(sources, again), printed);
  EXPECT_EQ(tree.comments.size(), again.comments.size()) << printed;
  EXPECT_EQ(print_in_place(sources, tree), printed);
  return printed;
}

/// The words of a program in other lines: `blanks` chooses what stands between two words.
template <class Blanks> std::string relaid(const std::string &text, Blanks blanks) {
  Sources sources;
  Diagnostics diagnostics(sources);
  int file = sources.add("model.heddle", text);
  std::string out;
  for (const Token &token : lex(sources, file, diagnostics).list)
    out += std::string(token.text) + blanks();
  return out;
}

TEST(Printer, a_program_in_canonical_form_stays_as_it_is) { EXPECT_EQ(formatted(transformer), transformer); }

TEST(Printer, the_models_and_the_prelude_are_in_canonical_form) {
  int files = 0;
  for (const char *folder : {"models", "dsl/prelude"})
    for (const auto &entry : std::filesystem::recursive_directory_iterator(std::string(HEDDLE_SOURCE_DIR "/") + folder))
      if (entry.path().extension() == ".heddle") {
        std::ifstream in(entry.path());
        std::string text{std::istreambuf_iterator<char>(in), {}};
        EXPECT_EQ(formatted(text), text) << "run `heddle fmt " << entry.path() << "`";
        ++files;
      }
  EXPECT_GE(files, 3);
}

TEST(Printer, a_program_on_one_line_is_laid_out) {
  std::string one_line = relaid(transformer, [] { return " "; });
  std::string printed = formatted(one_line);
  EXPECT_NE(printed.find("\nmodule Layer {\n  sub attn = Attention\n  sub up = Linear(D, 4 * D)\n"), std::string::npos)
      << printed;
  for (size_t begin = 0, end; begin < printed.size(); begin = end + 1) {
    end = printed.find('\n', begin);
    EXPECT_LE(end - begin, 120u) << printed.substr(begin, end - begin);
  }
}

TEST(Printer, any_layout_of_the_words_prints_stably) {
  std::mt19937 random(1);
  for (int i = 0; i < 300; ++i) {
    const char *kinds[] = {" ", " ", "  ", "\n", "\n\n", " # c\n", "\n# d\n", "\t", "\r\n", "\n\n\n#e\n\n"};
    size_t most = 1 + i % std::size(kinds);
    formatted(relaid(transformer, [&] { return kinds[random() % most]; }));
  }
}

TEST(Printer, every_piece_of_spacing_is_canonical) {
  EXPECT_EQ(formatted("config A\"a\"=1,B=[1,2 ,3]\ndim B<=3,S\nlet C , D=f( A ,B )\nuse u :a , b"),
            "config A \"a\" = 1, B = [1, 2, 3]\ndim B <= 3, S\nlet C, D = f(A, B)\nuse u: a, b\n");
  EXPECT_EQ(
      formatted("module M( I ,O ){param w as\"x\":real[ I,..s,_ ]stored[I*O] sub a[i in 1..N]=M( i ) sub b = M()}"),
      "module M(I, O) {\n  param w as \"x\": real[I, ..s, _] stored [I * O]\n  sub a[i in 1 .. N] = M(i)\n  sub b = "
      "M\n}\n");
  EXPECT_EQ(formatted("fn f(x:real,n:index( N+1 )[B])->(real[N],i32)=- x[ :,..s,i-1|0 ]**-2//3%(not a==b)"),
            "fn f(x: real, n: index(N + 1)[B]) -> (real[N], i32) = -x[:, ..s, i - 1 | 0] ** -2 // 3 % (not a == b)\n");
  EXPECT_EQ(formatted("fn f() -> real { y[n in(i in Y ,j in X)]=sum[m in ( a in 2,b in X)](x[i,m]) return y }"),
            "fn f() -> real {\n  y[n in (i in Y, j in X)] = sum[m in (a in 2, b in X)](x[i, m])\n  return y\n}\n");
  EXPECT_EQ(formatted("fn f()->real=sum[i ,j in N where i<j]( x.y[0](1) )+real( n )+index( N )( i )"),
            "fn f() -> real = sum[i, j in N where i < j](x.y[0](1)) + real(n) + index(N)(i)\n");
}

TEST(Printer, parentheses_of_the_author_are_kept_but_not_doubled) {
  EXPECT_EQ(formatted("let a = ((b * c)) + (d)\n"), "let a = (b * c) + (d)\n");
}

TEST(Printer, comments_and_blank_lines_stay_around_words_that_say_nothing) {
  EXPECT_EQ(formatted("config D = 4\n"
                      "require (D > 2) else \"\" # a\n"
                      "\n"
                      "model M {\n"
                      "  if D > 2 { param w: real }\n"
                      "  else {\n"
                      "    # b\n"
                      "  } # c\n"
                      "\n"
                      "  entry run(key: i32[2], x: real[D]) -> y: real[D] {\n"
                      "    if D > 5 { let q = 2 } else {} # d\n"
                      "    y[..s] = x[..s] + random(key, ..s) # e\n"
                      "\n"
                      "    return y # f\n"
                      "  }\n"
                      "} # g\n"),
            "config D = 4\n"
            "require (D > 2)  # a\n"
            "\n"
            "model M {\n"
            "  if D > 2 { param w: real }\n"
            "  # b\n"
            "  # c\n"
            "\n"
            "  entry run(key: i32[2], x: real[D]) -> y: real[D] {\n"
            "    if D > 5 { let q = 2 }  # d\n"
            "    y[..s] = x[..s] + random(key, ..s)  # e\n"
            "\n"
            "    return y  # f\n"
            "  }\n"
            "}  # g\n");
}

TEST(Printer, numbers_and_strings_are_kept_as_written) {
  EXPECT_EQ(formatted("let a = [1e-5, 0.50, 1E3, \"a\\\"\\\\\\n\\t\"]\n"),
            "let a = [1e-5, 0.50, 1E3, \"a\\\"\\\\\\n\\t\"]\n");
}

TEST(Printer, up_to_one_blank_line_is_kept_between_items_and_none_at_the_edges_of_a_block) {
  EXPECT_EQ(formatted("\n\nlet a = 1\n\n\n\nlet b = 2\nmodule M {\n\n  param w: real\n\n\n  param v: real\n\n}\n\n"),
            "let a = 1\n\nlet b = 2\nmodule M {\n  param w: real\n\n  param v: real\n}\n");
}

TEST(Printer, comments_stay_where_they_are) {
  const char *text = R"(# first
let a = 1  # after a
# before b

# apart
let b = 2
module M {  # after the brace
  # alone
  param w: real

  # before the end
}  # after the end
fn f(x: real) -> real {
  y = x +  # in an expression
    # and alone in it
    2
  # before the return
  return y
}
# last
)";
  EXPECT_EQ(formatted(text), text);
}

TEST(Printer, comments_after_adjacent_lines_are_aligned_where_their_author_aligned_one) {
  EXPECT_EQ(formatted("let a = 1    # one\nlet bcd = 2 # two\n\nlet e = 1 # three\nlet fgh = 2 # four\n"),
            "let a = 1    # one\nlet bcd = 2  # two\n\nlet e = 1  # three\nlet fgh = 2  # four\n");
}

TEST(Printer, columns_of_adjacent_lines_are_aligned_where_their_author_aligned_one) {
  EXPECT_EQ(
      formatted(
          "module M {\n  param a as \"b\":   real[N] stored [M]\n  param cd as \"ef\": real[N, N]   stored [M]\n}\n"),
      "module M {\n  param a as \"b\":   real[N]    stored [M]\n  param cd as \"ef\": real[N, N] stored [M]\n}\n");
  EXPECT_EQ(
      formatted("fn f() -> real {\n  a  = 1\n  bcd[..s] = 2\n\n  e = 3\n  fgh = 4\n  let i   = 5\n  let jkl = 6\n}\n"),
      "fn f() -> real {\n  a        = 1\n  bcd[..s] = 2\n\n  e = 3\n  fgh = 4\n  let i   = 5\n  let jkl = 6\n}\n");
}

TEST(Printer, lines_of_very_different_width_share_no_column) {
  EXPECT_EQ(formatted("module M {\n  sub a  = M\n  sub a_name_that_is_long = M\n}\n"),
            "module M {\n  sub a = M\n  sub a_name_that_is_long = M\n}\n");
}

TEST(Printer, a_block_of_one_statement_stays_on_its_line_where_it_fits) {
  EXPECT_EQ(formatted("fn f() -> real {\n  for l in L with x { x = f(x) }\n  if a { y = 1 } else { y = 2 }\n  for i in "
                      "N {\n    z = 1\n  }\n}\n"),
            "fn f() -> real {\n  for l in L with x { x = f(x) }\n  if a { y = 1 } else { y = 2 }\n  for i in N {\n    "
            "z = 1\n  }\n}\n");
  EXPECT_EQ(formatted("fn f() -> real { let a = 1 return a }\n"), "fn f() -> real {\n  let a = 1\n  return a\n}\n");
  EXPECT_EQ(formatted("model M { }\nmodel N {\n}\n"), "model M {}\nmodel N {\n}\n");
  std::string x(100, 'x');
  EXPECT_EQ(formatted("fn f() -> real { return " + x + " }\n"), "fn f() -> real {\n  return " + x + "\n}\n");
}

TEST(Printer, a_block_on_one_line_is_never_broken) {
  std::string place = "a_long_name[some_index, another_index + 3]",
              text = "if " + place + " > 1 { y[i] <- " + place + " } else { y[i] <- " + place + " * 2 }",
              body = "model M {\n  entry run(x: real) -> y: real {\n    " + text + "\n    return x\n  }\n}\n";
  std::string once = formatted(body);
  EXPECT_NE(
      once.find("    if " + place + " > 1 { y[i] <- " + place + " } else {\n      y[i] <- " + place + " * 2\n    }\n"),
      once.npos)
      << once;
  EXPECT_EQ(formatted(once), once);
}

TEST(Printer, long_lines_end_at_the_loosest_place_that_fits) {
  std::string a(50, 'a'), b(50, 'b'), c(50, 'c'), d(30, 'd');
  EXPECT_EQ(formatted("let x = " + a + " * " + b + " + " + c + "\n"), "let x = " + a + " * " + b + "\n  + " + c + "\n");
  EXPECT_EQ(formatted("let x = if " + a + " then " + b + " else " + c + "\n"),
            "let x = if " + a + " then " + b + "\n  else " + c + "\n");
  EXPECT_EQ(formatted("let x = " + a + "(" + d + ", " + d + ")\n"), "let x =\n  " + a + "(" + d + ", " + d + ")\n");
  EXPECT_EQ(formatted("let x = " + a + "(" + b + ", " + c + ")\n"),
            "let x =\n  " + a + "(" + b + ",\n      " + c + ")\n");
  EXPECT_EQ(formatted("config A = " + a + ", B = " + b + ", C = " + c + "\n"),
            "config A = " + a + ", B = " + b + ",\n  C = " + c + "\n");
  EXPECT_EQ(formatted("fn f(" + a + ": real, " + d + ": real, n: real) -> real = 1\n"),
            "fn f(" + a + ": real, " + d + ": real, n: real)\n    -> real = 1\n");
  EXPECT_EQ(formatted("module M {\n  param " + d + " as \"" + a + b + "\": real[3, 4]\n}\n"),
            "module M {\n  param " + d + " as \"" + a + b + "\":\n    real[3, 4]\n}\n");
}

TEST(Printer, the_authors_line_breaks_in_an_expression_are_kept_where_a_line_may_end) {
  EXPECT_EQ(formatted("let x =\n      a\n + b\n    * c(d,\n e)\n"), "let x =\n  a\n  + b\n  * c(d,\n      e)\n");
  EXPECT_EQ(formatted("let x = f\n(a)\n[b]\n.c\n"), "let x = f(a)[b].c\n");
}

TEST(Printer, line_ends_of_other_systems_and_tabs_become_ours) {
  EXPECT_EQ(formatted("let a = 1\r\n\r\n# c\r\nmodule M {\r\n\tparam w: real # d \t\r\n}\r\n"),
            "let a = 1\n\n# c\nmodule M {\n  param w: real  # d\n}\n");
}

TEST(Printer, an_empty_file_stays_empty) {
  EXPECT_EQ(formatted(""), "");
  EXPECT_EQ(formatted("\n\n"), "");
  EXPECT_EQ(formatted("\n# c"), "# c\n");
}

// --- trees that no author wrote

class RandomTree {
public:
  explicit RandomTree(uint32_t seed) : random_(seed) {}

  ExprPtr expr(int depth) {
    auto e = std::make_unique<Expr>();
    int kinds = depth <= 0 ? 5 : 14;
    switch (random_() % kinds) {
    case 0:
      e->kind = Expr::integer, e->number = random_() % 100;
      break;
    case 1:
      e->kind = Expr::real, e->number = random_() % 3 ? random_() % 1000 / 8.0 : HUGE_VAL;
      break;
    case 2:
      e->kind = Expr::boolean, e->number = random_() % 2;
      break;
    case 3:
      e->kind = Expr::string, e->text = random_() % 2 ? "gelu" : "a\"b\\\n";
      break;
    case 4:
      e->kind = Expr::name, e->text = name();
      break;
    case 5:
      e->kind = Expr::list, e->args = exprs(random_() % 3, depth);
      break;
    case 6:
      e->kind = Expr::unary, e->op = random_() % 2 ? Operator::negate : Operator::logical_not;
      e->args = exprs(1, depth);
      break;
    case 7:
    case 8:
      e->kind = Expr::binary, e->op = static_cast<Operator>(random_() % static_cast<int>(Operator::logical_not));
      e->args = exprs(2, depth);
      break;
    case 9:
      e->kind = Expr::condition, e->args = exprs(3, depth);
      break;
    case 10:
      e->kind = Expr::call, e->callee = expr(depth - 1), e->args = exprs(random_() % 3, depth);
      break;
    case 11:
      e->kind = Expr::access, e->callee = expr(depth - 1);
      for (int i = 0, n = 1 + random_() % 2; i < n; ++i)
        e->places.push_back(subscript(depth));
      e->outside = random_() % 2 ? expr(depth - 1) : nullptr;
      break;
    case 12:
      e->kind = Expr::field, e->callee = expr(depth - 1), e->text = name();
      break;
    case 13:
      if (random_() % 2) {
        e->kind = Expr::cast, e->text = random_() % 2 ? "real" : "index";
        e->args = exprs(e->text == "real" ? 1 : 2, depth);
        break;
      }
      e->kind = Expr::reduce, e->text = "sum", e->args = exprs(1, depth);
      for (int i = 0, n = 1 + random_() % 2; i < n; ++i)
        e->places.push_back(over(depth));
      e->outside = random_() % 2 ? expr(depth - 1) : nullptr;
      break;
    }
    return e;
  }

  Stmt stmt(int depth) {
    Stmt s{};
    s.kind = static_cast<Stmt::Kind>(random_() % (depth <= 0 ? 3 : 7));
    if (s.kind == Stmt::let || s.kind == Stmt::loop)
      for (int i = 0, n = 1 + random_() % 2; i < n; ++i)
        s.names.push_back({name(), {}});
    if (s.kind == Stmt::assign || s.kind == Stmt::update)
      for (int i = 0, n = s.kind == Stmt::update ? 1 : 1 + random_() % 2; i < n; ++i) {
        s.targets.push_back({{name(), {}}, random_() % 2 == 0, {}, {}});
        if (s.targets.back().has_places)
          s.targets.back().places.push_back(random_() % 2 ? over(depth) : value(depth));
        // A range without `in` is a value on the left side.
        for (Place &place : s.targets.back().places)
          if (place.kind == Place::range && !place.expr)
            place = value(0);
      }
    s.exprs = exprs(s.kind == Stmt::give ? 1 + random_() % 2 : 1, depth);
    if (s.kind == Stmt::loop || s.kind == Stmt::when)
      s.body = block(depth);
    if (s.kind == Stmt::when)
      s.otherwise = block(depth);
    if (s.kind == Stmt::require && random_() % 2)
      s.message = "no";
    return s;
  }

  Block block(int depth) {
    Block out;
    for (int i = random_() % 3; i > 0; --i)
      out.push_back(stmt(depth - 1));
    return out;
  }

private:
  std::string name() { return std::string(1, static_cast<char>('a' + random_() % 6)) + (random_() % 2 ? "" : "_1"); }
  std::vector<ExprPtr> exprs(int count, int depth) {
    std::vector<ExprPtr> out;
    for (int i = 0; i < count; ++i)
      out.push_back(expr(depth - 1));
    return out;
  }
  Place value(int depth) {
    Place out;
    out.expr = expr(depth - 1);
    return out;
  }
  Place over(int depth) {
    Place out;
    out.name.text = name();
    out.kind = random_() % 3 ? Place::range : Place::pack;
    if (out.kind == Place::range && random_() % 2)
      out.expr = expr(depth - 1);
    return out;
  }
  Place subscript(int depth) {
    Place out;
    out.kind = random_() % 4 ? Place::value : random_() % 2 ? Place::all : Place::pack;
    out.name.text = name();
    if (out.kind == Place::value)
      out.expr = expr(depth - 1);
    return out;
  }

  std::mt19937 random_;
};

TEST(Printer, random_trees_are_read_back_as_they_are) {
  for (uint32_t seed = 0; seed < 3000; ++seed) {
    RandomTree random(seed);
    File file;
    Declaration d{};
    d.kind = Declaration::function;
    d.fn = std::make_unique<Function>();
    d.fn->name.text = "f";
    d.fn->results.push_back({"real", nullptr, false, {}, {}});
    if (seed % 2)
      d.fn->expr = random.expr(4);
    else
      d.fn->body = random.block(4);
    file.declarations.push_back(std::move(d));

    Sources sources;
    Diagnostics diagnostics(sources);
    std::string printed = print(sources, file);
    File again = parse(sources, sources.add("printed.heddle", printed), diagnostics);
    ASSERT_EQ(diagnostics.render(), "") << printed;
    ASSERT_EQ(tree_text(file), tree_text(again)) << printed;
    formatted(printed);
  }
}

} // namespace
} // namespace heddle::syntax
