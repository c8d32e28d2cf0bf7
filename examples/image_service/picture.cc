#include "picture.h"

#include <algorithm>
#include <cmath>
#include <csetjmp>
#include <cstdio>
#include <memory>
#include <stdexcept>

#include <jpeglib.h>

namespace {

/// libjpeg ends a program where a file is damaged, unless it is told to come back.
struct Errors {
  jpeg_error_mgr base;
  std::jmp_buf back;
  char text[JMSG_LENGTH_MAX];
};

void come_back(j_common_ptr reader) {
  auto *errors = reinterpret_cast<Errors *>(reader->err);
  reader->err->format_message(reader, errors->text);
  std::longjmp(errors->back, 1);
}

/// Along one axis, for each new place: the first old one that counts, and their weights.
struct Weights {
  std::vector<int> first;
  std::vector<std::vector<float>> of;
};

Weights triangle(int from, int to) {
  Weights out;
  double scale = double(from) / to, support = std::max(1.0, scale);
  for (int i = 0; i < to; ++i) {
    double middle = (i + 0.5) * scale;
    int begin = std::max(0, int(middle - support + 0.5)), end = std::min(from, int(middle + support + 0.5));
    std::vector<float> weights;
    double sum = 0;
    for (int j = begin; j < end; ++j)
      sum += std::max(0.0, 1 - std::abs((j + 0.5 - middle) / support));
    for (int j = begin; j < end; ++j)
      weights.push_back(float(std::max(0.0, 1 - std::abs((j + 0.5 - middle) / support)) / sum));
    out.first.push_back(begin);
    out.of.push_back(std::move(weights));
  }
  return out;
}

} // namespace

Picture read_jpeg(const std::string &path) {
  std::unique_ptr<FILE, int (*)(FILE *)> file(std::fopen(path.c_str(), "rb"), std::fclose);
  if (!file)
    throw std::runtime_error("cannot be opened");
  Picture out;
  std::vector<unsigned char> row;
  Errors errors{};
  jpeg_decompress_struct reader{};
  reader.err = jpeg_std_error(&errors.base);
  errors.base.error_exit = come_back;
  if (setjmp(errors.back)) {
    jpeg_destroy_decompress(&reader);
    throw std::runtime_error(errors.text);
  }
  jpeg_create_decompress(&reader);
  jpeg_stdio_src(&reader, file.get());
  jpeg_read_header(&reader, TRUE);
  reader.out_color_space = JCS_RGB;
  jpeg_start_decompress(&reader);
  out.width = int(reader.output_width);
  out.height = int(reader.output_height);
  row.resize(size_t(out.width) * 3);
  out.rgb.reserve(row.size() * size_t(out.height));
  while (reader.output_scanline < reader.output_height) {
    unsigned char *rows[] = {row.data()};
    jpeg_read_scanlines(&reader, rows, 1);
    out.rgb.insert(out.rgb.end(), row.begin(), row.end());
  }
  jpeg_finish_decompress(&reader);
  jpeg_destroy_decompress(&reader);
  return out;
}

Picture resized(const Picture &picture, int width, int height) {
  Weights across = triangle(picture.width, width), down = triangle(picture.height, height);
  std::vector<float> narrow(size_t(picture.height) * width * 3, 0);
  for (int y = 0; y < picture.height; ++y)
    for (int x = 0; x < width; ++x)
      for (size_t j = 0; j < across.of[x].size(); ++j)
        for (int c = 0; c < 3; ++c)
          narrow[(size_t(y) * width + x) * 3 + c] +=
              across.of[x][j] * picture.rgb[(size_t(y) * picture.width + across.first[x] + j) * 3 + c];
  Picture out{width, height, std::vector<float>(size_t(height) * width * 3, 0)};
  for (int y = 0; y < height; ++y)
    for (size_t j = 0; j < down.of[y].size(); ++j)
      for (int i = 0; i < width * 3; ++i)
        out.rgb[size_t(y) * width * 3 + i] += down.of[y][j] * narrow[size_t(down.first[y] + j) * width * 3 + i];
  return out;
}
