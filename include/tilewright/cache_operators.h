/* SPDX-License-Identifier: MIT */
/* Operators on the paged KV cache in the C ABI: a part of tilewright.h, which includes it and has the rules that hold for every
 * function. */
#ifndef TILEWRIGHT_CACHE_OPERATORS_H_
#define TILEWRIGHT_CACHE_OPERATORS_H_

#include "tilewright/tilewright.h"

#ifdef __cplusplus
extern "C" {
#endif

/* C names: NOLINTBEGIN(readability-identifier-naming) */

/* Numbers of tilewright::CacheLayout and tilewright::CacheScales; docs/kv_cache.md. */
enum {
  TILEWRIGHT_CACHE_NHD = 0,              /* [blocks, block, H, D], without H where there is one head */
  TILEWRIGHT_CACHE_HND = 1,              /* [blocks, H, block, D] */
  TILEWRIGHT_CACHE_KEY_PACKED = 2,       /* [blocks, H, D / x, block, x] */
  TILEWRIGHT_CACHE_VALUE_TRANSPOSED = 3, /* [blocks, H, D, block] */
  TILEWRIGHT_CACHE_VALUE_PACKED = 4      /* [blocks, H, block / x, D, x] */
};
enum {
  TILEWRIGHT_CACHE_SCALES_NONE = 0,
  TILEWRIGHT_CACHE_SCALES_TENSOR = 1, /* one number, read */
  TILEWRIGHT_CACHE_SCALES_HEAD = 2,   /* [H], read */
  TILEWRIGHT_CACHE_SCALES_TOKEN = 3   /* [blocks, block, H], found and written */
};

/* ---- kv_cache_write ---------------------------------------------------------------------------------------------- */

/* Keys and values of new tokens to their slots of a paged cache; docs/kv_cache.md says what each tensor may be. Zero bytes are the
 * default of every field but struct_size. */
typedef struct tilewright_kv_cache_write_call {
  uint32_t struct_size;
  int32_t key_layout; /* TILEWRIGHT_CACHE_... */
  int32_t value_layout;
  int32_t scales;              /* TILEWRIGHT_CACHE_SCALES_... */
  const TwDLTensor* key;       /* [T, H, D] */
  const TwDLTensor* value;     /* optional, as value_cache */
  const TwDLTensor* key_cache; /* by its layout */
  const TwDLTensor* value_cache;
  const TwDLTensor* slot_mapping; /* [T], i64 or i32 */
  const TwDLTensor* key_scale;    /* f32, by `scales` */
  const TwDLTensor* value_scale;
  const char* recipe; /* force this recipe; NULL = choose */
} tilewright_kv_cache_write_call;

/* As tilewright_gemm() and its like. */
TILEWRIGHT_C_API tilewright_status tilewright_kv_cache_write(tilewright_context* context,
                                                             const tilewright_kv_cache_write_call* call,
                                                             const tilewright_exec* exec);
TILEWRIGHT_C_API tilewright_status tilewright_kv_cache_write_prepare(tilewright_context* context,
                                                                     const tilewright_kv_cache_write_call* call,
                                                                     const tilewright_exec* exec);
TILEWRIGHT_C_API tilewright_status tilewright_kv_cache_write_query(tilewright_context* context,
                                                                   const tilewright_kv_cache_write_call* call,
                                                                   const tilewright_exec* exec,
                                                                   tilewright_query_result* result);
TILEWRIGHT_C_API tilewright_status tilewright_kv_cache_write_explain(tilewright_context* context,
                                                                     const tilewright_kv_cache_write_call* call,
                                                                     const tilewright_exec* exec, char* buffer,
                                                                     size_t* size);

static inline tilewright_kv_cache_write_call tilewright_kv_cache_write_call_defaults(void) {
  tilewright_kv_cache_write_call call;
  memset(&call, 0, sizeof(call));
  call.struct_size = sizeof(call);
  return call;
}

/* ---- qk_norm_rope_cache ------------------------------------------------------------------------------------------ */

/* Heads of q and k normalised and turned, k and v to a paged cache; docs/qk_norm_rope_cache.md says what each tensor may be. */
typedef struct tilewright_qk_norm_rope_cache_call {
  uint32_t struct_size;
  float eps;          /* 1e-6 of tilewright_qk_norm_rope_cache_call_defaults() */
  int32_t key_layout; /* TILEWRIGHT_CACHE_... */
  int32_t value_layout;
  int32_t scales;        /* TILEWRIGHT_CACHE_SCALES_..., of the caches */
  int32_t q_scales;      /* of q_out */
  uint8_t norm;          /* 1 of the defaults */
  uint8_t unit_offset;   /* weights are 1 + what stands there */
  uint8_t interleaved;   /* pairs are neighbours */
  uint8_t section_order; /* TILEWRIGHT_ROPE_SECTIONS_RUNS or _INTERLEAVED */
  uint8_t reserved[4];
  const TwDLTensor* q;         /* [T, H, D] */
  const TwDLTensor* k;         /* [T, H', D] */
  const TwDLTensor* v;         /* optional, as value_cache */
  const TwDLTensor* q_out;     /* as q */
  const TwDLTensor* key_cache; /* by its layout */
  const TwDLTensor* value_cache;
  const TwDLTensor* slot_mapping; /* [T], i64 or i32 */
  const TwDLTensor* q_weight;     /* optional, [D] */
  const TwDLTensor* k_weight;
  const TwDLTensor* cos; /* optional, [P, R / 2] */
  const TwDLTensor* sin;
  const TwDLTensor* positions; /* optional, [T], i64 or i32; with sections [axes, T] */
  const TwDLTensor* q_scale;   /* f32, by `q_scales` and `scales` */
  const TwDLTensor* key_scale;
  const TwDLTensor* value_scale;
  const char* recipe;  /* force this recipe; NULL = choose */
  int64_t sections[4]; /* pairs of each axis of the positions; zeros = one axis */
} tilewright_qk_norm_rope_cache_call;

/* As tilewright_gemm() and its like. */
TILEWRIGHT_C_API tilewright_status tilewright_qk_norm_rope_cache(tilewright_context* context,
                                                                 const tilewright_qk_norm_rope_cache_call* call,
                                                                 const tilewright_exec* exec);
TILEWRIGHT_C_API tilewright_status tilewright_qk_norm_rope_cache_prepare(tilewright_context* context,
                                                                         const tilewright_qk_norm_rope_cache_call* call,
                                                                         const tilewright_exec* exec);
TILEWRIGHT_C_API tilewright_status tilewright_qk_norm_rope_cache_query(tilewright_context* context,
                                                                       const tilewright_qk_norm_rope_cache_call* call,
                                                                       const tilewright_exec* exec,
                                                                       tilewright_query_result* result);
TILEWRIGHT_C_API tilewright_status tilewright_qk_norm_rope_cache_explain(tilewright_context* context,
                                                                         const tilewright_qk_norm_rope_cache_call* call,
                                                                         const tilewright_exec* exec, char* buffer,
                                                                         size_t* size);

static inline tilewright_qk_norm_rope_cache_call tilewright_qk_norm_rope_cache_call_defaults(void) {
  tilewright_qk_norm_rope_cache_call call;
  memset(&call, 0, sizeof(call));
  call.struct_size = sizeof(call);
  call.eps = 1e-6f;
  call.norm = 1;
  return call;
}

/* ---- kv_cache_copy, kv_cache_gather ------------------------------------------------------------------------------- */

/* Blocks of a cache to blocks of the same one or another; docs/kv_cache_move.md says what each tensor may be. */
typedef struct tilewright_kv_cache_copy_call {
  uint32_t struct_size;
  uint32_t reserved;
  const TwDLTensor* from;    /* [blocks, ...] */
  const TwDLTensor* to;      /* alike; may be `from` */
  const TwDLTensor* mapping; /* [pairs, 2], i64 or i32 */
  const char* recipe;        /* force this recipe; NULL = choose */
} tilewright_kv_cache_copy_call;

/* As tilewright_gemm() and its like. */
TILEWRIGHT_C_API tilewright_status tilewright_kv_cache_copy(tilewright_context* context,
                                                            const tilewright_kv_cache_copy_call* call,
                                                            const tilewright_exec* exec);
TILEWRIGHT_C_API tilewright_status tilewright_kv_cache_copy_prepare(tilewright_context* context,
                                                                    const tilewright_kv_cache_copy_call* call,
                                                                    const tilewright_exec* exec);
TILEWRIGHT_C_API tilewright_status tilewright_kv_cache_copy_query(tilewright_context* context,
                                                                  const tilewright_kv_cache_copy_call* call,
                                                                  const tilewright_exec* exec,
                                                                  tilewright_query_result* result);
TILEWRIGHT_C_API tilewright_status tilewright_kv_cache_copy_explain(tilewright_context* context,
                                                                    const tilewright_kv_cache_copy_call* call,
                                                                    const tilewright_exec* exec, char* buffer,
                                                                    size_t* size);

static inline tilewright_kv_cache_copy_call tilewright_kv_cache_copy_call_defaults(void) {
  tilewright_kv_cache_copy_call call;
  memset(&call, 0, sizeof(call));
  call.struct_size = sizeof(call);
  return call;
}

/* Tokens of requests from their blocks to rows that lie one behind the other. */
typedef struct tilewright_kv_cache_gather_call {
  uint32_t struct_size;
  int32_t layout; /* TILEWRIGHT_CACHE_... */
  int32_t scales; /* TILEWRIGHT_CACHE_SCALES_..., read */
  uint32_t reserved;
  const TwDLTensor* cache;              /* by its layout */
  const TwDLTensor* out;                /* [T, H, D], or [T, D] of one head */
  const TwDLTensor* block_table;        /* [B, columns], i32 */
  const TwDLTensor* cumulative_lengths; /* [B + 1], i32 */
  const TwDLTensor* scale;              /* f32, by `scales` */
  const char* recipe;                   /* force this recipe; NULL = choose */
} tilewright_kv_cache_gather_call;

/* As tilewright_gemm() and its like. */
TILEWRIGHT_C_API tilewright_status tilewright_kv_cache_gather(tilewright_context* context,
                                                              const tilewright_kv_cache_gather_call* call,
                                                              const tilewright_exec* exec);
TILEWRIGHT_C_API tilewright_status tilewright_kv_cache_gather_prepare(tilewright_context* context,
                                                                      const tilewright_kv_cache_gather_call* call,
                                                                      const tilewright_exec* exec);
TILEWRIGHT_C_API tilewright_status tilewright_kv_cache_gather_query(tilewright_context* context,
                                                                    const tilewright_kv_cache_gather_call* call,
                                                                    const tilewright_exec* exec,
                                                                    tilewright_query_result* result);
TILEWRIGHT_C_API tilewright_status tilewright_kv_cache_gather_explain(tilewright_context* context,
                                                                      const tilewright_kv_cache_gather_call* call,
                                                                      const tilewright_exec* exec, char* buffer,
                                                                      size_t* size);

static inline tilewright_kv_cache_gather_call tilewright_kv_cache_gather_call_defaults(void) {
  tilewright_kv_cache_gather_call call;
  memset(&call, 0, sizeof(call));
  call.struct_size = sizeof(call);
  return call;
}

/* NOLINTEND(readability-identifier-naming) */

#ifdef __cplusplus
}
#endif

#endif /* TILEWRIGHT_CACHE_OPERATORS_H_ */
