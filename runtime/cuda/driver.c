// Opening the driver, and every reason why this machine may not do: each is one sentence with its remedy.
#define _GNU_SOURCE
#include "runtime/cuda/driver.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define REMEDY "or compile the model for a CPU, too (--target %s,native)"

void cu_describe(const cu_driver *driver, cu_result error, rt_text *text) {
  const char *words = NULL, *name = NULL;
  if (driver->error_text(error, &words) != 0 || !words)
    words = "an error that the driver has no words for";
  if (driver->error_name(error, &name) != 0 || !name)
    name = "unknown";
  rt_append(text, "%s (%s, %d)", words, name, error);
}

static heddle_status refuse(const cu_driver *driver, const heddle_model_desc *model, cu_result error,
                            const char *what) {
  rt_text text = {.length = 0};
  cu_describe(driver, error, &text);
  return rt_fail(error == CU_OUT_OF_MEMORY ? HEDDLE_OUT_OF_MEMORY : HEDDLE_DEVICE_FAILED, "model '%s': %s: %s",
                 model->name, what, text.data);
}

static heddle_status no_gpu(const heddle_model_desc *model) {
  return rt_fail(HEDDLE_UNSUPPORTED_CPU,
                 "model '%s' was compiled for %s, but the driver finds no GPU in this machine; run it where there is "
                 "one, " REMEDY,
                 model->name, model->target, model->target);
}

static heddle_status find_functions(cu_driver *driver, const heddle_model_desc *model, const char *path) {
#define FIND(member, symbol, parameters)                                                                               \
  *(void **)&driver->member = dlsym(driver->library, symbol);                                                          \
  if (!driver->member)                                                                                                 \
    return rt_fail(HEDDLE_UNSUPPORTED_CPU, "model '%s': the driver %s lacks %s; install a later driver from NVIDIA",   \
                   model->name, path, symbol);
  RT_CUDA_FUNCTIONS(FIND)
#undef FIND
  return HEDDLE_OK;
}

static heddle_status find_device(const cu_driver *driver, const heddle_model_desc *model, cu_device *device,
                                 int *capability) {
  const heddle_device_desc *wanted = model->device;
  int version = 0, count = 0, major = 0, minor = 0;
  char name[128] = "";
  cu_result error = driver->init(0);
  if (error == CU_NO_DEVICE)
    return no_gpu(model);
  if (error != 0)
    return refuse(driver, model, error, "the CUDA driver does not start");
  error = driver->version(&version);
  if (error == 0)
    error = driver->device_count(&count);
  if (error != 0)
    return refuse(driver, model, error, "the CUDA driver does not tell its version and devices");
  if (version < wanted->driver)
    return rt_fail(HEDDLE_UNSUPPORTED_CPU,
                   "model '%s' was compiled for %s, which needs a driver of CUDA %d.%d, and this one is of CUDA %d.%d; "
                   "install a later driver, " REMEDY,
                   model->name, model->target, wanted->driver / 1000, wanted->driver % 1000 / 10, version / 1000,
                   version % 1000 / 10, model->target);
  if (count == 0)
    return no_gpu(model);
  error = driver->device_get(device, 0);
  if (error == 0)
    error = driver->device_name(name, sizeof name - 1, *device);
  if (error == 0)
    error = driver->device_attribute(&major, CU_CAPABILITY_MAJOR, *device);
  if (error == 0)
    error = driver->device_attribute(&minor, CU_CAPABILITY_MINOR, *device);
  if (error != 0)
    return refuse(driver, model, error, "the CUDA driver does not tell what GPU there is");
  *capability = 10 * major + minor;
  if (*capability < wanted->architecture)
    return rt_fail(HEDDLE_UNSUPPORTED_CPU,
                   "model '%s' was compiled for %s, and the GPU (%s) has compute capability %d.%d; compile it for a "
                   "lower target, " REMEDY,
                   model->name, model->target, name, major, minor, model->target);
  return HEDDLE_OK;
}

// Which dlopen would wait for: somebody may write into a FIFO.
static bool is_special(const char *path) {
  struct stat info;
  return strchr(path, '/') && stat(path, &info) == 0 && !S_ISREG(info.st_mode);
}

heddle_status cu_driver_open(cu_driver *driver, const heddle_model_desc *model, cu_device *device, int *capability) {
  const char *named = getenv("HEDDLE_CUDA_DRIVER");
  const char *path = named && *named ? named : "libcuda.so.1";
  bool special = is_special(path);
  // Never unloaded: its threads may outlive its last user.
  *driver = (cu_driver){.library = special ? NULL : dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE)};
  if (!driver->library) {
    const char *why = special ? ": it is no regular file" : dlerror();
    return rt_fail(HEDDLE_UNSUPPORTED_CPU,
                   "model '%s' was compiled for %s, but the CUDA driver cannot be opened (%s%s); install NVIDIA's "
                   "driver, " REMEDY,
                   model->name, model->target, special || !why ? path : "", why ? why : "", model->target);
  }
  heddle_status status = find_functions(driver, model, path);
  if (status == HEDDLE_OK)
    status = find_device(driver, model, device, capability);
  if (status != HEDDLE_OK)
    cu_driver_close(driver);
  return status;
}

void cu_driver_close(cu_driver *driver) {
  if (driver->library)
    dlclose(driver->library);
  driver->library = NULL;
}
