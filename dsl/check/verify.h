// What holds of every checked entry, tested: each transformation of programs ends with it.
#pragma once

#include "dsl/check/program.h"

namespace heddle {

/// What is wrong with the entry, in a sentence; empty where nothing is:
///   V1 a tensor is defined before it is read, once, by a step of the entry or by none
///   V2 a stage has the shape, and a value of the type, of its result; argmax and argmin run over one index
///   V3 an index is one of its stage's, a loop index one of a loop around, a size speaks of the program's dims
///   V4 a read has one whole number per dimension
///   V5 operands have the types that the operation takes
///   V6 what a loop carries has one shape and type before, in and after each iteration; what it collects has the
///   slice's
std::string verify(const Program &program, const Entry &entry);
/// The same of the first entry in which something is wrong.
std::string verify(const Program &program);

} // namespace heddle
