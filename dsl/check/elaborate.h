// Elaborates one program by partial evaluation. What folds is folded, calls are inlined, loops over constants unrolled;
// what is left becomes stages. Works with the classes of context.h, of which each has one job.
//   files.cc, used_files.cc  files, configs, dims, modules, weights
//   settings.cc              the values of configs
//   params.cc                params(…), and params that are updated
//   entries.cc               entries, what they return, what is kept
//   statements.cc            let, =, for, if, return
//   requirements.cc          require
//   defines.cc               y[b, i] = …
//   updates.cc               <-: the place, that it is inside, that no other update has it
//   definitions.cc           index ranges
//   expressions.cc           operators, conditions, whole tensors
//   access.cc                subscripts, proven reads, reductions
//   calls.cc                 functions, signatures, built-ins
//   random.cc, gradients.cc  random and fold, grad
//   unused.cc                warnings about names
//   parts.cc                 functions and modules by themselves, where there is no model
#pragma once

#include "dsl/check/context.h"

namespace heddle::checking {

class Elaborator : Services {
public:
  explicit Elaborator(Context &context) : Services(context), context_(context) {}
  std::unique_ptr<Program> run(const syntax::File &file);
  /// Each function and module of the file by itself, with packs of that rank: what is wrong whatever calls it.
  std::vector<Diagnostic> run_parts(const syntax::File &file, int pack_rank);

private:
  using Tree = syntax::Expr;

  // --- parts.cc
  Entity callers_number(const std::string &name, Span span);
  Entity symbolic(const syntax::Formal &formal, Frame &sizes);
  void check_part(const syntax::Function &f, FileScope *home, Instance *self);

  // --- settings.cc
  Entity setting(const syntax::Setting &setting, Frame &frame);
  void check_settings_known();
  /// `initial`: its default, whose kind it keeps; null: it has none.
  Entity setting_value(const syntax::Setting &setting, const Value &given, const Entity *initial);
  Entity value_entity(const Value &value);

  // --- files.cc
  FileScope *load_with_prelude(const syntax::File &tree);
  FileScope *load(const syntax::File &tree, bool is_prelude);
  FileScope *used_file(const syntax::Name &name);
  void declare_settings(FileScope &file, const syntax::Declaration &d);
  Instance *instantiate(const syntax::Module &module, FileScope *home, std::vector<Entity> args, std::string path,
                        std::vector<std::string> prefixes, Span span);
  /// False where a requirement of the module does not hold for its sizes.
  bool add_members(Instance &instance, const std::vector<syntax::Member> &members, Frame &frame);
  /// Members of which nobody knows whether they are there: what is made of them is no news.
  void add_unknown(Instance &instance, const std::vector<syntax::Member> &members);
  Entity param(Instance &instance, const syntax::Member &m, Frame &frame);
  /// The alternatives for a member's step in the paths of weights: `as "bias_l{LAYER}"` takes a number or string in
  /// scope.
  std::vector<std::string> steps(const syntax::Member &m, Frame &frame);
  Entity sub(Instance &instance, const syntax::Member &m, Frame &frame);
  Entity state(Instance &instance, const syntax::Member &m, Frame &frame);
  /// A requirement outside of entries: false where it is known not to hold.
  bool add_requirement(const Tree &e, const std::string &message, Span span, Frame &frame);
  void warn_unused(const FileScope &file);

  // --- entries.cc
  void add_entry(const syntax::Entry &entry, Instance &model);
  bool add_input(Entry &out, const syntax::Formal &formal, Frame &frame);
  void check_states_set();
  /// Reports a dim that no call can tell.
  void check_callable(const syntax::Entry &entry, const Entry &out);
  void add_requirements(const syntax::Entry &entry, const Entry &out, Frame &frame);
  void add_outputs(Entry &out, const syntax::Entry &entry, Frame &frame);

  // --- statements.cc
  void run(const syntax::Block &block, Frame &frame);
  void run(const syntax::Stmt &s, Frame &frame);
  void bind(const syntax::Stmt &s, const std::vector<syntax::Name> &names, Frame &frame);
  void run_for(const syntax::Stmt &s, Frame &frame);
  std::vector<Entity> turns_of(int64_t first, int64_t count);
  void unroll(const syntax::Stmt &s, const std::vector<Entity> &turns, Frame &frame);
  void keep_loop(const syntax::Stmt &s, const Size &first, const Size &extent, Frame &frame);
  /// `first .. end`: its first value and the number of values.
  std::optional<std::pair<Size, Size>> range(const Tree &first, const Tree &end, Frame &frame);
  void run_when(const syntax::Stmt &s, const Expr *test, Frame &frame);
  std::string difference(const Entity &yes, const Entity &no) const;
  Entity join(const std::string &name, const Expr *test, const Entity &yes, const Entity &no, Span span, Frame &frame);
  void run_require(const syntax::Stmt &s, Frame &frame);

  // --- definitions.cc
  struct Binder {
    std::string name;
    bool pack = false;
    std::vector<int> variables;
    std::vector<std::string> pieces = {}; // of a merged index: their names
  };
  void define(const syntax::Stmt &s, Frame &frame);
  /// Where on the left side a definition stands: the constant places, and the loop that gives the last one.
  struct Slot {
    std::vector<std::optional<int64_t>> places;
    int loop_axis = -1, loop_depth = -1;
    Scope *slices = nullptr;
  };
  bool slot_of(const syntax::Target &target, const Tree &right, Frame &frame, Slot &slot, std::vector<Binder> &binders);
  void put_defined(const syntax::Target &target, const Tensor *tensor, const Slot &slot, Frame &frame);
  /// Reports the names in an expression that mean nothing, where a failure keeps it from being evaluated.
  void check_names(const Tree &e, std::set<std::string> bound, Frame &frame);
  /// The extents over which index (or pack) `name` ranges, from its bare uses in `uses`; reports when there is none.
  std::optional<std::vector<Extent>> inferred(const syntax::Name &name, bool pack,
                                              const std::vector<const Tree *> &uses, Frame &frame);
  void report_no_range(const syntax::Name &name, Frame &frame);
  struct Use {
    std::vector<Extent> extents;
    Span span;
  };
  void bare_uses(const Tree &e, const std::string &name, bool pack, Frame &frame, std::vector<Use> &out);
  std::optional<std::vector<Extent>> shape_of(const Tree &e, Frame &frame);
  std::optional<Binder> bind_index(const syntax::Name &name, bool pack, const std::vector<Extent> &extents,
                                   Frame &frame);
  /// Binds y and x of `n in (y in Y, x in X)`; false after a report.
  bool bind_pieces(const syntax::Place &place, Binder &binder, Frame &frame);
  /// What `in` says: `N`, or the product of the pieces' extents.
  std::optional<Extent> range_of(const syntax::Place &place, Frame &frame);
  void release(const Binder &binder, Frame &frame);

  // --- updates.cc
  struct Written {
    Update update;
    std::vector<LoopIndex> loops; // around it
    /// What is written under which conditions, of which no two hold at once: the arms of an `if` may update one place.
    struct Arm {
      std::vector<Fact> when;
      const Expr *value;
      std::vector<int> variables;
    };
    std::vector<Arm> arms = {};
  };
  void run_update(const syntax::Stmt &s, Frame &frame);
  bool place_of(const syntax::Target &target, const Entity &state, const Tree &right, Frame &frame,
                std::vector<Update::Along> &place, std::vector<Binder> &binders);
  bool inside(const syntax::Place &place, const Entity &state, size_t axis, const Expr *at, const std::string &index);
  bool write(const syntax::Target &target, Written own);
  /// Takes back the update of the same places that another arm of an `if` has made, and returns what it writes.
  std::vector<Written::Arm> other_arms(const Tensor *state, const std::vector<Update::Along> &place,
                                       const std::vector<int> &variables);
  /// The arm whose conditions hold, or `old`: the first `known` conditions of all arms are the same, and hold.
  const Expr *chosen(const std::vector<Written::Arm> &arms, size_t known, const std::function<const Expr *()> &old);
  /// Whether the new value of an `index(N)` state is one; reports where not.
  bool check_range(const Entity &value, const Tensor *state, Span span);
  /// Whether no turn of `a` writes what a turn of `b` does; for one update with itself, what another turn of it does.
  bool disjoint(const Written &a, const Written &b);
  const Expr *with_loops(const Expr *e, const std::vector<const Expr *> &turns);

  // --- expressions.cc
  Entity eval(const Tree &e, Frame &frame);
  const Expr *scalar(const Tree &e, Frame &frame); // null after a report
  const Expr *condition(const Tree &e, Frame &frame);
  std::optional<Size> size(const Tree &e, Frame &frame, const char *what);
  std::optional<Extent> extent(const Tree &e, Frame &frame);
  Entity eval_binary(const Tree &e, Frame &frame);
  Entity eval_condition(const Tree &e, Frame &frame);
  Entity eval_field(const Tree &e, Frame &frame);
  const Expr *arithmetic(const Tree &e, const Expr *a, const Expr *b);
  /// One value per element: brings tensors and scalars to one shape and applies `f` to their elements.
  Entity lift(const Tree &e, const std::vector<Entity> &args,
              const std::function<const Expr *(std::vector<const Expr *>)> &f);
  const Expr *as_scalar(const Entity &e, const Tree &at, Frame &frame);
  bool made_of_numbers(const Entity &e, const Tree &at, Frame &frame); // reports where it is not

  // --- access.cc
  Entity eval_access(const Tree &e, Frame &frame);
  void refuse_subscripts(const Entity &base, const Tree &e, const Frame &frame);
  Entity access_list(const Entity &base, const Tree &e, Frame &frame);
  /// The element of `base` at `at`; where that can lie outside, what `e.outside` says.
  const Expr *read(const Entity &base, const std::vector<const Expr *> &at, const Tree &e, Frame &frame);
  void report_outside(const Entity &base, size_t axis, const Expr *at, const Prover::Outcome &outcome, const Tree &e,
                      bool below);
  const Expr *eval_reduce(const Tree &e, Frame &frame);
  const Expr *neutral(Reducer reducer, Type type);

  // --- calls.cc
  Entity eval_call(const Tree &e, Frame &frame);
  Entity call_builtin(const Tree &e, const ScalarFunction &f, Frame &frame);
  Entity call_function(const Tree &e, const Entity &f, Frame &frame);
  const Expr *builtin(const Tree &e, const ScalarFunction &f, std::vector<const Expr *> args);
  const Expr *indexed(const Tree &e, const Expr *x, const Size &range, Frame &frame);
  Entity cast(const Tree &e, Frame &frame);
  bool bind_formal(const syntax::Formal &formal, Entity arg, const Tree &at, Frame &callee, bool last_round);
  std::optional<Entity> converted(const Entity &e, Type type, const std::string &name, Span span);
  bool check_shape(const std::vector<syntax::Place> &declared, const std::vector<Extent> &actual, Frame &frame,
                   bool may_bind, std::vector<Extent> &named);
  Entity finish_call(const syntax::Function &f, Frame &callee);
  void check_size_names(const syntax::Function &f, FileScope *home, Instance *self);

  // --- gradients.cc
  Entity gradient(const Tree &e, Frame &frame);
  void expand_gradients(Entry &entry);

  // --- params.cc
  /// Whether `e` is a call of the language's own `params`.
  bool is_params(const Tree &e, Frame &frame);
  /// The params of the modules that `params(…)` names, of the module around without any; in the order of their
  /// declaration.
  std::optional<std::vector<Entity>> params_of(const Tree &e, Frame &frame);
  Entity state_of_params(const syntax::Member &m, Frame &frame);
  /// `m[p]` of a state that there is for each param.
  std::optional<Entity> of_param(const Entity &family, const syntax::Name &name,
                                 const std::vector<syntax::Place> &places, Span span, Frame &frame);
  bool become_state(const syntax::Target &target, const Tensor *param);
  void begin_as_weights();
  /// What a session's params begin as.
  std::map<const Tensor *, Weight> updated_params_;

  // --- random.cc
  Entity random(const Tree &e, Frame &frame);
  Entity fold(const Tree &e, Frame &frame);
  /// The two words of a key.
  std::optional<std::vector<const Expr *>> key_of(const Tree &e, const char *call, Frame &frame);

  Context &context_;
  std::deque<FileScope> files_;
  std::deque<syntax::File> trees_;
  std::deque<Instance> instances_;
  std::map<std::string, FileScope *> used_files_;
  std::vector<FileScope *> loading_; // each is used by the one before it
  std::set<const syntax::Function *> size_names_checked_;
  std::vector<std::pair<std::string, std::vector<std::string>>> settings_; // name and keys of every config
  int pack_rank_ = 0;             // of packs, where parts are checked by themselves
  Span reused_;                   // where the last search for a range met the index's name again
  const Tree *guarded_ = nullptr; // a bare use of that name that the same search passed over

  // of the entry at hand
  struct Derivative {
    const Expr *formula; // of the loss, where that is no tensor
    const Tensor *loss, *of, *result;
    std::string loss_name, of_name; // as the author wrote them; of a loop over params none
    Span span;
  };
  std::vector<Derivative> derivatives_; // asked for by this entry
  std::vector<Written> written_;        // updates of this entry so far
};

} // namespace heddle::checking
