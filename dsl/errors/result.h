// A value or the message that says why there is none. Used where a failure has no place in a model
// file (files, settings, targets); failures with a place go to Diagnostics.
#pragma once

#include <string>
#include <utility>
#include <variant>

namespace heddle {

struct Error {
  std::string message; // one sentence with the file or name concerned and what to do
};

template <class T> class [[nodiscard]] Result {
public:
  Result(T value) : state_(std::move(value)) {}
  Result(Error error) : state_(std::move(error)) {}

  explicit operator bool() const { return state_.index() == 0; }
  T &operator*() { return std::get<0>(state_); }
  const T &operator*() const { return std::get<0>(state_); }
  T *operator->() { return &std::get<0>(state_); }
  const T *operator->() const { return &std::get<0>(state_); }
  const Error &error() const { return std::get<1>(state_); }

private:
  std::variant<T, Error> state_;
};

struct Done {};
using Status = Result<Done>;

} // namespace heddle
