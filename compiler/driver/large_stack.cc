#include "compiler/driver/large_stack.h"

#include <pthread.h>

namespace heddle {
namespace {

// 64 calls deep and 1000 operations high take 70 MB; a formula of 300,000 operations, one above the other, as much.
// Only what is touched is ever there.
constexpr size_t stack_bytes = size_t(256) << 20;
constexpr size_t least_bytes = size_t(8) << 20; // of all other threads, which get what `ulimit -s` says

struct Work {
  const std::function<int()> &run;
  int result = 0;
};

void *run(void *work) {
  auto *own = static_cast<Work *>(work);
  own->result = own->run();
  return nullptr;
}

} // namespace

static void enlarge_other_stacks() {
  pthread_attr_t others;
  size_t bytes = 0;
  if (pthread_getattr_default_np(&others) != 0)
    return;
  if (pthread_attr_getstacksize(&others, &bytes) == 0 && bytes < least_bytes &&
      pthread_attr_setstacksize(&others, least_bytes) == 0)
    pthread_setattr_default_np(&others);
  pthread_attr_destroy(&others);
}

int on_large_stack(const std::function<int()> &work) {
  enlarge_other_stacks();
  Work own{work};
  pthread_t thread;
  pthread_attr_t large;
  pthread_attr_init(&large);
  bool made = pthread_attr_setstacksize(&large, stack_bytes) == 0 && pthread_create(&thread, &large, run, &own) == 0;
  pthread_attr_destroy(&large);
  if (!made) // memory is short: what is not deep needs no more than there is
    return work();
  pthread_join(thread, nullptr);
  return own.result;
}

} // namespace heddle
