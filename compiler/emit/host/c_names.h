// Names that C programs see: none may be one that C, C++ or the system's headers and libraries have already.
#pragma once

#include <set>
#include <string>

namespace heddle {

/// The library's name for the name of a model file (without its folder and ending): lower-case letters, digits and
/// underscores, so that lib<name>.so, <name>.h and <name>_<entry> are good names. "model_" comes before what begins
/// with a digit, and before names under which the files of a library would hide files of the system or of
/// Heddle: <string.h>, libc.so, heddle.h, config.json.
std::string library_name(const std::string &stem);

/// `name` with as many underscores after it as it takes to be no word of C or C++, no function, type or macro of their
/// libraries, and none of `taken`, which it then joins.
std::string free_c_name(std::string name, std::set<std::string> &taken);

} // namespace heddle
