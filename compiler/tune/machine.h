// What a measurement is worth something on: the CPU by its own name. Records of one machine say nothing of another.
#pragma once

#include <string>

namespace heddle::tune {

/// "AMD EPYC 7R13 Processor, family 25 model 1".
std::string this_machine();

} // namespace heddle::tune
