// Pictures: from a JPEG file to what a vision model wants to see.
#pragma once

#include <string>
#include <vector>

struct Picture {
  int width = 0, height = 0;
  std::vector<float> rgb; // [height, width, 3], from 0 to 255
};

/// Throws std::runtime_error with the reason.
Picture read_jpeg(const std::string &path);

/// Bilinear; where a picture shrinks, each pixel is the weighted mean of all that it stands for.
Picture resized(const Picture &picture, int width, int height);
