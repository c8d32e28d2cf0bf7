// Walks the loop nest of a prepared stage and executes its instructions run by run. Each instruction is one
// pass over a run of doubles that the compiler vectorises; a product that is summed is never stored.
#include "dsl/check/round.h"
#include "dsl/interp/scalars.h"

#include <algorithm>
#include <cstring>

namespace heddle::interp {
namespace {

int64_t whole_number(double value) {
  constexpr double limit = 0x1p52;
  return int64_t(std::clamp(std::isnan(value) ? 0 : value, -limit, limit));
}

int64_t floor_divide(int64_t a, int64_t b) {
  int64_t quotient = a / b;
  return quotient - ((a % b != 0) && ((a < 0) != (b < 0)));
}

double dot(const double *a, const double *b, int64_t n) {
  double sums[8] = {};
  int64_t i = 0;
  for (; i + 8 <= n; i += 8)
    for (int k = 0; k < 8; ++k)
      sums[k] += a[i + k] * b[i + k];
  for (; i < n; ++i)
    sums[i & 7] += a[i] * b[i];
  return ((sums[0] + sums[4]) + (sums[1] + sums[5])) + ((sums[2] + sums[6]) + (sums[3] + sums[7]));
}

double total(const double *a, int64_t n) {
  double sums[8] = {};
  int64_t i = 0;
  for (; i + 8 <= n; i += 8)
    for (int k = 0; k < 8; ++k)
      sums[k] += a[i + k];
  for (; i < n; ++i)
    sums[i & 7] += a[i];
  return ((sums[0] + sums[4]) + (sums[1] + sums[5])) + ((sums[2] + sums[6]) + (sums[3] + sums[7]));
}

/// The sum of factor * a[i].
double scaled_total(const double *a, double factor, int64_t n) {
  if (std::isfinite(factor))
    return factor * total(a, n);
  double sum = 0; // infinity times each: of one that is 0 it is NaN
  for (int64_t i = 0; i < n; ++i)
    sum += factor * a[i];
  return sum;
}

/// The largest value of the type, which for real numbers is infinite.
double most(Type type) {
  return type == Type::i32 ? 0x1p31 - 1 : type == Type::i8 ? 127 : std::numeric_limits<double>::infinity();
}

/// What a reduction of no terms gives.
double neutral(Reducer reducer, Type type) {
  switch (reducer) {
  case Reducer::prod:
  case Reducer::all:
    return 1;
  case Reducer::max:
  case Reducer::argmax:
    return is_floating(type) ? -most(type) : -most(type) - 1;
  case Reducer::min:
  case Reducer::argmin:
    return most(type);
  default:
    return 0;
  }
}

class Run {
public:
  explicit Run(const StageProgram &program)
      : program_(program), stage_(*program.stage), indices_(program.extents.size()),
        registers_(program.along_lane.size()) {
    for (size_t r = 0; r < registers_.size(); ++r) {
      registers_[r].run = program.along_lane[r];
      registers_[r].own.resize(registers_[r].run ? StageProgram::longest_run : 1);
      registers_[r].at = registers_[r].own.data();
    }
  }

  Result<Array> run() {
    result_.type = stage_.result->type;
    result_.shape.assign(program_.extents.begin(), program_.extents.begin() + stage_.space.size());
    int64_t count = 1;
    strides_.resize(stage_.space.size());
    for (size_t d = stage_.space.size(); d-- > 0;) {
      strides_[d] = count;
      count *= result_.shape[d];
    }
    result_.data.resize(count);
    if (count) {
      execute(0);
      loop(0);
    }
    if (!error_.message.empty())
      return error_;
    return std::move(result_);
  }

private:
  // --- the nest

  void loop(size_t depth) {
    if (int(depth) == program_.first_reduced && stage_.reducer != Reducer::none) {
      accumulate(depth);
      return;
    }
    if (depth == program_.nest.size()) {
      if (stage_.reducer == Reducer::none)
        store(registers_[program_.value]);
      else
        take();
      return;
    }
    iterations(depth);
  }

  void iterations(size_t depth) {
    int index = program_.nest[depth];
    int64_t extent = program_.extents[index];
    int64_t step = index == program_.lane ? StageProgram::longest_run : 1;
    for (int64_t i = 0; i < extent && error_.message.empty(); i += step) {
      indices_[index] = i;
      if (index == program_.lane)
        length_ = std::min(step, extent - i);
      execute(depth + 1);
      if (depth + 1 == program_.nest.size() && stage_.reducer != Reducer::none)
        take();
      else
        loop(depth + 1);
    }
    indices_[index] = 0;
  }

  void accumulate(size_t depth) {
    int64_t n = program_.lane_reduced || program_.lane < 0 ? 1 : length_;
    sums_.assign(n, neutral(stage_.reducer, stage_.value->type));
    bool positions = stage_.reducer == Reducer::argmax || stage_.reducer == Reducer::argmin;
    if (positions)
      places_.assign(n, 0);
    if (depth == program_.nest.size())
      take(); // a reduction over no index has one term
    else
      iterations(depth);
    Register register_of_sums;
    register_of_sums.at = positions ? places_.data() : sums_.data();
    register_of_sums.run = n > 1;
    // The loops inside may have left the lane's index at their own place; the run is that of the space.
    store(register_of_sums);
  }

  /// Adds the value's run to the accumulators.
  void take() {
    if (program_.fused_product) {
      take_product(registers_[program_.product[0]], registers_[program_.product[1]]);
      return;
    }
    const Register &value = registers_[program_.value];
    switch (stage_.reducer) {
    case Reducer::none:
      break;
    case Reducer::sum:
      if (program_.lane_reduced)
        sums_[0] += value.run ? total(value.at, length_) : value.at[0] * double(length_);
      else
        fold([](double a, double b) { return a + b; }, value);
      break;
    case Reducer::prod:
      fold([](double a, double b) { return a * b; }, value);
      break;
    case Reducer::max:
      fold(larger, value);
      break;
    case Reducer::min:
      fold(smaller, value);
      break;
    case Reducer::any:
      fold([](double a, double b) { return double(a != 0 || b != 0); }, value);
      break;
    case Reducer::all:
      fold([](double a, double b) { return double(a != 0 && b != 0); }, value);
      break;
    case Reducer::argmax:
      place([](double best, double here) { return here > best; }, value);
      break;
    case Reducer::argmin:
      place([](double best, double here) { return here < best; }, value);
      break;
    }
  }

  void take_product(const Register &a, const Register &b) {
    if (program_.lane_reduced) {
      if (a.run && b.run)
        sums_[0] += dot(a.at, b.at, length_);
      else
        sums_[0] += a.run   ? scaled_total(a.at, *b.at, length_)
                    : b.run ? scaled_total(b.at, *a.at, length_)
                            : *a.at * *b.at * double(length_);
      return;
    }
    int64_t n = int64_t(sums_.size());
    double *sums = sums_.data();
    const double *x = a.at, *y = b.at;
    if (a.run && b.run)
      for (int64_t i = 0; i < n; ++i)
        sums[i] += x[i] * y[i];
    else if (a.run)
      for (int64_t i = 0; i < n; ++i)
        sums[i] += x[i] * *y;
    else if (b.run)
      for (int64_t i = 0; i < n; ++i)
        sums[i] += *x * y[i];
    else
      for (int64_t i = 0; i < n; ++i)
        sums[i] += *x * *y;
  }

  template <class F> void fold(F f, const Register &value) {
    if (program_.lane_reduced) {
      double sum = sums_[0];
      for (int64_t i = 0; i < length_; ++i)
        sum = f(sum, value.at[value.run ? i : 0]);
      sums_[0] = sum;
      return;
    }
    for (size_t i = 0; i < sums_.size(); ++i)
      sums_[i] = f(sums_[i], value.at[value.run ? i : 0]);
  }

  template <class F> void place(F better, const Register &value) {
    int64_t position = 0;
    for (size_t i = stage_.space.size(); i < indices_.size(); ++i)
      position = position * program_.extents[i] + indices_[i];
    int64_t n = program_.lane_reduced ? length_ : int64_t(sums_.size());
    for (int64_t i = 0; i < n; ++i) {
      int64_t sum = program_.lane_reduced ? 0 : i;
      double here = value.at[value.run ? i : 0];
      if (better(sums_[sum], here)) {
        sums_[sum] = here;
        places_[sum] = double(position + (program_.lane_reduced ? i : 0));
      }
    }
  }

  void store(const Register &value) {
    int64_t at = 0;
    for (size_t d = 0; d < strides_.size(); ++d)
      at += indices_[d] * strides_[d];
    bool along = program_.lane >= 0 && !program_.lane_reduced;
    int64_t n = along ? length_ : 1, stride = along ? strides_[program_.lane] : 1;
    double *out = result_.data.data() + at;
    Type type = result_.type;
    if (!program_.rounds && is_floating(type))
      for (int64_t i = 0; i < n; ++i)
        out[i * stride] = value.at[value.run ? i : 0];
    else if (type == Type::f32)
      for (int64_t i = 0; i < n; ++i)
        out[i * stride] = float(value.at[value.run ? i : 0]);
    else
      for (int64_t i = 0; i < n; ++i)
        out[i * stride] = round_to(type, value.at[value.run ? i : 0]);
  }

  // --- instructions

  void execute(size_t level) {
    for (const Instruction &instruction : program_.levels[level]) {
      Register &out = registers_[instruction.out];
      if (instruction.read >= 0)
        read(program_.reads[instruction.read], out);
      else
        apply(instruction, registers_, instruction.index < 0 ? 0 : indices_[instruction.index], length_);
    }
  }

  void read(const Read &read, Register &out) {
    const double *from = read.from->data.data();
    int64_t n = out.run ? length_ : 1;
    if (read.flat) {
      int64_t at = read.flat_constant;
      for (size_t i = 0; i < indices_.size(); ++i)
        at += read.flat_per_index[i] * indices_[i];
      strided(from, at, out.run ? read.flat_per_index[program_.lane] : 0, 0, n, n, out);
      return;
    }
    int64_t at = 0, stride = 0, first = 0, last = n; // the part of the run that lies inside
    for (size_t d = 0; d < read.at.size(); ++d) {
      const Position &position = read.at[d];
      if (position.gathered)
        continue;
      int64_t extent = read.from->shape[d], here = position.constant;
      for (size_t i = 0; i < indices_.size(); ++i)
        here += position.per_index[i] * indices_[i];
      for (auto [factor, reg] : position.terms)
        here += factor * whole_number(*registers_[reg].at);
      int64_t step = out.run ? position.per_index[program_.lane] : 0;
      if (step == 0) {
        if (here < 0 || here >= extent)
          last = first;
      } else if (step > 0) {
        first = std::max(first, floor_divide(-here + step - 1, step));
        last = std::min(last, floor_divide(extent - here + step - 1, step));
      } else {
        first = std::max(first, floor_divide(here - extent, -step) + 1);
        last = std::min(last, floor_divide(here, -step) + 1);
      }
      at += here * read.strides[d];
      stride += step * read.strides[d];
    }
    first = std::min(first, n); // a run may lie wholly before the tensor
    last = std::clamp(last, first, n);
    if (read.gathered)
      gather(read, at, stride, first, last, n, out);
    else {
      if (read.expr->always_inside && last - first != n)
        outside(read);
      strided(from, at, stride, first, last, n, out);
    }
  }

  /// `at` may point outside the tensor; only elements first to last of the run are touched.
  void strided(const double *from, int64_t at, int64_t stride, int64_t first, int64_t last, int64_t n, Register &out) {
    if (stride == 1 && first == 0 && last == n) {
      out.at = from + at;
      return;
    }
    double *to = out.own.data();
    out.at = to;
    first = std::min(first, n);
    std::fill(to, to + first, 0.0);
    if (stride == 1 && last > first)
      std::memcpy(to + first, from + (at + first), (last - first) * sizeof(double));
    else
      for (int64_t i = first; i < last; ++i)
        to[i] = from[at + i * stride];
    std::fill(to + std::clamp(last, first, n), to + n, 0.0);
  }

  void gather(const Read &read, int64_t at, int64_t stride, int64_t first, int64_t last, int64_t n, Register &out) {
    double *to = out.own.data();
    out.at = to;
    std::fill(to, to + n, 0.0);
    const double *from = read.from->data.data();
    int64_t found = 0;
    for (int64_t i = first; i < last; ++i) {
      int64_t place = at + i * stride;
      bool inside = true;
      for (size_t d = 0; d < read.at.size(); ++d) {
        if (!read.at[d].gathered)
          continue;
        int64_t here = whole_number(registers_[read.at[d].terms[0].reg].at[i]);
        inside &= here >= 0 && here < read.from->shape[d];
        place += here * read.strides[d];
      }
      if (inside) {
        to[i] = from[place];
        ++found;
      }
    }
    if (read.expr->always_inside && found != n)
      outside(read);
  }

  void outside(const Read &read) {
    if (error_.message.empty())
      error_.message = "internal error, please report it: `" + stage_.result->name + "` reads `" +
                       read.expr->tensor->name + "` outside its shape, which the checker had excluded";
  }

  const StageProgram &program_;
  const Stage &stage_;
  std::vector<int64_t> indices_; // the lane's is the start of the run
  int64_t length_ = 1;           // of the run
  std::vector<Register> registers_;
  std::vector<double> sums_, places_;
  std::vector<int64_t> strides_;
  Array result_;
  Error error_;
};

} // namespace

Result<Array> evaluate(const StageProgram &program) { return Run(program).run(); }

} // namespace heddle::interp
