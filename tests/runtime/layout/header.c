// heddle.h as a C program sees it, compiled without any warning: every function of the header is called once here, in
// the order in which programs call them. Returns how many steps went well.
#include "runtime/heddle.h"

#define STEP(call)                                                                                                     \
  if ((call) != HEDDLE_OK)                                                                                             \
    return steps;                                                                                                      \
  steps++

int header_in_c(const char *folder);
int header_in_c(const char *folder) {
  int steps = 0;
  heddle_model *model;
  heddle_session *session, *copy;
  heddle_model_options model_options = HEDDLE_INIT(heddle_model_options);
  heddle_session_options options = HEDDLE_INIT(heddle_session_options);
  heddle_model_info model_info = HEDDLE_INIT(heddle_model_info);
  heddle_dim_info dim = HEDDLE_INIT(heddle_dim_info);
  heddle_entry_info entry_info = HEDDLE_INIT(heddle_entry_info);
  heddle_value_info value = HEDDLE_INIT(heddle_value_info);
  heddle_memory_info memory = HEDDLE_INIT(heddle_memory_info);
  int32_t entry, threads, ids[6] = {1, 2, 3, 4, 5, 6};
  int64_t ids_shape[] = {2, 3}, dims[] = {2, 3, 0}, bytes;
  float y[24];
  size_t state_bytes;
  char state[64];
  STEP(heddle_open(folder, &model_options, &model));
  STEP(heddle_model_verify(model));
  STEP(heddle_model_describe(model, &model_info));
  STEP(heddle_dim_describe(model, 0, &dim));
  STEP(heddle_entry_find(model, "encode", &entry));
  STEP(heddle_entry_describe(model, entry, &entry_info));
  STEP(heddle_input_describe(model, entry, 0, &value));
  STEP(heddle_result_describe(model, entry, 0, &value));
  STEP(heddle_memory_needed(model, entry, dims, &bytes));
  STEP(heddle_session_create(model, &options, &session));
  STEP(heddle_session_threads(session, &threads));
  STEP(heddle_session_observe(session, NULL, NULL));
  STEP(heddle_session_observe_tasks(session, NULL, NULL));
  heddle_tensor input = heddle_dense("ids", HEDDLE_I32, ids, 2, ids_shape), result;
  STEP(heddle_result_shapes(model, entry, &input, 1, &result, 1));
  result.data = y;
  STEP(heddle_run(session, entry, &input, 1, &result, 1));
  const void *inputs[] = {ids, NULL};
  void *results[] = {y, NULL};
  STEP(heddle_run_dense(session, entry, dims, inputs, results));
  STEP(heddle_session_memory(session, &memory));
  STEP(heddle_session_save(session, state, sizeof state, &state_bytes));
  STEP(heddle_session_restore(session, state, state_bytes));
  STEP(heddle_session_reset(session));
  STEP(heddle_session_clone(session, &copy));
  STEP(heddle_session_capacity(session, 0, -1));
  STEP(heddle_session_result_shapes(session, entry, &input, 1, &result, 1));
  heddle_generate_options generation = heddle_generate_defaults(1);
  heddle_state_info state_info = HEDDLE_INIT(heddle_state_info);
  heddle_state_value state_value = HEDDLE_INIT(heddle_state_value);
  heddle_token_info token = HEDDLE_INIT(heddle_token_info);
  if (heddle_state_describe(model, 0, &state_info) == HEDDLE_OK ||
      heddle_token_describe(model, 0, &token) == HEDDLE_OK ||
      heddle_session_state(session, 0, &state_value) == HEDDLE_OK ||
      heddle_session_read_state(session, 0, &result) == HEDDLE_OK ||
      heddle_session_write_state(session, 0, &result) == HEDDLE_OK ||
      heddle_session_save_file(session, "/") == HEDDLE_OK || heddle_session_restore_file(session, "/") == HEDDLE_OK ||
      heddle_session_save_parameters(session, "/") == HEDDLE_OK ||
      heddle_generate(session, &generation, &input, 1, &result, &bytes, NULL) == HEDDLE_OK ||
      heddle_score(session, &generation, &input, 1, NULL, &result) == HEDDLE_OK)
    return 0; // this model has neither states nor tokens, and cannot write
  STEP(heddle_session_free(copy));
  STEP(heddle_session_free(session));
  STEP(heddle_close(model));
  return strcmp(heddle_status_name(HEDDLE_OK), "HEDDLE_OK") || !heddle_last_error() ? 0 : steps;
}
