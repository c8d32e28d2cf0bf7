// A plugin that calls models: heddle.h in a shared library that is opened at run time.
#include "runtime/heddle.h"

const char *plugin_message(void);
const char *plugin_message(void) { return heddle_last_error(); }

int32_t plugin_fails(const char *path);
int32_t plugin_fails(const char *path) {
  heddle_model *model;
  return heddle_open(path, NULL, &model);
}
