// Windows that slide along one or two axes: convolutions with strides, dilation, padding and groups, in either layout,
// transposed ones, pools; with what follows them in networks. Nothing is proven about a padded read, so it says what
// lies outside; without padding it is inside by construction.
#include "tests/fuzz/programs/generator.h"

#include <algorithm>

namespace heddle::fuzz {

namespace {

struct Slide {
  int size, stride, dilation, padding;
  int reach() const { return dilation * (size - 1) + 1 - 2 * padding; }
};

std::string times(int factor, const std::string &index) {
  return factor == 1 ? index : std::to_string(factor) + " * " + index;
}
std::string shifted(const std::string &text, int by) {
  return by == 0 ? text : text + (by < 0 ? " - " : " + ") + std::to_string(std::abs(by));
}

} // namespace

Generator::Extent Generator::plus(const Extent &e, int64_t n) {
  return e.constant() ? number_extent(e.value + n) : Extent{shifted(e.text, int(n))};
}

/// What networks put behind a convolution: bias, a norm with fixed statistics, a residual, an activation.
void Generator::finish(const std::string &formula, const std::vector<std::string> &at,
                       const std::vector<std::string> &ranges, const std::vector<Extent> &shape, size_t channel) {
  auto joined = [](const std::vector<std::string> &words) {
    std::string out;
    for (const std::string &word : words)
      out += (out.empty() ? "" : ", ") + word;
    return "[" + out + "]";
  };
  std::string name = fresh("v"), text = formula, o = "[" + at[channel] + "]";
  const std::vector<Extent> each{shape[channel]};
  if (chance(0.4)) {
    line(name + joined(ranges) + " = " + text);
    add(name, real, shape);
    text = name + joined(at);
    name = fresh("v");
  }
  if (chance(0.4))
    text += " + " + need(real, each, true) + o;
  if (chance(0.2))
    text = "(" + text + " - " + need(real, each) + o + ") / sqrt(abs(" + need(real, each) + o + ") + 0.1) * " +
           need(real, each) + o;
  if (chance(0.2))
    text = "(" + text + ") + " + need(real, shape, false, false) + joined(at);
  if (chance(0.4))
    text = one_of({"relu", "gelu", "silu", "tanh"}) + "(" + text + ")";
  line(name + joined(ranges) + " = " + text);
  add(name, real, shape);
}

void Generator::window() {
  enum { full, grouped, in_groups, each_channel, transposed, extreme, mean_pool } kind;
  int dice = below(20);
  kind = dice < 7    ? full
         : dice < 9  ? grouped
         : dice < 10 ? in_groups
         : dice < 13 ? each_channel
         : dice < 15 ? transposed
         : dice < 18 ? extreme
                     : mean_pool;
  bool pool = kind == extreme || kind == mean_pool, last = chance(0.4), batched = chance(0.85);
  size_t axes = chance(0.35) ? 1 : 2;
  std::vector<Slide> slides;
  std::vector<Extent> lengths, turns;
  for (size_t d = 0; d < axes; ++d) {
    Slide s{chance(0.1) ? 5 : 1 + below(3), chance(0.5) ? 1 : 1 + below(3), chance(0.7) ? 1 : 2 + below(2), 0};
    if (d > 0 && chance(0.6))
      s = slides[0];
    else if (chance(0.6))
      s.padding = below(s.dilation * (s.size - 1) / 2 + 2);
    if (kind == transposed)
      s.dilation = 1;
    int least = std::max(0, s.reach());
    Extent length = chance(0.3) ? plus(dim(), std::max(0, least - (chance(0.15) ? 1 : 0)))
                                : number_extent(std::max(1, least + below(7)));
    slides.push_back(s);
    lengths.push_back(length);
    if (kind == transposed) {
      int more = below(s.size + 1);
      turns.push_back(length.constant() ? number_extent(s.stride * length.value + more)
                                        : Extent{shifted(times(s.stride, "(" + length.text + ")"), more)});
    } else if (length.constant()) {
      turns.push_back(number_extent((length.value - s.reach() + s.stride) / s.stride));
    } else {
      turns.push_back(Extent{"(" + shifted(length.text, -s.reach()) + ") // " + std::to_string(s.stride) + " + 1"});
    }
  }
  static const int widths[] = {1, 2, 3, 4, 5, 7, 8, 16, 17, 33};
  int groups = kind == grouped || kind == in_groups ? 1 + below(3) : 1, channels = 1 + below(chance(0.2) ? 9 : 4),
      out = pool || kind == each_channel ? channels : widths[below(10)];
  Extent batch = any_extent();
  // What is evaluated three times must stay small.
  auto cost = [&] {
    int64_t n = (batched ? std::max<int64_t>(1, batch.guess()) : 1) * out * groups;
    for (size_t d = 0; d < axes; ++d)
      n *= std::max<int64_t>(1, turns[d].guess()) * slides[d].size;
    return pool || kind == each_channel ? n : n * channels;
  };
  while (cost() > 60'000 && out > 1 && !pool && kind != each_channel)
    out /= 2;
  while (cost() > 60'000 && channels > 1) {
    channels /= 2;
    if (pool || kind == each_channel)
      out = channels;
  }
  if (cost() > 60'000)
    batch = number_extent(1);

  static const char *places[] = {"i", "j"}, *offsets[] = {"u", "v"};
  bool outside = kind == transposed;
  std::vector<std::string> spots;
  std::string test;
  for (size_t d = 0; d < axes; ++d) {
    const Slide &s = slides[d];
    if (kind == transposed) {
      std::string from = shifted(std::string(places[d]) + " - " + offsets[d], s.padding);
      if (s.stride > 1)
        test += (test.empty() ? "(" : " and (") + from + ") % " + std::to_string(s.stride) + " == 0";
      spots.push_back(s.stride > 1 ? "(" + from + ") // " + std::to_string(s.stride) : from);
      continue;
    }
    outside |= s.padding > 0;
    spots.push_back(shifted(times(s.stride, places[d]) + " + " + times(s.dilation, offsets[d]), -s.padding));
  }
  outside |= chance(0.3);

  std::string c = kind == in_groups ? "g, c"
                  : kind == grouped ? "o // " + std::to_string(out) + " * " + std::to_string(channels) + " + c"
                  : kind == extreme || kind == mean_pool ? "c"
                                                         : "c";
  std::vector<Extent> channel_shape{number_extent(kind == grouped ? groups * channels : channels)};
  if (kind == in_groups)
    channel_shape.insert(channel_shape.begin(), number_extent(groups));
  std::vector<Extent> picture, result;
  std::vector<std::string> at, ranges;
  std::string read;
  auto axis = [&](const std::string &subscript) { read += (read.empty() ? "" : ", ") + subscript; };
  auto of_result = [&](const std::string &index, const Extent &extent, bool written) {
    at.push_back(index);
    ranges.push_back(written ? index + " in " + extent.text : index);
    result.push_back(extent);
  };
  size_t channel = 0;
  auto put_channels = [&] {
    picture.insert(picture.end(), channel_shape.begin(), channel_shape.end());
    axis(c);
    if (kind == in_groups)
      of_result("g", number_extent(groups), false);
    channel = at.size();
    bool own = pool || kind == each_channel;
    of_result(own ? "c" : "o", number_extent(kind == grouped ? groups * out : out), chance(0.3));
  };
  if (batched) {
    picture.push_back(batch);
    axis("b");
    of_result("b", batch, false);
  }
  if (!last)
    put_channels();
  for (size_t d = 0; d < axes; ++d) {
    picture.push_back(lengths[d]);
    axis(spots[d]);
    of_result(places[d], turns[d], true);
  }
  if (last)
    put_channels();

  std::string x = need(real, picture, false, false), term = x + "[" + read;
  if (outside)
    term += kind == extreme ? one_of({" | -inf", " | 0", " | -1"}) : one_of({" | 0", " | 0", " | 0", " | 0.5"});
  term += "]";
  std::vector<std::string> over;
  if (pool) {
    for (size_t d = 0; d < axes; ++d)
      over.push_back(std::string(offsets[d]) + " in " + std::to_string(slides[d].size));
    finish((kind == mean_pool ? one_of({"mean", "sum"}) : one_of({"max", "max", "min"})) + "[" + over[0] +
               (axes > 1 ? ", " + over[1] : "") + "](" + term + ")",
           at, ranges, result, channel);
    return;
  }
  // The weight in PyTorch's order, or with the offsets first.
  std::vector<Extent> shape;
  std::vector<std::string> names;
  auto factor = [&](const std::string &index, int extent) {
    names.push_back(index);
    shape.push_back(number_extent(extent));
  };
  bool offsets_first = chance(0.2);
  auto put_offsets = [&] {
    for (size_t d = 0; d < axes; ++d)
      factor(offsets[d], slides[d].size);
  };
  if (offsets_first)
    put_offsets();
  if (kind == in_groups)
    factor("g", groups);
  if (kind == transposed)
    factor("c", channels);
  if (kind != each_channel)
    factor("o", kind == grouped ? groups * out : out);
  if (kind != transposed)
    factor("c", channels);
  if (!offsets_first)
    put_offsets();
  std::string w = chance(0.9) ? weight(shape) : need(real, shape, false, false);
  w += "[";
  for (size_t d = 0; d < names.size(); ++d)
    w += (d ? ", " : "") + names[d];
  w += "]";
  std::string product = chance(0.8) ? term + " * " + w : w + " * " + term;
  if (!test.empty())
    product = "if " + test + " then " + product + " else 0";
  bool one = chance(0.05); // left out: a test of an index takes the range from its uses
  if (kind != each_channel)
    over.push_back("c");
  for (size_t d = 0; d < axes; ++d)
    over.push_back(std::string(offsets[d]) +
                   (one || !test.empty() || chance(0.2) ? " in " + std::to_string(slides[d].size) : ""));
  if (chance(0.3))
    std::shuffle(over.begin(), over.end(), random_);
  std::string sum = "sum[";
  for (size_t d = 0; d < over.size(); ++d)
    sum += (d ? ", " : "") + over[d];
  if (one)
    sum += " where u != 1";
  finish(sum + "](" + product + ")", at, ranges, result, channel);
}

/// The prelude's modules of windows.
void Generator::window_module() {
  int channels = 1 + below(3), size = 1 + below(3), stride = 1 + below(2), padding = below(size);
  Extent batch = any_extent(), height = number_extent(size + below(6)),
         length = chance(0.3) ? plus(dim(), size) : number_extent(size + below(7));
  std::string x = need(real, {batch, number_extent(channels), height, length}, false, false), sub = fresh("conv"),
              name = fresh("v");
  bool pool = chance(0.4);
  auto after = [&](const Extent &e) {
    int more = 2 * padding - size;
    return e.constant() ? number_extent((e.value + more) / stride + 1)
                        : Extent{"(" + shifted(e.text, more) + ") // " + std::to_string(stride) + " + 1"};
  };
  std::string numbers = std::to_string(size) + ", " + std::to_string(stride) + ", " + std::to_string(padding);
  int out = pool ? channels : 1 + below(5);
  members_.push_back("sub " + sub + " = " +
                     (pool ? "MaxPool(" : "Conv(" + std::to_string(channels) + ", " + std::to_string(out) + ", ") +
                     numbers + ")");
  line("let " + name + " = " + sub + "(" + x + ")");
  add(name, real, {batch, number_extent(out), after(height), after(length)});
}

} // namespace heddle::fuzz
