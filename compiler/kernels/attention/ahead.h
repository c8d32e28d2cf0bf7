// Keys and values of a long memory arrive while the block of keys before them is multiplied: one head's are short
// pieces of long rows, which no prefetcher of the processor follows. Works on the lowered statement, as the prefetch of
// weights does (contraction/prefetch.h).
#pragma once

#include <Halide.h>

#include <memory>
#include <string>
#include <vector>

namespace heddle::attention {

struct KeysAhead {
  struct Copy {
    std::string func;                                 // that holds what belongs to a block of keys
    std::vector<std::pair<std::string, int>> by_keys; // its loops over keys, outermost first: how their names end, and
                                                      // how many keys an iteration has
  };
  std::vector<Copy> copies;
  int keys;               // of a block
  std::string block_loop; // over blocks of keys: how its name ends, as of the others
  std::string row_loop;   // over blocks of rows, inside it
  std::string tile_loop;  // over tiles of features, inside that
  std::string sum_loop;   // over the keys of a block: where a line of the next block is asked for at each step
};

std::shared_ptr<Halide::Internal::IRMutator> make_pass(const KeysAhead &ahead);

/// Where keys and values are read where they lie, each asks for the one so many keys behind it. The first ones have
/// nobody before them: a task asks for those of its later readers and of the next task's first reader when it begins.
struct KeysInPlace {
  std::vector<KeysAhead::Copy> readers; // with one loop over keys, in the order in which they run
  int distance;
};
std::shared_ptr<Halide::Internal::IRMutator> make_pass(const KeysInPlace &ahead);

/// (x / n - c) * n + x % n, which is where element x of tiles of n lies, as x - c * n. Halide leaves it, and the loop
/// over x would divide at every step.
std::shared_ptr<Halide::Internal::IRMutator> join_tiles();

} // namespace heddle::attention
