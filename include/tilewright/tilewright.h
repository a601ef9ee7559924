/* SPDX-License-Identifier: MIT */
/* The C ABI of tilewright, for C11 and for every language that calls C. It stays stable when the C++ API changes.
 *
 * Rules that hold for every function:
 *   - No function throws, prints or ends the process. Each returns a tilewright_status; 0 is success. What went wrong
 *     stands in tilewright_last_error() of the same thread: operator, argument, value, allowed set.
 *   - NULL is an answer, never a crash: a required pointer that is NULL gives TILEWRIGHT_INVALID_ARGUMENT, an optional
 *     one means "absent" or "defaults", and a NULL context means the global one.
 *   - Structs that callers fill in begin with `struct_size`, set to the sizeof that the caller was compiled with. The
 *     library reads that many bytes and takes defaults for fields that a later version added behind them. A larger
 *     struct of a newer caller is accepted as long as the unknown fields are zero.
 *   - Zero bytes are the default of every field but `struct_size` and gemm's `alpha`. The *_defaults() functions below
 *     fill both in.
 *   - Any function may be called from many threads at once, with the same context.
 *   - Tensors are DLPack's: a DLTensor* may be cast to TwDLTensor* (dlpack_abi.h). The library reads the struct during
 *     the call and keeps no pointer to it.
 */
#ifndef TILEWRIGHT_TILEWRIGHT_H_
#define TILEWRIGHT_TILEWRIGHT_H_

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "tilewright/dlpack_abi.h"

#if defined(_WIN32)
#define TILEWRIGHT_C_API
#else
#define TILEWRIGHT_C_API __attribute__((visibility("default")))
#endif

/* The version of this ABI. A library of the same number serves every program compiled with an equal or older header. */
#define TILEWRIGHT_C_ABI 1

#ifdef __cplusplus
extern "C" {
#endif

/* C names: NOLINTBEGIN(readability-identifier-naming) */

/* ---- Status ------------------------------------------------------------------------------------------------------ */

/* Numbers are those of tilewright::StatusCode and never change; later versions may add some. */
enum {
  TILEWRIGHT_OK = 0,
  TILEWRIGHT_INVALID_ARGUMENT = 1, /* the call breaks the operator's contract */
  TILEWRIGHT_UNSUPPORTED = 2,      /* valid, but this kernel, option or device cannot do it */
  TILEWRIGHT_NOT_FOUND = 3,        /* a named thing (kernel, file, device) does not exist */
  TILEWRIGHT_OUT_OF_MEMORY = 4,
  TILEWRIGHT_COMPILE_FAILED = 5,   /* the message carries the compiler's own words */
  TILEWRIGHT_COMPILE_DISABLED = 6, /* TILEWRIGHT_JIT=off and the instance is in no pack */
  TILEWRIGHT_DEVICE_ERROR = 7,     /* the driver refused; the message carries its text */
  TILEWRIGHT_VERIFY_FAILED = 8,    /* a kernel's output is outside its bound */
  TILEWRIGHT_TIMEOUT = 9,
  TILEWRIGHT_IO_ERROR = 10,
  TILEWRIGHT_CORRUPT = 11, /* a file's content fails its digest or its syntax */
  TILEWRIGHT_INTERNAL = 12
};
typedef int32_t tilewright_status;

/* "invalid_argument" ...; "unknown" for numbers that this library does not know. Never NULL, never freed. */
TILEWRIGHT_C_API const char* tilewright_status_name(tilewright_status status);

/* The message of this thread's last call that failed, without its code; "" before the first. Never NULL. Valid until
 * the next call that fails in this thread. */
TILEWRIGHT_C_API const char* tilewright_last_error(void);

/* "0.1.0" */
TILEWRIGHT_C_API const char* tilewright_version(void);
/* TILEWRIGHT_C_ABI of the library that is loaded. */
TILEWRIGHT_C_API uint32_t tilewright_c_abi(void);

/* ---- Context ----------------------------------------------------------------------------------------------------- */

/* Devices, registry, tuned tables and code cache of one user of the library. */
typedef struct tilewright_context tilewright_context;

enum {
  /* read neither the user's tuned tables and quarantine nor the tables of TILEWRIGHT_TUNED */
  TILEWRIGHT_CONTEXT_NO_USER_TABLES = 1
};

typedef struct tilewright_context_options {
  uint32_t struct_size;
  uint32_t flags;                 /* TILEWRIGHT_CONTEXT_... */
  const char* cache_dir;          /* code cache; NULL = TILEWRIGHT_CACHE_DIR or the user's cache folder */
  const char* jit;                /* "off" | "on" | "background" | "force"; NULL = TILEWRIGHT_JIT or "on" */
  const char* const* tuned_files; /* tuned tables layered over all others */
  size_t tuned_file_count;
  int32_t cpu_units; /* CPU threads; 0 = TILEWRIGHT_NUM_THREADS or every core that the process may use */
  int32_t reserved;  /* zero */
} tilewright_context_options;

/* `options` may be NULL. On failure *context is NULL. */
TILEWRIGHT_C_API tilewright_status tilewright_context_create(const tilewright_context_options* options,
                                                             tilewright_context** context);
/* Frees a context that tilewright_context_create() made; no call may still use it. NULL and the global context are left
 * alone. */
TILEWRIGHT_C_API void tilewright_context_destroy(tilewright_context* context);
/* The context that NULL stands for: made at first use from the environment, alive until the process ends. */
TILEWRIGHT_C_API tilewright_status tilewright_context_global(tilewright_context** context);

/* ---- Texts ------------------------------------------------------------------------------------------------------- */

/* Functions that return a text write it into the caller's buffer, as snprintf does: on entry *size is the buffer's
 * capacity in bytes, on return it is what the whole text takes with its final NUL. A text that does not fit is cut and
 * still ends with NUL; the status is TILEWRIGHT_OK, and *size above the capacity tells. buffer = NULL asks for the size
 * alone. */

/* Digest of all tuned rows in effect, and of kernels in quarantine: ranks of a job compare it to know that they choose alike. */
TILEWRIGHT_C_API tilewright_status tilewright_tables_digest(tilewright_context* context, char* buffer, size_t* size);

/* ---- Counters ---------------------------------------------------------------------------------------------------- */

typedef struct tilewright_counter {
  const char* name; /* "calls", "plan_hits", "compiles" ...; never freed */
  uint64_t value;
} tilewright_counter;

/* What the context did, as numbers. On entry *count is the capacity of `counters`, on return how many there are; as
 * many as fit are written. counters = NULL asks for the number alone. */
TILEWRIGHT_C_API tilewright_status tilewright_counters(tilewright_context* context, tilewright_counter* counters,
                                                       size_t* count);

/* ---- Profiling --------------------------------------------------------------------------------------------------- */

/* Ranges around the stages of calls ("tilewright:gemm:launch"), as TILEWRIGHT_PROFILE tells them to profilers. Called on
 * the thread that runs the stage, in pairs, nested; from many threads at once. `name` lives as long as the call. They must
 * not throw and must not call tilewright. */
typedef void (*tilewright_profile_push)(void* user, const char* name);
typedef void (*tilewright_profile_pop)(void* user);

/* From now on, for the whole process; both NULL = none. A range that is open meanwhile ends with the callbacks that it
 * began with. */
TILEWRIGHT_C_API tilewright_status tilewright_set_profile_callbacks(tilewright_profile_push push,
                                                                    tilewright_profile_pop pop, void* user);

/* ---- gemm -------------------------------------------------------------------------------------------------------- */

/* D = steps(gate(act(alpha * scale_a * scale_b * A B + beta * C + bias))); scales of groups along K stand inside the sum:
 * sum_k (A scale_a)((B - zero_b) scale_b).
 *
 * A [.., M, K], B [.., K, N], D [.., M, N]; with a gate, N = 2 I and D is [.., M, I]. At most one batch dimension,
 * which broadcasts. Any strides. A and B both f32, f16, bf16, i8, e4m3, e5m2 or e2m1; 8- and 4-bit floats also with
 * each other, and with f16 or bf16; B also i8, i4 (TW_DL_INT of 4 bits) or u4 (TW_DL_UINT of 4 bits) where A is f16 or
 * bf16. The rest f32, f16 or bf16; scales f32, those of groups also f16, bf16, e8m0 or e4m3. D may be the same memory as C
 * or a step's tensor with the same strides, and may overlap no other input. Size 0 is legal. */

/* Numbers of tilewright::Activation. */
enum {
  TILEWRIGHT_ACTIVATION_NONE = 0,
  TILEWRIGHT_ACTIVATION_RELU = 1,
  TILEWRIGHT_ACTIVATION_GELU = 2,      /* with erf */
  TILEWRIGHT_ACTIVATION_GELU_TANH = 3, /* the tanh approximation */
  TILEWRIGHT_ACTIVATION_SILU = 4,
  TILEWRIGHT_ACTIVATION_SIGMOID = 5,
  TILEWRIGHT_ACTIVATION_TANH = 6,
  TILEWRIGHT_ACTIVATION_HARDSWISH = 7,
  TILEWRIGHT_ACTIVATION_CLAMP = 8 /* to [low, high] */
};

/* Numbers of tilewright::GateMode. D[m, i] = activation(gate) * up over a fused gate-up weight of N = 2 I columns. */
enum {
  TILEWRIGHT_GATE_NONE = 0,
  TILEWRIGHT_GATE_SEPARATED = 1,  /* gate = columns [0, I), up = columns [I, 2 I) */
  TILEWRIGHT_GATE_INTERLEAVED = 2 /* gate = column 2 i, up = column 2 i + 1 */
};

/* Numbers of tilewright::StepKind. */
enum { TILEWRIGHT_STEP_ACTIVATION = 1, TILEWRIGHT_STEP_ADD = 2, TILEWRIGHT_STEP_MULTIPLY = 3 };

enum { TILEWRIGHT_GEMM_MAX_STEPS = 6 };

/* One step after the linear part and the gate. Steps stand in an array, so this struct never changes its size. */
typedef struct tilewright_gemm_step {
  int32_t kind;             /* TILEWRIGHT_STEP_... */
  int32_t activation;       /* of an activation step: TILEWRIGHT_ACTIVATION_... */
  float low, high;          /* clamp bounds of an activation step */
  const TwDLTensor* tensor; /* of an add or multiply step: broadcastable to D */
  uint64_t reserved[2];     /* zero */
} tilewright_gemm_step;

enum {
  TILEWRIGHT_GEMM_DETERMINISTIC = 1,   /* bitwise equal from run to run on the same device, whatever the thread count */
  TILEWRIGHT_GEMM_BATCH_INVARIANT = 2, /* a row's bits depend neither on M, nor on its place, nor on the unit budget */
  TILEWRIGHT_GEMM_ALLOW_TF32 = 4, /* f32 A and B may be rounded to tf32 (ten bits of mantissa) where that is faster */
  TILEWRIGHT_GEMM_ALLOW_FAST_ACCUM = 8 /* sums of 8-bit floats may keep fewer bits than f32 has where that is faster */
};

/* What packed bytes hold, as tilewright_gemm_packed_view() tells. */
typedef struct tilewright_packed_info {
  uint32_t struct_size;
  TwDLDataType dtype;
  int64_t n, k, batch;
  int64_t bytes; /* header included */
} tilewright_packed_info;

typedef struct tilewright_gemm_call {
  uint32_t struct_size;
  uint32_t flags;            /* TILEWRIGHT_GEMM_... */
  const TwDLTensor* a;       /* [.., M, K] */
  const TwDLTensor* b;       /* [.., K, N]; NULL when b_packed is given */
  const TwDLTensor* d;       /* [.., M, N] or [.., M, I]; the output */
  const void* b_packed;      /* what tilewright_gemm_pack_weights() wrote; NULL when b is given */
  int64_t b_packed_bytes;    /* its size */
  const TwDLTensor* scale_a; /* optional: scalar or [.., M, 1], f32; of groups: [.., ceil(M / outer), ceil(K / k)] */
  const TwDLTensor*
      scale_b;            /* optional: scalar, [N] or [.., 1, N], f32; of groups: [.., ceil(K / k), ceil(N / outer)] */
  const TwDLTensor* c;    /* broadcastable to [.., M, N]; required when beta is not 0, else not read */
  const TwDLTensor* bias; /* optional: [N] or broadcastable to [.., M, N] */
  float alpha;            /* 1 unless you mean otherwise */
  float beta;
  int32_t activation;                /* TILEWRIGHT_ACTIVATION_...; with a gate: of the gate half */
  int32_t gate;                      /* TILEWRIGHT_GATE_... */
  float low, high;                   /* clamp bounds of `activation` */
  const tilewright_gemm_step* steps; /* in the order given */
  size_t step_count;                 /* at most TILEWRIGHT_GEMM_MAX_STEPS */
  const char* recipe;                /* force this recipe (text form); NULL = choose */
  /* Which values share a scale: `outer` rows of A, or columns of B (1 or 128; 0 is 1), and `k` values along K (16, 32, 64 or
   * 128; 0 = all of K). */
  int32_t scale_a_outer, scale_a_k;
  int32_t scale_b_outer, scale_b_k;
  /* Optional, beside scales of groups of B = i8, i4 or u4: its zero points, i8, i4, u4, f32, f16 or bf16, as many as scale_b. */
  const TwDLTensor* zero_b;
  /* What b_packed holds; needed where that is a GPU's memory, whose header no call reads. NULL: the header tells. */
  const tilewright_packed_info* b_packed_info;
} tilewright_gemm_call;

/* Runs body(body_data, i) for every i in [0, count), on any threads, and returns when all are done. */
typedef void (*tilewright_parallel_for)(void* user_data, uint32_t count, void (*body)(void* body_data, uint32_t index),
                                        void* body_data);

/* How one call runs; nothing here changes its result. NULL in place of it means zero bytes: the context's own threads
 * and workspace. */
typedef struct tilewright_exec {
  uint32_t struct_size;
  int32_t units;   /* cores, SMs or CUs that the call may use; 0 = all */
  void* stream;    /* GPU stream; unused on the CPU */
  void* workspace; /* at least tilewright_query_result.workspace_bytes; NULL = the context's own */
  int64_t workspace_bytes;
  tilewright_parallel_for parallel_for; /* CPU: the caller's threads; NULL = the context's */
  void* parallel_for_data;              /* its first argument */
  /* GPU: not 0 = the call may begin before the kernels in front of it in the stream have ended (CUDA's programmatic
   * dependent launch). None of them may still write weights (a GEMM's B, weight and bias of operators on rows); everything else is
   * touched when they are done. */
  int32_t programmatic_edge;
} tilewright_exec;

/* Runs now (CPU) or enqueues on exec->stream. Allocates nothing once the problem has been seen. */
TILEWRIGHT_C_API tilewright_status tilewright_gemm(tilewright_context* context, const tilewright_gemm_call* call,
                                                   const tilewright_exec* exec);
/* Chooses, compiles and loads ahead of time: the next tilewright_gemm() of this problem only launches. Tensors' data
 * pointers may be NULL. */
TILEWRIGHT_C_API tilewright_status tilewright_gemm_prepare(tilewright_context* context,
                                                           const tilewright_gemm_call* call,
                                                           const tilewright_exec* exec);

/* What would run, and why. The library writes as many bytes as struct_size says. */
typedef struct tilewright_query_result {
  uint32_t struct_size;
  uint8_t built;    /* 1: no compile needed */
  uint8_t fallback; /* 1: a better recipe exists but is not built and may not be compiled */
  uint8_t reserved[2];
  int64_t workspace_bytes;
  double predicted_us; /* 0 = nobody predicted */
  char source[16];     /* "forced" | "tuned" | "bucket" | "cost" | "generic" */
  char* recipe;        /* the caller's buffer for kernel keys and knobs; NULL = not wanted */
  size_t recipe_size;  /* in: its capacity; out: bytes of the whole text with its NUL (see Texts) */
} tilewright_query_result;

/* Never compiles. Tensors' data pointers may be NULL. */
TILEWRIGHT_C_API tilewright_status tilewright_gemm_query(tilewright_context* context, const tilewright_gemm_call* call,
                                                         const tilewright_exec* exec, tilewright_query_result* result);
/* Every family and candidate with its cost or the reason of its refusal, as text for people. */
TILEWRIGHT_C_API tilewright_status tilewright_gemm_explain(tilewright_context* context,
                                                           const tilewright_gemm_call* call,
                                                           const tilewright_exec* exec, char* buffer, size_t* size);
/* The same function in float64, slowly: the yardstick of every kernel. CPU tensors only. */
TILEWRIGHT_C_API tilewright_status tilewright_gemm_reference(const tilewright_gemm_call* call);

/* ---- grouped_gemm ------------------------------------------------------------------------------------------------ */

/* A GEMM of each group of rows, with matrices B of their own. Sizes, offsets and indices are int32 in the memory of D's
 * device and are never read back. docs/grouped-gemm.md says what each mode takes. */

/* Numbers of tilewright::GroupMode. */
enum {
  TILEWRIGHT_GROUPS_CONTIGUOUS = 0, /* A [T, K], B [G, K, N], D [T, N] */
  TILEWRIGHT_GROUPS_MASKED = 1,     /* A [G, M, K], B [G, K, N], D [G, M, N]: the first sizes[g] rows */
  TILEWRIGHT_GROUPS_RAGGED_K = 2    /* A [M, T], B [T, N], D [G, M, N] */
};

typedef struct tilewright_grouped_gemm_call {
  uint32_t struct_size;
  int32_t mode;                     /* TILEWRIGHT_GROUPS_... */
  const tilewright_gemm_call* gemm; /* what one GEMM has */
  const TwDLTensor* sizes;          /* [G] */
  const TwDLTensor* offsets; /* [G + 1] where groups begin, or [G] where they end; with sizes: where they begin */
  const TwDLTensor* gather;  /* optional, contiguous: [T], rows of A; below 0 = left out */
  const TwDLTensor* scatter; /* the same for rows of D */
  const TwDLTensor* status;  /* optional: one int32 that becomes 1 where a number reached past what there is */
  int64_t alignment;         /* of sizes alone: groups begin at multiples of it; 0 is 1 */
  int64_t expected_rows;     /* about how many rows all groups have; 0 = not known */
} tilewright_grouped_gemm_call;

/* As tilewright_gemm() and its like. */
TILEWRIGHT_C_API tilewright_status tilewright_grouped_gemm(tilewright_context* context,
                                                           const tilewright_grouped_gemm_call* call,
                                                           const tilewright_exec* exec);
TILEWRIGHT_C_API tilewright_status tilewright_grouped_gemm_prepare(tilewright_context* context,
                                                                   const tilewright_grouped_gemm_call* call,
                                                                   const tilewright_exec* exec);
TILEWRIGHT_C_API tilewright_status tilewright_grouped_gemm_query(tilewright_context* context,
                                                                 const tilewright_grouped_gemm_call* call,
                                                                 const tilewright_exec* exec,
                                                                 tilewright_query_result* result);
TILEWRIGHT_C_API tilewright_status tilewright_grouped_gemm_explain(tilewright_context* context,
                                                                   const tilewright_grouped_gemm_call* call,
                                                                   const tilewright_exec* exec, char* buffer,
                                                                   size_t* size);
TILEWRIGHT_C_API tilewright_status tilewright_grouped_gemm_reference(const tilewright_grouped_gemm_call* call);

/* ---- Packed weights ---------------------------------------------------------------------------------------------- */

/* The packed form of B is plain bytes with a header: it may be stored in a file and mapped back at any address that is
 * a multiple of 64. One copy serves every M and every kernel of the device kind. The caller owns the memory. */

/* Bytes of the packed form of B [batch, K, N], header included. */
TILEWRIGHT_C_API tilewright_status tilewright_gemm_packed_bytes(TwDLDataType dtype, int64_t n, int64_t k, int64_t batch,
                                                                int64_t* bytes);
/* Of the form that a device packs. */
TILEWRIGHT_C_API tilewright_status tilewright_gemm_packed_bytes_on(TwDLDevice device, TwDLDataType dtype, int64_t n,
                                                                   int64_t k, int64_t batch, int64_t* bytes);
/* Packs B [K, N] or [batch, K, N] (any strides) into `out`. A weight stored as [N, K] is passed with its two shapes and
 * strides exchanged. B on a GPU is packed there, `out` is in its memory; the call waits for what the device still does. */
TILEWRIGHT_C_API tilewright_status tilewright_gemm_pack_weights(tilewright_context* context, const TwDLTensor* b,
                                                                void* out, int64_t out_bytes);

/* Recognises packed bytes: magic, version, sizes. */
TILEWRIGHT_C_API tilewright_status tilewright_gemm_packed_view(const void* packed, int64_t packed_bytes,
                                                               tilewright_packed_info* info);
/* The same of a device's memory; waits for what the device still does. */
TILEWRIGHT_C_API tilewright_status tilewright_gemm_packed_view_on(tilewright_context* context, TwDLDevice device,
                                                                  const void* packed, int64_t packed_bytes,
                                                                  tilewright_packed_info* info);
/* The way back, exactly; on the threads of the process's own context. */
TILEWRIGHT_C_API tilewright_status tilewright_gemm_unpack_weights(const void* packed, int64_t packed_bytes,
                                                                  const TwDLTensor* b);

/* ---- Weights of checkpoints and other libraries ------------------------------------------------------------------- */

/* Numbers are those of tilewright::WeightFormat; include/tilewright/stored_weights.hpp says what each holds. */
enum {
  TILEWRIGHT_WEIGHTS_AWQ = 0,
  TILEWRIGHT_WEIGHTS_GPTQ = 1,
  TILEWRIGHT_WEIGHTS_GPTQ_V2 = 2,
  TILEWRIGHT_WEIGHTS_AITER = 3,
  TILEWRIGHT_WEIGHTS_AITER_SCALES = 4
};

typedef struct tilewright_stored_weights {
  uint32_t struct_size;
  int32_t format; /* TILEWRIGHT_WEIGHTS_... */
  const TwDLTensor* weight;
  const TwDLTensor* zeros;       /* NULL: every zero point is half of the range */
  const TwDLTensor* group_index; /* NULL: groups lie one after another */
} tilewright_stored_weights;

typedef struct tilewright_plain_weights {
  uint32_t struct_size;
  const TwDLTensor* b;      /* [K, N]: a weight stored as [N, K] with its shapes and strides exchanged */
  const TwDLTensor* zero_b; /* [G, N]; NULL: none */
  const TwDLTensor* order;  /* int32 [K]; NULL: none */
} tilewright_plain_weights;

/* Writes `plain` from `stored`, exactly. Tensors of the CPU. */
TILEWRIGHT_C_API tilewright_status tilewright_import_weights(tilewright_context* context,
                                                             const tilewright_stored_weights* stored,
                                                             const tilewright_plain_weights* plain);
/* The way back: writes `stored` from `plain`. */
TILEWRIGHT_C_API tilewright_status tilewright_export_weights(tilewright_context* context,
                                                             const tilewright_plain_weights* plain,
                                                             const tilewright_stored_weights* stored);

/* ---- Defaults ---------------------------------------------------------------------------------------------------- */

/* Inline, so that struct_size is the caller's own. */

static inline tilewright_context_options tilewright_context_options_defaults(void) {
  tilewright_context_options options;
  memset(&options, 0, sizeof(options));
  options.struct_size = sizeof(options);
  return options;
}

static inline tilewright_gemm_call tilewright_gemm_call_defaults(void) {
  tilewright_gemm_call call;
  memset(&call, 0, sizeof(call));
  call.struct_size = sizeof(call);
  call.alpha = 1.0f;
  return call;
}

static inline tilewright_grouped_gemm_call tilewright_grouped_gemm_call_defaults(void) {
  tilewright_grouped_gemm_call call;
  memset(&call, 0, sizeof(call));
  call.struct_size = sizeof(call);
  return call;
}

static inline tilewright_exec tilewright_exec_defaults(void) {
  tilewright_exec exec;
  memset(&exec, 0, sizeof(exec));
  exec.struct_size = sizeof(exec);
  return exec;
}

static inline tilewright_query_result tilewright_query_result_defaults(void) {
  tilewright_query_result result;
  memset(&result, 0, sizeof(result));
  result.struct_size = sizeof(result);
  return result;
}

static inline tilewright_packed_info tilewright_packed_info_defaults(void) {
  tilewright_packed_info info;
  memset(&info, 0, sizeof(info));
  info.struct_size = sizeof(info);
  return info;
}

static inline tilewright_stored_weights tilewright_stored_weights_defaults(void) {
  tilewright_stored_weights stored;
  memset(&stored, 0, sizeof(stored));
  stored.struct_size = sizeof(stored);
  return stored;
}

static inline tilewright_plain_weights tilewright_plain_weights_defaults(void) {
  tilewright_plain_weights plain;
  memset(&plain, 0, sizeof(plain));
  plain.struct_size = sizeof(plain);
  return plain;
}

/* NOLINTEND(readability-identifier-naming) */

#ifdef __cplusplus
}
#endif

#include "tilewright/image_operators.h" /* norms of images */
#include "tilewright/logit_operators.h" /* softmax, sampling and their like */
#include "tilewright/row_operators.h"   /* norms and their like */

#include "tilewright/cache_operators.h" /* the paged KV cache */

#endif /* TILEWRIGHT_TILEWRIGHT_H_ */
