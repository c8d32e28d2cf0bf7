// What people write who know other languages, and what is written here instead.
#pragma once

#include <string>

namespace heddle::checking {

/// How to say here what function `name` does elsewhere; empty where nothing is known of it.
std::string instead_of_function(const std::string &name);
/// The same for a member of a tensor: `x.shape`, `x.T`.
std::string instead_of_member(const std::string &name);

} // namespace heddle::checking
