/* SPDX-License-Identifier: MIT */
/* Operators on images in the C ABI: a part of tilewright.h, which includes it and has the rules that hold for every function. */
#ifndef TILEWRIGHT_IMAGE_OPERATORS_H_
#define TILEWRIGHT_IMAGE_OPERATORS_H_

#include "tilewright/tilewright.h"

#ifdef __cplusplus
extern "C" {
#endif

/* C names: NOLINTBEGIN(readability-identifier-naming) */

/* ---- group_norm -------------------------------------------------------------------------------------------------- */

/* Groups of channels of images less their mean and over their deviation, times a weight; docs/group_norm.md. */
typedef struct tilewright_group_norm_call {
  uint32_t struct_size;
  float eps;                /* default: 1e-5 */
  const TwDLTensor* x;      /* [N, C, ...], channels first, or channels last as a view of that shape */
  const TwDLTensor* out;    /* as x */
  const TwDLTensor* weight; /* optional, [C], as the next */
  const TwDLTensor* bias;
  int64_t groups;     /* divides C */
  int32_t activation; /* TILEWRIGHT_ACTIVATION_NONE or _SILU, of the output */
  uint32_t reserved;
  const char* recipe; /* force this recipe; NULL = choose */
} tilewright_group_norm_call;

/* As tilewright_gemm() and its like. */
TILEWRIGHT_C_API tilewright_status tilewright_group_norm(tilewright_context* context,
                                                         const tilewright_group_norm_call* call,
                                                         const tilewright_exec* exec);
TILEWRIGHT_C_API tilewright_status tilewright_group_norm_prepare(tilewright_context* context,
                                                                 const tilewright_group_norm_call* call,
                                                                 const tilewright_exec* exec);
TILEWRIGHT_C_API tilewright_status tilewright_group_norm_query(tilewright_context* context,
                                                               const tilewright_group_norm_call* call,
                                                               const tilewright_exec* exec,
                                                               tilewright_query_result* result);
TILEWRIGHT_C_API tilewright_status tilewright_group_norm_explain(tilewright_context* context,
                                                                 const tilewright_group_norm_call* call,
                                                                 const tilewright_exec* exec, char* buffer,
                                                                 size_t* size);

static inline tilewright_group_norm_call tilewright_group_norm_call_defaults(void) {
  tilewright_group_norm_call call;
  memset(&call, 0, sizeof(call));
  call.struct_size = sizeof(call);
  call.eps = 1e-5f;
  return call;
}

/* Their gradients; docs/group_norm.md. */
typedef struct tilewright_group_norm_backward_call {
  uint32_t struct_size;
  float eps;                /* default: 1e-5 */
  const TwDLTensor* x;      /* as tilewright_group_norm_call's */
  const TwDLTensor* dy;     /* as x, as the next */
  const TwDLTensor* dx;     /* written; may be x or dy */
  const TwDLTensor* weight; /* optional, [C], as it was given, as the next */
  const TwDLTensor* bias;
  const TwDLTensor* dweight; /* optional, [C], written, as the next */
  const TwDLTensor* dbias;
  int64_t groups;     /* divides C */
  int32_t activation; /* TILEWRIGHT_ACTIVATION_NONE or _SILU */
  uint32_t reserved;
  const char* recipe; /* force this recipe; NULL = choose */
} tilewright_group_norm_backward_call;

/* As tilewright_gemm() and its like. */
TILEWRIGHT_C_API tilewright_status tilewright_group_norm_backward(tilewright_context* context,
                                                                  const tilewright_group_norm_backward_call* call,
                                                                  const tilewright_exec* exec);
TILEWRIGHT_C_API tilewright_status tilewright_group_norm_backward_prepare(
    tilewright_context* context, const tilewright_group_norm_backward_call* call, const tilewright_exec* exec);
TILEWRIGHT_C_API tilewright_status tilewright_group_norm_backward_query(tilewright_context* context,
                                                                        const tilewright_group_norm_backward_call* call,
                                                                        const tilewright_exec* exec,
                                                                        tilewright_query_result* result);
TILEWRIGHT_C_API tilewright_status
tilewright_group_norm_backward_explain(tilewright_context* context, const tilewright_group_norm_backward_call* call,
                                       const tilewright_exec* exec, char* buffer, size_t* size);

static inline tilewright_group_norm_backward_call tilewright_group_norm_backward_call_defaults(void) {
  tilewright_group_norm_backward_call call;
  memset(&call, 0, sizeof(call));
  call.struct_size = sizeof(call);
  call.eps = 1e-5f;
  return call;
}

/* NOLINTEND(readability-identifier-naming) */

#ifdef __cplusplus
}
#endif

#endif /* TILEWRIGHT_IMAGE_OPERATORS_H_ */
