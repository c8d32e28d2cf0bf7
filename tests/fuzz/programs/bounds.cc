// Each stage's expression becomes a list of nodes in the order of their uses, evaluated whole at every point: a read
// outside of its tensor is anything, and a select drops what it does not take.
#include "tests/fuzz/programs/bounds.h"

#include "dsl/check/round.h"

#include <unordered_map>

namespace heddle::fuzz {

namespace {

Box box_of(const Array &array) {
  Box out{array.shape, {}};
  for (double value : array.data)
    out.data.push_back(Interval::point(value));
  return out;
}

int64_t count(const std::vector<int64_t> &shape) {
  int64_t n = 1;
  for (int64_t extent : shape)
    n *= extent;
  return n;
}

/// The element at that point; where the place itself is uncertain, anything in reach.
Interval read(const Box &from, const std::vector<Interval> &at) {
  int64_t flat = 0;
  for (size_t d = 0; d < at.size(); ++d) {
    const Interval &place = at[d];
    if (!place.known() || !place.is_point()) {
      Interval all;
      bool first = true;
      for (const Interval &x : from.data) {
        all = first ? x : hull(all, x);
        first = false;
      }
      return first ? Interval::anything() : all;
    }
    if (place.lo < 0 || place.lo >= double(from.shape[d]))
      return Interval::anything();
    flat = flat * from.shape[d] + int64_t(place.lo);
  }
  return from.data[flat];
}

} // namespace

/// Nodes of an expression, arguments before users, and the numbers of each one's arguments.
struct Bounds::Flat {
  std::vector<const Expr *> nodes;
  std::vector<std::vector<int>> args;
  std::vector<const Box *> sources; // of reads
  std::unordered_map<const Expr *, int> number;

  int add(const Expr *e) {
    if (auto known = number.find(e); known != number.end())
      return known->second;
    std::vector<int> mine;
    for (const Expr *arg : e->args)
      mine.push_back(add(arg));
    nodes.push_back(e);
    args.push_back(std::move(mine));
    return number[e] = int(nodes.size()) - 1;
  }
};

Bounds::Bounds(const Program &program, const WeightSource &weight) : program_(program) {
  for (const Weight &w : program.weights) {
    Array array = weight(w);
    array.shape.clear();
    for (const Size &size : w.tensor->shape)
      array.shape.push_back(size.constant());
    weights_[w.tensor] = box_of(array);
  }
}

std::vector<int64_t> Bounds::extents(const std::vector<Size> &shape) const {
  std::vector<int64_t> out;
  for (const Size &size : shape)
    out.push_back(size.evaluate(dims_));
  return out;
}

/// Weights, states and inputs come into `values_`.
void Bounds::bind(const Entry &entry, const std::vector<int64_t> &dims, const std::map<std::string, Array> &inputs) {
  dims_ = dims;
  updated_.clear();
  values_ = weights_;
  for (const State &state : program_.states) {
    auto known = states_.find(state.tensor);
    if (known != states_.end()) {
      values_[state.tensor] = known->second;
    } else if (state.begins) {
      values_[state.tensor] = weights_.at(state.begins);
    } else {
      Box box{extents(state.tensor->shape), {}};
      box.data.assign(count(box.shape), Interval::point(round_to(state.tensor->type, state.initial.value_or(0))));
      values_[state.tensor] = std::move(box);
    }
  }
  for (const Input &input : entry.inputs) {
    auto given = inputs.find(input.name);
    if (given != inputs.end()) {
      values_[input.tensor] = box_of(given->second);
      continue;
    }
    Box box{extents(input.tensor->shape), {}};
    box.data.assign(count(box.shape), Interval::point(round_to(input.tensor->type, input.initial.value_or(0))));
    values_[input.tensor] = std::move(box);
  }
}

std::vector<std::string> Bounds::broken(const Entry &entry, const std::vector<int64_t> &dims,
                                        const std::map<std::string, Array> &inputs) {
  bind(entry, dims, inputs);
  broken_.clear();
  only_requirements_ = true;
  run(entry.steps);
  only_requirements_ = false;
  return broken_;
}

std::map<std::string, Box> Bounds::run(const Entry &entry, const std::vector<int64_t> &dims,
                                       const std::map<std::string, Array> &inputs) {
  bind(entry, dims, inputs);
  run(entry.steps);
  std::map<std::string, Box> out;
  for (const Output &output : entry.outputs)
    out[output.name] = values_.at(output.tensor);
  for (auto &[state, box] : updated_)
    states_[state] = std::move(box);
  return out;
}

void Bounds::run(const std::vector<Step> &steps) {
  for (const Step &step : steps) {
    if (auto *stage = std::get_if<Stage>(&step.what))
      values_[stage->result] = evaluate(*stage);
    else if (auto *l = std::get_if<Loop>(&step.what))
      loop(*l);
    else if (auto *u = std::get_if<Update>(&step.what); u && !only_requirements_)
      update(*u);
    else if (auto *r = std::get_if<Require>(&step.what))
      require(*r);
  }
}

void Bounds::require(const Require &r) {
  if (!values_.at(r.condition).data[0].certainly())
    broken_.push_back(r.message);
}

void Bounds::loop(const Loop &l) {
  int64_t iterations = l.index.extent.evaluate(dims_);
  for (const auto &carried : l.carried)
    values_[carried.carried] = values_.at(carried.start);
  for (const auto &collected : l.collected) {
    Box &whole = values_[collected.whole];
    whole.shape = extents(collected.whole->shape);
    whole.data.assign(count(whole.shape), Interval::anything());
  }
  loops_.push_back(0);
  for (int64_t iteration = 0; iteration < iterations; ++iteration) {
    loops_.back() = iteration;
    run(l.steps);
    std::vector<Box> next;
    for (const auto &carried : l.carried)
      next.push_back(values_.at(carried.next));
    for (const auto &collected : l.collected) {
      Box &whole = values_.at(collected.whole);
      const Box &slice = values_.at(collected.slice);
      int64_t inner = 1, extent = whole.shape[collected.axis];
      for (size_t d = collected.axis + 1; d < whole.shape.size(); ++d)
        inner *= whole.shape[d];
      for (size_t i = 0; i < slice.data.size(); ++i)
        whole.data[(int64_t(i) / inner * extent + iteration) * inner + int64_t(i) % inner] = slice.data[i];
    }
    for (size_t i = 0; i < next.size(); ++i)
      values_[l.carried[i].carried] = std::move(next[i]);
  }
  loops_.pop_back();
}

void Bounds::update(const Update &u) {
  const Box &from = values_.at(u.value);
  if (u.place.empty()) {
    updated_[u.state] = from;
    return;
  }
  Box &to = updated_.try_emplace(u.state, values_.at(u.state)).first->second;
  std::vector<int64_t> offset, extent, at(u.place.size());
  for (const Update::Along &along : u.place) {
    Interval place = scalar(*along.offset);
    if (!place.known() || !place.is_point()) {
      to.data.assign(to.data.size(), Interval::anything());
      return;
    }
    offset.push_back(int64_t(place.lo));
    extent.push_back(along.in_value ? along.extent.evaluate(dims_) : 1);
  }
  for (const Interval &x : from.data) { // in the order of both, the last dimension first
    int64_t flat = 0;
    for (size_t d = 0; d < at.size(); ++d)
      flat = flat * to.shape[d] + offset[d] + at[d];
    to.data[flat] = x;
    for (size_t d = at.size(); d-- > 0;) {
      if (++at[d] < extent[d])
        break;
      at[d] = 0;
    }
  }
}

Interval Bounds::scalar(const Expr &e) {
  Flat nodes = flat(e);
  std::vector<Interval> results(nodes.nodes.size());
  return value(nodes, {}, results);
}

Bounds::Flat Bounds::flat(const Expr &e) const {
  Flat out;
  out.add(&e);
  for (const Expr *node : out.nodes)
    out.sources.push_back(node->op == Expr::read ? &values_.at(node->tensor) : nullptr);
  return out;
}

Interval Bounds::value(const Flat &flat, const std::vector<int64_t> &at, std::vector<Interval> &results) const {
  std::vector<Interval> args;
  for (size_t i = 0; i < flat.nodes.size(); ++i) {
    const Expr &e = *flat.nodes[i];
    args.clear();
    for (int arg : flat.args[i])
      args.push_back(results[arg]);
    switch (e.op) {
    case Expr::integer:
    case Expr::boolean:
      results[i] = Interval::point(double(e.whole));
      break;
    case Expr::real:
      results[i] = stored(e.type, Interval::point(e.number));
      break;
    case Expr::index:
      results[i] = Interval::point(double(at[e.position]));
      break;
    case Expr::loop_index:
      results[i] = Interval::point(double(loops_[e.position]));
      break;
    case Expr::size:
      results[i] = Interval::point(double(e.extent.evaluate(dims_)));
      break;
    case Expr::read:
      results[i] = read(*flat.sources[i], args);
      break;
    default:
      results[i] = apply(e.op, e.type, e.args[0]->type, args);
    }
  }
  return results.back();
}

Box Bounds::evaluate(const Stage &stage) {
  Flat nodes = flat(*stage.value);
  std::vector<Interval> results(nodes.nodes.size());
  std::vector<int64_t> limits;
  for (const auto *list : {&stage.space, &stage.over})
    for (const Index &index : *list)
      limits.push_back(index.extent.evaluate(dims_));
  std::vector<int64_t> at(limits.size());
  auto advance = [&](size_t begin, size_t end) { // the last index first
    for (size_t d = end; d-- > begin;) {
      if (++at[d] < limits[d])
        return;
      at[d] = 0;
    }
  };

  size_t space = stage.space.size();
  Box out{{limits.begin(), limits.begin() + space}, {}};
  int64_t points = count(out.shape), terms = count({limits.begin() + space, limits.end()});
  std::vector<Interval> list;
  for (int64_t point = 0; point < points; ++point) {
    Interval result;
    if (stage.reducer == Reducer::none) {
      result = value(nodes, at, results);
    } else {
      list.clear();
      for (int64_t term = 0; term < terms; ++term) {
        list.push_back(value(nodes, at, results));
        advance(space, limits.size());
      }
      result = reduce(stage.reducer, stage.value->type, list);
    }
    out.data.push_back(stored(stage.result->type, result));
    advance(0, space);
  }
  return out;
}

} // namespace heddle::fuzz
