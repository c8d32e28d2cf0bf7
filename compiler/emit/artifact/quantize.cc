// A run is what lies along the last axis: its floats are of one channel, or of one each in order.
#include "compiler/emit/artifact/quantize.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace heddle {

template <class Row> void Quantization::for_each_run(int64_t begin, int64_t end, Row &&row) const {
  std::vector<float> floats(last_);
  for (int64_t run = begin / last_; run * last_ < end; ++run) {
    int64_t channel = 0;
    for (int64_t axis = int64_t(shape_.size()) - 2, rest = run; axis >= 0; rest /= shape_[axis--])
      channel += rest % shape_[axis] * step_[axis];
    read_(run * last_, floats);
    row(run * last_, std::span<const float>(floats), channel, step_.empty() ? 0 : step_.back());
  }
}

static int8_t quantized(float value, float scale) {
  float whole = std::nearbyint(value / scale);
  return whole >= 127 ? 127 : whole <= -127 ? -127 : whole == whole ? int8_t(whole) : 0; // NaN has no number
}

Quantization::Quantization(ir::DerivedAttr derived, ReadFloats read)
    : read_(std::move(read)), shape_(derived.getShape()), step_(shape_.size(), 0) {
  last_ = shape_.empty() ? 1 : shape_.back();
  int64_t channels = 1, elements = 1;
  for (size_t i = derived.getChannels().size(); i-- > 0; channels *= shape_[derived.getChannels()[i]])
    step_[derived.getChannels()[i]] = channels;
  for (int64_t extent : shape_)
    elements *= extent;
  scales_.assign(channels, 0);
  sums_.assign(channels, 0);
  for_each_run(0, elements, [&](int64_t, std::span<const float> floats, int64_t channel, int64_t step) {
    for (size_t i = 0; i < floats.size(); ++i)
      if (float &scale = scales_[channel + i * step], magnitude = std::fabs(floats[i]); !(magnitude <= scale))
        scale = scale == scale ? magnitude : scale; // once NaN, always NaN: it has no number, and must not be lost
  });
  for (float &scale : scales_)
    scale /= 127;
  if (derived.getPairSum())
    hold_pairs(derived, elements);
  for (float &scale : scales_)
    scale = scale == 0 ? 1 : scale;
  for_each_run(0, elements, [&](int64_t, std::span<const float> floats, int64_t channel, int64_t step) {
    for (size_t i = 0; i < floats.size(); ++i)
      sums_[channel + i * step] += quantized(floats[i], scales_[channel + i * step]);
  });
}

void Quantization::hold_pairs(ir::DerivedAttr derived, int64_t elements) {
  std::vector<bool> summed(shape_.size(), true);
  for (int64_t axis : derived.getChannels())
    summed[axis] = false;
  // Elements with odd numbers along an axis of `extent`, or along several that follow one another taken as one, and
  // those `apart` before them.
  struct Pairs {
    int64_t apart, extent;
  };
  std::vector<Pairs> all;
  int64_t farthest = last_;
  for (int64_t axis = int64_t(shape_.size()) - 1, apart = 1; axis >= 0; apart *= shape_[axis--]) {
    if (summed[axis])
      farthest = std::max(farthest, apart);
    for (int64_t outer = axis, extent = 1; outer >= 0 && summed[outer]; --outer)
      all.push_back({apart, extent *= shape_[outer]});
  }
  const float half_of_most = float(derived.getPairSum() - 1) / 2; // halves: a sum may be beyond the range of f32
  std::vector<float> before(farthest); // those that were read last, each at its number modulo that
  for_each_run(0, elements, [&](int64_t first, std::span<const float> floats, int64_t channel, int64_t step) {
    auto hold = [&](size_t i, float other) {
      float &scale = scales_[channel + int64_t(i) * step];
      if (float least = std::fabs(floats[i] / 2 + other / 2) / half_of_most; least > scale)
        scale = least;
    };
    for (const Pairs &pairs : all)
      if (pairs.apart >= last_) {
        if (first / pairs.apart % pairs.extent % 2 == 1)
          for (size_t i = 0; i < floats.size(); ++i)
            hold(i, before[(first - pairs.apart) % farthest + i]);
      } else { // within a run, and with the last one of the run before
        bool odd = first % pairs.extent % 2 == 1;
        if (odd)
          hold(0, before[(first - 1) % farthest]);
        for (size_t i = odd ? 2 : 1; i < floats.size(); i += 2)
          hold(i, floats[i - 1]);
      }
    std::ranges::copy(floats, before.begin() + first % farthest);
  });
}

void Quantization::read(ir::Derivation what, int64_t begin, std::span<std::byte> out) const {
  if (what == ir::Derivation::scales)
    return void(std::memcpy(out.data(), scales_.data() + begin, out.size()));
  if (what == ir::Derivation::sums)
    return void(std::memcpy(out.data(), sums_.data() + begin, out.size()));
  int64_t end = begin + int64_t(out.size());
  for_each_run(begin, end, [&](int64_t first, std::span<const float> floats, int64_t channel, int64_t step) {
    int64_t from = std::max(begin - first, int64_t(0)), to = std::min<int64_t>(end - first, floats.size());
    for (int64_t i = from; i < to; ++i)
      out[first + i - begin] = std::byte(quantized(floats[i], scales_[channel + i * step]));
  });
}

} // namespace heddle
