#include "compiler/driver/tensors.h"

#include "compiler/driver/commands.h"
#include "compiler/driver/counted.h"
#include "compiler/io/npy.h"
#include "compiler/io/safetensors.h"
#include "compiler/io/weight_file.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace heddle {

static Result<TensorMap> read_tensors(const std::string &path) {
  auto file = open_weight_file(path);
  if (!file)
    return file.error();
  TensorMap out;
  for (const auto &[name, view] : file->tensors)
    out.emplace(name, HostTensor{view.dtype, view.shape, {view.bytes.begin(), view.bytes.end()}});
  return out;
}

Result<std::vector<TensorMap>> read_calls(const std::vector<std::string> &words) {
  std::vector<TensorMap> calls;
  bool gathering = false; // the last call is made of NAME=FILE words
  for (const std::string &word : words) {
    size_t equals = word.find('=');
    if (equals == std::string::npos || !word.ends_with(".npy")) {
      if (word.ends_with(".npy"))
        return Error{word + ": which input is this? Write NAME=" + word};
      auto call = read_tensors(word);
      if (!call)
        return call.error();
      calls.push_back(std::move(*call));
      gathering = false;
      continue;
    }
    auto tensor = read_npy(word.substr(equals + 1));
    if (!tensor)
      return tensor.error();
    std::string name = word.substr(0, equals);
    if (!gathering || calls.back().count(name))
      calls.emplace_back();
    gathering = true;
    calls.back().emplace(name, std::move(*tensor));
  }
  return calls;
}

Status write_tensors(const std::string &path, const TensorMap &tensors) {
  std::map<std::string, TensorView> views;
  for (const auto &[name, tensor] : tensors)
    views.emplace(name, tensor.view());
  return write_safetensors(path, views);
}

Result<std::vector<TensorMap>> read_calls(const std::vector<std::string> &words,
                                          const std::vector<std::string> &entries, const char *option,
                                          const std::vector<std::string> &files) {
  auto calls = read_calls(words);
  if (!calls)
    return calls;
  std::string there = std::string(usage_mark) + "--in makes " + counted(calls->size(), "call") + ", and ";
  if (!files.empty() && files.size() != calls->size())
    return Error{there + option + " names " + counted(files.size(), "file") + "; give one per call"};
  if (entries.size() > 1 && entries.size() != calls->size())
    return Error{there + "--entry is given " + counted(entries.size(), "time") + "; give it once, or once per call"};
  return calls;
}

std::string summary(const TensorMap &tensors) {
  std::string out;
  for (const auto &[name, tensor] : tensors) {
    TensorView view = tensor.view();
    int64_t count = view.count();
    out += name + ": " + std::string(dtype_name(view.dtype)) + " " + shape_text(view.shape);
    double least = INFINITY, most = -INFINITY, sum = 0;
    int64_t numbers = 0; // that are not NaN
    for (int64_t i = 0; i < count; ++i) {
      double value = read_element(view, i);
      if (std::isnan(value))
        continue;
      ++numbers;
      least = std::min(least, value);
      most = std::max(most, value);
      sum += value;
    }
    char line[160];
    if (numbers > 0) {
      std::snprintf(line, sizeof line, ", from %.6g to %.6g, mean %.6g", least, most, sum / numbers);
      out += line;
    }
    if (numbers < count)
      out += ", " + std::to_string(count - numbers) + " NaN";
    if (count > 0)
      out += ", begins";
    for (int64_t i = 0; i < std::min<int64_t>(count, 4); ++i) {
      std::snprintf(line, sizeof line, " %.6g", read_element(view, i));
      out += line;
    }
    out += "\n";
  }
  return out;
}

} // namespace heddle
