/* SPDX-License-Identifier: MIT */
/* Operators on rows in the C ABI: a part of tilewright.h, which includes it and has the rules that hold for every function. */
#ifndef TILEWRIGHT_ROW_OPERATORS_H_
#define TILEWRIGHT_ROW_OPERATORS_H_

#include "tilewright/tilewright.h"

#ifdef __cplusplus
extern "C" {
#endif

/* C names: NOLINTBEGIN(readability-identifier-naming) */

/* ---- Norms ------------------------------------------------------------------------------------------------------- */

/* Rows of N elements over the root of their mean square, or less their mean and over their deviation, times a weight;
 * docs/rms_norm.md and docs/layer_norm.md say what each tensor may be. */

/* Numbers of tilewright::Quantisation and tilewright::ScaleRounding; docs/quantisation.md. */
enum {
  TILEWRIGHT_QUANT_NONE = 0,
  TILEWRIGHT_QUANT_TENSOR = 1,
  TILEWRIGHT_QUANT_ROW = 2,
  TILEWRIGHT_QUANT_GROUP = 3,
  TILEWRIGHT_QUANT_DYNAMIC = 4, /* of the tensor, found: quantize only */
  TILEWRIGHT_QUANT_BLOCK = 5    /* of 128 rows by 128 elements: quantize and dequantize only */
};
enum {
  TILEWRIGHT_ROUND_SCALE_DOWN = 0,
  TILEWRIGHT_ROUND_SCALE_UP = 1,
  TILEWRIGHT_ROUND_SCALE_CEIL = 2,
  TILEWRIGHT_ROUND_SCALE_EVEN = 3
};

typedef struct tilewright_norm_call {
  uint32_t struct_size;
  float eps;                /* defaults: 1e-6 of rms_norm, 1e-5 of layer_norm */
  const TwDLTensor* x;      /* [..., N] */
  const TwDLTensor* out;    /* as x */
  const TwDLTensor* weight; /* optional, [N], as the next two */
  const TwDLTensor* bias;
  const TwDLTensor* smooth;       /* a factor for each column of the output */
  const TwDLTensor* residual;     /* optional, as x: added first */
  const TwDLTensor* residual_out; /* optional, as x: the sum */
  const TwDLTensor* scale;        /* of a quantised output: read (TENSOR) or written */
  int32_t quant;                  /* TILEWRIGHT_QUANT_... */
  int32_t group;                  /* 16, 32, 64 or 128 that share a scale; 0 = 128, of e8m0 32, of e4m3 16 */
  int32_t scale_rounding;         /* TILEWRIGHT_ROUND_SCALE_..., of e8m0 */
  uint8_t unit_offset;            /* the weight is 1 + weight */
  uint8_t round_before_weight;    /* to x's type */
  uint8_t reserved[2];
  const char* recipe;             /* force this recipe; NULL = choose */
  const TwDLTensor* tensor_scale; /* optional, f32, one element: what scales of e4m3 are multiples of */
} tilewright_norm_call;

/* As tilewright_gemm() and its like. */
TILEWRIGHT_C_API tilewright_status tilewright_rms_norm(tilewright_context* context, const tilewright_norm_call* call,
                                                       const tilewright_exec* exec);
TILEWRIGHT_C_API tilewright_status tilewright_rms_norm_prepare(tilewright_context* context,
                                                               const tilewright_norm_call* call,
                                                               const tilewright_exec* exec);
TILEWRIGHT_C_API tilewright_status tilewright_rms_norm_query(tilewright_context* context,
                                                             const tilewright_norm_call* call,
                                                             const tilewright_exec* exec,
                                                             tilewright_query_result* result);
TILEWRIGHT_C_API tilewright_status tilewright_rms_norm_explain(tilewright_context* context,
                                                               const tilewright_norm_call* call,
                                                               const tilewright_exec* exec, char* buffer, size_t* size);
TILEWRIGHT_C_API tilewright_status tilewright_layer_norm(tilewright_context* context, const tilewright_norm_call* call,
                                                         const tilewright_exec* exec);
TILEWRIGHT_C_API tilewright_status tilewright_layer_norm_prepare(tilewright_context* context,
                                                                 const tilewright_norm_call* call,
                                                                 const tilewright_exec* exec);
TILEWRIGHT_C_API tilewright_status tilewright_layer_norm_query(tilewright_context* context,
                                                               const tilewright_norm_call* call,
                                                               const tilewright_exec* exec,
                                                               tilewright_query_result* result);
TILEWRIGHT_C_API tilewright_status tilewright_layer_norm_explain(tilewright_context* context,
                                                                 const tilewright_norm_call* call,
                                                                 const tilewright_exec* exec, char* buffer,
                                                                 size_t* size);

/* ---- Quantisation ------------------------------------------------------------------------------------------------ */

/* Rows of N elements as codes, over scales that are given or found; docs/quantize.md. */
typedef struct tilewright_quantize_call {
  uint32_t struct_size;
  int32_t quant;                  /* TILEWRIGHT_QUANT_..., ROW of tilewright_quantize_call_defaults() */
  const TwDLTensor* x;            /* [..., N] */
  const TwDLTensor* out;          /* as x */
  const TwDLTensor* scale;        /* read (TENSOR) or written */
  const TwDLTensor* smooth;       /* optional, [N]: a factor for each column of x */
  int32_t group;                  /* 16, 32, 64 or 128 that share a scale; 0 = 128, of e8m0 32, of e4m3 16 */
  int32_t scale_rounding;         /* TILEWRIGHT_ROUND_SCALE_..., of e8m0 */
  const char* recipe;             /* force this recipe; NULL = choose */
  const TwDLTensor* tensor_scale; /* as tilewright_norm_call's, read or written */
  uint8_t find_tensor_scale;      /* written */
  uint8_t reserved[3];
  int32_t hadamard;               /* neighbours that are rotated: 16, 32, 64 or 128; 0 = none */
  const TwDLTensor* random_state; /* optional, i64 or i32 [2], a seed and an offset: rounds by chance */
} tilewright_quantize_call;

/* As tilewright_gemm() and its like. */
TILEWRIGHT_C_API tilewright_status tilewright_quantize(tilewright_context* context,
                                                       const tilewright_quantize_call* call,
                                                       const tilewright_exec* exec);
TILEWRIGHT_C_API tilewright_status tilewright_quantize_prepare(tilewright_context* context,
                                                               const tilewright_quantize_call* call,
                                                               const tilewright_exec* exec);
TILEWRIGHT_C_API tilewright_status tilewright_quantize_query(tilewright_context* context,
                                                             const tilewright_quantize_call* call,
                                                             const tilewright_exec* exec,
                                                             tilewright_query_result* result);
TILEWRIGHT_C_API tilewright_status tilewright_quantize_explain(tilewright_context* context,
                                                               const tilewright_quantize_call* call,
                                                               const tilewright_exec* exec, char* buffer, size_t* size);

static inline tilewright_quantize_call tilewright_quantize_call_defaults(void) {
  tilewright_quantize_call call;
  memset(&call, 0, sizeof(call));
  call.struct_size = sizeof(call);
  call.quant = TILEWRIGHT_QUANT_ROW;
  return call;
}

/* Codes and the scales that go with them as floats; docs/dequantize.md. */
typedef struct tilewright_dequantize_call {
  uint32_t struct_size;
  int32_t quant;           /* TILEWRIGHT_QUANT_TENSOR, _GROUP, _BLOCK, or _ROW of its defaults */
  const TwDLTensor* x;     /* [..., N] */
  const TwDLTensor* out;   /* as x */
  const TwDLTensor* scale; /* read */
  int32_t group;           /* 16, 32, 64 or 128 that share a scale; 0 = 128, of e8m0 32, of e4m3 16 */
  uint8_t reserved[4];
  const char* recipe;             /* force this recipe; NULL = choose */
  const TwDLTensor* tensor_scale; /* optional, f32, one element: what scales of e4m3 are multiples of */
} tilewright_dequantize_call;

/* As tilewright_gemm() and its like. */
TILEWRIGHT_C_API tilewright_status tilewright_dequantize(tilewright_context* context,
                                                         const tilewright_dequantize_call* call,
                                                         const tilewright_exec* exec);
TILEWRIGHT_C_API tilewright_status tilewright_dequantize_prepare(tilewright_context* context,
                                                                 const tilewright_dequantize_call* call,
                                                                 const tilewright_exec* exec);
TILEWRIGHT_C_API tilewright_status tilewright_dequantize_query(tilewright_context* context,
                                                               const tilewright_dequantize_call* call,
                                                               const tilewright_exec* exec,
                                                               tilewright_query_result* result);
TILEWRIGHT_C_API tilewright_status tilewright_dequantize_explain(tilewright_context* context,
                                                                 const tilewright_dequantize_call* call,
                                                                 const tilewright_exec* exec, char* buffer,
                                                                 size_t* size);

static inline tilewright_dequantize_call tilewright_dequantize_call_defaults(void) {
  tilewright_dequantize_call call;
  memset(&call, 0, sizeof(call));
  call.struct_size = sizeof(call);
  call.quant = TILEWRIGHT_QUANT_ROW;
  return call;
}

static inline tilewright_norm_call tilewright_rms_norm_call_defaults(void) {
  tilewright_norm_call call;
  memset(&call, 0, sizeof(call));
  call.struct_size = sizeof(call);
  call.eps = 1e-6f;
  return call;
}

static inline tilewright_norm_call tilewright_layer_norm_call_defaults(void) {
  tilewright_norm_call call = tilewright_rms_norm_call_defaults();
  call.eps = 1e-5f;
  return call;
}

/* Their gradients; docs/norm_backward.md. */
typedef struct tilewright_norm_backward_call {
  uint32_t struct_size;
  float eps;                   /* as tilewright_norm_call's */
  const TwDLTensor* x;         /* [..., N], what was normalised */
  const TwDLTensor* dy;        /* as x, as the next */
  const TwDLTensor* dx;        /* written; may be x, dy or dresidual */
  const TwDLTensor* weight;    /* optional, [N], as it was given */
  const TwDLTensor* dresidual; /* optional, as dx: added to it */
  const TwDLTensor* dweight;   /* optional, [N], written, as the next */
  const TwDLTensor* dbias;
  uint8_t unit_offset; /* the weight is 1 + weight */
  uint8_t reserved[7];
  const char* recipe; /* force this recipe; NULL = choose */
} tilewright_norm_backward_call;

/* As tilewright_gemm() and its like. */
TILEWRIGHT_C_API tilewright_status tilewright_rms_norm_backward(tilewright_context* context,
                                                                const tilewright_norm_backward_call* call,
                                                                const tilewright_exec* exec);
TILEWRIGHT_C_API tilewright_status tilewright_rms_norm_backward_prepare(tilewright_context* context,
                                                                        const tilewright_norm_backward_call* call,
                                                                        const tilewright_exec* exec);
TILEWRIGHT_C_API tilewright_status tilewright_rms_norm_backward_query(tilewright_context* context,
                                                                      const tilewright_norm_backward_call* call,
                                                                      const tilewright_exec* exec,
                                                                      tilewright_query_result* result);
TILEWRIGHT_C_API tilewright_status tilewright_rms_norm_backward_explain(tilewright_context* context,
                                                                        const tilewright_norm_backward_call* call,
                                                                        const tilewright_exec* exec, char* buffer,
                                                                        size_t* size);
TILEWRIGHT_C_API tilewright_status tilewright_layer_norm_backward(tilewright_context* context,
                                                                  const tilewright_norm_backward_call* call,
                                                                  const tilewright_exec* exec);
TILEWRIGHT_C_API tilewright_status tilewright_layer_norm_backward_prepare(tilewright_context* context,
                                                                          const tilewright_norm_backward_call* call,
                                                                          const tilewright_exec* exec);
TILEWRIGHT_C_API tilewright_status tilewright_layer_norm_backward_query(tilewright_context* context,
                                                                        const tilewright_norm_backward_call* call,
                                                                        const tilewright_exec* exec,
                                                                        tilewright_query_result* result);
TILEWRIGHT_C_API tilewright_status tilewright_layer_norm_backward_explain(tilewright_context* context,
                                                                          const tilewright_norm_backward_call* call,
                                                                          const tilewright_exec* exec, char* buffer,
                                                                          size_t* size);

static inline tilewright_norm_backward_call tilewright_rms_norm_backward_call_defaults(void) {
  tilewright_norm_backward_call call;
  memset(&call, 0, sizeof(call));
  call.struct_size = sizeof(call);
  call.eps = 1e-6f;
  return call;
}

static inline tilewright_norm_backward_call tilewright_layer_norm_backward_call_defaults(void) {
  tilewright_norm_backward_call call = tilewright_rms_norm_backward_call_defaults();
  call.eps = 1e-5f;
  return call;
}

/* ---- act_and_mul ------------------------------------------------------------------------------------------------- */

/* activation(gate) * up along rows; docs/act_and_mul.md says what each tensor may be. */
typedef struct tilewright_act_and_mul_call {
  uint32_t struct_size;
  float limit;             /* gates are at most this, ups within +-this; 0 = none */
  const TwDLTensor* x;     /* [..., 2 N], without a gate [..., N] */
  const TwDLTensor* out;   /* [..., N] */
  const TwDLTensor* scale; /* of a quantised output: read (TENSOR) or written */
  float alpha;             /* silu: gate * sigmoid(alpha * gate); 1 of tilewright_act_and_mul_call_defaults() */
  float up_offset;         /* added to ups */
  int32_t activation;      /* TILEWRIGHT_ACTIVATION_..., silu of the defaults */
  int32_t gate;            /* TILEWRIGHT_GATE_..., separated of the defaults; none: the activation alone */
  int32_t quant;           /* TILEWRIGHT_QUANT_... */
  int32_t group;           /* 16, 32, 64 or 128 that share a scale; 0 = 128, of e8m0 32, of e4m3 16 */
  int32_t scale_rounding;  /* TILEWRIGHT_ROUND_SCALE_..., of e8m0 */
  uint8_t squared;         /* the activation's square */
  uint8_t reserved[3];
  const char* recipe;             /* force this recipe; NULL = choose */
  const TwDLTensor* tensor_scale; /* optional, f32, one element: what scales of e4m3 are multiples of */
} tilewright_act_and_mul_call;

/* As tilewright_gemm() and its like. */
TILEWRIGHT_C_API tilewright_status tilewright_act_and_mul(tilewright_context* context,
                                                          const tilewright_act_and_mul_call* call,
                                                          const tilewright_exec* exec);
TILEWRIGHT_C_API tilewright_status tilewright_act_and_mul_prepare(tilewright_context* context,
                                                                  const tilewright_act_and_mul_call* call,
                                                                  const tilewright_exec* exec);
TILEWRIGHT_C_API tilewright_status tilewright_act_and_mul_query(tilewright_context* context,
                                                                const tilewright_act_and_mul_call* call,
                                                                const tilewright_exec* exec,
                                                                tilewright_query_result* result);
TILEWRIGHT_C_API tilewright_status tilewright_act_and_mul_explain(tilewright_context* context,
                                                                  const tilewright_act_and_mul_call* call,
                                                                  const tilewright_exec* exec, char* buffer,
                                                                  size_t* size);

static inline tilewright_act_and_mul_call tilewright_act_and_mul_call_defaults(void) {
  tilewright_act_and_mul_call call;
  memset(&call, 0, sizeof(call));
  call.struct_size = sizeof(call);
  call.alpha = 1;
  call.activation = TILEWRIGHT_ACTIVATION_SILU;
  call.gate = TILEWRIGHT_GATE_SEPARATED;
  return call;
}

/* Its gradient; docs/act_and_mul.md. */
typedef struct tilewright_act_and_mul_backward_call {
  uint32_t struct_size;
  float limit;          /* as tilewright_act_and_mul_call's, as all but the tensors */
  const TwDLTensor* x;  /* [..., 2 N], without a gate [..., N] */
  const TwDLTensor* dy; /* [..., N] */
  const TwDLTensor* dx; /* as x, written */
  float alpha;
  float up_offset;
  int32_t activation;
  int32_t gate;
  uint8_t squared;
  uint8_t reserved[7];
  const char* recipe;
} tilewright_act_and_mul_backward_call;

/* As tilewright_gemm() and its like. */
TILEWRIGHT_C_API tilewright_status tilewright_act_and_mul_backward(tilewright_context* context,
                                                                   const tilewright_act_and_mul_backward_call* call,
                                                                   const tilewright_exec* exec);
TILEWRIGHT_C_API tilewright_status tilewright_act_and_mul_backward_prepare(
    tilewright_context* context, const tilewright_act_and_mul_backward_call* call, const tilewright_exec* exec);
TILEWRIGHT_C_API tilewright_status
tilewright_act_and_mul_backward_query(tilewright_context* context, const tilewright_act_and_mul_backward_call* call,
                                      const tilewright_exec* exec, tilewright_query_result* result);
TILEWRIGHT_C_API tilewright_status
tilewright_act_and_mul_backward_explain(tilewright_context* context, const tilewright_act_and_mul_backward_call* call,
                                        const tilewright_exec* exec, char* buffer, size_t* size);

static inline tilewright_act_and_mul_backward_call tilewright_act_and_mul_backward_call_defaults(void) {
  tilewright_act_and_mul_backward_call call;
  memset(&call, 0, sizeof(call));
  call.struct_size = sizeof(call);
  call.alpha = 1;
  call.activation = TILEWRIGHT_ACTIVATION_SILU;
  call.gate = TILEWRIGHT_GATE_SEPARATED;
  return call;
}

/* ---- rope -------------------------------------------------------------------------------------------------------- */

/* Which pairs take which axis of the positions. */
enum {
  TILEWRIGHT_ROPE_SECTIONS_RUNS = 0,
  TILEWRIGHT_ROPE_SECTIONS_INTERLEAVED = 1,
  TILEWRIGHT_ROPE_SECTIONS_PARTS = 2
};

/* Pairs of heads' elements turned by the angle of their token; docs/rope.md says what each tensor may be. Zero bytes are the
 * default of every field but struct_size. */
typedef struct tilewright_rope_call {
  uint32_t struct_size;
  uint8_t interleaved;   /* pairs are neighbours */
  uint8_t inverse;       /* by the negative angle */
  uint8_t section_order; /* TILEWRIGHT_ROPE_SECTIONS_... */
  uint8_t reserved;
  const TwDLTensor* q; /* [..., heads, D] */
  const TwDLTensor* q_out;
  const TwDLTensor* k; /* optional, as the next */
  const TwDLTensor* k_out;
  const TwDLTensor* cos; /* [P, R / 2] */
  const TwDLTensor* sin;
  const TwDLTensor* positions;          /* optional, [...] i32; with sections [axes, ...] */
  const char* recipe;                   /* force this recipe; NULL = choose */
  int64_t sections[4];                  /* pairs of each axis of the positions; zeros = one axis */
  const TwDLTensor* cumulative_lengths; /* optional, [sequences + 1] i32: q is packed sequences */
  const TwDLTensor* offsets;            /* optional, [sequences] i32 */
} tilewright_rope_call;

/* As tilewright_gemm() and its like. */
TILEWRIGHT_C_API tilewright_status tilewright_rope(tilewright_context* context, const tilewright_rope_call* call,
                                                   const tilewright_exec* exec);
TILEWRIGHT_C_API tilewright_status tilewright_rope_prepare(tilewright_context* context,
                                                           const tilewright_rope_call* call,
                                                           const tilewright_exec* exec);
TILEWRIGHT_C_API tilewright_status tilewright_rope_query(tilewright_context* context, const tilewright_rope_call* call,
                                                         const tilewright_exec* exec, tilewright_query_result* result);
TILEWRIGHT_C_API tilewright_status tilewright_rope_explain(tilewright_context* context,
                                                           const tilewright_rope_call* call,
                                                           const tilewright_exec* exec, char* buffer, size_t* size);

static inline tilewright_rope_call tilewright_rope_call_defaults(void) {
  tilewright_rope_call call;
  memset(&call, 0, sizeof(call));
  call.struct_size = sizeof(call);
  return call;
}

/* ---- gated_rms_norm ---------------------------------------------------------------------------------------------- */

/* norm(x silu(z)) weight, or norm(x) weight silu(z), along rows or groups of them; docs/gated_rms_norm.md. */
typedef struct tilewright_gated_rms_norm_call {
  uint32_t struct_size;
  float eps;                /* 1e-5 of tilewright_gated_rms_norm_call_defaults() */
  const TwDLTensor* x;      /* [..., N] */
  const TwDLTensor* z;      /* as x */
  const TwDLTensor* out;    /* as x */
  const TwDLTensor* weight; /* optional, [N] */
  const TwDLTensor* scale;  /* of a quantised output: read (TENSOR) or written */
  int64_t norm_group;       /* neighbours that have one mean square; 0 = a row */
  int32_t quant;            /* TILEWRIGHT_QUANT_... */
  int32_t group;            /* 16, 32, 64 or 128 that share a scale; 0 = 128, of e8m0 32, of e4m3 16 */
  int32_t scale_rounding;   /* TILEWRIGHT_ROUND_SCALE_..., of e8m0 */
  uint8_t norm_before_gate; /* the gate comes behind norm and weight */
  uint8_t reserved[3];
  const char* recipe;             /* force this recipe; NULL = choose */
  const TwDLTensor* tensor_scale; /* optional, f32, one element: what scales of e4m3 are multiples of */
} tilewright_gated_rms_norm_call;

/* As tilewright_gemm() and its like. */
TILEWRIGHT_C_API tilewright_status tilewright_gated_rms_norm(tilewright_context* context,
                                                             const tilewright_gated_rms_norm_call* call,
                                                             const tilewright_exec* exec);
TILEWRIGHT_C_API tilewright_status tilewright_gated_rms_norm_prepare(tilewright_context* context,
                                                                     const tilewright_gated_rms_norm_call* call,
                                                                     const tilewright_exec* exec);
TILEWRIGHT_C_API tilewright_status tilewright_gated_rms_norm_query(tilewright_context* context,
                                                                   const tilewright_gated_rms_norm_call* call,
                                                                   const tilewright_exec* exec,
                                                                   tilewright_query_result* result);
TILEWRIGHT_C_API tilewright_status tilewright_gated_rms_norm_explain(tilewright_context* context,
                                                                     const tilewright_gated_rms_norm_call* call,
                                                                     const tilewright_exec* exec, char* buffer,
                                                                     size_t* size);

static inline tilewright_gated_rms_norm_call tilewright_gated_rms_norm_call_defaults(void) {
  tilewright_gated_rms_norm_call call;
  memset(&call, 0, sizeof(call));
  call.struct_size = sizeof(call);
  call.eps = 1e-5f;
  return call;
}

/* ---- elementwise ------------------------------------------------------------------------------------------------- */

/* x, x + b or x * b, cast to out's type; docs/elementwise.md. */
enum { TILEWRIGHT_ARITHMETIC_NONE = 0, TILEWRIGHT_ARITHMETIC_ADD = 1, TILEWRIGHT_ARITHMETIC_MUL = 2 };
typedef struct tilewright_elementwise_call {
  uint32_t struct_size;
  int32_t arithmetic;    /* TILEWRIGHT_ARITHMETIC_... */
  const TwDLTensor* x;   /* [..., N] */
  const TwDLTensor* b;   /* with an arithmetic; broadcast to x */
  const TwDLTensor* out; /* as x */
  const char* recipe;    /* force this recipe; NULL = choose */
} tilewright_elementwise_call;

/* As tilewright_gemm() and its like. */
TILEWRIGHT_C_API tilewright_status tilewright_elementwise(tilewright_context* context,
                                                          const tilewright_elementwise_call* call,
                                                          const tilewright_exec* exec);
TILEWRIGHT_C_API tilewright_status tilewright_elementwise_prepare(tilewright_context* context,
                                                                  const tilewright_elementwise_call* call,
                                                                  const tilewright_exec* exec);
TILEWRIGHT_C_API tilewright_status tilewright_elementwise_query(tilewright_context* context,
                                                                const tilewright_elementwise_call* call,
                                                                const tilewright_exec* exec,
                                                                tilewright_query_result* result);
TILEWRIGHT_C_API tilewright_status tilewright_elementwise_explain(tilewright_context* context,
                                                                  const tilewright_elementwise_call* call,
                                                                  const tilewright_exec* exec, char* buffer,
                                                                  size_t* size);

static inline tilewright_elementwise_call tilewright_elementwise_call_defaults(void) {
  tilewright_elementwise_call call;
  memset(&call, 0, sizeof(call));
  call.struct_size = sizeof(call);
  return call;
}

/* ---- transpose --------------------------------------------------------------------------------------------------- */

/* The last two dimensions change places in memory; docs/transpose.md. */
typedef struct tilewright_transpose_call {
  uint32_t struct_size;
  uint32_t reserved;
  const TwDLTensor* x;   /* [..., M, N], elements of 8, 16 or 32 bits */
  const TwDLTensor* out; /* [..., N, M], as x */
  const char* recipe;    /* force this recipe; NULL = choose */
} tilewright_transpose_call;

/* As tilewright_gemm() and its like. */
TILEWRIGHT_C_API tilewright_status tilewright_transpose(tilewright_context* context,
                                                        const tilewright_transpose_call* call,
                                                        const tilewright_exec* exec);
TILEWRIGHT_C_API tilewright_status tilewright_transpose_prepare(tilewright_context* context,
                                                                const tilewright_transpose_call* call,
                                                                const tilewright_exec* exec);
TILEWRIGHT_C_API tilewright_status tilewright_transpose_query(tilewright_context* context,
                                                              const tilewright_transpose_call* call,
                                                              const tilewright_exec* exec,
                                                              tilewright_query_result* result);
TILEWRIGHT_C_API tilewright_status tilewright_transpose_explain(tilewright_context* context,
                                                                const tilewright_transpose_call* call,
                                                                const tilewright_exec* exec, char* buffer,
                                                                size_t* size);

static inline tilewright_transpose_call tilewright_transpose_call_defaults(void) {
  tilewright_transpose_call call;
  memset(&call, 0, sizeof(call));
  call.struct_size = sizeof(call);
  return call;
}

/* NOLINTEND(readability-identifier-naming) */

#ifdef __cplusplus
}
#endif

#endif /* TILEWRIGHT_ROW_OPERATORS_H_ */
