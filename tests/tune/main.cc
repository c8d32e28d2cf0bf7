// The workers of the tests are this program, as those of `heddle tune` are `heddle`.
#include "compiler/tune/worker.h"

#include <gtest/gtest.h>

int main(int argc, char **argv) {
  if (argc == 2 && argv[1] == heddle::tune::worker_word)
    return heddle::tune::run_worker();
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
