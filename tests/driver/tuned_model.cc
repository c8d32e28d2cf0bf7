// Libraries that a search compares: their entries can be called again and again, whatever they keep.
#include "compiler/driver/tuned_model.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace heddle::test {

namespace {

/// Its cache has room for one call of `step`; `last` wants one before it.
constexpr const char *cache = R"(
dim N

model Cache {
  state kept: real[N] = 0
  state seen: i32 = 0
  entry last(n: i32[N] = 0) -> y: real[N] {
    require seen > 0 else "nothing is kept"
    y[i in N] = kept[i] + n[i]
    return y
  }
  entry step(x: real[N]) -> y: real[N] {
    require seen < 1 else "the cache is full"
    y[i in N] = kept[i] + x[i]
    kept[i] <- y[i]
    seen <- seen + 1
    return y
  }
}
)";

struct Folder {
  std::filesystem::path path = std::filesystem::temp_directory_path() / ("heddle-driver-" + std::to_string(getpid()));
  Folder() { std::filesystem::create_directories(path); }
  ~Folder() { std::filesystem::remove_all(path); }
};

TEST(TrialLibrary, a_call_finds_what_the_first_one_found) {
  Folder folder;
  std::ofstream(folder.path / "cache.heddle") << cache;
  ModelOptions options;
  options.path = folder.path / "cache.heddle";
  auto model = load_model(options);
  ASSERT_TRUE(model) << model.error().message;
  CompileOptions compiled;
  compiled.db = "none";
  auto goal = find_compile_goal(compiled);
  ASSERT_TRUE(goal) << goal.error().message;
  std::vector<TrialLibrary> made;
  for (int i = 0; i < 2; ++i) {
    auto library = TrialLibrary::make(*model, *goal, {{"N", 100}}, 1);
    ASSERT_TRUE(library) << library.error().message;
    EXPECT_EQ(library->entries(), (std::vector<int>{1, 0}));
    made.push_back(std::move(*library));
  }
  auto compared = compare_in_turns(made[0], made[1], 0.05);
  ASSERT_TRUE(compared) << compared.error().message;
  EXPECT_GE(compared->rounds, 3);
}

} // namespace

} // namespace heddle::test
