// Models: loading, freeing, and telling what is in them. All that is said here comes from the descriptor that the
// compiler put into the library.
#include "runtime/runtime.h"

#include <stdlib.h>
#include <string.h>

#define INFO(info, ...)                                                                                                \
  do {                                                                                                                 \
    __typeof__(*(info)) all = {__VA_ARGS__};                                                                           \
    return rt_give_info((info), &all, sizeof all);                                                                     \
  } while (0)

// The sizes that the structs of any version have, which cut no pointer in two.
static heddle_status check_size(size_t size, const char *what) {
  if (size < sizeof size || size % sizeof size)
    return rt_fail(HEDDLE_INVALID_ARGUMENT, "struct_size of the %s is %zu; set it to the size of the struct", what,
                   size);
  return HEDDLE_OK;
}

heddle_status rt_take_options(void *to, const void *from, size_t bytes) {
  if (!from)
    return HEDDLE_OK;
  size_t given;
  memcpy(&given, from, sizeof given);
  heddle_status status = check_size(given, "options");
  if (status == HEDDLE_OK)
    memcpy(to, from, given < bytes ? given : bytes);
  return status;
}

heddle_status rt_give_info(void *to, const void *from, size_t bytes) {
  size_t room;
  memcpy(&room, to, sizeof room);
  heddle_status status = check_size(room, "info");
  if (status != HEDDLE_OK)
    return status;
  if (room > bytes)
    memset((char *)to + bytes, 0, room - bytes); // of a later version: nothing known
  else
    bytes = room;
  memcpy((char *)to + sizeof room, (const char *)from + sizeof room, bytes - sizeof room);
  return HEDDLE_OK;
}

heddle_status heddle_model_load(const heddle_model_options *options, heddle_model **model) {
  if (!model)
    return rt_null("model");
  const heddle_model_desc *desc = &heddle_model_descriptor; // of whichever target: versions are equal
  heddle_model_options all = {0};
  heddle_status status = rt_take_options(&all, options, sizeof all);
  if (status != HEDDLE_OK)
    return status;
  if (all.flags & ~(uint32_t)HEDDLE_COPY_WEIGHTS)
    return rt_fail(HEDDLE_UNSUPPORTED, "flags 0x%x of the model options are not known to this version", all.flags);
  if (desc->abi_version != HEDDLE_ABI_VERSION)
    return rt_fail(HEDDLE_BAD_LIBRARY, "model '%s' has version %u of the internal interface, its runtime version %d",
                   desc->name, desc->abi_version, HEDDLE_ABI_VERSION);
  status = rt_choose_target(all.target, &desc);
  if (status != HEDDLE_OK)
    return status;
  heddle_model *made = calloc(1, sizeof *made);
  if (!made)
    return rt_fail(HEDDLE_OUT_OF_MEMORY, "no memory for a model");
  made->head.api = &heddle_table;
  made->desc = desc;
  status = rt_weights_load(made, &all);
  if (status == HEDDLE_OK && desc->device) {
    status = desc->device->api->open(desc, made->payload, &made->device);
    if (status != HEDDLE_OK)
      rt_weights_release(made);
  }
  if (status != HEDDLE_OK)
    free(made);
  else
    *model = made;
  return status;
}

heddle_status heddle_model_free(heddle_model *model) {
  if (!model)
    return HEDDLE_OK;
  int32_t sessions = atomic_load(&model->sessions);
  if (sessions > 0)
    return rt_fail(HEDDLE_INVALID_ARGUMENT, "model '%s' still has %d session%s; free %s first", model->desc->name,
                   sessions, sessions == 1 ? "" : "s", sessions == 1 ? "it" : "them");
  if (model->device)
    model->device->api->close(model->device);
  rt_weights_release(model);
  rt_sessions_release(model);
  free(model);
  return HEDDLE_OK;
}

heddle_status heddle_model_verify(const heddle_model *model) {
  if (!model)
    return rt_null("model");
  if (model->payload && rt_checksum(model->payload, model->desc->weights_bytes) != model->checksum)
    return rt_fail(HEDDLE_BAD_WEIGHTS,
                   "the weights of model '%s' are damaged: their checksum differs; copy or compile "
                   "them again",
                   model->desc->name);
  return HEDDLE_OK;
}

heddle_status heddle_model_describe(const heddle_model *model, heddle_model_info *info) {
  if (!model || !info)
    return rt_null(model ? "info" : "model");
  const heddle_model_desc *d = model->desc;
  INFO(info, .name = d->name, .target = d->target, .compiler = d->compiler, .weights_bytes = d->weights_bytes,
       .n_dims = d->n_dims, .n_entries = d->n_entries, .n_states = d->n_states, .n_tokens = d->n_tokens,
       .build = d->build);
}

heddle_status heddle_dim_describe(const heddle_model *model, int32_t dim, heddle_dim_info *info) {
  if (!model || !info)
    return rt_null(model ? "info" : "model");
  if (dim < 0 || dim >= model->desc->n_dims)
    return rt_fail(HEDDLE_INVALID_ARGUMENT, "there is no dim number %d; model '%s' has %d", dim, model->desc->name,
                   model->desc->n_dims);
  INFO(info, .name = model->desc->dims[dim].name, .most = model->desc->dims[dim].most);
}

heddle_status rt_check_entry(const heddle_model *model, int32_t entry) {
  if (entry < 0 || entry >= model->desc->n_entries)
    return rt_fail(HEDDLE_INVALID_ARGUMENT, "there is no entry number %d; model '%s' has %d", entry, model->desc->name,
                   model->desc->n_entries);
  return HEDDLE_OK;
}

heddle_status heddle_entry_describe(const heddle_model *model, int32_t entry, heddle_entry_info *info) {
  if (!model || !info)
    return rt_null(model ? "info" : "model");
  heddle_status status = rt_check_entry(model, entry);
  if (status != HEDDLE_OK)
    return status;
  const heddle_entry_desc *e = &model->desc->entries[entry];
  INFO(info, .name = e->name, .doc = e->doc ? e->doc : "", .n_inputs = e->n_inputs, .n_results = e->n_results);
}

static heddle_extent extent_of(const heddle_extent_desc *desc) {
  return (heddle_extent){.dim = desc->dim, .value = desc->value};
}

static heddle_status describe_value(const heddle_value_desc *value, heddle_value_info *info) {
  heddle_value_info all = {.name = value->name,
                           .dtype = value->dtype,
                           .rank = value->rank,
                           .optional = value->optional,
                           .has_below = value->has_below,
                           .below = extent_of(&value->below),
                           .initial = value->initial};
  for (int32_t i = 0; i < value->rank; i++)
    all.extents[i] = extent_of(&value->extents[i]);
  return rt_give_info(info, &all, sizeof all);
}

static heddle_status describe_one(const heddle_model *model, int32_t entry, int32_t number, heddle_value_info *info,
                                  bool result) {
  if (!model || !info)
    return rt_null(model ? "info" : "model");
  heddle_status status = rt_check_entry(model, entry);
  if (status != HEDDLE_OK)
    return status;
  const heddle_entry_desc *e = &model->desc->entries[entry];
  int32_t count = result ? e->n_results : e->n_inputs;
  if (number < 0 || number >= count)
    return rt_fail(HEDDLE_INVALID_ARGUMENT, "entry '%s' has no %s number %d; it has %d", e->name,
                   result ? "result" : "input", number, count);
  return describe_value(&(result ? e->results : e->inputs)[number], info);
}

heddle_status heddle_input_describe(const heddle_model *model, int32_t entry, int32_t input, heddle_value_info *info) {
  return describe_one(model, entry, input, info, false);
}

heddle_status heddle_result_describe(const heddle_model *model, int32_t entry, int32_t result,
                                     heddle_value_info *info) {
  return describe_one(model, entry, result, info, true);
}

heddle_status heddle_state_describe(const heddle_model *model, int32_t state, heddle_state_info *info) {
  if (!model || !info)
    return rt_null(model ? "info" : "model");
  if (state < 0 || state >= model->desc->n_states)
    return rt_fail(HEDDLE_INVALID_ARGUMENT, "there is no state number %d; model '%s' has %d", state, model->desc->name,
                   model->desc->n_states);
  const heddle_state_desc *desc = &model->desc->states[state];
  heddle_state_info all = {.name = desc->name,
                           .dtype = desc->dtype,
                           .rank = desc->rank,
                           .has_initial = desc->has_initial && !desc->parameter,
                           .initial = desc->initial};
  for (int32_t i = 0; i < desc->rank; i++)
    all.extents[i] = extent_of(&desc->extents[i]);
  if (desc->parameter) {
    all.parameter = desc->parameter->name;
    all.parameter_rank = desc->parameter->rank;
    memcpy(all.parameter_shape, desc->parameter->shape, sizeof(int64_t) * (size_t)desc->parameter->rank);
  }
  return rt_give_info(info, &all, sizeof all);
}

heddle_status heddle_token_describe(const heddle_model *model, int32_t token, heddle_token_info *info) {
  if (!model || !info)
    return rt_null(model ? "info" : "model");
  if (token < 0 || token >= model->desc->n_tokens)
    return rt_fail(HEDDLE_INVALID_ARGUMENT, "there is no token number %d; model '%s' has %d", token, model->desc->name,
                   model->desc->n_tokens);
  INFO(info, .name = model->desc->tokens[token].name, .id = model->desc->tokens[token].id);
}

heddle_status heddle_entry_find(const heddle_model *model, const char *name, int32_t *entry) {
  if (!model || !entry)
    return rt_null(model ? "entry" : "model");
  const heddle_model_desc *d = model->desc;
  const char *wanted = name ? name : d->n_entries == 1 ? d->entries[0].name : "forward";
  rt_text list = {.length = 0};
  for (int32_t i = 0; i < d->n_entries; i++) {
    if (!strcmp(wanted, d->entries[i].name)) {
      *entry = i;
      return HEDDLE_OK;
    }
    rt_append(&list, "%s%s", i ? ", " : "", d->entries[i].name);
  }
  if (!name)
    return rt_fail(HEDDLE_NOT_FOUND, "model '%s' has several entries; name one of: %s", d->name, list.data);
  return rt_fail(HEDDLE_NOT_FOUND, "model '%s' has no entry '%s'; it has: %s", d->name, name, list.data);
}
