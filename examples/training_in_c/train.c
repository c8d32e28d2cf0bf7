// Trains a model from C: 2000 steps on points of a sine, with a checkpoint every 500. When it is stopped, the same
// command goes on from the last one.
//     heddle compile curve.heddle --blank -o out
//     cc train.c -I out -ldl -lm -o train && ./train out
#include "heddle.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { BATCH = 64, STEPS = 2000 };

static void must(heddle_status status) {
  if (status == HEDDLE_OK)
    return;
  fprintf(stderr, "%s\n", heddle_last_error());
  exit(1);
}

// The same numbers for the same step, so that a run that goes on is the one that was never stopped.
static float drawn(unsigned step, unsigned i) {
  unsigned bits = (step * 2654435761u + i) * 2246822519u;
  bits = (bits ^ bits >> 15) * 3266489917u;
  return (float)(bits >> 8) / 0x1p24f;
}

// Weights begin at random, as wide as keeps what goes through them in size; all others are 0.
static void begin(heddle_session *session, const heddle_model *model) {
  heddle_model_info info = HEDDLE_INIT(heddle_model_info);
  must(heddle_model_describe(model, &info));
  for (int32_t s = 0; s < info.n_states; s++) {
    heddle_state_info state = HEDDLE_INIT(heddle_state_info);
    must(heddle_state_describe(model, s, &state));
    if (!state.parameter || state.rank != 2)
      continue;
    int64_t shape[] = {state.extents[0].value, state.extents[1].value}, count = shape[0] * shape[1];
    float *values = malloc(sizeof(float) * (size_t)count);
    for (int64_t i = 0; values && i < count; i++)
      values[i] = 6 * (drawn(7 + (unsigned)s, (unsigned)i) - 0.5f) / sqrtf((float)shape[1]);
    heddle_tensor from = heddle_dense(state.name, state.dtype, values, 2, shape);
    must(heddle_session_write_state(session, s, &from));
    free(values);
  }
}

int main(int count, char **words) {
  heddle_model *model;
  heddle_session *session;
  int32_t entry, step = 0;
  must(heddle_open(count > 1 ? words[1] : "out", NULL, &model));
  must(heddle_session_create(model, NULL, &session));
  must(heddle_entry_find(model, "train", &entry));
  if (heddle_session_restore_file(session, "curve.session") != HEDDLE_OK)
    begin(session, model);
  float x[BATCH], y[BATCH], loss;
  int64_t shape[] = {BATCH, 1};
  heddle_tensor inputs[] = {heddle_dense("x", HEDDLE_F32, x, 2, shape), heddle_dense("y", HEDDLE_F32, y, 2, shape)};
  heddle_tensor results[] = {heddle_dense("loss", HEDDLE_F32, &loss, 0, NULL),
                             heddle_dense("steps", HEDDLE_I32, &step, 0, NULL)};
  int32_t number = -1; // of the state with the number of the step
  heddle_state_info state = HEDDLE_INIT(heddle_state_info);
  do
    must(heddle_state_describe(model, ++number, &state));
  while (strcmp(state.name, "step"));
  heddle_tensor done = heddle_dense("step", HEDDLE_I32, &step, 0, NULL);
  heddle_session_read_state(session, number, &done); // a new session has none: 0
  while (step < STEPS) {
    for (unsigned i = 0; i < BATCH; i++) {
      x[i] = 2 * drawn((unsigned)step, i) - 1;
      y[i] = sinf(5 * x[i]);
    }
    must(heddle_run(session, entry, inputs, 2, results, 2));
    if (step % 500)
      continue;
    printf("step %d, loss %.6f\n", step, loss);
    must(heddle_session_save_file(session, "curve.session"));
  }
  must(heddle_session_save_parameters(session, "curve.safetensors"));
  heddle_session_free(session);
  heddle_close(model);
  return 0;
}
