// Random stages through the evaluator and through the obvious one: a recursion over the expression at every
// point. All values are small whole numbers, so that sums are exact in any order and results must be equal.
#include "dsl/check/round.h"

#include "programs.h"

#include <random>

namespace heddle {
namespace {

class RandomStage : public Builder {
public:
  explicit RandomStage(unsigned seed) : random_(seed) {
    const Reducer reducers[] = {Reducer::none, Reducer::none, Reducer::sum,    Reducer::sum,   Reducer::max,
                                Reducer::min,  Reducer::any,  Reducer::argmax, Reducer::argmin};
    reducer = reducers[below(9)];
    std::vector<Size> space = sizes(below(4)),
                      over = reducer == Reducer::none ? std::vector<Size>{} : sizes(1 + below(2));
    for (int i = 0; i < 3; ++i) {
      std::vector<Size> shape = sizes(below(4), 1);
      std::string name = "x" + std::to_string(i);
      tensors_.push_back(input(name, Type::f32, shape));
      inputs[name] = whole_numbers(shape);
    }
    for (const auto *list : {&space, &over})
      for (const Size &size : *list)
        extents.push_back(size.constant());
    output(stage("y", Type::f32, space, number_at(4), reducer, over));
  }

  /// The value of `node` where the indices are `at`.
  double naive(const Expr *node, const std::vector<int64_t> &at) const {
    auto arg = [&](int i) { return naive(node->args[i], at); };
    switch (node->op) {
    case Expr::integer:
      return double(node->whole);
    case Expr::real:
      return node->number;
    case Expr::index:
      return double(at[node->position]);
    case Expr::add:
      return arg(0) + arg(1);
    case Expr::sub:
      return arg(0) - arg(1);
    case Expr::mul:
      return arg(0) * arg(1);
    case Expr::floor_div:
      return std::floor(arg(0) / arg(1));
    case Expr::mod:
      return arg(0) - std::floor(arg(0) / arg(1)) * arg(1);
    case Expr::minimum:
      return std::min(arg(0), arg(1));
    case Expr::maximum:
      return std::max(arg(0), arg(1));
    case Expr::less:
      return arg(0) < arg(1);
    case Expr::select:
      return arg(0) != 0 ? arg(1) : arg(2);
    case Expr::cast:
      return arg(0);
    case Expr::read: {
      const Array &from = inputs.at(node->tensor->name);
      int64_t flat = 0;
      for (size_t d = 0; d < from.shape.size(); ++d) {
        double place = arg(int(d));
        if (place < 0 || place >= double(from.shape[d]))
          return 0;
        flat = flat * from.shape[d] + int64_t(place);
      }
      return from.data[flat];
    }
    default:
      ADD_FAILURE() << "no such node is made";
      return 0;
    }
  }

  std::vector<double> naive() const {
    const Stage &stage = std::get<Stage>(program.entries[0].steps[0].what);
    std::vector<double> values;
    std::vector<int64_t> at(extents.size());
    fill(stage, 0, at, values);
    return values;
  }

  Reducer reducer;
  std::vector<int64_t> extents;
  std::map<std::string, Array> inputs;

private:
  int below(int n) { return int(random_() % unsigned(n)); }

  std::vector<Size> sizes(int rank, int least = 0) {
    std::vector<Size> made;
    for (int d = 0; d < rank; ++d)
      made.push_back(below(12) == 0 && rank < 3 ? 513 + below(600)
                                                : std::max(least, below(12) == 0 ? 0 : 1 + below(6)));
    return made;
  }
  Array whole_numbers(const std::vector<Size> &shape) {
    std::vector<int64_t> extents;
    int64_t count = 1;
    for (const Size &size : shape) {
      extents.push_back(size.constant());
      count *= size.constant();
    }
    Array made = array(extents, {});
    for (int64_t i = 0; i < count; ++i)
      made.data.push_back(below(9) - 4);
    return made;
  }

  const Expr *number_at(int depth) {
    switch (depth == 0 ? below(2) : below(9)) {
    case 0:
      return number(below(7) - 3);
    case 1:
      return op(Expr::cast, {position(1)});
    case 2:
    case 3:
    case 4:
      return read_at(depth);
    case 5:
      return op(below(2) ? Expr::add : Expr::sub, {number_at(depth - 1), number_at(depth - 1)});
    case 6:
      return op(Expr::mul, {number_at(depth - 1), number_at(depth - 1)});
    case 7:
      return op(below(2) ? Expr::minimum : Expr::maximum, {number_at(depth - 1), number_at(depth - 1)});
    default:
      return op(Expr::select, {op(Expr::less, {number_at(1), number_at(1)}, Type::boolean), number_at(depth - 1),
                               number_at(depth - 1)});
    }
  }
  const Expr *read_at(int depth) {
    const Tensor *from = tensors_[below(3)];
    std::vector<const Expr *> at;
    for (size_t d = 0; d < from->shape.size(); ++d)
      at.push_back(below(6) == 0 && depth > 1 ? op(Expr::cast, {read_at(depth - 2)}, Type::i32) : position(2));
    return read(from, at, false);
  }
  /// An i32: affine in the indices, or with a quotient or remainder.
  const Expr *position(int depth) {
    switch (depth == 0 ? below(2) : below(7)) {
    case 0:
      return whole(below(5) - 1);
    case 1:
    case 2:
      return extents.empty() ? whole(below(3)) : index(below(int(extents.size())));
    case 3:
      return plus(position(depth - 1), position(depth - 1));
    case 4:
      return minus(position(depth - 1), position(depth - 1));
    case 5:
      return times(whole(below(4) - 1), position(depth - 1));
    default:
      return op(below(2) ? Expr::floor_div : Expr::mod, {position(depth - 1), whole(1 + below(4))}, Type::i32);
    }
  }

  void fill(const Stage &stage, size_t d, std::vector<int64_t> &at, std::vector<double> &values) const {
    if (d < stage.space.size()) {
      for (at[d] = 0; at[d] < extents[d]; ++at[d])
        fill(stage, d + 1, at, values);
      return;
    }
    if (reducer == Reducer::none) {
      values.push_back(round_to(Type::f32, naive(stage.value, at)));
      return;
    }
    double best = reducer == Reducer::max || reducer == Reducer::argmax   ? -INFINITY
                  : reducer == Reducer::min || reducer == Reducer::argmin ? INFINITY
                                                                          : 0;
    int64_t place = 0, count = 0;
    reduce(stage, d, at, [&](double value) {
      bool better = (reducer == Reducer::max || reducer == Reducer::argmax) ? value > best : value < best;
      if (reducer == Reducer::sum)
        best += value;
      else if (reducer == Reducer::any)
        best = best != 0 || value != 0;
      else if (better)
        best = value, place = count;
      ++count;
    });
    bool positions = reducer == Reducer::argmax || reducer == Reducer::argmin;
    values.push_back(round_to(Type::f32, positions ? double(place) : best));
  }
  template <class F> void reduce(const Stage &stage, size_t d, std::vector<int64_t> &at, const F &take) const {
    if (d == extents.size())
      return take(naive(stage.value, at));
    for (at[d] = 0; at[d] < extents[d]; ++at[d])
      reduce(stage, d + 1, at, take);
  }

  std::mt19937 random_;
  std::vector<const Tensor *> tensors_;
};

TEST(RandomStages, agree_with_a_recursion_at_every_point) {
  int64_t points = 0, nonzero = 0;
  for (unsigned seed = 0; seed < 3000; ++seed) {
    RandomStage stage(seed);
    int64_t work = 1;
    for (int64_t extent : stage.extents)
      work *= std::max<int64_t>(1, extent);
    if (work > 200'000)
      continue;
    std::vector<double> want = stage.naive();
    ASSERT_EQ(stage.run(stage.inputs).data, want) << "seed " << seed;
    points += int64_t(want.size());
    for (double value : want)
      nonzero += value != 0;
  }
  EXPECT_GT(points, 100'000);
  EXPECT_GT(nonzero, points / 4);
}

} // namespace
} // namespace heddle
