// A row per format: its first bytes, what it is, how weights in it become safetensors. ZIP archives are told apart by
// the name of their first file.
#include "compiler/io/other_format.h"

#include <cstdint>
#include <filesystem>
#include <string_view>

namespace heddle {
namespace {

using namespace std::string_view_literals;

struct Format {
  std::string_view magic;
  const char *what, *remedy; // in the remedy, {0} stands for the file and {1} for a name for its copy
};

constexpr const char *from_torch =
    "convert it in Python: safetensors.torch.save_file(torch.load(\"{0}\", weights_only=True), \"{1}\")";
constexpr const char *from_numpy =
    "convert it in Python: safetensors.numpy.save_file(dict(numpy.load(\"{0}\")), \"{1}\")";
constexpr const char *from_keras =
    "load it in Keras, and save its weights by name with safetensors.numpy.save_file(…, \"{1}\")";

constexpr Format formats[] = {
    {"GGUF"sv, "GGUF weights, as of llama.cpp", "take the safetensors that they were made from"},
    {"\x93NUMPY"sv, "a single NumPy array, which has no name",
     "convert it in Python: safetensors.numpy.save_file({\"NAME\": numpy.load(\"{0}\")}, \"{1}\")"},
    {"\x89HDF\r\n"sv, "an HDF5 file, as of Keras", from_keras},
    {"\x80\x02"sv, "a Python pickle, as of PyTorch", from_torch},
    {"\x80\x03"sv, "a Python pickle, as of PyTorch", from_torch},
    {"\x80\x04"sv, "a Python pickle, as of PyTorch", from_torch},
    {"\x80\x05"sv, "a Python pickle, as of PyTorch", from_torch},
    {"version https://git-lfs"sv, "a pointer of Git LFS, which stands for the file",
     "`git lfs pull` in its folder downloads it"},
    {"<!DOCTYPE html"sv, "a web page", "the download went wrong: fetch the file itself"},
    {"<!doctype html"sv, "a web page", "the download went wrong: fetch the file itself"},
    {"<html"sv, "a web page", "the download went wrong: fetch the file itself"},
    {"\x1f\x8b"sv, "compressed by gzip", "unpack it: gunzip \"{0}\""},
    {"{"sv, "JSON text", "an index of safetensors files has a name that ends in .json"},
};

/// The name of the first file of a ZIP archive.
std::string_view first_member(std::string_view bytes) {
  constexpr size_t name_length = 26, name = 30;
  if (bytes.size() < name)
    return {};
  size_t length = uint8_t(bytes[name_length]) | size_t(uint8_t(bytes[name_length + 1])) << 8;
  return bytes.substr(name, length);
}

Format of_zip(std::string_view member) {
  if (member.ends_with(".npy"))
    return {{}, "a NumPy archive", from_numpy};
  if (member.find("/data.pkl") != member.npos || member.find("/.format_version") != member.npos ||
      member.find("/byteorder") != member.npos)
    return {{}, "a PyTorch file", from_torch};
  if (member == "metadata.json" || member == "config.json")
    return {{}, "a Keras file", from_keras};
  return {{}, "a ZIP archive", "unpack it: unzip \"{0}\""};
}

std::string filled(std::string_view form, const std::string &path) {
  std::string out, copy = std::filesystem::path(path).replace_extension(".safetensors").string();
  for (size_t i = 0; i < form.size(); ++i)
    if (form.substr(i, 3) == "{0}" || form.substr(i, 3) == "{1}") {
      out += form[i + 1] == '0' ? path : copy;
      i += 2;
    } else {
      out += form[i];
    }
  return out;
}

} // namespace

std::optional<std::string> other_format(const std::string &path, std::span<const std::byte> bytes) {
  std::string_view text(reinterpret_cast<const char *>(bytes.data()), bytes.size());
  std::optional<Format> found;
  if (text.starts_with("PK\x03\x04"))
    found = of_zip(first_member(text));
  for (const Format &format : formats)
    if (!found && text.starts_with(format.magic))
      found = format;
  if (!found)
    return std::nullopt;
  return "is " + std::string(found->what) + ", no safetensors file; " + filled(found->remedy, path);
}

} // namespace heddle
