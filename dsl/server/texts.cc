// `use NAME` means NAME.heddle beside the file, else a model that Heddle carries.
#include "dsl/server/texts.h"

#include "dsl/server/text.h"

#include <set>

namespace heddle::server {

std::string folder_of(const std::string &path) {
  size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : path.substr(0, slash);
}

std::optional<std::string> Texts::read(const std::string &path) const {
  if (auto open = open_.find(path); open != open_.end())
    return *open->second;
  // A path that is not absolute is no file's: of something carried inside, or of a document without a file.
  auto text = path.starts_with('/') ? hooks_->read_text(path) : std::nullopt;
  return text ? std::optional(valid_utf8(*text)) : std::nullopt;
}

std::optional<std::pair<std::string, std::string>> Texts::used(const std::string &from, const std::string &name) const {
  std::string beside = folder_of(from) + "/" + name + ".heddle";
  if (auto text = read(beside))
    return std::pair(beside, *text);
  return hooks_->carried_model(name);
}

std::map<std::string, Value> Texts::config(const std::string &path, std::string &error) const {
  std::string beside = folder_of(path) + "/config.json";
  if (!hooks_->read_text(beside))
    return {};
  auto values = hooks_->read_config(beside);
  if (!values) {
    error = values.error().message;
    return {};
  }
  return *values;
}

std::vector<std::string> Texts::beside(const std::string &path) const {
  std::string folder = folder_of(path);
  std::set<std::string> out = {path};
  if (path.starts_with('/'))
    for (std::string &other : hooks_->files_in(folder))
      out.insert(std::move(other));
  for (const auto &[open, text] : open_)
    if (folder_of(open) == folder)
      out.insert(open);
  return {out.begin(), out.end()};
}

std::vector<std::string> Texts::below(const std::vector<std::string> &folders) const {
  std::set<std::string> out;
  for (const std::string &folder : folders)
    for (std::string &path : hooks_->files_below(folder))
      out.insert(std::move(path));
  for (const auto &[open, text] : open_)
    out.insert(open);
  return {out.begin(), out.end()};
}

Texts Texts::with(const std::string &path, std::string text) const {
  Texts out = *this;
  out.open_[path] = std::make_shared<const std::string>(std::move(text));
  return out;
}

} // namespace heddle::server
