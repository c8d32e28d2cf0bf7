// A store of n vectors of n lanes, interleaved, is a square transposed. Squares of 4 x 4 are transposed within the
// quarters of 128 bits that instructions like to stay in, then the quarters between vectors, two vectors at a time:
// n log2(n) shuffles, each of which x86 has an instruction for.
#include "compiler/halide/rewrites/rewrites.h"

#include <functional>
#include <utility>
#include <vector>

namespace heddle {

using namespace Halide::Internal;
using Halide::Expr;

namespace {

constexpr int quarter = 4; // lanes of 32 bits

class Transpose : public IRMutator {
  using IRMutator::visit;

  Stmt visit(const Store *op) override {
    const Shuffle *shuffle = op->value.as<Shuffle>();
    const Ramp *at = op->index.as<Ramp>();
    if (!shuffle || !shuffle->is_interleave() || !at || !is_const_one(at->stride) || !is_const_one(op->predicate))
      return IRMutator::visit(op);
    const int lanes = shuffle->vectors[0].type().lanes();
    bool square = int(shuffle->vectors.size()) == lanes && lanes >= quarter && (lanes & (lanes - 1)) == 0 &&
                  shuffle->type.bits() == 32;
    for (const Expr &vector : shuffle->vectors)
      square &= !reads(vector, op->name);
    if (!square)
      return IRMutator::visit(op);

    lets_.clear();
    std::vector<Expr> rows;
    for (const Expr &vector : shuffle->vectors)
      rows.push_back(named(vector));
    rows = transposed(rows);
    std::vector<Stmt> stores;
    for (int row = 0; row < lanes; ++row)
      stores.push_back(Store::make(op->name, rows[row], Ramp::make(simplify(at->base + row * lanes), 1, lanes),
                                   op->param, const_true(lanes), op->alignment + row * lanes));
    Stmt all = Block::make(stores);
    for (auto let = lets_.rbegin(); let != lets_.rend(); ++let)
      all = LetStmt::make(let->first, let->second, all);
    return all;
  }

  static bool reads(const Expr &value, const std::string &name) {
    class Find : public IRGraphVisitor {
    public:
      explicit Find(const std::string &name) : name_(name) {}
      bool found = false;

    private:
      using IRGraphVisitor::visit;
      void visit(const Load *load) override {
        found |= load->name == name_;
        IRGraphVisitor::visit(load);
      }
      const std::string &name_;
    } find(name);
    value.accept(&find);
    return find.found;
  }

  Expr named(const Expr &value) {
    lets_.emplace_back(unique_name("pair"), value);
    return Variable::make(value.type(), lets_.back().first);
  }

  /// The lanes of two vectors that `from` names by their number in the new one; those of the second follow the first's.
  Expr shuffled(const Expr &a, const Expr &b, const std::function<int(int lane)> &from) {
    std::vector<int> lanes;
    for (int lane = 0; lane < a.type().lanes(); ++lane)
      lanes.push_back(from(lane));
    return named(Shuffle::make({a, b}, lanes));
  }

  /// Groups of `size` lanes of two vectors in turns, from the first or the second half of each quarter.
  Expr unpacked(const Expr &a, const Expr &b, int size, int half) {
    int count = a.type().lanes();
    return shuffled(a, b, [=](int lane) {
      int of_quarter = lane % quarter, group = of_quarter / size;
      return lane / quarter * quarter + half * quarter / 2 + group / 2 * size + of_quarter % size + group % 2 * count;
    });
  }

  std::vector<Expr> transposed(const std::vector<Expr> &rows) {
    const size_t count = rows.size();
    std::vector<Expr> out(count);
    std::vector<std::vector<Expr>> columns(quarter); // of each number in a quarter: a vector per four rows
    for (size_t row = 0; row < count; row += quarter) {
      Expr pairs[quarter];
      for (int i = 0; i < quarter; ++i)
        pairs[i] = unpacked(rows[row + i / 2 * 2], rows[row + i / 2 * 2 + 1], 1, i % 2);
      for (int i = 0; i < quarter; ++i)
        columns[i].push_back(unpacked(pairs[i / 2], pairs[i / 2 + 2], 2, i % 2));
    }
    for (int i = 0; i < quarter; ++i) {
      std::vector<Expr> put = quarters_transposed(columns[i]);
      for (size_t j = 0; j < put.size(); ++j)
        out[j * quarter + i] = put[j];
    }
    return out;
  }

  /// Vector number i has the quarters number i of all vectors.
  std::vector<Expr> quarters_transposed(const std::vector<Expr> &vectors) {
    if (vectors.size() == 1)
      return vectors;
    std::vector<Expr> halves[2], out(vectors.size());
    for (int odd : {0, 1}) {
      for (size_t i = 0; i < vectors.size(); i += 2)
        halves[odd].push_back(shuffled(vectors[i], vectors[i + 1], [&](int lane) {
          return (lane / quarter * 2 + odd) * quarter + lane % quarter;
        }));
      halves[odd] = quarters_transposed(halves[odd]);
      for (size_t i = 0; i < halves[odd].size(); ++i)
        out[2 * i + odd] = halves[odd][i];
    }
    return out;
  }

  std::vector<std::pair<std::string, Expr>> lets_; // innermost last
};

} // namespace

std::shared_ptr<IRMutator> transpose_in_pairs() { return std::make_shared<Transpose>(); }

} // namespace heddle
