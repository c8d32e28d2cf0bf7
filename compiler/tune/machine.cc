// The brand alone does not tell generations apart where a hypervisor shortens it, so family and model stand with it.
#include "compiler/tune/machine.h"

#include <cpuid.h>
#include <cstring>

namespace heddle::tune {

std::string this_machine() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  __cpuid(0x80000000, a, b, c, d);
  char brand[49] = {};
  if (a >= 0x80000004)
    for (unsigned leaf = 0; leaf < 3; ++leaf) {
      unsigned words[4];
      __cpuid(0x80000002 + leaf, words[0], words[1], words[2], words[3]);
      std::memcpy(brand + 16 * leaf, words, 16);
    }
  std::string name;
  for (const char *at = brand; *at; ++at) // single blanks, no bars: it is a field of a line of text
    if (char letter = *at == '|' || *at < ' ' ? ' ' : *at; letter != ' ' || (!name.empty() && name.back() != ' '))
      name += letter;
  while (!name.empty() && name.back() == ' ')
    name.pop_back();
  __cpuid(1, a, b, c, d);
  unsigned family = a >> 8 & 15, model = a >> 4 & 15;
  if (family == 15 || family == 6)
    model += (a >> 16 & 15) << 4;
  if (family == 15)
    family += a >> 20 & 255;
  return (name.empty() ? "x86-64" : name) + ", family " + std::to_string(family) + " model " + std::to_string(model);
}

} // namespace heddle::tune
