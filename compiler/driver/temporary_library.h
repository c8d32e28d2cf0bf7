// A model compiled for the one command that calls it.
#pragma once

#include "compiler/driver/compile_model.h"
#include "compiler/driver/library.h"
#include "compiler/io/unfinished.h"

namespace heddle {

/// An open library whose folder goes away with it.
struct TemporaryLibrary {
  static Result<TemporaryLibrary> make(Model &model, const CompileGoal &goal, int threads, Progress &progress);

  Unfinished folder; // outlives the library
  Library library;
};

} // namespace heddle
