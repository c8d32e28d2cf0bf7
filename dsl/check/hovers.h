// What names stand for, in a line of text each, for editors: types and shapes in the author's names of the sizes.
#pragma once

#include "dsl/check/declared.h"
#include "dsl/check/indices.h"
#include "dsl/check/messages.h"

namespace heddle::checking {

class Hovers {
public:
  Hovers(const CheckOptions &options, const Declared &declared, const Indices &indices, const Messages &messages)
      : options_(options), declared_(declared), indices_(indices), messages_(messages) {}

  void note(Span at, const Entity &e) const;
  /// The index of a loop of that many iterations.
  void note_loop(Span at, const Size &extent) const;

private:
  std::string described(const Entity &e) const;

  const CheckOptions &options_;
  const Declared &declared_;
  const Indices &indices_;
  const Messages &messages_;
};

} // namespace heddle::checking
