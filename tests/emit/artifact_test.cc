// From a planned module to a library that runs: the whole back end on a model small enough to know every number.
#include "compiler/emit/artifact/artifact.h"
#include "compiler/emit/artifact/pack_weights.h"
#include "compiler/emit/host/host.h"
#include "compiler/io/safetensors.h"
#include "tests/emit/tiny_module.h"

#include "runtime/heddle.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <filesystem>
#include <fstream>

using namespace heddle;
namespace fs = std::filesystem;

namespace {

/// Weights of the tiny module: w[n, k] = n - k / 2, b[n] = n.
struct TinyWeights {
  std::vector<float> w, b;
  TinyWeights() {
    for (int n = 0; n < 6; ++n) {
      b.push_back(n);
      for (int k = 0; k < 6; ++k)
        w.push_back(n - k / 2.f);
    }
  }
  static TensorView view(const std::vector<float> &data, std::vector<int64_t> shape) {
    return {DType::f32, std::move(shape), std::as_bytes(std::span(data))};
  }
  void save(const std::string &path) const {
    ASSERT_TRUE(bool(write_safetensors(path, {{"fc.weight", view(w, {6, 6})}, {"fc.bias", view(b, {6})}})));
  }
  std::vector<float> layer(const std::vector<float> &x) const {
    std::vector<float> y(x.size());
    for (size_t m = 0; m < x.size() / 6; ++m)
      for (int n = 0; n < 6; ++n) {
        float sum = b[n];
        for (int k = 0; k < 6; ++k)
          sum += x[m * 6 + k] * w[n * 6 + k];
        y[m * 6 + n] = std::max(sum, 0.f);
      }
    return y;
  }
};

class Artifact : public ::testing::Test {
protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "heddle-test-XXXXXX").string();
    folder = mkdtemp(pattern.data());
  }
  void TearDown() override { fs::remove_all(folder); }

  /// Compiles the tiny module into folder/out.
  void compile(const std::string &text = tiny_module) {
    weights.save(folder + "/w.safetensors");
    auto files = WeightFiles::open(folder + "/w.safetensors");
    ASSERT_TRUE(bool(files)) << files.error().message;
    ASSERT_TRUE(tiny.plan(text));
    auto target = find_target("native");
    ASSERT_TRUE(bool(target));
    Progress progress(Progress::Show::nothing);
    auto report = write_artifact({{{*tiny.module, *target}}, "tiny", &*files, folder + "/out"}, progress);
    ASSERT_TRUE(bool(report)) << report.error().message;
  }

  std::string folder;
  TinyWeights weights;
  ModuleFixture tiny;
};

TEST_F(Artifact, runs_and_gives_the_numbers_computed_by_hand_for_any_batch) {
  compile();
  heddle_model *model = nullptr;
  heddle_session *session = nullptr;
  ASSERT_EQ(heddle_open((folder + "/out").c_str(), nullptr, &model), HEDDLE_OK) << heddle_last_error();
  ASSERT_EQ(heddle_session_create(model, nullptr, &session), HEDDLE_OK) << heddle_last_error();
  for (int64_t batch : {1, 2, 7, 64, 3}) {
    std::vector<float> x(batch * 6), y(batch * 6), same(batch * 6);
    for (size_t i = 0; i < x.size(); ++i)
      x[i] = int(i * 7 % 11) - 5;
    int64_t x_shape[] = {batch, 6}, y_shape[] = {batch, 2, 3};
    heddle_tensor in = heddle_dense("x", HEDDLE_F32, x.data(), 2, x_shape);
    heddle_tensor out[] = {heddle_dense("y", HEDDLE_F32, y.data(), 3, y_shape),
                           heddle_dense("same", HEDDLE_F32, same.data(), 2, x_shape)};
    ASSERT_EQ(heddle_run(session, 0, &in, 1, out, 2), HEDDLE_OK) << heddle_last_error();
    std::vector<float> want = weights.layer(weights.layer(x));
    for (size_t i = 0; i < x.size(); ++i) {
      EXPECT_NEAR(y[i], want[i], 1e-5 * std::abs(want[i])) << "batch " << batch << " element " << i;
      EXPECT_EQ(y[i], same[i]);
    }
  }
  heddle_session_free(session);
  heddle_close(model);
}

TEST_F(Artifact, has_its_files_and_needs_only_the_c_library) {
  compile();
  std::set<std::string> names;
  for (const auto &file : fs::directory_iterator(folder + "/out"))
    names.insert(file.path().filename());
  EXPECT_EQ(names, (std::set<std::string>{"heddle.h", "libtiny.so", "tiny.h", "tiny.json", "tiny.pc", "tiny.weights",
                                          "tiny_model.py"}));
  std::string listing = folder + "/listing", library = folder + "/out/libtiny.so";
  ASSERT_EQ(std::system(("readelf -dW " + library + " > " + listing).c_str()), 0);
  std::ifstream lines(listing);
  for (std::string line; std::getline(lines, line);)
    if (line.find("(NEEDED)") != std::string::npos) {
      std::string name = line.substr(line.find('[') + 1);
      name = name.substr(0, name.find('.'));
      EXPECT_TRUE((std::set<std::string>{"libc", "libm", "libpthread", "libdl", "ld-linux-x86-64"}).count(name))
          << line;
    }
}

TEST_F(Artifact, exports_its_own_names_and_the_table_only) {
  compile();
  std::string listing = folder + "/listing", library = folder + "/out/libtiny.so";
  ASSERT_EQ(std::system(("nm -D --defined-only " + library + " | awk '{print $3}' | sort > " + listing).c_str()), 0);
  std::ifstream file(listing);
  std::string text((std::istreambuf_iterator<char>(file)), {});
  EXPECT_EQ(text, "heddle_api_1\ntiny_apply\ntiny_heddle_api\n");
}

TEST_F(Artifact, serves_a_c_program_that_is_linked_with_it) {
  compile();
  std::ofstream(folder + "/main.c") << R"(
#include "tiny.h"
int main(int count, char **words) {
  heddle_model *model;
  heddle_session *session;
  float x[12] = {1, 2, 3}, y[12], same[12];
  if (tiny_load(words[1], &model) || heddle_session_create(model, NULL, &session)) { puts(heddle_last_error()); return 1; }
  if (tiny_apply(session, 2, x, y, same)) { puts(heddle_last_error()); return 2; }
  if (tiny_apply(session, 65, x, y, same) == HEDDLE_OK) return 3;
  puts(heddle_last_error());
  heddle_session_free(session);
  return heddle_close(model);
}
)";
  std::string out = folder + "/out";
  std::string build = "clang-22 -Wall -Werror -std=c11 " + folder + "/main.c -I" + out + " -L" + out +
                      " -ltiny -Wl,-rpath," + out + " -o " + folder + "/main";
  ASSERT_EQ(std::system(build.c_str()), 0);
  EXPECT_EQ(std::system((folder + "/main " + out + "/tiny.weights > " + folder + "/said").c_str()), 0);
  std::ifstream said(folder + "/said");
  std::string line;
  std::getline(said, line);
  EXPECT_NE(line.find("64"), std::string::npos) << line;
}

TEST_F(Artifact, tensors_of_more_than_2_to_the_31_elements_are_refused_and_smaller_ones_sized) {
  std::string unbounded = tiny_module;
  std::string bound = ", most = 64 : i64";
  unbounded.erase(unbounded.find(bound), bound.size());
  compile(unbounded);
  heddle_model *model = nullptr;
  ASSERT_EQ(heddle_open((folder + "/out").c_str(), nullptr, &model), HEDDLE_OK) << heddle_last_error();
  int64_t bytes = 0, most = INT32_MAX / 6;
  for (int64_t batch : {int64_t(0), int64_t(1), int64_t(3), most}) {
    ASSERT_EQ(heddle_memory_needed(model, 0, &batch, &bytes), HEDDLE_OK) << heddle_last_error();
    EXPECT_EQ(bytes, (batch * 24 + 63) / 64 * 64) << batch; // one slot: the value between the two layers
  }
  for (int64_t batch : {most + 1, int64_t(INT32_MAX), int64_t(INT32_MAX) + 1, INT64_MAX / 6, INT64_MAX})
    EXPECT_NE(heddle_memory_needed(model, 0, &batch, &bytes), HEDDLE_OK) << batch;
  heddle_close(model);
}

TEST_F(Artifact, panels_are_zero_filled_past_the_last_row) {
  compile();
  std::ifstream file(folder + "/out/tiny.weights", std::ios::binary);
  std::string bytes((std::istreambuf_iterator<char>(file)), {});
  // w is [6, 6] in panels of 4 rows: 2 panels of 6 columns of 4; then b at the next multiple of 64 bytes.
  ASSERT_EQ(bytes.size(), 4096u + 192 + 64);
  const float *packed = reinterpret_cast<const float *>(bytes.data() + 4096);
  for (int panel = 0; panel < 2; ++panel)
    for (int k = 0; k < 6; ++k)
      for (int j = 0; j < 4; ++j) {
        int n = panel * 4 + j;
        EXPECT_EQ(packed[(panel * 6 + k) * 4 + j], n < 6 ? weights.w[n * 6 + k] : 0.f);
      }
  EXPECT_EQ(packed[48 + 3], 3.f);
}

TEST_F(Artifact, library_manifest_and_weights_have_the_number_of_their_compilation) {
  auto build = [&](const std::string &text) {
    compile(text);
    heddle_model *model = nullptr;
    EXPECT_EQ(heddle_open((folder + "/out").c_str(), nullptr, &model), HEDDLE_OK) << heddle_last_error();
    heddle_model_info info = HEDDLE_INIT(heddle_model_info);
    EXPECT_EQ(heddle_model_describe(model, &info), HEDDLE_OK);
    std::ifstream file(folder + "/out/tiny.json");
    char number[32];
    std::snprintf(number, sizeof number, "%016llx", (unsigned long long)info.build);
    EXPECT_EQ(nlohmann::json::parse(file)["build"], number);
    heddle_close(model);
    return info.build;
  };
  std::string other = tiny_module, sum = "%sum = arith.addf %u, %v : f32\n      %relu";
  ASSERT_NE(other.find(sum), std::string::npos);
  other.replace(other.find(sum), sum.size(), "%sum = arith.subf %u, %v : f32\n      %relu");
  uint64_t first = build(tiny_module);
  fs::copy_file(folder + "/out/tiny.weights", folder + "/first.weights");
  EXPECT_NE(first, 0u);
  weights.b[3] = 17; // values are no code
  EXPECT_EQ(build(tiny_module), first);
  EXPECT_NE(build(other), first);

  heddle_model_options options = HEDDLE_INIT(heddle_model_options);
  std::string stale = folder + "/first.weights";
  options.weights = stale.c_str();
  heddle_model *model = nullptr;
  EXPECT_EQ(heddle_open((folder + "/out").c_str(), &options, &model), HEDDLE_BAD_WEIGHTS);
  EXPECT_TRUE(std::string(heddle_last_error())
                  .starts_with(stale + " comes from another compilation of 'tiny' than the "
                                       "library (build "))
      << heddle_last_error();
}

TEST_F(Artifact, half_precision_weights_become_f32) {
  std::vector<uint16_t> w(36), b(6);
  for (int i = 0; i < 36; ++i) {
    uint32_t bits = std::bit_cast<uint32_t>(weights.w[i]);
    w[i] = bits >> 16; // exact: these values have few digits
  }
  for (int i = 0; i < 6; ++i)
    b[i] = std::bit_cast<uint32_t>(weights.b[i]) >> 16;
  auto view = [](const std::vector<uint16_t> &data, std::vector<int64_t> shape) {
    return TensorView{DType::bf16, std::move(shape), std::as_bytes(std::span(data))};
  };
  std::string path = folder + "/w.safetensors";
  ASSERT_TRUE(bool(write_safetensors(path, {{"fc.weight", view(w, {6, 6})}, {"fc.bias", view(b, {6})}})));
  auto files = WeightFiles::open(path);
  ASSERT_TRUE(bool(files));
  ASSERT_TRUE(tiny.parse(tiny_module));
  std::vector<TargetModule> modules = {{*tiny.module, *find_target("x86-64-v3")}};
  std::vector<WeightsLayout> layouts = lay_out_weights(modules, "tiny");
  Progress progress(Progress::Show::nothing);
  std::vector<std::byte> bytes(packed_bytes(layouts.front()));
  ASSERT_TRUE(pack_weights(modules, layouts, &*files, bytes, progress));
  const float *packed = reinterpret_cast<const float *>(bytes.data() + 4096);
  EXPECT_EQ(packed[0 * 4 + 1], weights.w[1 * 6 + 0]);
  EXPECT_EQ(packed[5 * 4 + 3], weights.w[3 * 6 + 5]);
}

} // namespace
