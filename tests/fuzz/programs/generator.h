// Random programs of the Heddle language, as text: valid by construction, so a refusal by the checker is a find like
// any other. A seed is a program. Every statement is drawn from a list of patterns (statements.cc: definitions,
// reductions, slices …; patterns.cc: products, norms, layers; windows.cc, lookups.cc; weights.cc; tokens.cc;
// sequences.cc: attention, loops, states; places.cc: places that are data) whose formulas come from one typed
// expression generator (expressions.cc). What a program computes over is small, since mistakes of a compiler show at
// sizes around the width of a vector and of a tile.
#pragma once

#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <vector>

namespace heddle::fuzz {

/// A program on one session's calls. The first lines of the text say how to call it:
///   # call B=0 T=1      one call of the first entry with these dims (all of the program), one line each
///   # call next B=0     one of the entry `next`
///   # call B=2 at=-1    and the input `at` (of several numbers: the middle one) is that number
///   # may be refused    for reads that nothing proves (E021, E022, E072); if it is not, they must all be inside
///   # data whole        numbers of inputs and weights: whole ones (compared exactly), or `normal`
///   # target NAME       what to compile for
///   # real bf16         what `real` is; without it f32
std::string generate(uint64_t seed);
/// From this seed on: the program of the rest, with gradients of its results.
constexpr uint64_t with_gradients = uint64_t(1) << 40;

class Generator {
public:
  explicit Generator(uint64_t seed, bool gradients = false);
  std::string program();

private:
  enum Kind { real, whole, boolean, position }; // position: index(N)

  struct Extent {
    std::string text;
    int64_t value; // where it is constant, else -1
    Extent(std::string words = "", int64_t number = -1) : text(std::move(words)), value(number) {}
    bool constant() const { return value >= 0; }
    bool operator==(const Extent &other) const {
      return constant() ? value == other.value : !other.constant() && text == other.text;
    }
    int64_t guess() const { return constant() ? value : 6; }
  };
  struct Variable {
    std::string name;
    Kind kind = real;
    std::vector<Extent> shape;
    Extent below; // position
    int reads = 0;
    bool made = false;   // by a statement of this entry
    bool shared = false; // by all entries
  };
  struct Rows { // a state [batch, room, width]
    std::string name;
    Extent batch, room, width;
  };
  struct Wild { // an input whose numbers each call gives
    std::string entry, input;
    int64_t ordinary; // mostly 0 to that
  };
  struct Index {
    std::string name;
    Extent range;
    int bare = 0, other = 0; // uses as a bare subscript that decide its range; that would contradict it
  };

  // --- chance
  int below(int n) { return int(random_() % uint64_t(n)); }
  bool chance(double p) { return (random_() >> 11) * 0x1p-53 < p; }
  template <class T> T &one_of(std::vector<T> &list) { return list[below(int(list.size()))]; }
  std::string one_of(std::initializer_list<const char *> list) { return list.begin()[below(int(list.size()))]; }

  // --- expressions.cc: formulas over the indices in scope
  std::string number(int depth);
  std::string whole_number(int depth);
  std::string condition(int depth);
  std::string reduction(Kind kind, int depth);
  /// An element of the variable; where an axis can't be proven inside, with an outside value or a test around it.
  std::string read(Variable &from, int depth);
  std::string constant();
  std::string scalar_of(Kind kind, int depth);
  std::string guarded(const std::string &test, const std::string &yes, const std::string &no);
  Variable *variable(Kind kind);
  int64_t points() const;
  Index &bind(const Extent &range);
  /// "i" or "i in N", where nothing else says what the index ranges over.
  std::string binder(const Index &index, bool may_infer = true);

  // --- statements.cc
  void statement();
  void define();
  void reduce_statement();
  void whole_tensor();
  void slice();
  void unrolled_loop();
  void requirement();
  /// `name[i, j] = formula` over these ranges.
  void define_over(const std::string &name, Kind kind, const std::vector<Extent> &ranges, int depth);

  // --- patterns.cc
  void product();
  void norm();
  void layers();
  void position_of_best();
  void call_function();

  // --- windows.cc
  void window();
  void window_module();
  /// `v[ranges] = formula`, with what may follow it; `channel` is the axis of bias and norm.
  void finish(const std::string &formula, const std::vector<std::string> &at, const std::vector<std::string> &ranges,
              const std::vector<Extent> &shape, size_t channel);
  Extent plus(const Extent &e, int64_t n);

  // --- lookups.cc
  void lookup();
  void merge_or_cut();
  void concatenate();

  // --- weights.cc
  void parts_of_weight();
  void product_by_number();

  // --- tokens.cc
  void tokens();
  void long_attention();
  void sliding_attention();

  // --- sequences.cc
  void attention();
  void recurrence();
  void time_loop();
  void choice();
  void declare_states();
  void use_states();
  void update_states();
  void whole_update(const Variable &state);

  // --- places.cc
  void part_of_data();
  void doubtful_reads();
  void declare_store();
  void use_store();
  std::string wild_number(int64_t ordinary);
  int64_t wild_value(int64_t ordinary, bool tame);
  std::string place_in(const Extent &room, const std::string &count, int64_t least_room, const std::string &counter);

  // --- generator.cc: declarations and the frame
  Variable &add(const std::string &name, Kind kind, const std::vector<Extent> &shape, bool made = true);
  /// A value of that kind and shape: one that there is, an input, or a weight where the shape is constant.
  std::string need(Kind kind, const std::vector<Extent> &shape, bool fresh = false, bool may_be_weight = true);
  std::string input(Kind kind, const std::vector<Extent> &shape) { return input(kind, shape, Extent()); }
  std::string input(Kind kind, const std::vector<Extent> &shape, const Extent &below);
  std::string weight(const std::vector<Extent> &shape);
  Extent dim();
  /// A dim of some hundred, in a program that has little along it.
  Extent long_dim(int most);
  Extent fixed(int most = 9);
  Extent any_extent();
  Extent number_extent(int64_t n) { return {std::to_string(n), n}; }
  std::string fresh(const std::string &stem) {
    std::string name = stem + std::to_string(names_++);
    return name == "i8" || name == "i32" || name == "f16" || name == "f32" ? name + "_" : name; // not a type
  }
  void line(const std::string &text);
  static std::string list(const std::vector<Extent> &shape);
  static std::string bracketed(const std::vector<Extent> &shape) {
    return shape.empty() ? "" : "[" + list(shape) + "]";
  }
  static std::string type_name(Kind kind, const Extent &below);
  std::string functions();
  std::string calls();
  bool has_states() const;
  /// An entry's text.
  std::string entry(const std::string &name);
  void add_gradients(std::string &header, std::string &returned);

  /// The type of an input or weight of that kind: sometimes one of other width than the usual.
  std::string width(Kind kind);

  std::mt19937_64 random_, widths_; // widths have their own, so that a program is the same but for them
  bool gradients_ = false;          // each entry gives those of its results, too
  std::vector<Variable> variables_;
  std::vector<Index> indices_;
  std::map<std::string, int64_t> dims_; // with their bounds
  std::vector<std::string> dim_names_, configs_, members_, inputs_, body_;
  std::vector<std::string> states_, updates_; // names of those that are updated whole; updates at the entry's end
  Rows cache_, memory_,
      store_; // states: rows are appended to the first, the second moves on, the third is written anywhere
  std::string cached_, counter_; // states: how many rows the first has; a number that says where in the third
  std::vector<Variable> late_;   // a state without a first value, which the first entry sets and the second reads
  std::vector<Wild> wild_;
  std::string entry_name_;
  bool doubtful_ = false; // some reads are not proven inside, so that the checker may refuse the program
  std::vector<std::pair<std::string, std::string>> long_results_; // names and types, of nothing that others may read
  bool keeps_dims_ = false;                                       // all calls have the same dims
  std::vector<std::string> entry_names_;
  int names_ = 0, indent_ = 2;
  int guards_ = 0; // tests around the formula being made: uses of an index under one decide no range
  int reductions_ = 0;
};

} // namespace heddle::fuzz
