// One thread pool for all Heddle libraries in a process: that of the library loaded first. Libraries are opened
// RTLD_LOCAL and don't see each other's symbols, so this walks the loader's list of objects, whose order is the order
// of loading, and takes the first table with a pool of our version. Whoever takes it makes its library stay
// loaded for ever: workers run its code. Models that are linked into one program have one variable for the pool.
#define _GNU_SOURCE
#include "runtime/runtime.h"

#include <dlfcn.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>

typedef struct names {
  char *text; // names one after another, each with its 0
  size_t used, size;
} names;

// dlopen may not be called while the loader's list is being walked: only note the names.
static int note_name(struct dl_phdr_info *info, size_t size, void *argument) {
  (void)size;
  names *list = argument;
  size_t length = strlen(info->dlpi_name) + 1;
  if (list->used + length > list->size) {
    size_t wanted = 2 * (list->used + length) + 4096;
    char *text = realloc(list->text, wanted);
    if (!text)
      return 1;
    list->text = text;
    list->size = wanted;
  }
  memcpy(list->text + list->used, info->dlpi_name, length);
  list->used += length;
  return 0;
}

// False: the system has no memory to note it.
static bool keep_loaded(const void *symbol) {
  Dl_info info;
  struct link_map *object = NULL;
  if (!dladdr1(symbol, &info, (void **)&object, RTLD_DL_LINKMAP) || !object || !*object->l_name)
    return true; // the program itself, which stays anyway
  return dlopen(object->l_name, RTLD_NOW | RTLD_NOLOAD | RTLD_NODELETE);
}

static const rt_pool *pool_of(const char *name) {
  void *handle = dlopen(*name ? name : NULL, RTLD_LAZY | RTLD_NOLOAD);
  if (!handle)
    return NULL;
  const heddle_api *api = dlsym(handle, "heddle_api_1");
  const rt_pool *pool = NULL;
  if (api && api->version == HEDDLE_API_VERSION && api->size > offsetof(heddle_api, pool) && api->pool)
    pool = api->pool(RT_POOL_VERSION);
  if (pool && !keep_loaded(api))
    pool = NULL;
  dlclose(handle);
  return pool;
}

// Weak: of several models in one program the linker takes one.
extern __attribute__((weak)) _Atomic(const rt_pool *) pool_of_program __asm__(HEDDLE_POOL_OF_PROGRAM);
__attribute__((weak)) _Atomic(const rt_pool *) pool_of_program;

const rt_pool *rt_find_pool(void) {
  const rt_pool *pool = atomic_load_explicit(&pool_of_program, memory_order_acquire);
  if (pool)
    return pool;
  names list = {0};
  dl_iterate_phdr(note_name, &list);
  for (size_t at = 0; at < list.used && !pool; at += strlen(list.text + at) + 1)
    pool = pool_of(list.text + at);
  free(list.text);
  if (!pool) {
    pool = rt_own_pool(RT_POOL_VERSION);
    pool = keep_loaded(pool) ? pool : NULL;
  }
  dlerror(); // what could not be opened on the way is no one's business
  if (!pool)
    return NULL;
  const rt_pool *first = NULL; // another model of the program may have been quicker with its own
  return atomic_compare_exchange_strong(&pool_of_program, &first, pool) ? pool : first;
}
