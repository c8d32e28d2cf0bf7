#include "dsl/check/program.h"

#include <functional>
#include <unordered_set>

namespace heddle {

bool is_floating(Type type) { return type == Type::f32 || type == Type::f16 || type == Type::bf16; }

bool is_comparison(Expr::Op op) {
  return op == Expr::less || op == Expr::less_equal || op == Expr::greater || op == Expr::greater_equal ||
         op == Expr::equal || op == Expr::not_equal;
}

const char *type_name(Type type) {
  switch (type) {
  case Type::f32:
    return "f32";
  case Type::f16:
    return "f16";
  case Type::bf16:
    return "bf16";
  case Type::i32:
    return "i32";
  case Type::i8:
    return "i8";
  case Type::boolean:
    return "bool";
  }
  return "";
}

std::vector<const Expr *> nodes_of(const Expr *e, bool inside_reads) {
  std::vector<const Expr *> order;
  std::unordered_set<const Expr *> seen;
  std::function<void(const Expr *)> visit = [&](const Expr *node) {
    if (!seen.insert(node).second)
      return;
    if (inside_reads || node->op != Expr::read)
      for (const Expr *operand : node->args)
        visit(operand);
    order.push_back(node);
  };
  visit(e);
  return order;
}

std::vector<std::string> Program::dim_names() const {
  std::vector<std::string> names;
  for (const Dim &dim : dims)
    names.push_back(dim.name);
  return names;
}

} // namespace heddle
