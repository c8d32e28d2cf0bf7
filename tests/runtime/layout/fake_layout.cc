// Where a C compiler puts the fields of heddle.h, as text for tests/runtime/test_python.py, in the library it opens.
#include "runtime/heddle.h"

#include <string>

#define FIELD(type, field) {#type, #field, offsetof(type, field), sizeof(static_cast<type *>(nullptr)->field)}
#define END(type) {#type, "", sizeof(type), 0}

namespace {
struct Row {
  const char *type, *field;
  size_t offset, size;
};
const Row rows[] = {
    FIELD(heddle_tensor, name),
    FIELD(heddle_tensor, data),
    FIELD(heddle_tensor, dtype),
    FIELD(heddle_tensor, rank),
    FIELD(heddle_tensor, shape),
    FIELD(heddle_tensor, strides),
    END(heddle_tensor),
    FIELD(heddle_model_options, struct_size),
    FIELD(heddle_model_options, weights),
    FIELD(heddle_model_options, flags),
    FIELD(heddle_model_options, reserved),
    END(heddle_model_options),
    FIELD(heddle_session_options, struct_size),
    FIELD(heddle_session_options, threads),
    FIELD(heddle_session_options, reserved),
    FIELD(heddle_session_options, custom),
    FIELD(heddle_session_options, memory_limit),
    END(heddle_session_options),
    FIELD(heddle_model_info, struct_size),
    FIELD(heddle_model_info, name),
    FIELD(heddle_model_info, target),
    FIELD(heddle_model_info, compiler),
    FIELD(heddle_model_info, weights_bytes),
    FIELD(heddle_model_info, n_dims),
    FIELD(heddle_model_info, n_entries),
    FIELD(heddle_model_info, n_states),
    FIELD(heddle_model_info, n_tokens),
    END(heddle_model_info),
    FIELD(heddle_dim_info, struct_size),
    FIELD(heddle_dim_info, name),
    FIELD(heddle_dim_info, most),
    END(heddle_dim_info),
    FIELD(heddle_entry_info, struct_size),
    FIELD(heddle_entry_info, name),
    FIELD(heddle_entry_info, doc),
    FIELD(heddle_entry_info, n_inputs),
    FIELD(heddle_entry_info, n_results),
    END(heddle_entry_info),
    FIELD(heddle_extent, dim),
    FIELD(heddle_extent, reserved),
    FIELD(heddle_extent, value),
    END(heddle_extent),
    FIELD(heddle_value_info, struct_size),
    FIELD(heddle_value_info, name),
    FIELD(heddle_value_info, dtype),
    FIELD(heddle_value_info, rank),
    FIELD(heddle_value_info, extents),
    FIELD(heddle_value_info, optional),
    FIELD(heddle_value_info, has_below),
    FIELD(heddle_value_info, below),
    FIELD(heddle_value_info, initial),
    END(heddle_value_info),
    FIELD(heddle_state_info, struct_size),
    FIELD(heddle_state_info, name),
    FIELD(heddle_state_info, dtype),
    FIELD(heddle_state_info, rank),
    FIELD(heddle_state_info, extents),
    FIELD(heddle_state_info, has_initial),
    FIELD(heddle_state_info, reserved),
    FIELD(heddle_state_info, initial),
    END(heddle_state_info),
    FIELD(heddle_state_value, struct_size),
    FIELD(heddle_state_value, is_set),
    FIELD(heddle_state_value, writer),
    FIELD(heddle_state_value, shape),
    FIELD(heddle_state_value, bytes),
    END(heddle_state_value),
    FIELD(heddle_token_info, struct_size),
    FIELD(heddle_token_info, name),
    FIELD(heddle_token_info, id),
    END(heddle_token_info),
    FIELD(heddle_memory_info, struct_size),
    FIELD(heddle_memory_info, arena_bytes),
    FIELD(heddle_memory_info, scratch_bytes),
    FIELD(heddle_memory_info, allocations),
    FIELD(heddle_memory_info, state_bytes),
    END(heddle_memory_info),
    FIELD(heddle_api, size),
    FIELD(heddle_api, version),
    FIELD(heddle_api, text),
    FIELD(heddle_api, last_error),
    FIELD(heddle_api, model_load),
    FIELD(heddle_api, model_free),
    FIELD(heddle_api, model_verify),
    FIELD(heddle_api, model_describe),
    FIELD(heddle_api, dim_describe),
    FIELD(heddle_api, entry_describe),
    FIELD(heddle_api, input_describe),
    FIELD(heddle_api, result_describe),
    FIELD(heddle_api, entry_find),
    FIELD(heddle_api, result_shapes),
    FIELD(heddle_api, memory_needed),
    FIELD(heddle_api, session_create),
    FIELD(heddle_api, session_free),
    FIELD(heddle_api, session_reset),
    FIELD(heddle_api, session_clone),
    FIELD(heddle_api, session_save),
    FIELD(heddle_api, session_restore),
    FIELD(heddle_api, session_memory),
    FIELD(heddle_api, session_threads),
    FIELD(heddle_api, run),
    FIELD(heddle_api, run_dense),
    FIELD(heddle_api, pool),
    FIELD(heddle_api, session_observe),
    FIELD(heddle_api, state_describe),
    FIELD(heddle_api, token_describe),
    FIELD(heddle_api, session_capacity),
    FIELD(heddle_api, session_state),
    FIELD(heddle_api, session_read_state),
    FIELD(heddle_api, session_result_shapes),
    END(heddle_api),
};
} // namespace

// Lines "struct field offset size"; a struct's last line has no field and its size as the offset.
extern "C" __attribute__((visibility("default"))) const char *fake_layout() {
  static const std::string text = [] {
    std::string lines;
    for (const Row &row : rows)
      lines += std::string(row.type) + " " + row.field + " " + std::to_string(row.offset) + " " +
               std::to_string(row.size) + "\n";
    return lines;
  }();
  return text.c_str();
}
