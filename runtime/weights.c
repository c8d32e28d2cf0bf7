// The weights file: a header, then the packed payload. A file is mapped read-only, so that processes share it and
// unused parts cost nothing; an image of it in memory, the library's own or the caller's, is used where it lies; what a
// function of the caller's reads is copied. Loading checks the header and the sizes; the checksum of the content only
// on request.
#define _GNU_SOURCE
#include "runtime/runtime.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define P1 0x9E3779B185EBCA87ull
#define P2 0xC2B2AE3D27D4EB4Full
#define P3 0x165667B19E3779F9ull
#define P4 0x85EBCA77C2B2AE63ull
#define P5 0x27D4EB2F165667C5ull

static uint64_t rotate(uint64_t x, int n) { return x << n | x >> (64 - n); }

static uint64_t word(const uint8_t *data) {
  uint64_t x;
  memcpy(&x, data, sizeof x);
  return x;
}

static uint64_t mix(uint64_t sum, uint64_t x) { return rotate(sum + x * P2, 31) * P1; }

uint64_t rt_checksum(const uint8_t *data, uint64_t bytes) {
  const uint8_t *end = data + bytes;
  uint64_t hash = P5;
  if (bytes >= 32) {
    uint64_t sums[4] = {P1 + P2, P2, 0, 0 - P1};
    for (; end - data >= 32; data += 32)
      for (int i = 0; i < 4; i++)
        sums[i] = mix(sums[i], word(data + 8 * i));
    hash = rotate(sums[0], 1) + rotate(sums[1], 7) + rotate(sums[2], 12) + rotate(sums[3], 18);
    for (int i = 0; i < 4; i++)
      hash = (hash ^ mix(0, sums[i])) * P1 + P4;
  }
  hash += bytes;
  for (; end - data >= 8; data += 8)
    hash = rotate(hash ^ mix(0, word(data)), 27) * P1 + P4;
  if (end - data >= 4) {
    uint32_t half;
    memcpy(&half, data, sizeof half);
    hash = rotate(hash ^ half * P1, 23) * P2 + P3;
    data += 4;
  }
  for (; data < end; data++)
    hash = rotate(hash ^ *data * P5, 11) * P1;
  hash = (hash ^ hash >> 33) * P2;
  hash = (hash ^ hash >> 29) * P3;
  return hash ^ hash >> 32;
}

// Where the bytes of a weights file come from: `file`, or `image`, or else the caller's function.
typedef struct source {
  const char *name; // in messages
  int file;         // -1: none
  const uint8_t *image;
  uint64_t bytes; // of all; what the caller's function has is not known
  const heddle_model_options *reader;
} source;

#define UNKNOWN UINT64_MAX

static heddle_status check_header(const heddle_model_desc *desc, const source *from,
                                  const heddle_weights_header *header) {
  const char *path = from->name;
  if (memcmp(header->magic, HEDDLE_WEIGHTS_MAGIC, sizeof header->magic) != 0)
    return rt_fail(HEDDLE_BAD_WEIGHTS, "%s is not a Heddle weights file; give the one that `heddle compile` wrote",
                   path);
  if (header->version != 1 || header->header_bytes != sizeof *header)
    return rt_fail(HEDDLE_BAD_WEIGHTS,
                   "%s has version %u of the weights format, this library reads version 1; compile the model again",
                   path, header->version);
  if (memcmp(header->id, desc->weights_id, sizeof header->id) != 0 || header->payload_bytes != desc->weights_bytes)
    return rt_fail(HEDDLE_BAD_WEIGHTS,
                   "%s was packed for another library than '%s'; use the weights file from the same folder, or "
                   "compile the model again",
                   path, desc->name);
  if (header->build != desc->build)
    return rt_fail(HEDDLE_BAD_WEIGHTS,
                   "%s comes from another compilation of '%s' than the library (build %016llx, the library is build "
                   "%016llx); use the weights file that was written with it, or compile the model again",
                   path, desc->name, (unsigned long long)header->build, (unsigned long long)desc->build);
  if (header->payload_offset < sizeof *header || header->payload_offset % 4096 ||
      header->payload_offset > UINT64_MAX - header->payload_bytes)
    return rt_fail(HEDDLE_BAD_WEIGHTS, "%s is damaged: its payload begins at byte %llu; compile the model again", path,
                   (unsigned long long)header->payload_offset);
  uint64_t expected = header->payload_offset + header->payload_bytes;
  if (from->bytes != UNKNOWN && from->bytes != expected)
    return rt_fail(HEDDLE_BAD_WEIGHTS, "%s is %s: it has %llu bytes instead of %llu; copy or compile it again", path,
                   from->bytes < expected ? "truncated" : "damaged", (unsigned long long)from->bytes,
                   (unsigned long long)expected);
  return HEDDLE_OK;
}

static heddle_status cannot_read(const char *path) {
  return rt_fail(HEDDLE_FILE_ERROR, "%s cannot be read: %s", path, strerror(errno));
}

static heddle_status read_at(const source *from, uint64_t offset, uint8_t *to, uint64_t bytes) {
  const uint64_t most = 64 << 20; // at once: the caller's function has a buffer of its own, perhaps
  if (from->image) {
    memcpy(to, from->image + offset, bytes);
    return HEDDLE_OK;
  }
  for (uint64_t done = 0; done < bytes;) {
    uint64_t some = bytes - done < most ? bytes - done : most;
    if (from->file < 0) {
      int32_t status = from->reader->read(from->reader->read_context, offset + done, to + done, (size_t)some);
      if (status != 0)
        return rt_fail(HEDDLE_FILE_ERROR, "%s cannot be read: the function returned %d for %llu bytes at %llu",
                       from->name, status, (unsigned long long)some, (unsigned long long)(offset + done));
      done += some;
      continue;
    }
    ssize_t n = pread(from->file, to + done, some, (off_t)(offset + done));
    if (n < 0 && errno == EINTR)
      continue;
    if (n <= 0) {
      if (n == 0)
        errno = EIO; // it was as long as it should be a moment ago
      return cannot_read(from->name);
    }
    done += (uint64_t)n;
  }
  return HEDDLE_OK;
}

static heddle_status copy_payload(heddle_model *model, const source *from, uint64_t offset) {
  uint64_t bytes = model->desc->weights_bytes;
  if (!rt_memory_get(&model->copy, (int64_t)bytes, &model->allocator))
    return rt_fail(HEDDLE_OUT_OF_MEMORY, "%s: no memory for %llu bytes of weights; map the file instead of copying it",
                   from->name, (unsigned long long)bytes);
  heddle_status status = read_at(from, offset, model->copy.data, bytes);
  if (status != HEDDLE_OK)
    rt_memory_release(&model->copy);
  else
    model->payload = model->copy.data;
  return status;
}

static heddle_status map_payload(heddle_model *model, const source *from, uint64_t offset) {
  void *map = mmap(NULL, (size_t)from->bytes, PROT_READ, MAP_SHARED, from->file, 0);
  if (map == MAP_FAILED)
    return rt_fail(errno == ENOMEM ? HEDDLE_OUT_OF_MEMORY : HEDDLE_FILE_ERROR, "%s cannot be mapped: %s", from->name,
                   strerror(errno));
  madvise(map, (size_t)from->bytes, MADV_HUGEPAGE); // advice, before the pages are read: a file system may have none
  madvise(map, (size_t)from->bytes, MADV_WILLNEED); // read ahead while the caller prepares its first run
  model->map = map;
  model->mapped = (size_t)from->bytes;
  model->payload = (const uint8_t *)map + offset;
  return HEDDLE_OK;
}

// What a session has copied is read from the file again where another one wants it.
void rt_weights_copied(const heddle_model *model, const uint8_t *from, int64_t bytes) {
  uintptr_t page = 4096, first = ((uintptr_t)from + page - 1) / page * page,
            end = ((uintptr_t)from + (size_t)bytes) / page * page;
  if (model->map && first < end)
    madvise((void *)first, end - first, MADV_DONTNEED);
}

static heddle_status load_from(heddle_model *model, const source *from, bool copy) {
  heddle_weights_header header = {0}; // of a reader that writes nothing, too
  if (from->bytes < sizeof header)
    return rt_fail(HEDDLE_BAD_WEIGHTS,
                   "%s is truncated: it has %lld bytes, less than a weights file's header; copy or compile it again",
                   from->name, (long long)from->bytes);
  heddle_status status = read_at(from, 0, (uint8_t *)&header, sizeof header);
  if (status == HEDDLE_OK)
    status = check_header(model->desc, from, &header);
  if (status != HEDDLE_OK)
    return status;
  model->checksum = header.checksum;
  if (from->image && !copy && ((uintptr_t)from->image + header.payload_offset) % 64 == 0) {
    model->payload = from->image + header.payload_offset;
    return HEDDLE_OK;
  }
  if (from->file >= 0 && !copy)
    return map_payload(model, from, header.payload_offset);
  return copy_payload(model, from, header.payload_offset);
}

static heddle_status load_file(heddle_model *model, const char *path, bool copy) {
  int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); // a FIFO must not wait for its other end
  if (file < 0)
    return rt_fail(HEDDLE_FILE_ERROR, "%s cannot be opened: %s", path, strerror(errno));
  struct stat info;
  heddle_status status;
  if (fstat(file, &info) != 0)
    status = cannot_read(path);
  else if (!S_ISREG(info.st_mode))
    status =
        rt_fail(HEDDLE_FILE_ERROR, "%s is no regular file; give the weights file that `heddle compile` wrote", path);
  else
    status = load_from(model, &(source){.name = path, .file = file, .bytes = (uint64_t)info.st_size}, copy);
  close(file);
  return status;
}

static bool put_name(char *to, size_t room, const char *stem) {
  return (size_t)snprintf(to, room, "%s.weights", stem) < room;
}

// <name>.weights beside lib<name>.so, or beside the program or library that the model is a part of. False: the system
// does not tell.
static bool path_beside(const heddle_model_desc *desc, char path[PATH_MAX]) {
  Dl_info info;
  struct link_map *object = NULL;
  if (!dladdr1(desc, &info, (void **)&object, RTLD_DL_LINKMAP) || !object)
    return false;
  bool program = !*object->l_name;
  ssize_t length = program ? readlink("/proc/self/exe", path, PATH_MAX - 1)
                           : (ssize_t)snprintf(path, PATH_MAX, "%s", object->l_name);
  if (length < 0 || length >= PATH_MAX)
    return false;
  path[length] = 0;
  char stem[PATH_MAX];
  char *name = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
  snprintf(stem, sizeof stem, "%s", program ? desc->name : strncmp(name, "lib", 3) ? name : name + 3);
  char *end = program ? NULL : strstr(stem, ".so");
  if (end)
    *end = 0;
  // Without what heddle_spell has put in front of the name.
  while (name - path >= 2 && name[-2] == '/')
    name--;
  while (name - path >= 3 && name[-2] == '.' && name[-3] == '/')
    for (name -= 2; name - path >= 2 && name[-2] == '/'; name--)
      ;
  size_t room = PATH_MAX - (size_t)(name - path);
  bool fits = put_name(name, room, stem);
  if (program || (fits && access(path, F_OK) == 0))
    return fits;
  // A library that the model was linked into goes by a name of its own.
  return (put_name(name, room, desc->name) && access(path, F_OK) == 0) || put_name(name, room, stem);
}

heddle_status rt_weights_load(heddle_model *model, const heddle_model_options *options) {
  const heddle_model_desc *desc = model->desc;
  bool copy = options->flags & HEDDLE_COPY_WEIGHTS;
  heddle_status status = rt_take_allocator(&model->allocator, options->allocator);
  if (status != HEDDLE_OK)
    return status;
  if ((options->weights != NULL) + (options->image != NULL) + (options->read != NULL) > 1)
    return rt_fail(HEDDLE_INVALID_ARGUMENT, "the options name more than one of weights, image and read; give one");
  if (options->image)
    return load_from(
        model,
        &(source){
            .name = "the image of the weights", .file = -1, .image = options->image, .bytes = options->image_bytes},
        copy);
  if (options->read)
    return load_from(model, &(source){.name = "what `read` gives", .file = -1, .bytes = UNKNOWN, .reader = options},
                     true);
  if (options->weights)
    return load_file(model, options->weights, copy);
  if (desc->embedded)
    return load_from(model,
                     &(source){.name = "the library's part with the weights",
                               .file = -1,
                               .image = desc->embedded,
                               .bytes = desc->embedded_bytes},
                     copy);
  if (desc->weights_bytes == 0)
    return HEDDLE_OK; // a model without weights needs no file
  char path[PATH_MAX];
  if (!path_beside(desc, path))
    return rt_fail(HEDDLE_INVALID_ARGUMENT, "model '%s' needs the path of its weights file in the options", desc->name);
  return load_file(model, path, copy);
}

void rt_weights_release(heddle_model *model) {
  if (model->map)
    munmap(model->map, model->mapped);
  rt_memory_release(&model->copy);
}
