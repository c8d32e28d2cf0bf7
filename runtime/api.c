// The one table through which programs reach this library; see the end of heddle.h.
#include "runtime/runtime.h"

// Inside the library the table has a hidden name: the exported one may be bound to another library's.
const heddle_api heddle_table = {
    .size = sizeof(heddle_api),
    .version = HEDDLE_API_VERSION,
    .text = RT_VERSION,
    .last_error = rt_last_error,
    .model_load = heddle_model_load,
    .model_free = heddle_model_free,
    .model_verify = heddle_model_verify,
    .model_describe = heddle_model_describe,
    .dim_describe = heddle_dim_describe,
    .entry_describe = heddle_entry_describe,
    .input_describe = heddle_input_describe,
    .result_describe = heddle_result_describe,
    .entry_find = heddle_entry_find,
    .result_shapes = heddle_result_shapes,
    .memory_needed = heddle_memory_needed,
    .session_create = heddle_session_create,
    .session_free = heddle_session_free,
    .session_reset = heddle_session_reset,
    .session_clone = heddle_session_clone,
    .session_save = heddle_session_save,
    .session_restore = heddle_session_restore,
    .session_memory = heddle_session_memory,
    .session_threads = heddle_session_threads,
    .run = heddle_run,
    .run_dense = heddle_run_dense,
    .pool = rt_own_pool,
    .session_observe = heddle_session_observe,
    .state_describe = heddle_state_describe,
    .token_describe = heddle_token_describe,
    .session_capacity = heddle_session_capacity,
    .session_state = heddle_session_state,
    .session_read_state = heddle_session_read_state,
    .session_result_shapes = heddle_session_result_shapes,
    .generate = heddle_generate,
    .score = heddle_score,
};

extern const heddle_api heddle_api_1 __attribute__((alias("heddle_table"), visibility("default")));
