// Classifies pictures: the path of a JPEG file on each line of standard input is answered by a line with the most
// likely labels. The model is a part of this program; labels and normalisation are read from its folder.
#include "picture.h"

#include <vit.h>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iostream>
#include <numeric>
#include <stdexcept>

using Json = nlohmann::json;

static void check(heddle_status status) {
  if (status != HEDDLE_OK)
    throw std::runtime_error(heddle_last_error());
}

static Json read_json(const std::string &path) {
  std::ifstream in(path);
  return in ? Json::parse(in) : Json::object();
}

class Classifier {
public:
  explicit Classifier(const std::string &folder) : config_(read_json(folder + "/config.json")) {
    Json looks = read_json(folder + "/preprocessor_config.json");
    for (int c = 0; c < 3; ++c) {
      mean_[c] = looks.contains("image_mean") ? looks["image_mean"][c].get<float>() : 0.5f;
      spread_[c] = looks.contains("image_std") ? looks["image_std"][c].get<float>() : 0.5f;
    }
    check(vit_load(nullptr, &model_));
    check(heddle_session_create(model_, nullptr, &session_));
    heddle_value_info pixels = HEDDLE_INIT(heddle_value_info), logits = HEDDLE_INIT(heddle_value_info);
    check(heddle_input_describe(model_, 0, 0, &pixels)); // [B, 3, height, width]
    check(heddle_result_describe(model_, 0, 0, &logits));
    height_ = int(pixels.extents[2].value);
    width_ = int(pixels.extents[3].value);
    classes_ = int(logits.extents[1].value);
  }
  ~Classifier() {
    heddle_session_free(session_);
    heddle_close(model_);
  }
  Classifier(const Classifier &) = delete;

  std::string answer(const std::string &path) {
    Picture picture = resized(read_jpeg(path), width_, height_);
    std::vector<float> pixels(picture.rgb.size()), logits(classes_);
    size_t plane = size_t(width_) * height_;
    for (size_t i = 0; i < plane; ++i)
      for (int c = 0; c < 3; ++c)
        pixels[c * plane + i] = (picture.rgb[i * 3 + c] / 255 - mean_[c]) / spread_[c];
    check(vit_classify(session_, 1, pixels.data(), logits.data()));

    std::vector<int> order(classes_);
    std::iota(order.begin(), order.end(), 0);
    int shown = std::min(3, classes_);
    std::partial_sort(order.begin(), order.begin() + shown, order.end(),
                      [&](int a, int b) { return logits[a] > logits[b]; });
    float most = logits[order[0]], sum = 0;
    for (float logit : logits)
      sum += std::exp(logit - most);
    std::string out;
    for (int i = 0; i < shown; ++i) {
      std::string number = std::to_string(order[i]);
      char percent[16];
      std::snprintf(percent, sizeof percent, " %.1f%%", 100 * std::exp(logits[order[i]] - most) / sum);
      out += (i ? ", " : "") + config_["id2label"].value(number, number) + percent;
    }
    return out;
  }

private:
  Json config_;
  float mean_[3], spread_[3];
  heddle_model *model_ = nullptr;
  heddle_session *session_ = nullptr;
  int width_ = 0, height_ = 0, classes_ = 0;
};

int main(int count, char **words) {
  if (count != 2) {
    std::cerr << "usage: image_service FOLDER < paths\n";
    return 2;
  }
  try {
    Classifier classifier(words[1]);
    for (std::string path; std::getline(std::cin, path);) {
      std::string answer;
      try {
        answer = classifier.answer(path);
      } catch (const std::exception &error) { // of this picture; the service goes on
        answer = std::string("error: ") + error.what();
      }
      std::cout << path << "\t" << answer << std::endl;
    }
  } catch (const std::exception &error) {
    std::cerr << "image_service: " << error.what() << "\n";
    return 1;
  }
}
