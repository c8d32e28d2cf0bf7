// Records, files and kernels that the tests of the tuner share.
#pragma once

#include "compiler/tune/database.h"

#include <filesystem>
#include <string>
#include <unistd.h>

namespace heddle::test {

inline tune::Record record(const std::string &row, double seconds, int64_t size = 128,
                           const tune::Place &place = {"Some CPU, family 6 model 85", "x86-64-v3", 1}) {
  return {place, {"0123456789abcdef", "contraction", {size}, "2: d0 floordiv 16, d1, d0 mod 16", row}, seconds, ""};
}

/// A folder that goes with the test.
class Folder {
public:
  Folder() {
    std::string pattern = std::filesystem::temp_directory_path() / "heddle_tune_XXXXXX";
    path_ = mkdtemp(pattern.data());
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  std::string operator/(const std::string &name) const { return path_ + "/" + name; }

private:
  std::string path_;
};

/// y[m, o] = sum[i](x[m, i] * w[o, i]) of 96 columns and terms.
inline const char *const dense = R"(
func.func private @k(%M: index, %x: tensor<?x96xf32> {heddle.extents = affine_map<(M) -> (M, 96)>}, %w: tensor<96x96xf32>)
    -> (tensor<?x96xf32> {heddle.extents = affine_map<(M) -> (M, 96)>}) {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty(%M) : tensor<?x96xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<?x96xf32>) -> tensor<?x96xf32>
  %p = linalg.generic {indexing_maps = [affine_map<(m, o, i) -> (m, i)>, affine_map<(m, o, i) -> (o, i)>, affine_map<(m, o, i) -> (m, o)>],
                       iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%x, %w : tensor<?x96xf32>, tensor<96x96xf32>) outs(%f : tensor<?x96xf32>) {
  ^bb0(%a: f32, %c: f32, %acc: f32):
    %0 = arith.mulf %a, %c : f32
    %1 = arith.addf %acc, %0 : f32
    linalg.yield %1 : f32
  } -> tensor<?x96xf32>
  return %p : tensor<?x96xf32>
})";

} // namespace heddle::test
