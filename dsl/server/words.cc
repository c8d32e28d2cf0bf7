// What the language itself brings: reductions, built-in functions, types, keywords, in a line or two each.
#include "dsl/server/words.h"

#include <map>

namespace heddle::server {

const std::vector<BuiltIn> &builtin_functions() {
  static const std::vector<BuiltIn> functions = {
#define HEDDLE_SCALAR(name, op, arguments) {name, arguments},
#define HEDDLE_SPECIAL(name, meaning, arguments) {name, arguments},
#include "dsl/check/scalars.def"
#undef HEDDLE_SCALAR
  };
  return functions;
}

std::string word_help(const std::string &word) {
  static const std::map<std::string, const char *> help = {
      {"sum", "`sum[i](x[i])`: the sum over every `i`; over none it is 0"},
      {"prod", "`prod[i](x[i])`: the product over every `i`; over none it is 1"},
      {"max", "`max[i](x[i])`: the largest over every `i`, over none -inf; `max(a, b)`: the larger of two numbers"},
      {"min", "`min[i](x[i])`: the smallest over every `i`, over none inf; `min(a, b)`: the smaller of two numbers"},
      {"mean", "`mean[i](x[i])`: the sum over every `i` by their number"},
      {"argmax", "`argmax[i](x[i])`: the first `i` at which `x` is largest"},
      {"argmin", "`argmin[i](x[i])`: the first `i` at which `x` is smallest"},
      {"any", "`any[i](c[i])`: whether the condition holds for some `i`; over none it is false"},
      {"all", "`all[i](c[i])`: whether the condition holds for every `i`; over none it is true"},
      {"exp", "`exp(x)`: e to the power of x"},
      {"log", "`log(x)`: the natural logarithm"},
      {"sqrt", "`sqrt(x)`: the square root"},
      {"sin", "`sin(x)`: the sine of x radians"},
      {"cos", "`cos(x)`: the cosine of x radians"},
      {"tanh", "`tanh(x)`: the hyperbolic tangent"},
      {"erf", "`erf(x)`: the error function"},
      {"floor", "`floor(x)`: the largest whole number that is not above x, as a real"},
      {"abs", "`abs(x)`: x without its sign"},
      {"grad",
       "`grad(loss, w)`: the derivative of a real number of this entry by a param, an input or a definition, in its "
       "shape"},
      {"stop", "`stop(x)`: x, which gradients take for a constant"},
      {"random",
       "`random(key, i, ..s)`: a real number of [0, 1) for each value of the indices, always the same of one key"},
      {"fold", "`fold(key, n)`: another key, of a key (i32[2]) and a whole number"},
      {"params",
       "`for p in params(encoder) { … }`: once for each param of a module; `state m: params(encoder) = 0`: a state for "
       "each"},
      {"config",
       "`config D \"hidden_size\" = 768`: a value fixed when the model is compiled, by `--set` or a config.json"},
      {"dim", "`dim S <= 512`: a size of every call, with its bound"},
      {"param", "`param weight: real[O, I]`: a tensor of the weights file, found by its path"},
      {"sub", "`sub layers[L] = Layer(D)`: a module inside this one, or an array of them"},
      {"state", "`state mem: real[B, M, D]`: a tensor that a session keeps from call to call"},
      {"entry", "`entry run(x: real[B, D]) -> y: real[B, D] { … }`: one function of the compiled library"},
      {"real", "the type of weights and activations: f32 unless `--precision` says otherwise"},
      {"index", "`index(N)`: a whole number from 0 to N - 1; inputs of this type are checked on every call"},
      {"stored", "`stored [3 * D, D]`: the shape in the weights file, of which the declared shape is a row-major view"},
      {"with", "`for l in L with x`: what one iteration passes to the next"},
      {"where", "`sum[j where mask[j] != 0](x[j])`: drops the terms for which the condition does not hold"},
      {"require", "`require M <= 512 else \"…\"`: what must hold; tested when compiling or on every call"},
      {"inf", "infinity; `-inf` is the score of what is not admitted to a softmax"},
  };
  auto found = help.find(word);
  return found == help.end() ? "" : found->second;
}

} // namespace heddle::server
