// From the tensors of a call to its dims and shapes: which tensor is which input or result, what each dim is, and
// whether all of them agree with each other and with the model. Every message names entry and tensor.
#include "runtime/runtime.h"

#include <stdlib.h>
#include <string.h>

// Messages begin "entry 'encode', input 'input_ids': ".
#define AT_INPUT "entry '%s', input '%s': "
#define AT_RESULT "entry '%s', result '%s': "

static bool is_input(const rt_call *call, const rt_value *value) {
  return value - call->values < call->entry->n_inputs;
}

heddle_status rt_wrong(heddle_status status, const rt_call *call, const rt_value *value, const char *what) {
  return rt_fail(status, is_input(call, value) ? AT_INPUT "%s" : AT_RESULT "%s", call->entry->name, value->desc->name,
                 what);
}

bool rt_call_allocate(rt_call *call, const heddle_model_desc *model) {
  size_t values = 0, inputs = 0, results = 0, extents = 0;
  for (int32_t e = 0; e < model->n_entries; e++) {
    const heddle_entry_desc *entry = &model->entries[e];
    size_t n = 0;
    for (int32_t i = 0; i < entry->n_inputs; i++)
      n += (size_t)entry->inputs[i].rank + 1; // with a bound
    for (int32_t i = 0; i < entry->n_results; i++)
      n += (size_t)entry->results[i].rank;
    size_t count = (size_t)entry->n_inputs + (size_t)entry->n_results;
    values = count > values ? count : values;
    extents = n > extents ? n : extents;
    inputs = (size_t)entry->n_inputs > inputs ? (size_t)entry->n_inputs : inputs;
    results = (size_t)entry->n_results > results ? (size_t)entry->n_results : results;
  }
  size_t dims = (size_t)model->n_dims;
  call->model = model; // calloc may return NULL for no bytes: hence + 1
  call->dims = calloc(dims + 1, sizeof *call->dims);
  call->bound_by = calloc(dims + 1, sizeof *call->bound_by);
  call->extents = calloc(extents + 1, sizeof *call->extents);
  call->values = calloc(values + 1, sizeof *call->values);
  call->tensors = calloc(values + 1, sizeof *call->tensors);
  call->inputs = calloc(inputs + 1, sizeof *call->inputs);
  call->results = calloc(results + 1, sizeof *call->results);
  return call->dims && call->bound_by && call->extents && call->values && call->tensors && call->inputs &&
         call->results;
}

void rt_call_release(rt_call *call) {
  free(call->dims);
  free(call->bound_by);
  free(call->extents);
  free(call->values);
  free(call->tensors);
  free(call->inputs);
  free(call->results);
}

void rt_call_begin(rt_call *call, int32_t entry) {
  const heddle_entry_desc *e = &call->model->entries[entry];
  call->entry = e;
  int64_t *extent = call->extents;
  for (int32_t i = 0; i < e->n_inputs + e->n_results; i++) {
    const heddle_value_desc *desc = i < e->n_inputs ? &e->inputs[i] : &e->results[i - e->n_inputs];
    call->values[i] = (rt_value){.desc = desc, .shape = extent, .below = -1, .place = -1, .lodging = -1};
    extent += desc->rank;
  }
}

// "i32 [B, S]"; computed extents are shown as "...".
static void append_declared(rt_text *text, const rt_call *call, const heddle_value_desc *desc) {
  rt_append(text, "%s [", rt_dtype_name(desc->dtype));
  for (int32_t i = 0; i < desc->rank; i++) {
    const heddle_extent_desc *extent = &desc->extents[i];
    const char *separator = i ? ", " : "";
    if (extent->dim >= 0)
      rt_append(text, "%s%s", separator, call->model->dims[extent->dim].name);
    else if (extent->dim == HEDDLE_FIXED)
      rt_append(text, "%s%lld", separator, (long long)extent->value);
    else
      rt_append(text, "%s...", separator);
  }
  rt_append(text, "]");
}

// " where B = 2, S = 7": the dims that are known.
static void append_dims(rt_text *text, const rt_call *call) {
  const char *separator = " where ";
  for (int32_t d = 0; d < call->model->n_dims; d++) {
    if (call->bound_by[d] != RT_UNBOUND) {
      rt_append(text, "%s%s = %lld", separator, call->model->dims[d].name, (long long)call->dims[d]);
      separator = ", ";
    }
  }
}

// ---- Which tensor is which

static heddle_status match_list(rt_call *call, const heddle_tensor *tensors, int32_t n, rt_value *values, int32_t count,
                                const char *kind) {
  const char *entry = call->entry->name;
  if (n < 0 || (n > 0 && !tensors))
    return rt_fail(HEDDLE_INVALID_ARGUMENT, "entry '%s': the list of %ss is NULL or its length (%d) negative", entry,
                   kind, n);
  for (int32_t i = 0; i < n; i++) {
    rt_value *value = NULL;
    if (tensors[i].name) {
      for (int32_t v = 0; v < count && !value; v++)
        if (!strcmp(values[v].desc->name, tensors[i].name))
          value = &values[v];
      if (!value) {
        rt_text list = {.length = 0};
        for (int32_t v = 0; v < count; v++)
          rt_append(&list, "%s%s", v ? ", " : "", values[v].desc->name);
        return rt_fail(HEDDLE_NOT_FOUND, "entry '%s' has no %s '%s'; it has: %s", entry, kind, tensors[i].name,
                       count ? list.data : "none");
      }
    } else if (i < count) {
      value = &values[i];
    } else {
      return rt_fail(HEDDLE_BAD_TENSOR, "entry '%s' has %d %s%s, but %d were given", entry, count, kind,
                     count == 1 ? "" : "s", n);
    }
    if (value->given)
      return rt_wrong(HEDDLE_BAD_TENSOR, call, value, "is given twice; give it once");
    value->given = &tensors[i];
  }
  return HEDDLE_OK;
}

heddle_status rt_match(rt_call *call, const heddle_tensor *inputs, int32_t n_inputs, const heddle_tensor *results,
                       int32_t n_results) {
  const heddle_entry_desc *e = call->entry;
  heddle_status status = match_list(call, inputs, n_inputs, call->values, e->n_inputs, "input");
  if (status == HEDDLE_OK)
    status = match_list(call, results, n_results, call->values + e->n_inputs, e->n_results, "result");
  return status;
}

// ---- Dims

static bool dtype_fits(const rt_value *value) {
  if (rt_is_integer(value->desc->dtype))
    return rt_is_integer(value->given->dtype);
  return value->given->dtype == value->desc->dtype;
}

static heddle_status check_form(const rt_call *call, const rt_value *value) {
  const heddle_tensor *given = value->given;
  rt_text text = {.length = 0};
  if (!(is_input(call, value) ? dtype_fits(value) : given->dtype == value->desc->dtype)) {
    rt_append(&text, "has dtype %s, but must be ", rt_dtype_name(given->dtype));
    append_declared(&text, call, value->desc);
    if (is_input(call, value) && rt_is_integer(value->desc->dtype))
      rt_append(&text, " (any of i8, u8, i32, i64 and bool is accepted)");
    return rt_wrong(HEDDLE_BAD_TENSOR, call, value, text.data);
  }
  const char *misplaced = rt_misplaced(call->model, given);
  if (misplaced)
    return rt_wrong(HEDDLE_BAD_TENSOR, call, value, misplaced);
  if (given->rank != value->desc->rank) {
    rt_append(&text, "has rank %d, but must be ", given->rank);
    append_declared(&text, call, value->desc);
    return rt_wrong(HEDDLE_BAD_TENSOR, call, value, text.data);
  }
  for (int32_t i = 0; i < given->rank; i++) {
    if (given->shape[i] < 0) {
      rt_append(&text, "has the negative extent %lld in dimension %d", (long long)given->shape[i], i);
      return rt_wrong(HEDDLE_BAD_TENSOR, call, value, text.data);
    }
  }
  return HEDDLE_OK;
}

static heddle_status bind_input(rt_call *call, int32_t number) {
  rt_value *value = &call->values[number];
  heddle_status status = check_form(call, value);
  if (status != HEDDLE_OK)
    return status;
  for (int32_t i = 0; i < value->desc->rank; i++) {
    const heddle_extent_desc *extent = &value->desc->extents[i];
    int64_t given = value->given->shape[i];
    rt_text text = {.length = 0};
    if (extent->dim == HEDDLE_FIXED && given != extent->value) {
      rt_append(&text, "has shape ");
      rt_append_shape(&text, value->given->shape, value->given->rank);
      rt_append(&text, ", but must be ");
      append_declared(&text, call, value->desc);
      return rt_wrong(HEDDLE_BAD_TENSOR, call, value, text.data);
    }
    if (extent->dim < 0)
      continue;
    const heddle_dim_desc *dim = &call->model->dims[extent->dim];
    int64_t *bound = &call->dims[extent->dim];
    if (*bound < 0) {
      *bound = given;
      call->bound_by[extent->dim] = number;
      if (given > rt_most_of(dim)) {
        rt_append(&text, "has shape ");
        rt_append_shape(&text, value->given->shape, value->given->rank);
        rt_append(&text, ", so %s = %lld, but ", dim->name, (long long)given);
        if (dim->most < 0) {
          rt_append(&text, "a tensor has at most 2147483647 elements; give smaller inputs");
          return rt_wrong(HEDDLE_OUT_OF_MEMORY, call, value, text.data);
        }
        rt_append(&text, "the model allows at most %lld", (long long)dim->most);
        return rt_wrong(HEDDLE_OUT_OF_RANGE, call, value, text.data);
      }
    } else if (*bound != given) {
      rt_append(&text, "has shape ");
      rt_append_shape(&text, value->given->shape, value->given->rank);
      rt_append(&text, ", so %s = %lld, but %s = %lld in ", dim->name, (long long)given, dim->name, (long long)*bound);
      int32_t other = call->bound_by[extent->dim];
      if (other == number)
        rt_append(&text, "another dimension of it");
      else
        rt_append(&text, "input '%s'", call->values[other].desc->name);
      return rt_wrong(HEDDLE_BAD_TENSOR, call, value, text.data);
    }
  }
  return HEDDLE_OK;
}

// What stands for an index that isn't given has a place among the call's sizes, too.
static heddle_status check_default(const rt_call *call, const rt_value *value) {
  if (value->given || !value->desc->has_below || value->elements == 0 || value->desc->initial < (double)value->below)
    return HEDDLE_OK;
  rt_text text = {.length = 0};
  rt_append(&text, "is not given, and stands for %.0f in each place, but ", value->desc->initial);
  rt_append_range(&text, 0, value->below - 1);
  append_dims(&text, call);
  return rt_wrong(HEDDLE_OUT_OF_RANGE, call, value, text.data);
}

// The shapes of all values from the dims; checks what the given tensors say about computed extents.
static heddle_status compute_shapes(rt_call *call) {
  const heddle_entry_desc *e = call->entry;
  for (int32_t d = 0; d < call->model->n_dims; d++)
    if (call->dims[d] < 0)
      call->dims[d] = 0; // this entry does not use it
  e->extents(call->dims, call->extents);
  int32_t count = e->n_inputs + e->n_results;
  const int64_t *bound = call->extents; // computed bounds stand behind the extents
  for (int32_t v = 0; v < count; v++)
    bound += call->values[v].desc->rank;
  for (int32_t v = 0; v < count; v++) {
    rt_value *value = &call->values[v];
    rt_text text = {.length = 0};
    value->elements = 1;
    bool empty = false, huge = false;
    for (int32_t i = 0; i < value->desc->rank; i++) {
      if (value->shape[i] < 0) {
        rt_append(&text, "would have the shape ");
        rt_append_shape(&text, value->shape, value->desc->rank);
        append_dims(&text, call);
        rt_append(&text, "; give larger inputs");
        return rt_wrong(HEDDLE_OUT_OF_RANGE, call, value, text.data);
      }
      empty |= value->shape[i] == 0;
      huge |= __builtin_mul_overflow(value->elements, value->shape[i], &value->elements);
    }
    if (empty)
      value->elements = 0;
    else if (huge || value->elements > INT32_MAX) {
      rt_append(&text, "has more than 2147483647 elements with the shape ");
      rt_append_shape(&text, value->shape, value->desc->rank);
      rt_append(&text, "; give smaller inputs");
      return rt_wrong(HEDDLE_OUT_OF_MEMORY, call, value, text.data);
    }
    value->bytes = value->elements * rt_dtype_bytes(value->desc->dtype);
    if (v >= e->n_inputs)
      continue;
    if (value->desc->has_below) {
      const heddle_extent_desc *below = &value->desc->below;
      value->below = below->dim >= 0 ? call->dims[below->dim] : below->dim == HEDDLE_FIXED ? below->value : *bound++;
    }
    if (value->given && memcmp(value->given->shape, value->shape, sizeof(int64_t) * (size_t)value->desc->rank) != 0) {
      rt_append(&text, "has shape ");
      rt_append_shape(&text, value->given->shape, value->given->rank);
      rt_append(&text, ", but must be ");
      rt_append_shape(&text, value->shape, value->desc->rank);
      append_dims(&text, call);
      return rt_wrong(HEDDLE_BAD_TENSOR, call, value, text.data);
    }
  }
  for (int32_t i = 0; i < e->n_inputs; i++) {
    heddle_status status = check_default(call, &call->values[i]);
    if (status != HEDDLE_OK)
      return status;
  }
  return HEDDLE_OK;
}

// Whether the entry's states have the dim.
static bool is_of_states(const rt_call *call, int32_t dim) {
  const heddle_entry_desc *e = call->entry;
  for (int32_t u = 0; u < e->n_uses; u++) {
    const heddle_state_desc *state = &call->model->states[e->uses[u].state];
    for (int32_t i = 0; i < state->n_dims; i++)
      if (state->dims[i] == dim)
        return true;
  }
  return false;
}

static bool is_of_values(const heddle_value_desc *values, int32_t n, int32_t dim) {
  for (int32_t v = 0; v < n; v++)
    for (int32_t i = 0; i < values[v].rank; i++)
      if (values[v].extents[i].dim == dim)
        return true;
  return false;
}

// Without a session, whether an extent of a result may depend on what one would hold.
static bool needs_session(const rt_call *call, const heddle_value_desc *result) {
  for (int32_t d = 0; !call->states && d < call->model->n_dims; d++) {
    if (call->bound_by[d] != RT_UNBOUND || !is_of_states(call, d))
      continue;
    for (int32_t i = 0; i < result->rank; i++)
      if (result->extents[i].dim == d || result->extents[i].dim == HEDDLE_COMPUTED)
        return true;
  }
  return false;
}

// Dims that the inputs don't tell: those of states; then only an input that was left out can leave one unknown.
static heddle_status bind_rest(rt_call *call) {
  const heddle_entry_desc *e = call->entry;
  heddle_status status = rt_states_bind(call);
  if (status != HEDDLE_OK)
    return status;
  for (int32_t v = 0; v < e->n_inputs + e->n_results; v++) {
    const rt_value *value = &call->values[v];
    for (int32_t i = 0; i < value->desc->rank; i++) {
      int32_t dim = value->desc->extents[i].dim;
      if (dim < 0 || call->dims[dim] >= 0 || (!call->states && is_of_states(call, dim)))
        continue;
      rt_text text = {.length = 0};
      rt_append(&text, "has dim %s, which no given input tells; give the optional inputs that have it",
                call->model->dims[dim].name);
      return rt_wrong(HEDDLE_BAD_TENSOR, call, value, text.data);
    }
    if (v >= e->n_inputs && needs_session(call, value->desc))
      return rt_wrong(HEDDLE_INVALID_ARGUMENT, call, value,
                      "has a shape that depends on a session's states; ask with heddle_session_result_shapes");
  }
  return compute_shapes(call);
}

// Dims that the given inputs tell.
static heddle_status bind_inputs(rt_call *call) {
  const heddle_entry_desc *e = call->entry;
  for (int32_t d = 0; d < call->model->n_dims; d++) {
    call->dims[d] = -1;
    call->bound_by[d] = RT_UNBOUND;
  }
  for (int32_t i = 0; i < e->n_inputs; i++) {
    rt_value *value = &call->values[i];
    if (value->given) {
      heddle_status status = bind_input(call, i);
      if (status != HEDDLE_OK)
        return status;
    } else if (!value->desc->optional) {
      rt_text text = {.length = 0};
      rt_append(&text, "is missing; give it as ");
      append_declared(&text, call, value->desc);
      return rt_wrong(HEDDLE_BAD_TENSOR, call, value, text.data);
    }
  }
  return HEDDLE_OK;
}

heddle_status rt_bind_from_inputs(rt_call *call) {
  heddle_status status = bind_inputs(call);
  return status == HEDDLE_OK ? bind_rest(call) : status;
}

heddle_status rt_check_inputs(rt_call *call, int32_t entry, const heddle_tensor *inputs, int32_t n_inputs) {
  rt_call_begin(call, entry);
  heddle_status status = rt_match(call, inputs, n_inputs, NULL, 0);
  return status == HEDDLE_OK ? bind_inputs(call) : status;
}

heddle_status rt_bind_from_dims(rt_call *call, const int64_t *dims) {
  const heddle_entry_desc *e = call->entry;
  for (int32_t d = 0; d < call->model->n_dims; d++) {
    bool of_inputs = is_of_values(e->inputs, e->n_inputs, d), of_states = is_of_states(call, d);
    bool asked = call->states && of_states && !of_inputs; // of the session, not of the caller
    call->dims[d] = asked ? -1 : dims[d];
    call->bound_by[d] = RT_UNBOUND;
    if (asked || (!of_inputs && !of_states && !is_of_values(e->results, e->n_results, d)))
      continue;
    const heddle_dim_desc *dim = &call->model->dims[d];
    if (dims[d] < 0 || dims[d] > rt_most_of(dim))
      return rt_fail(HEDDLE_OUT_OF_RANGE, "entry '%s': %s = %lld, but the model allows 0 .. %lld", e->name, dim->name,
                     (long long)dims[d], (long long)rt_most_of(dim));
    call->bound_by[d] = RT_BOUND_BY_CALLER;
  }
  return bind_rest(call);
}

heddle_status rt_check_results(rt_call *call) {
  const heddle_entry_desc *e = call->entry;
  for (int32_t r = 0; r < e->n_results; r++) {
    rt_value *value = &call->values[e->n_inputs + r];
    if (!value->given)
      continue;
    heddle_status status = check_form(call, value);
    if (status != HEDDLE_OK)
      return status;
    rt_text text = {.length = 0};
    if (memcmp(value->given->shape, value->shape, sizeof(int64_t) * (size_t)value->desc->rank) != 0) {
      rt_append(&text, "has room for shape ");
      rt_append_shape(&text, value->given->shape, value->given->rank);
      rt_append(&text, ", but the result is ");
      rt_append_shape(&text, value->shape, value->desc->rank);
      append_dims(&text, call);
      return rt_wrong(HEDDLE_BAD_TENSOR, call, value, text.data);
    }
    if (rt_elements_overlap(value->given))
      return rt_wrong(HEDDLE_BAD_TENSOR, call, value,
                      "has strides by which its elements overlap; give each room of its own");
  }
  return HEDDLE_OK;
}
