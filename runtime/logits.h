// What searches and sampling do to the logits of a row, many at a time (logits.c). -inf is a logit like any other; what
// is no number (NaN) is neither the largest nor less than anything.
#ifndef HEDDLE_LOGITS_H
#define HEDDLE_LOGITS_H

#include <stdint.h>

typedef struct rt_logit_functions {
  void (*log_softmax)(float *x, int64_t n);                        // in place
  double (*log_probability)(const float *x, int64_t n, int64_t i); // of number i
  double (*exponentials)(float *x, int64_t n);                     // exp(x - largest) in place; gives their sum
  // The first place at or after `from` of which x + shift < least doesn't hold, else n.
  int64_t (*next_best)(const float *x, int64_t n, int64_t from, float shift, float least);
  int64_t (*best)(const float *x, int64_t n); // the first of equals; the first of all where that is no number
} rt_logit_functions;

// For CPUs with these features, which were checked when the model was loaded. All give the same numbers.
const rt_logit_functions *rt_logit_functions_for(uint32_t cpu_features);

#endif
