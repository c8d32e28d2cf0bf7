// Philox 4x32-10, a counter-based generator: Salmon, Moraes, Dror & Shaw 2011, "Parallel random numbers: as easy as 1,
// 2, 3". Each key and counter has its four words, whoever asks and when.
#pragma once

#include <array>
#include <cstdint>

namespace heddle {

constexpr uint32_t philox_factors[2] = {0xD2511F53, 0xCD9E8D57};
constexpr uint32_t philox_steps[2] = {0x9E3779B9, 0xBB67AE85}; // the golden ratio; the square root of 3
constexpr int philox_rounds = 10;

inline std::array<uint32_t, 4> philox(const uint32_t *key, const uint32_t *counter) {
  std::array<uint32_t, 4> c = {counter[0], counter[1], counter[2], counter[3]};
  uint32_t k[2] = {key[0], key[1]};
  for (int round = 0; round < philox_rounds; ++round) {
    uint64_t a = uint64_t(philox_factors[0]) * c[0], b = uint64_t(philox_factors[1]) * c[2];
    c = {uint32_t(b >> 32) ^ c[1] ^ k[0], uint32_t(b), uint32_t(a >> 32) ^ c[3] ^ k[1], uint32_t(a)};
    k[0] += philox_steps[0];
    k[1] += philox_steps[1];
  }
  return c;
}

} // namespace heddle
