// One thread pool for all Heddle libraries in a process, and for the models that are linked into the program: that of
// the first. Libraries are opened RTLD_LOCAL and don't see each other's symbols, nor a program's, so this walks the
// loader's list of objects, the program and then libraries in the order of loading, and takes the first pool of our
// version: of a library by its table, of linked-in models by their note. Whoever takes it makes its library stay loaded
// for ever: workers run its code.
#define _GNU_SOURCE
#include "runtime/runtime.h"

#include <dlfcn.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(HEDDLE_POOL_NOTE_TYPE == RT_POOL_VERSION, "notes are found by the pool's version");

typedef const void *(*pool_function)(uint32_t version);

// Objects, one after another: a name with its 0, up to the note's pool of the first object that has one, if any.
typedef struct objects {
  char *names;
  size_t used, size;
  pool_function noted;
  size_t noted_at; // where the name of its object begins
} objects;

// The pool of a note among these, or NULL.
static pool_function find_note(const uint8_t *at, size_t bytes, size_t alignment) {
  const size_t name_bytes = sizeof HEDDLE_POOL_NOTE;
  alignment = alignment < 8 ? 4 : 8;
  for (const uint8_t *end = at + bytes; (size_t)(end - at) >= sizeof(ElfW(Nhdr));) {
    const ElfW(Nhdr) *note = (const ElfW(Nhdr) *)at;
    size_t name = (note->n_namesz + alignment - 1) / alignment * alignment;
    size_t content = (note->n_descsz + alignment - 1) / alignment * alignment;
    const uint8_t *text = at + sizeof *note, *place = text + name;
    if (name + content > (size_t)(end - text))
      return NULL;
    int64_t distance;
    if (note->n_type == HEDDLE_POOL_NOTE_TYPE && note->n_namesz == name_bytes && note->n_descsz == sizeof distance &&
        !memcmp(text, HEDDLE_POOL_NOTE, name_bytes)) {
      memcpy(&distance, place, sizeof distance);
      return (pool_function)(uintptr_t)(place + distance);
    }
    at = place + content;
  }
  return NULL;
}

// dlopen may not be called while the loader's list is being walked: only note what there is.
static int note_object(struct dl_phdr_info *info, size_t size, void *argument) {
  (void)size;
  objects *list = argument;
  size_t length = strlen(info->dlpi_name) + 1;
  if (list->used + length > list->size) {
    size_t wanted = 2 * (list->used + length) + 4096;
    char *names = realloc(list->names, wanted);
    if (!names)
      return 1;
    list->names = names;
    list->size = wanted;
  }
  for (size_t i = 0; i < info->dlpi_phnum && !list->noted; i++) {
    const ElfW(Phdr) *part = &info->dlpi_phdr[i];
    if (part->p_type == PT_NOTE)
      list->noted = find_note((const uint8_t *)info->dlpi_addr + part->p_vaddr, part->p_memsz, part->p_align);
    list->noted_at = list->used;
  }
  memcpy(list->names + list->used, info->dlpi_name, length);
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

const rt_pool *rt_find_pool(void) {
  static _Atomic(const rt_pool *) found; // whatever is loaded later: the pool does not change
  const rt_pool *pool = atomic_load_explicit(&found, memory_order_acquire);
  if (pool)
    return pool;
  objects list = {0};
  dl_iterate_phdr(note_object, &list);
  for (size_t at = 0; at < list.used && !pool; at += strlen(list.names + at) + 1) {
    if (list.noted && list.noted_at == at)
      pool = list.noted(RT_POOL_VERSION);
    if (pool && !keep_loaded(pool))
      pool = NULL;
    if (!pool)
      pool = pool_of(list.names + at);
  }
  free(list.names);
  if (!pool) {
    pool = rt_own_pool(RT_POOL_VERSION);
    pool = keep_loaded(pool) ? pool : NULL;
  }
  dlerror(); // what could not be opened on the way is no one's business
  if (!pool)
    return NULL;
  const rt_pool *first = NULL; // another thread may have been quicker
  return atomic_compare_exchange_strong(&found, &first, pool) ? pool : first;
}
