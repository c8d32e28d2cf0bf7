// One wrong program per row, with its messages as the author sees them: whole, with place, source line and cure.
// Each slip has one message, and what follows it is still read.
#include "dsl/syntax/parser.h"

#include <algorithm>
#include <gtest/gtest.h>

namespace heddle {
namespace {

struct Wrong {
  const char *name, *text, *messages;
};

// clang-format off
const Wrong programs[] = {
    {"a stray character",
     R"~(fn f(x: real[N]) -> real[N] {
  y[i] = x[i] ? 2
  return x
}
)~",
     R"~(model.heddle:2:15: error[E001]: `?` has no meaning here
  2 |   y[i] = x[i] ? 2
    |               ^
  help: a choice is written `if CONDITION then VALUE else VALUE`      heddle explain E001
)~"},
    {"a stray character of UTF-8",
     R"~(fn f(x: real[N]) -> real[N] {
  y[i] = x[i] × 2
  return x
}
)~",
     R"~(model.heddle:2:15: error[E001]: `×` has no meaning here
  2 |   y[i] = x[i] × 2
    |               ^
  help: write `*`                                                     heddle explain E001
)~"},
    {"a comparison sign of UTF-8",
     R"~(fn f(x: real[N]) -> real[N] {
  y[i] = if x[i] ≤ 2 then 1 else 0
  return x
}
)~",
     R"~(model.heddle:2:18: error[E001]: `≤` has no meaning here
  2 |   y[i] = if x[i] ≤ 2 then 1 else 0
    |                  ^
  help: write `<=`                                                    heddle explain E001
)~"},
    {"a semicolon",
     R"~(fn f(x: real[N]) -> real[N] {
  y[i] = x[i];
  z[i] = y[i]
  return x
}
)~",
     R"~(model.heddle:2:14: error[E001]: `;` has no meaning here
  2 |   y[i] = x[i];
    |              ^
  help: remove it: a statement ends where the next begins             heddle explain E001
)~"},
    {"C's words of logic",
     R"~(fn f(x: real[N]) -> real[N] {
  y[i] = if x[i] > 0 && !z or a || b then 1 else 0
  return x
}
)~",
     R"~(model.heddle:2:22: error[E001]: `&&` has no meaning here
  2 |   y[i] = if x[i] > 0 && !z or a || b then 1 else 0
    |                      ^^
  help: write `and`                                                   heddle explain E001
model.heddle:2:25: error[E001]: `!` has no meaning here
  2 |   y[i] = if x[i] > 0 && !z or a || b then 1 else 0
    |                         ^
  help: write `not`                                                   heddle explain E001
model.heddle:2:33: error[E001]: `||` has no meaning here
  2 |   y[i] = if x[i] > 0 && !z or a || b then 1 else 0
    |                                 ^^
  help: write `or`                                                    heddle explain E001
)~"},
    {"a single ampersand",
     R"~(fn f(x: real[N]) -> real[N] {
  require a & b
  return x
}
)~",
     R"~(model.heddle:2:13: error[E001]: `&` has no meaning here
  2 |   require a & b
    |             ^
  help: write `and`                                                   heddle explain E001
)~"},
    {"a string that is not closed",
     R"~(model M {
  param w as "weight: real[3]
  param b: real[3]
}
)~",
     R"~(model.heddle:2:14: error[E002]: this string is not closed
  2 |   param w as "weight: real[3]
    |              ^^^^^^^^^^^^^^^^
  help: end it on its line with `"`                                   heddle explain E002
)~"},
    {"a string in single quotes",
     R"~(model M {
  param w as 'weight': real[3]
}
)~",
     R"~(model.heddle:2:14: error[E002]: a string stands in double quotes
  2 |   param w as 'weight': real[3]
    |              ^^^^^^^^
  help: write `"weight"`                                              heddle explain E002
)~"},
    {"an unknown escape",
     R"~(config A "a\d" = 1
)~",
     R"~(model.heddle:1:12: error[E002]: unknown escape in a string
  1 | config A "a\d" = 1
    |            ^^
  help: the escapes are `\"`, `\\`, `\n` and `\t`                     heddle explain E002
)~"},
    {"a number with letters",
     R"~(config A = 3x
)~",
     R"~(model.heddle:1:12: error[E003]: `3x` is not a number
  1 | config A = 3x
    |            ^^
  help: write digits, as in `12`, `0.5` or `1e-5`                     heddle explain E003
)~"},
    {"a number that ends in a point",
     R"~(config A = 1.
)~",
     R"~(model.heddle:1:12: error[E003]: `1.` is not a number
  1 | config A = 1.
    |            ^^
  help: write `1` or `1.0`                                            heddle explain E003
)~"},
    {"a number that begins with a point",
     R"~(config A = .5
)~",
     R"~(model.heddle:1:12: error[E003]: `.5` is not a number
  1 | config A = .5
    |            ^^
  help: write `0.5`                                                   heddle explain E003
)~"},
    {"a number with a leading zero",
     R"~(config A = 007
)~",
     R"~(model.heddle:1:12: error[E003]: `007` is not a number
  1 | config A = 007
    |            ^^^
  help: write `7`                                                     heddle explain E003
)~"},
    {"an integer that is too large",
     R"~(config A = 99999999999999999999
)~",
     R"~(model.heddle:1:12: error[E003]: `99999999999999999999` is not a number
  1 | config A = 99999999999999999999
    |            ^^^^^^^^^^^^^^^^^^^^
  help: it is too large for an integer; write it as a real (`99999999999999999999.0`)  heddle explain E003
)~"},
    {"a real that is too large",
     R"~(config A = 1e999
)~",
     R"~(model.heddle:1:12: error[E003]: `1e999` is not a number
  1 | config A = 1e999
    |            ^^^^^
  help: it is too large or too small for a 64-bit real; infinity is `inf`  heddle explain E003
)~"},
    {"a comment of C",
     R"~(// a comment
config A = 1
)~",
     R"~(model.heddle:1:1: error[E006]: expected a declaration, found `//`
  1 | // a comment
    | ^^
  help: `//` divides; a comment begins with `#`                       heddle explain E006
)~"},
    {"a comment of C in a body",
     R"~(fn f(x: real[N]) -> real[N] {
  // twice
  y[i] = 2 * x[i]
  return x
}
)~",
     R"~(model.heddle:2:3: error[E006]: expected a statement, found `//`
  2 |   // twice
    |   ^^
  help: `//` divides; a comment begins with `#`                       heddle explain E006
)~"},
    {"an unknown declaration",
     R"~(paramm A = 1
)~",
     R"~(model.heddle:1:1: error[E006]: expected a declaration, found `paramm`
  1 | paramm A = 1
    | ^^^^^^
  help: a declaration begins with `use`, `config`, `dim`, `let`, `require`, `fn`, `module` or `model`  heddle explain E006
)~"},
    {"a misspelt declaration",
     R"~(modul M {
  param w: real
}
config A = 1
)~",
     R"~(model.heddle:1:1: error[E006]: expected a declaration, found `modul`
  1 | modul M {
    | ^^^^^
  help: did you mean `module`?                                        heddle explain E006
)~"},
    {"a word of another language for a function",
     R"~(def f(x: real) -> real = x
)~",
     R"~(model.heddle:1:1: error[E006]: expected a declaration, found `def`
  1 | def f(x: real) -> real = x
    | ^^^
  help: did you mean `fn`?                                            heddle explain E006
)~"},
    {"a statement outside of any function",
     R"~(config A = 1
x = 3
)~",
     R"~(model.heddle:2:1: error[E006]: expected a declaration, found `x`
  2 | x = 3
    | ^
  help: a declaration begins with `use`, `config`, `dim`, `let`, `require`, `fn`, `module` or `model`  heddle explain E006
)~"},
    {"a param outside of any module",
     R"~(param w: real[3]
)~",
     R"~(model.heddle:1:1: error[E016]: `param` stands in a model or module
  1 | param w: real[3]
    | ^^^^^
  help: move it there; or is there a `}` too many above?              heddle explain E016
)~"},
    {"a brace too many",
     R"~(module M {
  fn f(x: real) -> real {
    return x
  }
  }
  fn g(x: real) -> real = x
}
config A = 1
)~",
     R"~(model.heddle:7:1: error[E006]: expected a declaration, found `}`
  7 | }
    | ^
  help: there is no `{` that it closes                                heddle explain E006
)~"},
    {"a brace too few",
     R"~(module M {
  fn f(x: real) -> real {
    return x
}
module N {
  param w: real
}
)~",
     R"~(model.heddle:4:2: error[E005]: `}` is missing: found `module` on line 5
  4 | }
    |  ^
  help: close the `{` of line 1                                       heddle explain E005
)~"},
    {"a brace too few at the end",
     R"~(module M {
  fn f(x: real) -> real {
    return x
  }
)~",
     R"~(model.heddle:4:4: error[E005]: `}` is missing: found the end of the file
  4 |   }
    |    ^
  help: close the `{` of line 1                                       heddle explain E005
)~"},
    {"a use without its names",
     R"~(use layers
config A = 1
)~",
     R"~(model.heddle:1:11: error[E017]: `use` lists what it takes from the file
  1 | use layers
    |           ^
  help: write `use layers: Name, Name`                                heddle explain E017
)~"},
    {"a config without a value",
     R"~(config A
dim B
)~",
     R"~(model.heddle:1:9: error[E017]: the setting `A` has no value
  1 | config A
    |         ^
  help: write `A = 0`, with its default                               heddle explain E017
)~"},
    {"a config with a colon instead of an equals sign",
     R"~(config A: 3
)~",
     R"~(model.heddle:1:9: error[E017]: the setting `A` has no value
  1 | config A: 3
    |         ^
  help: write `A = 0`, with its default                               heddle explain E017
)~"},
    {"a config with a comma at the end",
     R"~(config A = 1,
dim B
)~",
     R"~(model.heddle:1:13: error[E004]: expected the name of a setting, found `dim` on line 2
  1 | config A = 1,
    |             ^ remove this comma
  heddle explain E004
)~"},
    {"a dim with a value",
     R"~(dim B = 3
)~",
     R"~(model.heddle:1:7: error[E017]: a dim is only bounded from above
  1 | dim B = 3
    |       ^
  help: write `dim B <= 512`; a fixed size is a `config`              heddle explain E017
)~"},
    {"a dim that is strictly bounded",
     R"~(dim B < 3
)~",
     R"~(model.heddle:1:7: error[E017]: a dim is only bounded from above
  1 | dim B < 3
    |       ^
  help: write `dim B <= 512`; a fixed size is a `config`              heddle explain E017
)~"},
    {"a reserved word as a name",
     R"~(config index = 3
)~",
     R"~(model.heddle:1:8: error[E007]: `index` is a reserved word, not a name
  1 | config index = 3
    |        ^^^^^
  help: choose another name (`index_`)                                heddle explain E007
)~"},
    {"a reserved word as a param",
     R"~(module M {
  param real: real[3]
  param state: real
}
)~",
     R"~(model.heddle:2:9: error[E007]: `real` is a reserved word, not a name
  2 |   param real: real[3]
    |         ^^^^
  help: choose another name (`real_`)                                 heddle explain E007
model.heddle:3:9: error[E007]: `state` is a reserved word, not a name
  3 |   param state: real
    |         ^^^^^
  help: choose another name (`state_`)                                heddle explain E007
)~"},
    {"a model with sizes",
     R"~(model M(D) {
  param w: real[D]
}
)~",
     R"~(model.heddle:1:8: error[E017]: a model takes no sizes
  1 | model M(D) {
    |        ^
  help: declare them above it: `config N = 512`                       heddle explain E017
)~"},
    {"a module with empty parentheses",
     R"~(module M() {
  param w: real
}
)~",
     R"~(model.heddle:1:10: error[E017]: there are no sizes in the parentheses
  1 | module M() {
    |          ^
  help: leave out `()`                                                heddle explain E017
)~"},
    {"a module without a brace",
     R"~(module M
  param w: real
}
)~",
     R"~(model.heddle:1:9: error[E004]: expected `{`, found `param` on line 2
  1 | module M
    |         ^
  heddle explain E004
)~"},
    {"an unknown member",
     R"~(module M {
  weight w: real[3]
  param b: real
}
)~",
     R"~(model.heddle:2:3: error[E006]: expected a member, found `weight`
  2 |   weight w: real[3]
    |   ^^^^^^
  help: did you mean `param`?                                         heddle explain E006
)~"},
    {"a statement among members",
     R"~(module M {
  y = 3
  z = 4
  param b: real
}
)~",
     R"~(model.heddle:2:3: error[E006]: expected a member, found `y`
  2 |   y = 3
    |   ^
  help: a member begins with `param`, `sub`, `let`, `require`, `fn`, `state`, `entry` or `if`  heddle explain E006
)~"},
    {"a state in a module",
     R"~(module M {
  state s: real[3] = 0
  param b: real
}
)~",
     R"~(model.heddle:2:3: error[E016]: `state` stands in a model, not in a module
  2 |   state s: real[3] = 0
    |   ^^^^^
  help: move it to the model, and pass the values to the module       heddle explain E016
)~"},
    {"an entry in a module",
     R"~(module M {
  entry f(x: real[3]) -> y: real[3] {
    return x
  }
  param b: real
}
)~",
     R"~(model.heddle:2:3: error[E016]: `entry` stands in a model, not in a module
  2 |   entry f(x: real[3]) -> y: real[3] {
    |   ^^^^^
  help: move it to the model, and pass the values to the module       heddle explain E016
)~"},
    {"a config in a model",
     R"~(model M {
  config A = 1
  param b: real
}
)~",
     R"~(model.heddle:2:3: error[E016]: `config` does not stand inside a model
  2 |   config A = 1
    |   ^^^^^^
  help: move it to the beginning of the file                          heddle explain E016
)~"},
    {"a param without a type",
     R"~(module M {
  param w
  param b: real
}
)~",
     R"~(model.heddle:2:10: error[E017]: the param `w` has no type
  2 |   param w
    |          ^
  help: write `w: real[N]`                                            heddle explain E017
)~"},
    {"a param without a colon",
     R"~(module M {
  param w real[3]
  param b: real
}
)~",
     R"~(model.heddle:2:11: error[E017]: the param `w` has no type
  2 |   param w real[3]
    |           ^^^^
  help: write `w: real[N]`                                            heddle explain E017
)~"},
    {"an alias without quotes",
     R"~(module M {
  param w as weight: real[3]
}
)~",
     R"~(model.heddle:2:14: error[E004]: expected the name in the weights file, in quotes, found `weight`
  2 |   param w as weight: real[3]
    |              ^^^^^^
  heddle explain E004
)~"},
    {"a param with an unknown type",
     R"~(module M {
  param w: float[3]
}
)~",
     R"~(model.heddle:2:12: error[E013]: expected a type, found `float`
  2 |   param w: float[3]
    |            ^^^^^
  help: write `f32`                                                   heddle explain E013
)~"},
    {"a type that is none",
     R"~(module M {
  param w: Weight
}
)~",
     R"~(model.heddle:2:12: error[E013]: expected a type, found `Weight`
  2 |   param w: Weight
    |            ^^^^^^
  help: the types are `real`, `f32`, `bf16`, `f16`, `i8`, `i32`, `bool` and `index(N)`  heddle explain E013
)~"},
    {"a shape in parentheses",
     R"~(module M {
  param w: real(3, 4)
}
)~",
     R"~(model.heddle:2:16: error[E013]: a shape stands in brackets
  2 |   param w: real(3, 4)
    |                ^
  help: write `real[…]`                                               heddle explain E013
)~"},
    {"an empty shape",
     R"~(module M {
  param w: real[]
}
)~",
     R"~(model.heddle:2:16: error[E018]: there is no size in the brackets
  2 |   param w: real[]
    |                ^^
  help: leave out `[]` for a scalar                                   heddle explain E018
)~"},
    {"a colon in a shape",
     R"~(module M {
  param w: real[:, 3]
}
)~",
     R"~(model.heddle:2:17: error[E018]: a size is missing
  2 |   param w: real[:, 3]
    |                 ^
  help: write its name, or `_` where it does not matter               heddle explain E018
)~"},
    {"an index type without its range",
     R"~(fn f(x: index[3]) -> real = 1
)~",
     R"~(model.heddle:1:14: error[E013]: `index` has no range
  1 | fn f(x: index[3]) -> real = 1
    |              ^
  help: write `index(N)` for the values 0 to N - 1                    heddle explain E013
)~"},
    {"a sub with a colon",
     R"~(module M {
  sub norm: LayerNorm
}
)~",
     R"~(model.heddle:2:11: error[E017]: a sub-module is given with `=`
  2 |   sub norm: LayerNorm
    |           ^
  help: write `sub norm = Module`                                     heddle explain E017
)~"},
    {"a sub with its number behind",
     R"~(module M {
  sub block = Block[3]
}
)~",
     R"~(model.heddle:2:20: error[E017]: the number of sub-modules stands after their name
  2 |   sub block = Block[3]
    |                    ^
  help: write `sub block[N] = Block`                                  heddle explain E017
)~"},
    {"a sub with an unnamed range",
     R"~(module M {
  sub block[1 .. 3] = Block
}
)~",
     R"~(model.heddle:2:15: error[E017]: a range has a name
  2 |   sub block[1 .. 3] = Block
    |               ^^
  help: write `[i in 1 .. N]`                                         heddle explain E017
)~"},
    {"a state without a type",
     R"~(model M {
  state s = 0
}
)~",
     R"~(model.heddle:2:11: error[E017]: the state `s` has no type
  2 |   state s = 0
    |           ^
  help: write `s: real[N]`                                            heddle explain E017
)~"},
    {"a condition with a single equals sign",
     R"~(module M {
  if A = 1 {
    param w: real
  }
  param b: real
}
)~",
     R"~(model.heddle:2:8: error[E011]: `=` defines; a comparison is written `==`
  2 |   if A = 1 {
    |        ^
  help: write `==`                                                    heddle explain E011
)~"},
    {"a function without a result type",
     R"~(fn f(x: real) = x
)~",
     R"~(model.heddle:1:15: error[E017]: the function `f` has no result type
  1 | fn f(x: real) = x
    |               ^
  help: write it after the parameters: `-> real`                      heddle explain E017
)~"},
    {"a function with a result but no arrow",
     R"~(fn f(x: real) real = x
)~",
     R"~(model.heddle:1:15: error[E017]: the function `f` has no result type
  1 | fn f(x: real) real = x
    |               ^^^^
  help: write it after the parameters: `-> real`                      heddle explain E017
)~"},
    {"a function without a body",
     R"~(fn f(x: real) -> real
config A = 1
)~",
     R"~(model.heddle:1:22: error[E004]: expected `=` or `{`, found `config` on line 2
  1 | fn f(x: real) -> real
    |                      ^
  heddle explain E004
)~"},
    {"a parameter without a type",
     R"~(fn f(x, y: real) -> real = x
)~",
     R"~(model.heddle:1:7: error[E017]: `x` has no type
  1 | fn f(x, y: real) -> real = x
    |       ^
  help: write `x: real[N]`                                            heddle explain E017
)~"},
    {"a default outside of an entry",
     R"~(fn f(x: real = 1) -> real = x
)~",
     R"~(model.heddle:1:16: error[E017]: only an input of an entry has a default
  1 | fn f(x: real = 1) -> real = x
    |                ^
  help: give the value where the function is called                   heddle explain E017
)~"},
    {"a parameter list that is not closed",
     R"~(fn f(x: real -> real = x
)~",
     R"~(model.heddle:1:14: error[E005]: `)` is missing: found `->`
  1 | fn f(x: real -> real = x
    |              ^^
  help: close the `(` of line 1                                       heddle explain E005
)~"},
    {"an entry whose result has no name",
     R"~(model M {
  entry f(x: real[3]) -> real[3] {
    return x
  }
}
)~",
     R"~(model.heddle:2:26: error[E017]: a result of an entry has a name
  2 |   entry f(x: real[3]) -> real[3] {
    |                          ^^^^
  help: write `-> y: real[B]`                                         heddle explain E017
)~"},
    {"an entry with an equals sign",
     R"~(model M {
  entry f(x: real[3]) -> y: real[3] = x
}
)~",
     R"~(model.heddle:2:37: error[E017]: an entry has a body in braces
  2 |   entry f(x: real[3]) -> y: real[3] = x
    |                                     ^
  help: write `{ return … }`                                          heddle explain E017
)~"},
    {"a function inside a function",
     R"~(fn f(x: real) -> real {
  fn g(y: real) -> real = y
  return g(x)
}
)~",
     R"~(model.heddle:2:3: error[E016]: `fn` does not stand inside a body
  2 |   fn g(y: real) -> real = y
    |   ^^
  help: move it out of the braces                                     heddle explain E016
)~"},
    {"an unknown statement",
     R"~(fn f(x: real[N]) -> real[N] {
  while x > 3 {
    y = 1
  }
  return x
}
)~",
     R"~(model.heddle:2:3: error[E006]: expected a statement, found `while`
  2 |   while x > 3 {
    |   ^^^^^
  help: did you mean `for`?                                           heddle explain E006
)~"},
    {"a misspelt statement",
     R"~(fn f(x: real[N]) -> real[N] {
  retrun x
  return x
}
)~",
     R"~(model.heddle:2:3: error[E006]: expected a statement, found `retrun`
  2 |   retrun x
    |   ^^^^^^
  help: did you mean `return`?                                        heddle explain E006
)~"},
    {"a let with a type",
     R"~(fn f(x: real[N]) -> real[N] {
  let y: real = 3
  return x
}
)~",
     R"~(model.heddle:2:8: error[E011]: `let` takes no type
  2 |   let y: real = 3
    |        ^
  help: leave out `:` and the type                                    heddle explain E011
)~"},
    {"a let with indices",
     R"~(fn f(x: real[N]) -> real[N] {
  let y[i] = x[i]
  return x
}
)~",
     R"~(model.heddle:2:8: error[E011]: `let` names a whole value
  2 |   let y[i] = x[i]
    |        ^
  help: leave out `let`: `y[…] = …`                                   heddle explain E011
)~"},
    {"a let with an arrow",
     R"~(fn f(x: real[N]) -> real[N] {
  let y <- x
  return x
}
)~",
     R"~(model.heddle:2:9: error[E011]: `<-` updates a state; `let` defines with `=`
  2 |   let y <- x
    |         ^^
  help: write `let y = …`, or leave out `let`                         heddle explain E011
)~"},
    {"a let with two values",
     R"~(fn f(x: real[N]) -> real[N] {
  let a, b = f(x), g(x)
  return x
}
)~",
     R"~(model.heddle:2:18: error[E011]: one expression gives all the names of a `let`
  2 |   let a, b = f(x), g(x)
    |                  ^
  help: write one `let` for each name                                 heddle explain E011
)~"},
    {"a definition with a comparison sign",
     R"~(fn f(x: real[N]) -> real[N] {
  y[i] == x[i]
  return x
}
)~",
     R"~(model.heddle:2:8: error[E011]: `==` compares; a definition is written `=`
  2 |   y[i] == x[i]
    |        ^^
  help: write `=`                                                     heddle explain E011
)~"},
    {"a definition with a colon and an equals sign",
     R"~(fn f(x: real[N]) -> real[N] {
  y[i] := x[i]
  return x
}
)~",
     R"~(model.heddle:2:8: error[E011]: a definition is written `=`
  2 |   y[i] := x[i]
    |        ^
  help: write `=`                                                     heddle explain E011
)~"},
    {"a definition with two values",
     R"~(fn f(x: real[N]) -> real[N] {
  a, b = f(x), g(x)
  return x
}
)~",
     R"~(model.heddle:2:14: error[E011]: one expression gives all the names on the left
  2 |   a, b = f(x), g(x)
    |              ^
  help: write one definition per line                                 heddle explain E011
)~"},
    {"a definition of a field",
     R"~(fn f(x: real[N]) -> real[N] {
  m.w = 3
  return x
}
)~",
     R"~(model.heddle:2:3: error[E011]: only a name can be defined here, not a field
  2 |   m.w = 3
    |   ^
  help: write `name = …`                                              heddle explain E011
)~"},
    {"an addition to a name",
     R"~(fn f(x: real[N]) -> real[N] {
  y += 1
  return x
}
)~",
     R"~(model.heddle:2:5: error[E011]: `y` is defined once and never changed
  2 |   y += 1
    |     ^^
  help: give the new value a new name, or carry it: `for … with y`    heddle explain E011
)~"},
    {"two updates at once",
     R"~(fn f(x: real[N]) -> real[N] {
  a, b <- f(x)
  return x
}
)~",
     R"~(model.heddle:2:8: error[E012]: two states are updated at once
  2 |   a, b <- f(x)
    |        ^^
  help: write one update per line, after `let a, b = …`               heddle explain E012
)~"},
    {"an update of two values",
     R"~(fn f(x: real[N]) -> real[N] {
  a <- x, y
  return x
}
)~",
     R"~(model.heddle:2:9: error[E012]: a state takes one value
  2 |   a <- x, y
    |         ^
  help: write one update per line                                     heddle explain E012
)~"},
    {"an update with the arrow turned round",
     R"~(fn f(x: real[N]) -> real[N] {
  a -> x
  return x
}
)~",
     R"~(model.heddle:2:5: error[E012]: an update is written `<-`
  2 |   a -> x
    |     ^^
  help: write `a <- …`                                                heddle explain E012
)~"},
    {"a call alone",
     R"~(fn f(x: real[N]) -> real[N] {
  f(x)
  y = 1
  return x
}
)~",
     R"~(model.heddle:2:3: error[E019]: a call alone has no effect
  2 |   f(x)
    |   ^
  help: name its value: `let y = f(…)`                                heddle explain E019
)~"},
    {"a value alone",
     R"~(fn f(x: real[N]) -> real[N] {
  y
  z[i] = x[i]
  return x
}
)~",
     R"~(model.heddle:2:3: error[E019]: a value alone has no effect
  2 |   y
    |   ^
  help: define something with it (`y = …`), or `return` it            heddle explain E019
)~"},
    {"a reserved word that is defined",
     R"~(fn f(x: real[N]) -> real[N] {
  index[i] = 3
  return x
}
)~",
     R"~(model.heddle:2:3: error[E007]: `index` is a reserved word, not a name
  2 |   index[i] = 3
    |   ^^^^^
  help: choose another name (`index_`)                                heddle explain E007
)~"},
    {"a reducer that is defined",
     R"~(fn f(x: real[N]) -> real[N] {
  sum[i] = 3
  return x
}
)~",
     R"~(model.heddle:2:3: error[E007]: `sum` is a reserved word, not a name
  2 |   sum[i] = 3
    |   ^^^
  help: choose another name (`sum_`)                                  heddle explain E007
)~"},
    {"a colon on the left side",
     R"~(fn f(x: real[N]) -> real[N] {
  y[:, i] = x[i]
  return x
}
)~",
     R"~(model.heddle:2:5: error[E018]: `:` reads a whole dimension; a definition names its indices
  2 |   y[:, i] = x[i]
    |     ^
  help: write a name: `i`, or `i in N`                                heddle explain E018
)~"},
    {"an index that ranges without a name",
     R"~(fn f(x: real[N]) -> real[N] {
  y[i + 1 in N] = x[i]
  return x
}
)~",
     R"~(model.heddle:2:5: error[E018]: only a name can range
  2 |   y[i + 1 in N] = x[i]
    |     ^^^^^
  help: write `i in N`                                                heddle explain E018
)~"},
    {"an index that starts elsewhere",
     R"~(fn f(x: real[N]) -> real[N] {
  y[i in 1 .. N] = x[i]
  return x
}
)~",
     R"~(model.heddle:2:5: error[E018]: an index starts at 0
  2 |   y[i in 1 .. N] = x[i]
    |     ^^^^^^
  help: write `i in N`, and add the offset where it is used           heddle explain E018
)~"},
    {"an empty left side",
     R"~(fn f(x: real[N]) -> real[N] {
  y[] = 3
  return x
}
)~",
     R"~(model.heddle:2:4: error[E018]: there is no index in the brackets
  2 |   y[] = 3
    |    ^^
  help: name the indices: `y[i in N]`                                 heddle explain E018
)~"},
    {"a loop that starts elsewhere",
     R"~(fn f(x: real[N]) -> real[N] {
  for i in 1 .. N with x { x = f(x) }
  return x
}
)~",
     R"~(model.heddle:2:14: error[E018]: an index starts at 0
  2 |   for i in 1 .. N with x { x = f(x) }
    |              ^^
  help: write `for i in N`, and add the offset where it is used       heddle explain E018
)~"},
    {"a loop without in",
     R"~(fn f(x: real[N]) -> real[N] {
  for i N with x { x = f(x) }
  return x
}
)~",
     R"~(model.heddle:2:9: error[E004]: expected `in`, found `N`
  2 |   for i N with x { x = f(x) }
    |         ^
  heddle explain E004
)~"},
    {"a loop without braces",
     R"~(fn f(x: real[N]) -> real[N] {
  for i in N with x
    x = f(x)
  }
  return x
}
)~",
     R"~(model.heddle:2:20: error[E004]: expected `{`, found `x` on line 3
  2 |   for i in N with x
    |                    ^
  heddle explain E004
)~"},
    {"a block in the style of Python",
     R"~(fn f(x: real) -> real {
  for i in N:
    y = 3
  return x
}
)~",
     R"~(model.heddle:2:13: error[E004]: expected `{`, found `:`
  2 |   for i in N:
    |             ^
  heddle explain E004
)~"},
    {"a condition that defines",
     R"~(fn f(x: real[N]) -> real[N] {
  if a = b { y = 1 }
  return x
}
)~",
     R"~(model.heddle:2:8: error[E011]: `=` defines; a comparison is written `==`
  2 |   if a = b { y = 1 }
    |        ^
  help: write `==`                                                    heddle explain E011
)~"},
    {"if then as a statement",
     R"~(fn f(x: real[N]) -> real[N] {
  if a == b then y = 1
  return x
}
)~",
     R"~(model.heddle:2:13: error[E009]: `if … then` is a value, not a statement
  2 |   if a == b then y = 1
    |             ^^^^ a value must be defined or returned
  help: write `if CONDITION then VALUE else VALUE`                    heddle explain E009
)~"},
    {"a require whose message lacks else",
     R"~(fn f(x: real[N]) -> real[N] {
  require a == b "they differ"
  return x
}
)~",
     R"~(model.heddle:2:18: error[E006]: expected a statement, found a string
  2 |   require a == b "they differ"
    |                  ^^^^^^^^^^^^^
  help: the message of a `require` follows `else`                     heddle explain E006
)~"},
    {"a return of nothing",
     R"~(fn f(x: real) -> real {
  return
}
)~",
     R"~(model.heddle:2:9: error[E008]: expected an expression, found `}` on line 3
  2 |   return
    |         ^
  help: a `return` names what it returns; an entry without results has none  heddle explain E008
)~"},
    {"an else alone",
     R"~(fn f(x: real[N]) -> real[N] {
  else { y = 1 }
  return x
}
)~",
     R"~(model.heddle:2:3: error[E006]: expected a statement, found `else`
  2 |   else { y = 1 }
    |   ^^^^
  help: `else` follows the `}` of an `if`, or the value after `then`  heddle explain E006
)~"},
    {"a declaration inside a body",
     R"~(fn f(x: real[N]) -> real[N] {
  config A = 1
  return x
}
)~",
     R"~(model.heddle:2:3: error[E016]: `config` does not stand inside a body
  2 |   config A = 1
    |   ^^^^^^
  help: move it out of the braces                                     heddle explain E016
)~"},
    {"a missing value",
     R"~(fn f(x: real[N]) -> real[N] {
  y[i] =
  z[i] = x[i]
  return x
}
)~",
     R"~(model.heddle:2:9: error[E008]: expected an expression, found `z` on line 3
  2 |   y[i] =
    |         ^
  help: finish this line: a value is missing on its right             heddle explain E008
)~"},
    {"a missing bracket",
     R"~(fn f(x: real[N]) -> real[N] {
  y[i] = x[i + 1
  z[i] = x[i]
  return x
}
)~",
     R"~(model.heddle:2:17: error[E005]: `]` is missing: found `z` on line 3
  2 |   y[i] = x[i + 1
    |                 ^
  help: close the `[` of line 2                                       heddle explain E005
)~"},
    {"a missing bracket before an operator",
     R"~(fn f(x: real[N]) -> real[N] {
  y[i] = x[i + sqrt(2)
  return x
}
)~",
     R"~(model.heddle:2:23: error[E005]: `]` is missing: found `return` on line 3
  2 |   y[i] = x[i + sqrt(2)
    |                       ^
  help: close the `[` of line 2                                       heddle explain E005
)~"},
    {"a missing parenthesis",
     R"~(fn f(x: real[N]) -> real[N] {
  y[i] = f(x[i]
  z[i] = x[i]
  return x
}
)~",
     R"~(model.heddle:2:16: error[E005]: `)` is missing: found `z` on line 3
  2 |   y[i] = f(x[i]
    |                ^
  help: close the `(` of line 2                                       heddle explain E005
)~"},
    {"a parenthesis too many",
     R"~(fn f(x: real[N]) -> real[N] {
  y[i] = f(x[i]))
  z[i] = x[i]
  return x
}
)~",
     R"~(model.heddle:2:17: error[E006]: expected a statement, found `)`
  2 |   y[i] = f(x[i]))
    |                 ^
  help: there is no `(` that it closes                                heddle explain E006
)~"},
    {"the wrong bracket",
     R"~(fn f(x: real[N]) -> real[N] {
  y[i] = f(x[i)]
  return x
}
)~",
     R"~(model.heddle:2:15: error[E005]: `]` is missing: found `)`
  2 |   y[i] = f(x[i)]
    |               ^
  help: close the `[` of line 2                                       heddle explain E005
)~"},
    {"a value without an operator",
     R"~(fn f(x: real[N]) -> real[N] {
  y[i] = 2 x[i]
  return x
}
)~",
     R"~(model.heddle:2:12: error[E019]: a value alone has no effect
  2 |   y[i] = 2 x[i]
    |            ^^^^
  help: write an operator before it, or define something with it (`y = …`)  heddle explain E019
)~"},
    {"an operator without a value",
     R"~(fn f(x: real[N]) -> real[N] {
  y[i] = x[i] +
  z[i] = 1
  return x
}
)~",
     R"~(model.heddle:2:16: error[E008]: expected an expression, found `z` on line 3
  2 |   y[i] = x[i] +
    |                ^
  help: finish this line: a value is missing on its right             heddle explain E008
)~"},
    {"a comma at the end of a call",
     R"~(fn f(x: real[N]) -> real[N] {
  y = f(x, )
  return x
}
)~",
     R"~(model.heddle:2:12: error[E008]: expected an expression, found `)`
  2 |   y = f(x, )
    |            ^
  help: remove the comma before it                                    heddle explain E008
)~"},
    {"a subscript that is missing",
     R"~(fn f(x: real[N]) -> real[N] {
  y[i] = x[]
  return x
}
)~",
     R"~(model.heddle:2:11: error[E018]: there is no subscript in the brackets
  2 |   y[i] = x[]
    |           ^^
  help: write one per dimension, `:` for all of it                    heddle explain E018
)~"},
    {"a slice",
     R"~(fn f(x: real[N]) -> real[N] {
  y = x[0:3]
  return x
}
)~",
     R"~(model.heddle:2:10: error[E018]: a subscript has no `:` between two values
  2 |   y = x[0:3]
    |          ^
  help: define the part by its index: `y[i in N] = x[i + 1]`          heddle explain E018
)~"},
    {"a slice without a beginning",
     R"~(fn f(x: real[N]) -> real[N] {
  y = x[:3]
  return x
}
)~",
     R"~(model.heddle:2:9: error[E018]: a subscript has no `:` between two values
  2 |   y = x[:3]
    |         ^
  help: define the part by its index: `y[i in N] = x[i + 1]`          heddle explain E018
)~"},
    {"an ellipsis",
     R"~(fn f(x: real[N]) -> real[N] {
  y = x[..., 3]
  return x
}
)~",
     R"~(model.heddle:2:9: error[E018]: `...` has no meaning here
  2 |   y = x[..., 3]
    |         ^^^
  help: name the pack of dimensions: `..s`                            heddle explain E018
)~"},
    {"an index that ranges where it is read",
     R"~(fn f(x: real[N]) -> real[N] {
  y = x[i in N]
  return x
}
)~",
     R"~(model.heddle:2:11: error[E018]: an index does not range where it is read
  2 |   y = x[i in N]
    |           ^^
  help: say `in` on the left side, or in the brackets of the reduction  heddle explain E018
)~"},
    {"a pack with an offset",
     R"~(fn f(x: real[N]) -> real[N] {
  y[..s] = x[..s + 1]
  return x
}
)~",
     R"~(model.heddle:2:18: error[E018]: a pack stands alone, found `+` after `..s`
  2 |   y[..s] = x[..s + 1]
    |                  ^
  help: nothing can be added to it: write the indices one by one      heddle explain E018
)~"},
    {"an if without else",
     R"~(fn f(x: real[N]) -> real[N] {
  y[i] = if x[i] > 0 then 1
  z[i] = 2
  return x
}
)~",
     R"~(model.heddle:2:28: error[E009]: expected `else` for the `if` of line 2, found `z` on line 3
  2 |   y[i] = if x[i] > 0 then 1
    |                            ^ every value needs both
  help: write `if CONDITION then VALUE else VALUE`                    heddle explain E009
)~"},
    {"an if without then",
     R"~(fn f(x: real[N]) -> real[N] {
  y[i] = if x[i] > 0 1 else 2
  return x
}
)~",
     R"~(model.heddle:2:22: error[E009]: expected `then` for the `if` of line 2, found `1`
  2 |   y[i] = if x[i] > 0 1 else 2
    |                      ^
  help: write `if CONDITION then VALUE else VALUE`                    heddle explain E009
)~"},
    {"an if with braces",
     R"~(fn f(x: real[N]) -> real[N] {
  y[i] = if x[i] > 0 { 1 } else { 2 }
  return x
}
)~",
     R"~(model.heddle:2:22: error[E009]: a value has no braces after its condition
  2 |   y[i] = if x[i] > 0 { 1 } else { 2 }
    |                      ^
  help: write `if CONDITION then VALUE else VALUE`                    heddle explain E009
)~"},
    {"an if that defines",
     R"~(fn f(x: real[N]) -> real[N] {
  y[i] = if x[i] = 0 then 1 else 2
  return x
}
)~",
     R"~(model.heddle:2:18: error[E011]: `=` defines; a comparison is written `==`
  2 |   y[i] = if x[i] = 0 then 1 else 2
    |                  ^
  help: write `==`                                                    heddle explain E011
)~"},
    {"an if among operators",
     R"~(fn f(x: real[N]) -> real[N] {
  y[i] = 1 + if x[i] > 0 then 1 else 2
  return x
}
)~",
     R"~(model.heddle:2:14: error[E008]: expected an expression, found `if`
  2 |   y[i] = 1 + if x[i] > 0 then 1 else 2
    |              ^^
  help: put this `if` in parentheses                                  heddle explain E008
)~"},
    {"a not among operators",
     R"~(fn f(x: real[N]) -> real[N] {
  y = a == not b
  return x
}
)~",
     R"~(model.heddle:2:12: error[E008]: expected an expression, found `not`
  2 |   y = a == not b
    |            ^^^
  help: put this `not` in parentheses                                 heddle explain E008
)~"},
    {"comparisons in a chain",
     R"~(fn f(x: real[N]) -> real[N] {
  require 0 <= x[3] < N
  return x
}
)~",
     R"~(model.heddle:2:21: error[E014]: comparisons do not chain
  2 |   require 0 <= x[3] < N
    |                     ^
  help: join them: `0 <= x[3] and x[3] < …`                           heddle explain E014
)~"},
    {"a tuple",
     R"~(fn f(x: real[N]) -> real[N] {
  y = (a, b)
  return x
}
)~",
     R"~(model.heddle:2:9: error[E004]: expected `)`, found `,`
  2 |   y = (a, b)
    |         ^ a value stands alone in parentheses
  heddle explain E004
)~"},
    {"empty parentheses",
     R"~(fn f(x: real[N]) -> real[N] {
  y = ()
  return x
}
)~",
     R"~(model.heddle:2:8: error[E008]: expected an expression, found `)`
  2 |   y = ()
    |        ^
  help: write a value in the parentheses                              heddle explain E008
)~"},
    {"a power with a caret",
     R"~(fn f(x: real[N]) -> real[N] {
  y = x ^ 2
  return x
}
)~",
     R"~(model.heddle:2:9: error[E001]: `^` has no meaning here
  2 |   y = x ^ 2
    |         ^
  help: write `**`                                                    heddle explain E001
)~"},
    {"a reduction without brackets",
     R"~(fn f(x: real[N]) -> real[N] {
  y = sum(x)
  return x
}
)~",
     R"~(model.heddle:2:7: error[E010]: `sum` does not say what it runs over
  2 |   y = sum(x)
    |       ^^^
  help: write `sum[i](…)` or `sum[i in N](…)`                         heddle explain E010
)~"},
    {"a maximum of one value",
     R"~(fn f(x: real[N]) -> real[N] {
  y = max(x)
  return x
}
)~",
     R"~(model.heddle:2:7: error[E010]: `max` does not say what it runs over
  2 |   y = max(x)
    |       ^^^
  help: write `max[i](…)` or `max[i in N](…)`                         heddle explain E010
)~"},
    {"a reduction over nothing",
     R"~(fn f(x: real[N]) -> real[N] {
  y = sum[](x)
  return x
}
)~",
     R"~(model.heddle:2:11: error[E010]: `sum` runs over no index
  2 |   y = sum[](x)
    |           ^
  help: write `sum[i](…)` or `sum[i in N](…)`                         heddle explain E010
)~"},
    {"a reduction over a number",
     R"~(fn f(x: real[N]) -> real[N] {
  y = sum[3](x[i])
  return x
}
)~",
     R"~(model.heddle:2:11: error[E010]: `sum` runs over names, found `3`
  2 |   y = sum[3](x[i])
    |           ^
  help: write `sum[i](…)` or `sum[i in N](…)`                         heddle explain E010
)~"},
    {"a reduction with an equals sign",
     R"~(fn f(x: real[N]) -> real[N] {
  y = sum[i = N](x[i])
  return x
}
)~",
     R"~(model.heddle:2:13: error[E010]: `sum` runs over names, found `=` after `i`
  2 |   y = sum[i = N](x[i])
    |             ^
  help: write `sum[i](…)` or `sum[i in N](…)`                         heddle explain E010
)~"},
    {"a reduction over part of an index",
     R"~(fn f(x: real[N]) -> real[N] {
  y = sum[i < N](x[i])
  return x
}
)~",
     R"~(model.heddle:2:13: error[E010]: `sum` runs over names, found `<` after `i`
  2 |   y = sum[i < N](x[i])
    |             ^
  help: write `sum[i](…)` or `sum[i in N](…)`                         heddle explain E010
)~"},
    {"a reduction with a comma before where",
     R"~(fn f(x: real[N]) -> real[N] {
  y = sum[i, where i > 2](x[i])
  return x
}
)~",
     R"~(model.heddle:2:14: error[E010]: `where` follows the last index without a comma
  2 |   y = sum[i, where i > 2](x[i])
    |              ^^^^^
  help: write `sum[i](…)` or `sum[i in N](…)`                         heddle explain E010
)~"},
    {"a reduction that only has where",
     R"~(fn f(x: real[N]) -> real[N] {
  y = sum[where i > 2](x[i])
  return x
}
)~",
     R"~(model.heddle:2:11: error[E010]: `sum` runs over no index
  2 |   y = sum[where i > 2](x[i])
    |           ^^^^^
  help: write `sum[i](…)` or `sum[i in N](…)`                         heddle explain E010
)~"},
    {"a reduction without parentheses",
     R"~(fn f(x: real[N]) -> real[N] {
  y = sum[i] x[i] * 2
  return x
}
)~",
     R"~(model.heddle:2:14: error[E010]: the body of `sum` stands in parentheses
  2 |   y = sum[i] x[i] * 2
    |              ^
  help: write `sum[i](…)` or `sum[i in N](…)`                         heddle explain E010
)~"},
    {"a reduction with two bodies",
     R"~(fn f(x: real[N]) -> real[N] {
  y = sum[i](x[i], 2)
  return x
}
)~",
     R"~(model.heddle:2:18: error[E010]: `sum` has one body
  2 |   y = sum[i](x[i], 2)
    |                  ^
  help: write `sum[i](…)` or `sum[i in N](…)`                         heddle explain E010
)~"},
    {"a type without its value",
     R"~(fn f(x: real[N]) -> real[N] {
  y = real * 3
  return x
}
)~",
     R"~(model.heddle:2:12: error[E013]: a type converts a value in parentheses
  2 |   y = real * 3
    |            ^
  help: write `real(value)`                                           heddle explain E013
)~"},
    {"a reserved word as a value",
     R"~(fn f(x: real[N]) -> real[N] {
  y = x + state
  return x
}
)~",
     R"~(model.heddle:2:11: error[E008]: expected an expression, found `state`
  2 |   y = x + state
    |           ^^^^^
  help: `state` is a reserved word                                    heddle explain E008
)~"},
    {"a field that is no name",
     R"~(fn f(x: real[N]) -> real[N] {
  y = m.3
  return x
}
)~",
     R"~(model.heddle:2:9: error[E004]: expected the name of a member, found `3`
  2 |   y = m.3
    |         ^
  heddle explain E004
)~"},
    {"a list that is not closed",
     R"~(config A = [1, 2
config B = 1
)~",
     R"~(model.heddle:1:17: error[E005]: `]` is missing: found `config` on line 2
  1 | config A = [1, 2
    |                 ^
  help: close the `[` of line 1                                       heddle explain E005
)~"},
    {"two slips in two statements",
     R"~(fn f(x: real[N]) -> real[N] {
  y[i] = x[i
  z[i] = x[i] +
  w[i] = 1
  return x
}
)~",
     R"~(model.heddle:2:13: error[E005]: `]` is missing: found `z` on line 3
  2 |   y[i] = x[i
    |             ^
  help: close the `[` of line 2                                       heddle explain E005
model.heddle:3:16: error[E008]: expected an expression, found `w` on line 4
  3 |   z[i] = x[i] +
    |                ^
  help: finish this line: a value is missing on its right             heddle explain E008
)~"},
    {"two slips in two functions",
     R"~(fn f(x: real) = x
fn g(x: real) -> real = x +
fn h(x: real) -> real = x
)~",
     R"~(model.heddle:1:15: error[E017]: the function `f` has no result type
  1 | fn f(x: real) = x
    |               ^
  help: write it after the parameters: `-> real`                      heddle explain E017
model.heddle:2:28: error[E008]: expected an expression, found `fn` on line 3
  2 | fn g(x: real) -> real = x +
    |                            ^
  help: finish this line: a value is missing on its right             heddle explain E008
)~"},
};
// clang-format on

class Message : public testing::TestWithParam<Wrong> {};

TEST_P(Message, is_the_one_expected) {
  Sources sources;
  int file = sources.add("model.heddle", GetParam().text);
  Diagnostics diagnostics(sources);
  syntax::parse(sources, file, diagnostics);
  EXPECT_EQ(diagnostics.render(), GetParam().messages);
}

std::string case_name(const testing::TestParamInfo<Wrong> &info) {
  std::string out = info.param.name;
  std::replace_if(out.begin(), out.end(), [](unsigned char c) { return !std::isalnum(c); }, '_');
  return out;
}

INSTANTIATE_TEST_SUITE_P(For, Message, testing::ValuesIn(programs), case_name);

} // namespace
} // namespace heddle
