// Any bytes as a file of weights, a .npy file and a config.json: an error or a value whose bytes are all there.
#include "compiler/io/config.h"
#include "compiler/io/npy.h"
#include "compiler/io/safetensors.h"
#include "compiler/io/weight_file.h"

#include <cstdlib>
#include <sys/mman.h>
#include <unistd.h>

using namespace heddle;

static void read_all(const TensorView &tensor) {
  if (tensor.bytes.size() != static_cast<size_t>(tensor.count()) * byte_width(tensor.dtype))
    std::abort();
  volatile double sum = 0;
  for (int64_t i = 0; i < tensor.count(); ++i)
    sum = sum + read_element(tensor, i);
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  int descriptor = memfd_create("input", 0);
  if (descriptor < 0 || write(descriptor, data, size) != static_cast<ssize_t>(size))
    return 0;
  std::string path = "/proc/self/fd/" + std::to_string(descriptor);
  if (auto file = Safetensors::open(path))
    for (const auto &[name, tensor] : file->tensors())
      read_all(tensor);
  if (auto file = open_weight_file(path))
    for (const auto &[name, tensor] : file->tensors)
      read_all(tensor);
  if (auto tensor = read_npy(path))
    read_all(tensor->view());
  if (auto config = read_config(path))
    for (const auto &[key, value] : *config)
      to_text(value);
  close(descriptor);
  return 0;
}
