// The rules of the language as classes of which each has one job, and which of them know of which. Mapped here from the
// bottom up, with all else in this folder; what a class may ask of another is the public part of its header.
//
//   check.h                   what others ask: a file's program, or messages
//   program.h, size.h         what a check makes: a program; its sizes
//   builder.h                 formulas, folded as they are made
//   prover.h                  whether a whole number can be negative: linear forms in prover.cc, products of sizes in
//                             products.cc, questions in questions.cc
//   entity.h                  what names stand for; scopes, frames, files, modules
//
//   context.h                 what every class below works with:
//     messages.h                messages and how things are called in them
//     budget.h                  an end of all work
//     indices.h                 indices and loops, and formulas by index
//     knowledge.h               conditions, requirements and bounds, and what they prove
//     steps.h, exact.cc         stages and requirements of the entry at hand; whole numbers that must fit 32 bits
//     scopes.h, foreign.h       what names mean; what they are called here
//     hovers.h                  what editors show of names
//     declared.h                weights, states and requirements of all declarations
//
//   expressions.h             operators, conditions, whole tensors
//   subscripts.h              elements and slices, reads proven inside
//   reductions.h              sum, max, argmax, …
//   ranges.h                  what an index ranges over
//   calls.h, signatures.h     calls, inlined; what a signature says
//   conversions.h             values of another type
//   gradients.h, random.h     grad; random and fold
//   params.h                  params(…): loops over them, states for them, updates of them
//
//   statements.h, loops.h     blocks; for
//   definitions.h, updates.h  y[b, i] = …; k[l, t] <- …
//   requirements.h            require
//
//   configs.h, files.h        settings; files and what they declare
//   modules.h, entries.h      modules and their members; entries
//   rules.h                   all of the above, put together for one check of a model
//   parts.h                   functions and modules by themselves, where there is no model
//
//   unused_names.h            warnings about names that nothing mentions (mentioned_names.h)
//   nearest.h                 names of similar spelling
//   prune.h, used_tensors.h   what of a checked program is needed; which tensors, dims and states steps use
//   verify.h, text.cc         what holds of a checked program; the program as text
//   philox.h, round.h         random numbers and roundings, as the compiled library has them
#pragma once

#include "dsl/check/calls.h"
#include "dsl/check/configs.h"
#include "dsl/check/conversions.h"
#include "dsl/check/definitions.h"
#include "dsl/check/entries.h"
#include "dsl/check/expressions.h"
#include "dsl/check/files.h"
#include "dsl/check/gradients.h"
#include "dsl/check/loops.h"
#include "dsl/check/modules.h"
#include "dsl/check/params.h"
#include "dsl/check/random.h"
#include "dsl/check/ranges.h"
#include "dsl/check/reductions.h"
#include "dsl/check/requirements.h"
#include "dsl/check/signatures.h"
#include "dsl/check/statements.h"
#include "dsl/check/subscripts.h"
#include "dsl/check/updates.h"

namespace heddle::checking {

struct Rules : private Services {
  explicit Rules(Context &context);

  /// The model of the file; null where something was reported as an error.
  std::unique_ptr<Program> check_model(const syntax::File &file);

  Context &context;
  Params params{context, conversions, expressions};
  Ranges ranges{context, expressions, subscripts};
  Conversions conversions{context, expressions};
  Signatures signatures{context, conversions, expressions};
  Subscripts subscripts{context, expressions, params};
  Reductions reductions{context, expressions, ranges};
  Gradients gradients{context, expressions, params};
  Random random{context, expressions};
  Calls calls{context, expressions, gradients, random, signatures, statements};
  Expressions expressions{context, calls, conversions, reductions, subscripts};
  Requirements requirements{context, expressions};
  Definitions definitions{context, expressions, ranges};
  Updates updates{context, conversions, expressions, params, ranges};
  Loops loops{context, conversions, expressions, params, ranges, statements, updates};
  Statements statements{context, definitions, expressions, loops, requirements, updates};
  Configs configs{context, expressions};
  Files files{context, expressions, requirements, configs};
  Modules modules{context, conversions, expressions, params, requirements};
  Entries entries{context, conversions, expressions, gradients, requirements, signatures, statements, updates, params};
};

} // namespace heddle::checking
