// Environment variables of the emulated device (settings.h).
#include "tests/gpu/driver/settings.h"

#include <cstdlib>
#include <cstring>

namespace ptx {

static Settings read_settings() {
  Settings s;
  auto number = [](const char *name, auto &value) {
    if (const char *text = getenv(name); text && *text)
      value = std::remove_reference_t<decltype(value)>(strtoull(text, nullptr, 0));
  };
  number("HEDDLE_EMULATED_SM", s.sm);
  number("HEDDLE_EMULATED_THREADS", s.threads);
  number("HEDDLE_EMULATED_SAMPLE", s.sample);
  number("HEDDLE_EMULATED_BLOCKS", s.blocks);
  number("HEDDLE_EMULATED_CHECKS", s.checks);
  number("HEDDLE_EMULATED_MEMORY", s.memory);
  number("HEDDLE_EMULATED_LIMIT", s.limit);
  number("HEDDLE_EMULATED_VERSION", s.version);
  number("HEDDLE_EMULATED_DEVICES", s.devices);
  number("HEDDLE_EMULATED_LOG", s.log);
  number("HEDDLE_EMULATED_REPORT", s.report);
  number("CUDA_LAUNCH_BLOCKING", s.blocking);
  number("HEDDLE_EMULATED_FAIL", s.fail_at);
  if (const char *text = getenv("HEDDLE_EMULATED_FAIL"))
    if (const char *colon = strchr(text, ':'))
      s.fail_code = atoi(colon + 1);
  const char *approximation = getenv("HEDDLE_EMULATED_APPROX");
  s.worst_approximation = approximation && !strcmp(approximation, "worst");
  return s;
}

Settings &settings() {
  static Settings s = read_settings();
  return s;
}

} // namespace ptx
