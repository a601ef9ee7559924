/* SPDX-License-Identifier: MIT */
/* Operators on rows of logits in the C ABI: a part of tilewright.h, which includes it and has the rules that hold for every function. */
#ifndef TILEWRIGHT_LOGIT_OPERATORS_H_
#define TILEWRIGHT_LOGIT_OPERATORS_H_

#include "tilewright/tilewright.h"

#ifdef __cplusplus
extern "C" {
#endif

/* C names: NOLINTBEGIN(readability-identifier-naming) */

/* ---- softmax ----------------------------------------------------------------------------------------------------- */

/* exp(scale x - max) over the sum of these along rows, or its logarithm; docs/softmax.md says what each tensor may be. */
typedef struct tilewright_softmax_call {
  uint32_t struct_size;
  float scale;           /* a factor of x, 1 of tilewright_softmax_call_defaults() */
  const TwDLTensor* x;   /* [..., N] */
  const TwDLTensor* out; /* as x */
  uint8_t log;           /* the logarithm */
  uint8_t reserved[7];
  const char* recipe; /* force this recipe; NULL = choose */
} tilewright_softmax_call;

/* As tilewright_gemm() and its like. */
TILEWRIGHT_C_API tilewright_status tilewright_softmax(tilewright_context* context, const tilewright_softmax_call* call,
                                                      const tilewright_exec* exec);
TILEWRIGHT_C_API tilewright_status tilewright_softmax_prepare(tilewright_context* context,
                                                              const tilewright_softmax_call* call,
                                                              const tilewright_exec* exec);
TILEWRIGHT_C_API tilewright_status tilewright_softmax_query(tilewright_context* context,
                                                            const tilewright_softmax_call* call,
                                                            const tilewright_exec* exec,
                                                            tilewright_query_result* result);
TILEWRIGHT_C_API tilewright_status tilewright_softmax_explain(tilewright_context* context,
                                                              const tilewright_softmax_call* call,
                                                              const tilewright_exec* exec, char* buffer, size_t* size);

static inline tilewright_softmax_call tilewright_softmax_call_defaults(void) {
  tilewright_softmax_call call;
  memset(&call, 0, sizeof(call));
  call.struct_size = sizeof(call);
  call.scale = 1;
  return call;
}

/* ---- cross_entropy ----------------------------------------------------------------------------------------------- */

/* The loss of each row of logits, and its gradient; docs/cross_entropy.md says what each tensor may be. */
typedef struct tilewright_cross_entropy_call {
  uint32_t struct_size;
  float grad_scale;         /* a factor of the gradient, 1 of tilewright_cross_entropy_call_defaults() */
  const TwDLTensor* x;      /* [..., N], the logits */
  const TwDLTensor* target; /* [...] i32 */
  const TwDLTensor* loss;   /* [...] f32 */
  const TwDLTensor* lse;    /* optional, [...] f32: the logarithm of the sum of exponentials */
  const TwDLTensor* out;    /* optional, as x: the gradient */
  const TwDLTensor* factor; /* optional, one f32 on x's device: a factor of the gradient */
  float label_smoothing;    /* this much of the target is spread evenly */
  float z_loss;             /* times the square of lse is added */
  int64_t ignore_index;     /* rows with this target count nothing; -100 of tilewright_cross_entropy_call_defaults() */
  const char* recipe;       /* force this recipe; NULL = choose */
} tilewright_cross_entropy_call;

/* As tilewright_gemm() and its like. */
TILEWRIGHT_C_API tilewright_status tilewright_cross_entropy(tilewright_context* context,
                                                            const tilewright_cross_entropy_call* call,
                                                            const tilewright_exec* exec);
TILEWRIGHT_C_API tilewright_status tilewright_cross_entropy_prepare(tilewright_context* context,
                                                                    const tilewright_cross_entropy_call* call,
                                                                    const tilewright_exec* exec);
TILEWRIGHT_C_API tilewright_status tilewright_cross_entropy_query(tilewright_context* context,
                                                                  const tilewright_cross_entropy_call* call,
                                                                  const tilewright_exec* exec,
                                                                  tilewright_query_result* result);
TILEWRIGHT_C_API tilewright_status tilewright_cross_entropy_explain(tilewright_context* context,
                                                                    const tilewright_cross_entropy_call* call,
                                                                    const tilewright_exec* exec, char* buffer,
                                                                    size_t* size);

static inline tilewright_cross_entropy_call tilewright_cross_entropy_call_defaults(void) {
  tilewright_cross_entropy_call call;
  memset(&call, 0, sizeof(call));
  call.struct_size = sizeof(call);
  call.grad_scale = 1;
  call.ignore_index = -100;
  return call;
}

/* ---- moe_routing ------------------------------------------------------------------------------------------------- */

enum { TILEWRIGHT_ROUTER_SOFTMAX = 0, TILEWRIGHT_ROUTER_SIGMOID = 1, TILEWRIGHT_ROUTER_SQRT_SOFTPLUS = 2 };
enum { TILEWRIGHT_GROUP_LARGEST = 0, TILEWRIGHT_GROUP_TWO_LARGEST = 1 };

/* The k experts of each token and their weights; docs/moe_routing.md says what each tensor may be. */
typedef struct tilewright_moe_routing_call {
  uint32_t struct_size;
  float scale;               /* a factor of the weights, 1 of tilewright_moe_routing_call_defaults() */
  const TwDLTensor* logits;  /* [T, E] */
  const TwDLTensor* bias;    /* optional, [E]: added for the choice alone */
  const TwDLTensor* weights; /* [T, k] f32 */
  const TwDLTensor* ids;     /* [T, k] i32 */
  int32_t score;             /* TILEWRIGHT_ROUTER_... */
  int32_t group_score;       /* TILEWRIGHT_GROUP_..., the two largest of tilewright_moe_routing_call_defaults() */
  int64_t groups;            /* of neighbours; 1 of tilewright_moe_routing_call_defaults(), as the next */
  int64_t topk_groups;       /* may be chosen from */
  int64_t first_expert;      /* ids count from here */
  int64_t local_experts;     /* ids of others are -1; 0 = all */
  uint8_t renormalise;       /* weights of a token add up to scale */
  uint8_t reserved[7];
  const char* recipe; /* force this recipe; NULL = choose */
} tilewright_moe_routing_call;

/* As tilewright_gemm() and its like. */
TILEWRIGHT_C_API tilewright_status tilewright_moe_routing(tilewright_context* context,
                                                          const tilewright_moe_routing_call* call,
                                                          const tilewright_exec* exec);
TILEWRIGHT_C_API tilewright_status tilewright_moe_routing_prepare(tilewright_context* context,
                                                                  const tilewright_moe_routing_call* call,
                                                                  const tilewright_exec* exec);
TILEWRIGHT_C_API tilewright_status tilewright_moe_routing_query(tilewright_context* context,
                                                                const tilewright_moe_routing_call* call,
                                                                const tilewright_exec* exec,
                                                                tilewright_query_result* result);
TILEWRIGHT_C_API tilewright_status tilewright_moe_routing_explain(tilewright_context* context,
                                                                  const tilewright_moe_routing_call* call,
                                                                  const tilewright_exec* exec, char* buffer,
                                                                  size_t* size);

static inline tilewright_moe_routing_call tilewright_moe_routing_call_defaults(void) {
  tilewright_moe_routing_call call;
  memset(&call, 0, sizeof(call));
  call.struct_size = sizeof(call);
  call.scale = 1;
  call.group_score = TILEWRIGHT_GROUP_TWO_LARGEST;
  call.groups = call.topk_groups = 1;
  return call;
}

/* ---- sample ------------------------------------------------------------------------------------------------------ */

enum { TILEWRIGHT_SAMPLE_ORIGINAL_MASS = 0, TILEWRIGHT_SAMPLE_TOP_K_FIRST = 1 };

/* The next token of each row of logits; docs/sample.md says what each tensor may be. */
typedef struct tilewright_sample_call {
  uint32_t struct_size;
  int32_t joint;                 /* TILEWRIGHT_SAMPLE_... */
  const TwDLTensor* logits;      /* [B, V] */
  const TwDLTensor* ids;         /* [B], i32 or i64 */
  const TwDLTensor* seeds;       /* [B], i32 or i64: needed unless greedy */
  const TwDLTensor* offsets;     /* optional, [B], i32 or i64 */
  const TwDLTensor* temperature; /* optional, [B] f32 */
  const TwDLTensor* top_k;       /* optional, [B] i32 */
  const TwDLTensor* top_p;       /* optional, [B] f32, as the next two */
  const TwDLTensor* min_p;
  const TwDLTensor* log_probabilities; /* written */
  uint8_t greedy;                      /* the most likely token of every row */
  uint8_t reserved[7];
  const char* recipe; /* force this recipe; NULL = choose */
} tilewright_sample_call;
TILEWRIGHT_C_API tilewright_status tilewright_sample(tilewright_context* context, const tilewright_sample_call* call,
                                                     const tilewright_exec* exec);
TILEWRIGHT_C_API tilewright_status tilewright_sample_prepare(tilewright_context* context,
                                                             const tilewright_sample_call* call,
                                                             const tilewright_exec* exec);
TILEWRIGHT_C_API tilewright_status tilewright_sample_query(tilewright_context* context,
                                                           const tilewright_sample_call* call,
                                                           const tilewright_exec* exec,
                                                           tilewright_query_result* result);
TILEWRIGHT_C_API tilewright_status tilewright_sample_explain(tilewright_context* context,
                                                             const tilewright_sample_call* call,
                                                             const tilewright_exec* exec, char* buffer, size_t* size);

static inline tilewright_sample_call tilewright_sample_call_defaults(void) {
  tilewright_sample_call call;
  memset(&call, 0, sizeof(call));
  call.struct_size = sizeof(call);
  return call;
}

/* ---- top_k ------------------------------------------------------------------------------------------------------- */

/* The k largest elements of each row, in order; docs/top_k.md says what each tensor may be. */
typedef struct tilewright_top_k_call {
  uint32_t struct_size;
  uint32_t reserved;
  const TwDLTensor* x;       /* [M, N] */
  const TwDLTensor* indices; /* [M, k] i32 */
  const TwDLTensor* values;  /* optional, [M, k], as x */
  const TwDLTensor* lengths; /* optional, [M] i32: rows end there */
  const char* recipe;        /* force this recipe; NULL = choose */
} tilewright_top_k_call;
TILEWRIGHT_C_API tilewright_status tilewright_top_k(tilewright_context* context, const tilewright_top_k_call* call,
                                                    const tilewright_exec* exec);
TILEWRIGHT_C_API tilewright_status tilewright_top_k_prepare(tilewright_context* context,
                                                            const tilewright_top_k_call* call,
                                                            const tilewright_exec* exec);
TILEWRIGHT_C_API tilewright_status tilewright_top_k_query(tilewright_context* context,
                                                          const tilewright_top_k_call* call,
                                                          const tilewright_exec* exec, tilewright_query_result* result);
TILEWRIGHT_C_API tilewright_status tilewright_top_k_explain(tilewright_context* context,
                                                            const tilewright_top_k_call* call,
                                                            const tilewright_exec* exec, char* buffer, size_t* size);

static inline tilewright_top_k_call tilewright_top_k_call_defaults(void) {
  tilewright_top_k_call call;
  memset(&call, 0, sizeof(call));
  call.struct_size = sizeof(call);
  return call;
}

/* ---- apply_penalties --------------------------------------------------------------------------------------------- */

/* Logits of tokens that were seen; docs/apply_penalties.md says what each tensor may be. Zero bytes are the default of every field but
 * struct_size. */
typedef struct tilewright_apply_penalties_call {
  uint32_t struct_size;
  uint32_t reserved;
  const TwDLTensor* logits;        /* [B, V] */
  const TwDLTensor* out;           /* as logits; may be logits */
  const TwDLTensor* prompt_tokens; /* optional, [B, P] i32, as all that follow */
  const TwDLTensor* output_tokens; /* [B, L] i32 */
  const TwDLTensor* prompt_counts; /* [B, V] i32 */
  const TwDLTensor* output_counts;
  const TwDLTensor* repetition; /* [B] f32 */
  const TwDLTensor* presence;
  const TwDLTensor* frequency;
  const char* recipe; /* force this recipe; NULL = choose */
} tilewright_apply_penalties_call;

/* As tilewright_gemm() and its like. */
TILEWRIGHT_C_API tilewright_status tilewright_apply_penalties(tilewright_context* context,
                                                              const tilewright_apply_penalties_call* call,
                                                              const tilewright_exec* exec);
TILEWRIGHT_C_API tilewright_status tilewright_apply_penalties_prepare(tilewright_context* context,
                                                                      const tilewright_apply_penalties_call* call,
                                                                      const tilewright_exec* exec);
TILEWRIGHT_C_API tilewright_status tilewright_apply_penalties_query(tilewright_context* context,
                                                                    const tilewright_apply_penalties_call* call,
                                                                    const tilewright_exec* exec,
                                                                    tilewright_query_result* result);
TILEWRIGHT_C_API tilewright_status tilewright_apply_penalties_explain(tilewright_context* context,
                                                                      const tilewright_apply_penalties_call* call,
                                                                      const tilewright_exec* exec, char* buffer,
                                                                      size_t* size);

static inline tilewright_apply_penalties_call tilewright_apply_penalties_call_defaults(void) {
  tilewright_apply_penalties_call call;
  memset(&call, 0, sizeof(call));
  call.struct_size = sizeof(call);
  return call;
}

/* NOLINTEND(readability-identifier-naming) */

#ifdef __cplusplus
}
#endif

#endif /* TILEWRIGHT_LOGIT_OPERATORS_H_ */
