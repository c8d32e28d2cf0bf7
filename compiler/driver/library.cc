// Every message is the library's own (heddle_last_error), which names entry, input and numbers.
#include "compiler/driver/library.h"

#include "compiler/io/input.h"
#include "runtime/heddle.h"

#include "llvm/ADT/StringExtras.h"

#include <cstring>
#include <filesystem>

namespace heddle {

namespace fs = std::filesystem;

static Error last_error() { return Error{heddle_last_error()}; }

static constexpr DType dtypes[] = {DType::f32, DType::bf16,    DType::f16, DType::i8,
                                   DType::i32, DType::boolean, DType::i64, DType::u8}; // by heddle_dtype

static int heddle_dtype_of(DType dtype) {
  for (int i = 0; i < int(std::size(dtypes)); ++i)
    if (dtypes[i] == dtype)
      return i;
  return -1; // f64: no library takes it
}

/// The names of all lib<name>.so in the folder.
static std::vector<std::string> library_names(const std::string &folder) {
  std::vector<std::string> out;
  std::error_code failed;
  for (fs::directory_iterator at(folder, failed), end; !failed && at != end; at.increment(failed)) {
    std::string name = at->path().filename().string();
    if (name.size() > 6 && name.starts_with("lib") && name.ends_with(".so"))
      out.push_back(name.substr(3, name.size() - 6));
  }
  return out;
}

bool is_artifact(const std::string &path) { return !library_names(path).empty(); }

std::string why_no_artifact(const std::string &path, const std::string &otherwise) {
  std::error_code failed;
  for (fs::directory_iterator at(path, failed), end; !failed && at != end; at.increment(failed)) {
    std::string name = at->path().stem().string(), kind = at->path().extension().string();
    if (kind == ".a" && name.starts_with("lib"))
      name = name.substr(3);
    if ((kind == ".a" || kind == ".o") && fs::exists(fs::path(path) / (name + ".json"), failed))
      return path + ": holds no shared library, only what other programs link; compile with --emit so," +
             kind.substr(1);
  }
  return path + (failed == std::errc::permission_denied ? ": cannot read: " + failed.message() : otherwise);
}

Result<std::string> manifest_path(const std::string &folder) {
  std::vector<std::string> names = library_names(folder);
  if (names.size() != 1)
    return Error{folder + (names.empty() ? ": holds no lib*.so" : ": holds several lib*.so; give a folder with one")};
  return folder + "/" + names[0] + ".json";
}

Result<Library> Library::open(const std::string &path, int threads, const std::string &target, bool alone) {
  heddle_model *model = nullptr;
  heddle_model_options how = HEDDLE_INIT(heddle_model_options);
  how.target = target.empty() ? nullptr : target.c_str();
  if (heddle_open(path.c_str(), &how, &model) != HEDDLE_OK)
    return last_error();
  for (const std::string &name : library_names(path))
    for (const std::string &file : {"lib" + name + ".so", name + ".weights", name + ".json", name + ".h"})
      note_input(path + "/" + file);
  Library out;
  out.path_ = path;
  out.model_ = {model, [](heddle_model *m) { heddle_close(m); }};
  heddle_session_options options = HEDDLE_INIT(heddle_session_options);
  options.threads = threads;
  heddle_threads caller = {reinterpret_cast<void *>(intptr_t(threads)),
                           [](void *context) { return int32_t(reinterpret_cast<intptr_t>(context)); },
                           [](void *, int32_t count, void (*task)(void *data, int32_t index), void *data) {
                             for (int32_t i = 0; i < count; ++i)
                               task(data, i);
                           },
                           nullptr};
  if (alone)
    options.custom = &caller;
  heddle_session *session = nullptr;
  if (heddle_session_create(model, &options, &session) != HEDDLE_OK)
    return last_error();
  // A session goes before its model.
  out.session_ = {session, [keep = out.model_](heddle_session *s) { heddle_session_free(s); }};
  heddle_model_info info = HEDDLE_INIT(heddle_model_info);
  if (heddle_model_describe(model, &info) != HEDDLE_OK)
    return last_error();
  for (int i = 0; i < info.n_dims; ++i) {
    heddle_dim_info dim = HEDDLE_INIT(heddle_dim_info);
    if (heddle_dim_describe(model, i, &dim) != HEDDLE_OK)
      return last_error();
    out.dims_.push_back({dim.name, dim.most});
  }
  return out;
}

static heddle_model_info describe(heddle_model *model) {
  heddle_model_info info = HEDDLE_INIT(heddle_model_info);
  heddle_model_describe(model, &info);
  return info;
}
std::string Library::name() const { return describe(model_.get()).name; }
std::string Library::target() const { return describe(model_.get()).target; }
int Library::threads() const {
  int32_t threads = 0;
  heddle_session_threads(session_.get(), &threads);
  return threads;
}

Status Library::verify() const {
  return heddle_model_verify(model_.get()) == HEDDLE_OK ? Status(Done{}) : Status(last_error());
}

bool Library::is_described_by(const Manifest &manifest) const {
  auto same = [](const auto &names, int count, auto describe) { // count and names of what `describe` fills in
    bool equal = int(names.size()) == count;
    for (int i = 0; equal && i < count; ++i)
      equal = names[i] == describe(i);
    return equal;
  };
  heddle_model_info model = describe(model_.get());
  bool equal = manifest.name == model.name &&
               manifest.build == llvm::utohexstr(model.build, /*LowerCase=*/true, /*Width=*/16) &&
               same(manifest.dims, model.n_dims, [&](int i) { return dims_[i].name; }) &&
               int(manifest.entries.size()) == model.n_entries;
  for (int number = 0; equal && number < model.n_entries; ++number) {
    const Manifest::Entry &entry = manifest.entries[number];
    heddle_entry_info info = HEDDLE_INIT(heddle_entry_info);
    heddle_value_info value = HEDDLE_INIT(heddle_value_info);
    equal = heddle_entry_describe(model_.get(), number, &info) == HEDDLE_OK && entry.name == info.name &&
            same(entry.inputs, info.n_inputs,
                 [&](int i) {
                   heddle_input_describe(model_.get(), number, i, &value);
                   return std::string_view(value.name);
                 }) &&
            same(entry.results, info.n_results, [&](int i) {
              heddle_result_describe(model_.get(), number, i, &value);
              return std::string_view(value.name);
            });
  }
  return equal;
}

Result<std::optional<Manifest>> Library::manifest() const {
  auto path = manifest_path(path_);
  std::error_code ignored;
  if (!path || !fs::exists(*path, ignored))
    return std::optional<Manifest>();
  auto out = read_manifest(*path);
  if (!out)
    return out.error();
  if (!is_described_by(*out))
    return Error{*path + ": describes another library than lib" + name() + ".so; compile the model again"};
  return std::optional(std::move(*out));
}

Result<int> Library::entry(const std::string &name) const {
  int32_t number = 0;
  if (heddle_entry_find(model_.get(), name.empty() ? nullptr : name.c_str(), &number) != HEDDLE_OK)
    return last_error();
  return int(number);
}

Result<std::vector<Library::Value>> Library::inputs(int entry) const {
  heddle_entry_info info = HEDDLE_INIT(heddle_entry_info);
  if (heddle_entry_describe(model_.get(), entry, &info) != HEDDLE_OK)
    return last_error();
  std::vector<Value> out;
  for (int i = 0; i < info.n_inputs; ++i) {
    heddle_value_info input = HEDDLE_INIT(heddle_value_info);
    if (heddle_input_describe(model_.get(), entry, i, &input) != HEDDLE_OK)
      return last_error();
    Value value{.name = input.name, .dtype = dtypes[input.dtype], .dims = {}, .fixed = {}};
    for (int axis = 0; axis < input.rank; ++axis) {
      value.dims.push_back(input.extents[axis].dim);
      value.fixed.push_back(input.extents[axis].value);
    }
    value.optional = input.optional;
    if (input.has_below && input.below.dim == HEDDLE_FIXED)
      value.below = input.below.value;
    out.push_back(std::move(value));
  }
  return out;
}

static Result<heddle_tensor> as_heddle(const std::string &name, const HostTensor &tensor) {
  int dtype = heddle_dtype_of(tensor.dtype);
  if (dtype < 0)
    return Error{"input `" + name + "` is " + std::string(dtype_name(tensor.dtype)) +
                 "; no library takes that, save it as F32"};
  if (tensor.shape.size() > HEDDLE_RANK)
    return Error{"input `" + name + "` has rank " + std::to_string(tensor.shape.size()) + "; at most " +
                 std::to_string(HEDDLE_RANK) + " is possible"};
  void *data = const_cast<std::byte *>(tensor.bytes.data()); // inputs are only read
  return heddle_dense(name.c_str(), heddle_dtype(dtype), data, tensor.shape.size(), tensor.shape.data());
}

static Result<std::vector<heddle_tensor>> as_heddle(const TensorMap &tensors) {
  std::vector<heddle_tensor> out;
  for (const auto &[name, tensor] : tensors) {
    auto converted = as_heddle(name, tensor);
    if (!converted)
      return converted.error();
    out.push_back(*converted);
  }
  return out;
}

void Library::observe(std::function<void(const char *, bool)> observer) {
  if (!observer) {
    heddle_session_observe(session_.get(), nullptr, nullptr);
    return;
  }
  observer_ = std::make_shared<std::function<void(const char *, bool)>>(std::move(observer));
  heddle_session_observe(
      session_.get(),
      [](void *context, const char *kernel, int32_t begins) {
        (*static_cast<std::function<void(const char *, bool)> *>(context))(kernel, begins);
      },
      observer_.get());
}

void Library::observe_tasks(std::function<void(int, bool)> observer) {
  if (!observer) {
    heddle_session_observe_tasks(session_.get(), nullptr, nullptr);
    return;
  }
  task_observer_ = std::make_shared<std::function<void(int, bool)>>(std::move(observer));
  heddle_session_observe_tasks(
      session_.get(),
      [](void *context, int32_t, int32_t task, int32_t begins) {
        (*static_cast<std::function<void(int, bool)> *>(context))(task, begins);
      },
      task_observer_.get());
}

/// Gives a tensor that only has a shape room in `results`.
static void make_room(heddle_tensor &tensor, const char *name, TensorMap &results) {
  HostTensor result{dtypes[tensor.dtype], {tensor.shape, tensor.shape + tensor.rank}, {}};
  result.bytes.resize(result.view().count() * byte_width(result.dtype));
  tensor.data = results.emplace(name, std::move(result)).first->second.bytes.data();
}

Result<TensorMap> Library::run(int entry, const TensorMap &inputs) const {
  auto in = as_heddle(inputs);
  if (!in)
    return in.error();
  heddle_entry_info info = HEDDLE_INIT(heddle_entry_info);
  if (heddle_entry_describe(model_.get(), entry, &info) != HEDDLE_OK)
    return last_error();
  std::vector<heddle_tensor> shapes(info.n_results);
  if (heddle_session_result_shapes(session_.get(), entry, in->data(), in->size(), shapes.data(), shapes.size()))
    return last_error();
  TensorMap results;
  for (heddle_tensor &shape : shapes)
    make_room(shape, shape.name, results);
  if (Status ran = run_into(entry, inputs, results); !ran)
    return ran.error();
  return results;
}

static heddle_generate_options options_of(const Library::Generation &how, std::vector<heddle_token> &tokens) {
  for (const auto &[name, id] : how.tokens)
    tokens.push_back({name.c_str(), id});
  heddle_generate_options out = heddle_generate_defaults(how.steps);
  out.min_steps = how.min_steps;
  out.beams = how.beams;
  out.flags = how.sample ? HEDDLE_SAMPLE : 0;
  out.length_penalty = how.length_penalty;
  out.early_stopping = how.early_stopping == "true"    ? HEDDLE_STOP_WHEN_FULL
                       : how.early_stopping == "never" ? HEDDLE_STOP_NEVER
                                                       : HEDDLE_STOP_WHEN_WORSE;
  out.temperature = how.temperature;
  out.top_k = how.top_k;
  out.top_p = how.top_p;
  out.seed = how.seed;
  out.tokens = tokens.data();
  out.n_tokens = tokens.size();
  return out;
}

Result<TensorMap> Library::generate(const TensorMap &inputs, const Generation &how) const {
  auto in = as_heddle(inputs);
  if (!in)
    return in.error();
  std::vector<heddle_token> tokens;
  heddle_generate_options options = options_of(how, tokens);
  heddle_tensor sequences = {}, scores = {};
  int64_t length = 0;
  auto call = [&](const heddle_tensor *score) {
    return heddle_generate(session_.get(), &options, in->data(), in->size(), &sequences, &length, score) == HEDDLE_OK;
  };
  if (!call(nullptr))
    return last_error();
  TensorMap results;
  make_room(sequences, "sequences", results);
  scores = heddle_dense("scores", HEDDLE_F32, nullptr, 1, sequences.shape);
  make_room(scores, "scores", results);
  if (!call(&scores))
    return last_error();
  HostTensor &texts = results["sequences"]; // the columns that no text reached are cut off
  size_t row = texts.shape[1] * sizeof(int64_t), kept = length * sizeof(int64_t);
  for (int64_t i = 0; i < texts.shape[0]; ++i)
    std::memmove(texts.bytes.data() + i * kept, texts.bytes.data() + i * row, kept);
  texts.shape[1] = length;
  texts.bytes.resize(texts.shape[0] * kept);
  return results;
}

Result<TensorMap> Library::score(const TensorMap &inputs, const Generation &how) const {
  TensorMap given = inputs;
  auto labels = given.extract("labels");
  auto in = as_heddle(given);
  if (!in)
    return in.error();
  Result<std::vector<heddle_tensor>> label = std::vector<heddle_tensor>();
  TensorMap label_map;
  if (labels) {
    label_map.insert(std::move(labels));
    label = as_heddle(label_map);
    if (!label)
      return label.error();
  }
  std::vector<heddle_token> tokens;
  heddle_generate_options options = options_of(how, tokens);
  heddle_tensor out = {};
  auto call = [&] {
    return heddle_score(session_.get(), &options, in->data(), in->size(), label->empty() ? nullptr : label->data(),
                        &out) == HEDDLE_OK;
  };
  if (!call())
    return last_error();
  TensorMap results;
  make_room(out, "log_probabilities", results);
  if (!call())
    return last_error();
  return results;
}

Status Library::run_into(int entry, const TensorMap &inputs, TensorMap &results) const {
  auto in = as_heddle(inputs), out = as_heddle(results);
  if (!in)
    return in.error();
  if (!out)
    return out.error();
  if (heddle_run(session_.get(), entry, in->data(), in->size(), out->data(), out->size()) != HEDDLE_OK)
    return last_error();
  return Done{};
}

bool Library::keeps_state() const { return describe(model_.get()).n_states > 0; }

Result<std::vector<std::byte>> Library::save() const {
  size_t bytes = 0;
  if (heddle_session_save(session_.get(), nullptr, 0, &bytes) != HEDDLE_OK)
    return last_error();
  std::vector<std::byte> out(bytes);
  if (heddle_session_save(session_.get(), out.data(), out.size(), &bytes) != HEDDLE_OK)
    return last_error();
  return out;
}

Status Library::restore(const std::vector<std::byte> &state) const {
  if (heddle_session_restore(session_.get(), state.data(), state.size()) != HEDDLE_OK)
    return last_error();
  return Done{};
}

} // namespace heddle
