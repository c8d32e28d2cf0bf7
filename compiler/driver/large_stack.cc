#include "compiler/driver/large_stack.h"

#include <pthread.h>

namespace heddle {
namespace {

// 64 calls deep and 1000 operations high take 70 MB; a formula of 300,000 operations, one above the other, as much.
// Only what is touched is ever there.
constexpr size_t stack_bytes = size_t(256) << 20;

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

int on_large_stack(const std::function<int()> &work) {
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
