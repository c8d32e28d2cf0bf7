// Names of NumPy, PyTorch, TensorFlow and Python.
#include "dsl/check/foreign.h"

#include <array>
#include <string_view>

namespace heddle::checking {
namespace {

struct Foreign {
  std::string_view names; // each between blanks
  const char *cure;
};

constexpr std::array functions = {
    Foreign{" reshape view flatten unflatten permute transpose swapaxes movedim unsqueeze squeeze expand rearrange ",
            "a tensor is rearranged by its subscripts: `y[h in H, s, e in E] = x[s, E * h + e]`"},
    Foreign{" einsum matmul dot mm bmm addmm inner outer ",
            "a product of matrices is written `sum[k](a[i, k] * b[k, j])`"},
    Foreign{" cat concat concatenate stack hstack vstack ",
            "tensors are joined by a condition: `y[j in M + N] = if j < M then a[j] else b[j - M]`"},
    Foreign{" split chunk slice narrow roll pad ", "parts are taken by subscripts: `y[i in N] = x[i + 3]`"},
    Foreign{" where select masked_fill ", "a value is chosen element by element: `if … then … else …`"},
    Foreign{" gather embedding take index_select ", "a lookup is a subscript: `y[s, d] = table[ids[s], d]`"},
    Foreign{" range arange len enumerate ",
            "a loop counts by itself: `for i in N`; the size of a dimension has a name"},
    Foreign{" zeros ones full zeros_like ones_like ", "a constant tensor is a definition: `y[i in N] = 0`"},
    Foreign{" tril triu causal_mask ", "a mask is a condition: `if j <= i then s[i, j] else -inf`"},
    Foreign{" float double int long ", "a number is converted by its type: `real(x)`, `i32(x)`"},
    Foreign{" pow square ", "a power is written `x ** 2`"},
    Foreign{" rsqrt ", "write `1 / sqrt(x)`"},
    Foreign{" round rint ", "write `floor(x + 0.5)`, which rounds halves up"},
    Foreign{" ceil ", "write `-floor(-x)`"},
    Foreign{" trunc fix ", "write `if x < 0 then -floor(-x) else floor(x)`"},
    Foreign{" sign ", "write `if x > 0 then 1 else if x < 0 then -1 else 0`"},
    Foreign{" clip clamp ", "write `min(max(x, LOW), HIGH)`"},
    Foreign{" isnan ", "write `x != x`"},
    Foreign{" dropout ", "leave it out: a compiled model is not trained"},
};

constexpr std::array members = {
    Foreign{" T mT t ", "a matrix is transposed by its subscripts: `y[j, i] = x[i, j]`"},
    Foreign{" shape size dim ndim length numel ",
            "the size of a dimension has a name: that in the declaration of the tensor"},
    Foreign{" view reshape permute transpose flatten ",
            "a tensor is rearranged by its subscripts: `y[h in H, s, e in E] = x[s, E * h + e]`"},
    Foreign{" float half to dtype ", "a number is converted by its type: `real(x)`, `i32(x)`"},
    Foreign{" sum mean max min argmax softmax ", "functions stand before what they take: `sum[i](x[i])`, `softmax(x)`"},
};

template <class Table> std::string find(const Table &table, const std::string &name) {
  for (const Foreign &row : table)
    if (row.names.find(" " + name + " ") != std::string_view::npos)
      return row.cure;
  return "";
}

} // namespace

std::string instead_of_function(const std::string &name) { return find(functions, name); }
std::string instead_of_member(const std::string &name) { return find(members, name); }

} // namespace heddle::checking
