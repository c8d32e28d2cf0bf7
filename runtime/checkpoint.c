// Files of a session: its states, from which another process goes on bit for bit, and its parameters as safetensors, in
// the layout of the weights file that the model was compiled from. A file is written beside its place, brought to the
// disk and renamed, so that at any moment the place has a whole file: the old one or the new one. What a killed process
// has left beside it is written over by the next one.
#define _GNU_SOURCE
#include "runtime/room.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

typedef struct output {
  const char *path;     // as the caller wrote it
  char place[PATH_MAX]; // where symbolic links lead
  char part[PATH_MAX];
  int file;
} output;

static heddle_status cannot_write(const char *path) {
  return rt_fail(HEDDLE_FILE_ERROR, "%s cannot be written: %s", path, strerror(errno));
}

static heddle_status begin_output(output *out, const char *path) {
  struct stat old, held, there;
  bool exists = stat(path, &old) == 0;
  out->path = path;
  if (exists && !S_ISREG(old.st_mode))
    return rt_fail(HEDDLE_FILE_ERROR, "%s is no regular file; name a file to write", path);
  if (exists && !realpath(path, out->place))
    return cannot_write(path);
  if ((!exists && (size_t)snprintf(out->place, sizeof out->place, "%s", path) >= sizeof out->place) ||
      (size_t)snprintf(out->part, sizeof out->part, "%s.part", out->place) >= sizeof out->part) {
    errno = ENAMETOOLONG;
    return cannot_write(path);
  }
  for (;;) { // one process at a time writes there
    out->file = open(out->part, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0666);
    if (out->file < 0)
      return cannot_write(path);
    int locked = flock(out->file, LOCK_EX);
    if (locked != 0 && errno != EINTR) { // a file system without locks
      heddle_status status = cannot_write(path);
      close(out->file);
      return status;
    }
    if (locked == 0 && fstat(out->file, &held) == 0 && stat(out->part, &there) == 0 && held.st_ino == there.st_ino &&
        held.st_dev == there.st_dev)
      break;
    close(out->file); // another one has renamed it meanwhile
  }
  if (S_ISREG(held.st_mode) && ftruncate(out->file, 0) == 0) {
    if (exists)
      fchmod(out->file, old.st_mode & 07777); // as far as it may
    return HEDDLE_OK;
  }
  close(out->file);
  return cannot_write(path);
}

// write(), without the signal that the system sends at the limit of a file's size: it would end the program.
static ssize_t write_some(int file, const void *from, size_t count) {
  sigset_t limit, before, pending;
  sigemptyset(&limit);
  sigaddset(&limit, SIGXFSZ);
  sigpending(&pending);
  pthread_sigmask(SIG_BLOCK, &limit, &before);
  ssize_t n = write(file, from, count);
  int error = errno;
  if (n < 0 && error == EFBIG && !sigismember(&pending, SIGXFSZ))
    sigtimedwait(&limit, NULL, &(struct timespec){0});
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  errno = error;
  return n;
}

static heddle_status put(const output *out, const void *bytes, size_t count) {
  for (const char *at = bytes; count > 0;) {
    ssize_t n = write_some(out->file, at, count);
    if (n < 0 && errno != EINTR)
      return cannot_write(out->path);
    at += n < 0 ? 0 : n;
    count -= n < 0 ? 0 : (size_t)n;
  }
  return HEDDLE_OK;
}

// The rename holds after a loss of power only when the folder is on the disk, too.
static void sync_folder(const char *path) {
  char copy[PATH_MAX];
  snprintf(copy, sizeof copy, "%s", path);
  int folder = open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0)
    return;
  fsync(folder);
  close(folder);
}

// `status`: of what was written.
static heddle_status end_output(output *out, heddle_status status) {
  if (status == HEDDLE_OK && (fsync(out->file) != 0 || rename(out->part, out->place) != 0))
    status = cannot_write(out->path);
  if (status != HEDDLE_OK)
    unlink(out->part);
  close(out->file);
  if (status == HEDDLE_OK)
    sync_folder(out->place);
  return status;
}

heddle_status heddle_session_save_file(heddle_session *session, const char *path) {
  if (!session || !path)
    return rt_null(session ? "path" : "session");
  size_t bytes;
  heddle_status status = heddle_session_save(session, NULL, 0, &bytes);
  if (status != HEDDLE_OK)
    return status;
  void *buffer = malloc(bytes);
  if (!buffer)
    return rt_fail(HEDDLE_OUT_OF_MEMORY, "no memory for the %zu bytes of the saved session", bytes);
  status = heddle_session_save(session, buffer, bytes, &bytes);
  output out;
  if (status == HEDDLE_OK)
    status = begin_output(&out, path);
  if (status == HEDDLE_OK)
    status = end_output(&out, put(&out, buffer, bytes));
  free(buffer);
  return status;
}

static heddle_status cannot_read(const char *path) {
  return rt_fail(HEDDLE_FILE_ERROR, "%s cannot be read: %s", path, strerror(errno));
}

static heddle_status read_whole(int file, const char *path, void **buffer, size_t *bytes) {
  struct stat info;
  if (fstat(file, &info) != 0)
    return cannot_read(path);
  if (!S_ISREG(info.st_mode))
    return rt_fail(HEDDLE_FILE_ERROR, "%s is no regular file; give one that heddle_session_save_file wrote", path);
  char magic[sizeof RT_SAVED_MAGIC - 1]; // another file, which may be large, isn't read at all
  if (pread(file, magic, sizeof magic, 0) != (ssize_t)sizeof magic || memcmp(magic, RT_SAVED_MAGIC, sizeof magic) != 0)
    return rt_fail(HEDDLE_INVALID_ARGUMENT,
                   "%s does not hold a saved session; give one that heddle_session_save_file wrote", path);
  *bytes = (size_t)info.st_size;
  *buffer = malloc(*bytes + 1); // + 1: NULL is no memory
  if (!*buffer)
    return rt_fail(HEDDLE_OUT_OF_MEMORY, "no memory for the %zu bytes of %s", *bytes, path);
  for (size_t done = 0; done < *bytes;) {
    ssize_t n = read(file, (char *)*buffer + done, *bytes - done);
    if (n < 0 && errno == EINTR)
      continue;
    if (n == 0)
      errno = EIO; // it was longer a moment ago
    if (n <= 0)
      return cannot_read(path);
    done += (size_t)n;
  }
  return HEDDLE_OK;
}

heddle_status heddle_session_restore_file(heddle_session *session, const char *path) {
  if (!session || !path)
    return rt_null(session ? "path" : "session");
  int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); // a FIFO must not wait for its other end
  if (file < 0)
    return rt_fail(HEDDLE_FILE_ERROR, "%s cannot be opened: %s", path, strerror(errno));
  void *buffer = NULL;
  size_t bytes;
  heddle_status status = read_whole(file, path, &buffer, &bytes);
  close(file);
  if (status == HEDDLE_OK)
    status = heddle_session_restore(session, buffer, bytes);
  free(buffer);
  return status;
}

// ---- Safetensors: 8 bytes with the header's length, the header as JSON, the tensors

typedef struct header {
  char *text; // NULL: only counted
  size_t length;
} header;

static void append(header *to, const char *text, size_t length) {
  if (to->text)
    memcpy(to->text + to->length, text, length);
  to->length += length;
}

static void append_text(header *to, const char *text) { append(to, text, strlen(text)); }

static void append_number(header *to, int64_t number) {
  char text[24];
  append(to, text, (size_t)snprintf(text, sizeof text, "%lld", (long long)number));
}

static void append_string(header *to, const char *text) {
  append(to, "\"", 1);
  for (const char *at = text; *at; at++) {
    char escaped[8];
    if ((unsigned char)*at < ' ')
      append(to, escaped, (size_t)snprintf(escaped, sizeof escaped, "\\u%04x", (unsigned char)*at));
    else
      append(to, escaped, (size_t)snprintf(escaped, sizeof escaped, *at == '"' || *at == '\\' ? "\\%c" : "%c", *at));
  }
  append(to, "\"", 1);
}

static int64_t parameter_bytes(const heddle_state_desc *desc) {
  int64_t elements = 1;
  for (int32_t i = 0; i < desc->parameter->rank; i++)
    elements *= desc->parameter->shape[i];
  return elements * rt_dtype_bytes(desc->dtype);
}

static void write_header(const heddle_model_desc *model, header *to) {
  static const char *const dtypes[] = {"F32", "BF16", "F16", "I8", "I32", "BOOL", "I64", "U8"};
  int64_t offset = 0;
  to->length = 0;
  append_text(to, "{");
  for (int32_t s = 0; s < model->n_states; s++) {
    const heddle_state_desc *desc = &model->states[s];
    if (!desc->parameter)
      continue;
    if (to->length > 1)
      append_text(to, ",");
    append_string(to, desc->parameter->name);
    append_text(to, ":{\"dtype\":");
    append_string(to, dtypes[desc->dtype]);
    append_text(to, ",\"shape\":[");
    for (int32_t i = 0; i < desc->parameter->rank; i++) {
      append_text(to, i ? "," : "");
      append_number(to, desc->parameter->shape[i]);
    }
    append_text(to, "],\"data_offsets\":[");
    append_number(to, offset);
    append_text(to, ",");
    append_number(to, offset += parameter_bytes(desc));
    append_text(to, "]}");
  }
  append_text(to, "}");
  while (to->length % 8) // so that the tensors are aligned
    append_text(to, " ");
}

// Two params that begin as the same tensor of a file would be one again in the next file.
static heddle_status check_names(const heddle_model_desc *model) {
  int32_t count = 0;
  for (int32_t s = 0; s < model->n_states; s++) {
    const heddle_parameter_desc *own = model->states[s].parameter;
    if (!own)
      continue;
    count++;
    for (int32_t other = 0; other < s; other++)
      if (model->states[other].parameter && strcmp(model->states[other].parameter->name, own->name) == 0)
        return rt_fail(HEDDLE_UNSUPPORTED, "'%s' and '%s' are both %s of the weights file; read them one by one",
                       model->states[other].name, model->states[s].name, own->name);
  }
  return count ? HEDDLE_OK
               : rt_fail(HEDDLE_NOT_FOUND, "model '%s' has no parameters: no entry updates a param", model->name);
}

static heddle_status put_parameter(heddle_session *session, const output *out, const rt_state *state) {
  const void *now = rt_state_now(session, state);
  size_t bytes = (size_t)parameter_bytes(state->desc);
  if (!session->queue)
    return put(out, now, bytes);
  void *copy = malloc(bytes + 1);
  if (!copy)
    return rt_fail(HEDDLE_OUT_OF_MEMORY, "no memory for the %zu bytes of '%s'", bytes, state->desc->name);
  rt_room_read(session, copy, now, (int64_t)bytes);
  heddle_status status = rt_room_finish(session);
  if (status == HEDDLE_OK)
    status = put(out, copy, bytes);
  free(copy);
  return status;
}

static heddle_status put_parameters(heddle_session *session, const output *out) {
  const heddle_model_desc *model = session->model->desc;
  header text = {NULL, 0};
  write_header(model, &text);
  text.text = malloc(text.length);
  if (!text.text)
    return rt_fail(HEDDLE_OUT_OF_MEMORY, "no memory for the header of %s", out->path);
  write_header(model, &text);
  uint64_t length = text.length;
  heddle_status status = put(out, &length, sizeof length);
  if (status == HEDDLE_OK)
    status = put(out, text.text, text.length);
  free(text.text);
  for (int32_t s = 0; status == HEDDLE_OK && s < session->states.count; s++)
    if (model->states[s].parameter)
      status = put_parameter(session, out, &session->states.list[s]);
  return status;
}

heddle_status heddle_session_save_parameters(heddle_session *session, const char *path) {
  if (!session || !path)
    return rt_null(session ? "path" : "session");
  heddle_status status = check_names(session->model->desc);
  if (status == HEDDLE_OK)
    status = rt_session_enter(session);
  if (status != HEDDLE_OK)
    return status;
  output out;
  status = begin_output(&out, path);
  if (status == HEDDLE_OK)
    status = end_output(&out, put_parameters(session, &out));
  return rt_session_leave(session, status);
}
