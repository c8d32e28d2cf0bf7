// Every rule of the grammar, by the tree that it makes. The rule stands above its cases as in docs/language.md.
#include "tests/syntax/tree_text.h"

#include <gtest/gtest.h>

namespace heddle::syntax {
namespace {

std::string parsed(const std::string &text) {
  Sources sources;
  int file = sources.add("model.heddle", text);
  Diagnostics diagnostics(sources);
  File tree = parse(sources, file, diagnostics);
  return diagnostics.all().empty() ? tree_text(tree) : diagnostics.render();
}

/// The tree of an expression.
std::string expr(const std::string &text) {
  std::string out = parsed("let x = " + text);
  return out.starts_with("(let [x] ") ? out.substr(9, out.size() - 11) : out;
}

/// The trees of the statements of a body.
std::string body(const std::string &text) {
  std::string out = parsed("fn f() -> real {\n" + text + "\n}");
  const std::string before = "(fn f [] -> [real] [";
  return out.starts_with(before) ? out.substr(before.size(), out.size() - before.size() - 3) : out;
}

/// The trees of the members of a model.
std::string members(const std::string &text) {
  std::string out = parsed("model M {\n" + text + "\n}");
  const std::string before = "(model M [] [";
  return out.starts_with(before) ? out.substr(before.size(), out.size() - before.size() - 3) : out;
}

// file = { use | config | dim | let | fn | module | model }
TEST(Grammar, a_file_is_a_list_of_declarations_and_may_be_empty) {
  EXPECT_EQ(parsed(""), "");
  EXPECT_EQ(parsed("# nothing but a comment"), "");
  EXPECT_EQ(parsed("\xef\xbb\xbf"
                   "dim B\r\n"),
            "(dim [(B -)])\n"); // as editors of Windows save it
  EXPECT_EQ(
      parsed("config A = 1 dim B let C = A fn f() -> real = 1 module M { } model N { } use u: a"),
      "(config [(A - 1)])\n(dim [(B -)])\n(let [C] A)\n(fn f [] -> [real] = 1)\n(module M [] [])\n(model N [] [])\n"
      "(use u [a])\n");
}

// use = "use" NAME ":" names
TEST(Grammar, use_names_a_file_and_what_is_taken_from_it) {
  EXPECT_EQ(parsed("use layers: Linear, LayerNorm"), "(use layers [Linear LayerNorm])\n");
}

// config = "config" setting { "," setting }; setting = NAME ( "=" expr | STRING [ "=" expr ] )
TEST(Grammar, a_config_has_settings_with_or_without_a_key) {
  EXPECT_EQ(parsed("config A = 1, B \"b.c\" = 1e-5, C \"act\" = \"gelu\", D = [3, 4], E = true"),
            "(config [(A - 1) (B 'b.c' 1.0000000000000001e-05r) (C 'act' 'gelu') (D - (list [3 4])) (E - true)])\n");
  EXPECT_EQ(parsed("config A \"a|b\", B \"b\" = 2\nconfig C \"c\"\ndim D"),
            "(config [(A 'a|b' -) (B 'b' 2)])\n(config [(C 'c' -)])\n(dim [(D -)])\n");
}

// dim = "dim" bound { "," bound }; bound = NAME [ "<=" expr ]
TEST(Grammar, a_dim_has_a_bound_or_none) { EXPECT_EQ(parsed("dim B, S <= 2 * P"), "(dim [(B -) (S (* 2 P))])\n"); }

// let = "let" names "=" expr
TEST(Grammar, a_let_names_one_value_or_several) {
  EXPECT_EQ(parsed("let A = 1 let B, C = f()"), "(let [A] 1)\n(let [B C] (call f []))\n");
}

// module = "module" NAME [ "(" names ")" ] "{" { member } "}"
TEST(Grammar, a_module_has_sizes_or_none) {
  EXPECT_EQ(parsed("module M(I, O) { param w: real[O, I] fn call(x: real) -> real = x } module N { }"),
            "(module M [I O] [(param w - real[O I]) (fn call [(x real)] -> [real] = x)])\n(module N [] [])\n");
}

// model = "model" NAME "{" { member | state | entry } "}"
TEST(Grammar, a_model_has_states_and_entries) {
  EXPECT_EQ(parsed("model M { state s: real = 0 entry f() { s <- 1 } }"),
            "(model M [] [(state s real 0) (entry f [] -> [] [(update [s] 1)])])\n");
}

// param = "param" NAME [ "as" STRING ] ":" type [ "stored" shape ]
TEST(Grammar, a_param_may_be_renamed_and_stored_in_another_shape) {
  EXPECT_EQ(members("param w: real[N] param v as \"a.b|c\": real[2, N] stored [2 * N]"),
            "(param w - real[N]) (param v 'a.b|c' real[2 N] [(* 2 N)])");
}

// sub = "sub" NAME [ "[" count "]" ] [ "as" STRING ] "=" NAME [ "(" args ")" ]; count = expr | NAME "in" expr [ ".."
// expr ]
TEST(Grammar, a_sub_is_one_module_or_an_array_of_them) {
  EXPECT_EQ(members("sub a = M sub b[L] as \"x|\" = M(1, N) sub c[i in L] = M(i) sub d[i in 1 .. L] = M(W[i])"),
            "(sub a - M []) (sub b[L] 'x|' M [1 N]) (sub c[(in i L)] - M [i]) (sub d[(in i 1 L)] - M [(at W [i])])");
}

// state = "state" NAME ":" type [ "=" expr ]
TEST(Grammar, a_state_has_a_first_value_or_none) {
  EXPECT_EQ(members("state a: i32[B] state b: real = -1.5"), "(state a i32[B] -) (state b real (negate 1.5r))");
}

// member = … | "if" expr "{" { member } "}" [ "else" ( condition | "{" { member } "}" ) ]
TEST(Grammar, members_may_depend_on_a_config) {
  EXPECT_EQ(
      members("if A { param b: real } else if B == \"x\" { sub c = M entry f() { } } else { let d = 1 }"),
      "(if A [(param b - real)] else [(if (== B 'x') [(sub c - M []) (entry f [] -> [] [])] else [(let [d] 1)])])");
}

// fn = "fn" NAME "(" [ formals ] ")" "->" result ( "=" expr | block ); result = type | "(" type { "," type } ")"
TEST(Grammar, a_function_is_an_expression_or_a_block_and_may_return_several_values) {
  EXPECT_EQ(parsed("fn f(x: real, n: i32) -> real = x"), "(fn f [(x real) (n i32)] -> [real] = x)\n");
  EXPECT_EQ(parsed("fn f() -> (real[N], i32) { return a, b }"), "(fn f [] -> [real[N] i32] [(return a b)])\n");
}

// entry = "entry" NAME "(" [ formals ] ")" [ "->" formals ] block; formal = NAME ":" type [ "=" expr ]
TEST(Grammar, an_entry_has_named_results_and_optional_inputs) {
  EXPECT_EQ(members("entry f(x: real[B], m: i32[B] = 1) -> y: real[B], z: real { return x, 1 }"),
            "(entry f [(x real[B]) (m i32[B] = 1)] -> [(y real[B]) (z real)] [(return x 1)])");
}

// type = scalar [ shape ]; scalar = "real" | … | "index" "(" expr ")"; extent = ".." NAME | "_" | expr
TEST(Grammar, a_type_is_a_scalar_with_or_without_a_shape) {
  for (const char *scalar : {"real", "f32", "bf16", "f16", "i8", "i32", "bool"})
    EXPECT_EQ(members("param w: " + std::string(scalar)), "(param w - " + std::string(scalar) + ")");
  EXPECT_EQ(members("param w: index(N + 1)[..S, _, 2 * N]"), "(param w - index((+ N 1))[..S _ (* 2 N)])");
}

// assign = target { "," target } "=" expr; target = NAME [ "[" place { "," place } "]" ]
TEST(Grammar, a_definition_has_targets_with_places) {
  EXPECT_EQ(body("y = 1 y[i] = x[i] y[..s, j in N + 1, 0, b] = 2 a, c[i] = f(x)"),
            "(assign [y] 1) (assign [y[i]] (at x [i])) (assign [y[..s (in j (+ N 1)) 0 b]] 2) (assign [a c[i]] (call f "
            "[x]))");
}

// update = target "<-" expr
TEST(Grammar, an_update_has_one_target) {
  EXPECT_EQ(body("s <- x s[b, i] <- x[b]"), "(update [s] x) (update [s[b i]] (at x [b]))");
}

// for = "for" NAME "in" expr [ "with" names ] block
TEST(Grammar, a_loop_may_carry_names) {
  EXPECT_EQ(body("for i in N { y = 1 } for t in T with h, c { h = c }"),
            "(for [i] N [(assign [y] 1)]) (for [t h c] T [(assign [h] c)])");
}

// when = "if" expr block [ "else" ( when | block ) ]
TEST(Grammar, a_condition_may_have_others_after_it) {
  EXPECT_EQ(body("if a { } if b { x = 1 } else if c { x = 2 } else { x = 3 }"),
            "(when a []) (when b [(assign [x] 1)] else [(when c [(assign [x] 2)] else [(assign [x] 3)])])");
}

// require = "require" expr [ "else" STRING ]; return = "return" expr { "," expr }
TEST(Grammar, loops_and_reductions_may_begin_elsewhere) {
  EXPECT_EQ(body("for i in 1 .. N with x { x = sum[j in i .. 2 * N](j) }"),
            "(for [i x] 1 N [(assign [x] (sum [(in j i (* 2 N))] j))])");
}

TEST(Grammar, a_requirement_stands_among_declarations_and_members_too) {
  EXPECT_EQ(parsed("require D % H == 0 else \"no\""), "(require (== (% D H) 0) 'no')\n");
  EXPECT_EQ(members("require N > 1 let K = N"), "(require (> N 1)) (let [K] N)");
}

TEST(Grammar, a_requirement_may_have_a_message) {
  EXPECT_EQ(body("require a < b require c else \"no \\\"c\\\"\" return a, b"),
            "(require (< a b)) (require c 'no \"c\"') (return a b)");
}

TEST(Grammar, a_statement_ends_where_the_next_begins) {
  EXPECT_EQ(body("let a = x let b = if a then b else c d = -a return d"),
            "(let [a] x) (let [b] (if a b c)) (assign [d] (negate a)) (return d)");
}

// expr = "if" expr "then" expr "else" expr | or
TEST(Grammar, a_choice_reaches_as_far_as_it_can) {
  EXPECT_EQ(expr("if a then b else c + 1"), "(if a b (+ c 1))");
  EXPECT_EQ(expr("if a then if b then 1 else 2 else if c then 3 else 4"), "(if a (if b 1 2) (if c 3 4))");
}

// or = and { "or" and }; and = not { "and" not }; not = "not" not | compare
TEST(Grammar, or_binds_looser_than_and_and_and_than_not) {
  EXPECT_EQ(expr("a or b and not c or d"), "(or (or a (and b (not c))) d)");
  EXPECT_EQ(expr("not not a == b"), "(not (not (== a b)))");
}

// compare = add [ ( "<" | "<=" | ">" | ">=" | "==" | "!=" ) add ]
TEST(Grammar, each_comparison_has_its_sign) {
  EXPECT_EQ(expr("[a < b, a <= b, a > b, a >= b, a == b, a != b + 1]"),
            "(list [(< a b) (<= a b) (> a b) (>= a b) (== a b) (!= a (+ b 1))])");
}

// add = mul { ( "+" | "-" ) mul }; mul = unary { ( "*" | "/" | "//" | "%" ) unary }
TEST(Grammar, sums_and_products_group_from_the_left) {
  EXPECT_EQ(expr("a - b - c + d"), "(+ (- (- a b) c) d)");
  EXPECT_EQ(expr("a + b * c / d // e % f"), "(+ a (% (// (/ (* b c) d) e) f))");
}

// unary = "-" unary | power; power = postfix [ "**" unary ]
TEST(Grammar, a_power_groups_from_the_right_and_binds_tighter_than_a_sign_before_it) {
  EXPECT_EQ(expr("-a ** b ** -c"), "(negate (** a (** b (negate c))))");
  EXPECT_EQ(expr("2 * --a"), "(* 2 (negate (negate a)))");
}

// postfix = atom { call | access | "." NAME }
TEST(Grammar, calls_accesses_and_fields_follow_each_other) {
  EXPECT_EQ(expr("layers[l].ff(x, 1)[0].w"), "(field (at (call (field (at layers [l]) ff) [x 1]) [0]) w)");
}

// access = "[" subscript { "," subscript } [ "|" expr ] "]"; subscript = ":" | ".." NAME | expr
TEST(Grammar, an_access_may_say_what_lies_outside) {
  EXPECT_EQ(expr("x[:, ..s, i - 1 | -inf]"), "(at x [: ..s (- i 1)] | (negate infr))");
}

// atom = NUMBER | STRING | "true" | "false" | "inf" | NAME | reduce | scalar call | "(" expr ")" | list
TEST(Grammar, atoms) {
  EXPECT_EQ(expr("[1, 2.5, 1e3, 2.5E-1, \"s\", true, false, inf, n, (a), []]"),
            "(list [1 2.5r 1000r 0.25r 's' true false infr n a (list [])])");
  EXPECT_EQ(expr("real(n) + i32(x) + index(2 * N)(i)"),
            "(+ (+ (cast real [n]) (cast i32 [x])) (cast index [i (* 2 N)]))");
}

TEST(Grammar, two_points_after_a_number_are_a_range) {
  EXPECT_EQ(members("sub a[i in 1..N] = M"), "(sub a[(in i 1 N)] - M [])");
}

// reduce = REDUCER "[" over { "," over } [ "where" expr ] "]" "(" expr ")"; over = ".." NAME | NAME [ "in" expr ]
TEST(Grammar, each_reducer_runs_over_indices) {
  for (const char *r : {"sum", "prod", "max", "min", "mean", "argmax", "argmin", "any", "all"}) {
    std::string reducer = r;
    EXPECT_EQ(expr(reducer + "[i, j in N + 1, ..s where i <= j](x[i, j, ..s])"),
              "(" + reducer + " [(in i -) (in j (+ N 1)) ..s] where (<= i j) (at x [i j ..s]))");
  }
}

TEST(Grammar, max_and_min_are_also_functions_of_two_values) {
  EXPECT_EQ(expr("max(a, 0) + min(a, b)"), "(+ (call max [a 0]) (call min [a b]))");
}

TEST(Grammar, strings_have_escapes) { EXPECT_EQ(expr("\"a\\\"b\\\\c\\nd\\te\""), "'a\"b\\c\nd\te'"); }

TEST(Grammar, spans_are_those_of_the_characters_with_the_parentheses) {
  Sources sources;
  int file = sources.add("model.heddle", "let a = (b + c[0]) * f(d) # end\n");
  Diagnostics diagnostics(sources);
  File tree = parse(sources, file, diagnostics);
  const Expr &product = *tree.declarations[0].expr;
  EXPECT_EQ(sources.slice(tree.declarations[0].span), "let a = (b + c[0]) * f(d)");
  EXPECT_EQ(sources.slice(product.span), "(b + c[0]) * f(d)");
  EXPECT_EQ(sources.slice(product.args[0]->span), "(b + c[0])");
  EXPECT_TRUE(product.args[0]->in_parens);
  EXPECT_EQ(sources.slice(product.args[0]->args[1]->span), "c[0]");
  EXPECT_EQ(sources.slice(product.args[1]->span), "f(d)");
  ASSERT_EQ(tree.comments.size(), 1u);
  EXPECT_EQ(sources.slice(tree.comments[0].span), "# end");
  EXPECT_FALSE(tree.comments[0].alone);
}

// --- limits

TEST(Limits, nesting_of_every_kind_ends_in_a_message) {
  auto repeat = [](const std::string &text, int times) {
    std::string out;
    for (int i = 0; i < times; ++i)
      out += text;
    return out;
  };
  const int many = 20000;
  for (const std::string &text :
       {"let a = " + repeat("(", many),
        "let a = " + repeat("[", many),
        "let a = " + repeat("-", many) + "1",
        "let a = " + repeat("not ", many) + "b",
        "let a = " + repeat("f(", many),
        "let a = " + repeat("x[", many),
        "let a = " + repeat("if b then ", many),
        "let a = " + repeat("2 ** ", many) + "2",
        "let a = 1" + repeat(" + 1", many),
        "let a = 1" + repeat(" * 1", many),
        "let a = b" + repeat(" and b", many),
        "let a = b" + repeat(" or b", many),
        "let a = b" + repeat(".c", many),
        "let a = b" + repeat("(1)", many),
        "let a = b" + repeat("[1]", many),
        "let a = " + repeat("sum[i](", many),
        "let a = " + repeat("real(", many),
        "let a = 1" + repeat(" ** 1", many),
        "fn f() -> real { " + repeat("for i in N { ", many),
        "fn f() -> real { " + repeat("if a { ", many),
        "fn f() -> real { if a { }" + repeat(" else if a { }", many) + " }",
        "module M { " + repeat("if a { ", many),
        "module M { if a { }" + repeat(" else if a { }", many) + " }",
        "let a = sum[i in 1" + repeat(" + 1", many) + "](i)",
        "let a = sum[i in 0 .. (sum[j in 0 .. (2" + repeat(" + 1", 600) + ")](j)" + repeat(" + 1", 600) + ")](i)",
        "let a = sum[n in (i in 2, j in 2" + repeat(" + 1", many) + ")](n)"})
    EXPECT_NE(parsed(text).find("error[E015]: this is nested too deeply"), std::string::npos) << text.substr(0, 60);
}

TEST(Limits, what_an_author_may_write_is_within_them) {
  std::string chain = "1", parens = "1", list = "1";
  for (int i = 0; i < 500; ++i)
    chain += " + 1";
  for (int i = 0; i < 90; ++i)
    parens = "(" + parens + ")";
  for (int i = 0; i < 100000; ++i)
    list += ", 1";
  EXPECT_EQ(expr(chain).find("error"), std::string::npos);
  EXPECT_EQ(expr(parens), "1");
  EXPECT_EQ(expr("[" + list + "]").find("error"), std::string::npos);
}

TEST(Limits, a_control_character_is_refused_and_not_shown) {
  EXPECT_EQ(parsed("config A\x01 = 1\n"),
            "model.heddle:1:9: error[E001]: a control character has no meaning here\n"
            "  1 | config A? = 1\n"
            "    |         ^\n"
            "  help: remove it                                                     heddle "
            "explain E001\n");
}

TEST(Limits, strings_hold_what_can_be_seen) {
  for (const std::string &bad : {std::string("\0", 1), std::string("\x1b[31m"), std::string("\x7f"), std::string("\r"),
                                 std::string("\xc2\x9b"), std::string("\xff"), std::string("\xc3")})
    EXPECT_EQ(parsed("config A \"ä\tb" + bad + "c\" = 1\n").substr(0, 76),
              "model.heddle:1:15: error[E002]: a control character, or no UTF-8, in a strin");
  EXPECT_EQ(parsed("config A \"ä\t∞\" = 1\n").find("error"), std::string::npos);
}

TEST(Limits, a_long_row_of_else_if_is_told_as_one) {
  std::string text = "fn f() -> real { if a { b = c * 1 }";
  for (int i = 0; i < 300; ++i)
    text += " else if a { b = c * 1 }";
  EXPECT_NE(parsed(text + " }").find("help: write fewer `if` and `for` inside of one another"), std::string::npos);
  EXPECT_EQ(parsed(text + " }").find("help: name a part of it with `let`"), std::string::npos);
}

TEST(Limits, any_bytes_end_in_a_tree_or_messages) {
  uint32_t state = 1;
  auto random = [&](uint32_t below) { return (state = state * 1664525 + 1013904223) / 65536 % below; };
  const char *words[] = {
      "let ",  "x",      "=",      "[",       "]",    "(",        ")",    "{",       "}",      "if ",     "then ",
      "else ", "for ",   "in ",    "with ",   "sum",  "..",       ".",    ",",       ":",      "|",       "1",
      "2.5",   "\"s\"",  "\n",     "fn ",     "->",   "<-",       "real", "index",   "model ", "module ", "param ",
      "sub ",  "state ", "entry ", "config ", "dim ", "use ",     "as ",  "stored ", "where ", "-",       "*",
      "**",    "//",     "not ",   "and ",    "or ",  "<",        "==",   "true",    "inf",    "return ", "require ",
      "#c\n",  "\"",     "'",      "@",       "\xff", "\xc3\xa9", "_",    "max",     ";"};
  for (int i = 0; i < 20000; ++i) {
    std::string text;
    for (uint32_t n = random(40); n > 0; --n)
      text += words[random(std::size(words))];
    Sources sources;
    int file = sources.add("model.heddle", text);
    Diagnostics diagnostics(sources);
    File tree = parse(sources, file, diagnostics);
    diagnostics.render();
    // Whatever was read can be printed and read again.
    std::string printed = print(sources, tree);
    if (!diagnostics.all().empty())
      continue;
    int again = sources.add("printed.heddle", printed);
    Diagnostics none(sources);
    File second = parse(sources, again, none);
    ASSERT_TRUE(none.all().empty()) << text << "\n--- printed\n" << printed << none.render();
    ASSERT_EQ(tree_text(tree), tree_text(second)) << text << "\n--- printed\n" << printed;
    ASSERT_EQ(print(sources, second), printed) << text;
  }
}

} // namespace
} // namespace heddle::syntax
