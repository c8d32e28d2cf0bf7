// The weights file: a header, then the packed payload, mapped read-only so that processes share it and unused parts
// cost nothing. Loading checks the header and the sizes; the checksum of the content only on request.
#define _GNU_SOURCE
#include "runtime/runtime.h"

#include <errno.h>
#include <fcntl.h>
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

static heddle_status check_header(const heddle_model_desc *desc, const char *path, const heddle_weights_header *header,
                                  uint64_t file_bytes) {
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
  if (header->build != rt_build())
    return rt_fail(HEDDLE_BAD_WEIGHTS,
                   "%s comes from another compilation of '%s' than the library (build %016llx, the library is build "
                   "%016llx); use the weights file that was written with it, or compile the model again",
                   path, desc->name, (unsigned long long)header->build, (unsigned long long)rt_build());
  if (header->payload_offset < sizeof *header || header->payload_offset % 4096 ||
      header->payload_offset > UINT64_MAX - header->payload_bytes)
    return rt_fail(HEDDLE_BAD_WEIGHTS, "%s is damaged: its payload begins at byte %llu; compile the model again", path,
                   (unsigned long long)header->payload_offset);
  uint64_t expected = header->payload_offset + header->payload_bytes;
  if (file_bytes != expected)
    return rt_fail(HEDDLE_BAD_WEIGHTS, "%s is %s: it has %llu bytes instead of %llu; copy or compile it again", path,
                   file_bytes < expected ? "truncated" : "damaged", (unsigned long long)file_bytes,
                   (unsigned long long)expected);
  return HEDDLE_OK;
}

static heddle_status cannot_read(const char *path) {
  return rt_fail(HEDDLE_FILE_ERROR, "%s cannot be read: %s", path, strerror(errno));
}

static heddle_status copy_payload(heddle_model *model, const char *path, int file, uint64_t offset) {
  uint64_t bytes = model->desc->weights_bytes;
  if (!rt_memory_get(&model->copy, (int64_t)bytes))
    return rt_fail(HEDDLE_OUT_OF_MEMORY, "%s: no memory for %llu bytes of weights; map the file instead of copying it",
                   path, (unsigned long long)bytes);
  for (uint64_t done = 0; done < bytes;) {
    ssize_t n = pread(file, model->copy.data + done, bytes - done, (off_t)(offset + done));
    if (n < 0 && errno == EINTR)
      continue;
    if (n <= 0) {
      if (n == 0)
        errno = EIO; // it was as long as it should be a moment ago
      rt_memory_release(&model->copy);
      return cannot_read(path);
    }
    done += (uint64_t)n;
  }
  model->payload = model->copy.data;
  return HEDDLE_OK;
}

static heddle_status load_from(heddle_model *model, const char *path, int file, bool copy) {
  struct stat info;
  if (fstat(file, &info) != 0)
    return cannot_read(path);
  if (!S_ISREG(info.st_mode))
    return rt_fail(HEDDLE_FILE_ERROR, "%s is no regular file; give the weights file that `heddle compile` wrote", path);
  heddle_weights_header header;
  ssize_t got = pread(file, &header, sizeof header, 0);
  if (got < 0)
    return cannot_read(path);
  if ((size_t)got < sizeof header)
    return rt_fail(HEDDLE_BAD_WEIGHTS,
                   "%s is truncated: it has %lld bytes, less than a weights file's header; copy or compile it again",
                   path, (long long)info.st_size);
  heddle_status status = check_header(model->desc, path, &header, (uint64_t)info.st_size);
  if (status != HEDDLE_OK)
    return status;
  model->checksum = header.checksum;
  if (copy)
    return copy_payload(model, path, file, header.payload_offset);
  void *map = mmap(NULL, (size_t)info.st_size, PROT_READ, MAP_SHARED, file, 0);
  if (map == MAP_FAILED)
    return rt_fail(errno == ENOMEM ? HEDDLE_OUT_OF_MEMORY : HEDDLE_FILE_ERROR, "%s cannot be mapped: %s", path,
                   strerror(errno));
  madvise(map, (size_t)info.st_size, MADV_WILLNEED); // read ahead while the caller prepares its first run
  model->map = map;
  model->mapped = (size_t)info.st_size;
  model->payload = (const uint8_t *)map + header.payload_offset;
  return HEDDLE_OK;
}

heddle_status rt_weights_load(heddle_model *model, const char *path, bool copy) {
  if (!path) {
    if (model->desc->weights_bytes == 0)
      return HEDDLE_OK; // a model without weights needs no file
    return rt_fail(HEDDLE_INVALID_ARGUMENT, "model '%s' needs the path of its weights file in the options",
                   model->desc->name);
  }
  int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); // a FIFO must not wait for its other end
  if (file < 0)
    return rt_fail(HEDDLE_FILE_ERROR, "%s cannot be opened: %s", path, strerror(errno));
  heddle_status status = load_from(model, path, file, copy);
  close(file);
  return status;
}

void rt_weights_release(heddle_model *model) {
  if (model->map)
    munmap(model->map, model->mapped);
  rt_memory_release(&model->copy);
}
