/* SPDX-License-Identifier: MIT */
/* Weights packed once, written to a file, read back and used for several batch sizes; then what would run is asked. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include <tilewright/tilewright.h>

enum { N = 48, K = 64, MAX_M = 33 };

static float a[MAX_M * K], weight[N * K], d[MAX_M * N];

static int fail(const char* what, tilewright_status status) {
  fprintf(stderr, "error: %s: %s: %s\n", what, tilewright_status_name(status), tilewright_last_error());
  return 1;
}

/* Packs and stores; returns the number of bytes, or 0. */
static int64_t store(const char* path) {
  /* A linear layer's weight [N, K] is B [K, N] with shape and strides exchanged. */
  int64_t shape[] = {K, N}, strides[] = {1, K};
  const TwDLTensor b = {weight, {TW_DL_CPU, 0}, 2, {TW_DL_FLOAT, 32, 1}, shape, strides, 0};
  int64_t bytes = 0;
  tilewright_status status = tilewright_gemm_packed_bytes(b.dtype, N, K, 1, &bytes);
  if (status != TILEWRIGHT_OK) return fail("packed_bytes", status), 0;
  void* packed = aligned_alloc(64, (size_t)(bytes + 63) / 64 * 64);
  status = tilewright_gemm_pack_weights(NULL, &b, packed, bytes);
  FILE* file = status == TILEWRIGHT_OK ? fopen(path, "wb") : NULL;
  if (file == NULL || fwrite(packed, 1, (size_t)bytes, file) != (size_t)bytes) bytes = 0;
  if (file != NULL) fclose(file);
  free(packed);
  if (status != TILEWRIGHT_OK) fail("pack_weights", status);
  return bytes;
}

int main(void) {
  for (int i = 0; i < MAX_M * K; ++i) a[i] = (float)(i % 17 - 8) / 16;
  for (int i = 0; i < N * K; ++i) weight[i] = (float)(i % 23 - 11) / 16;

  const char* path = "packed_weights.bin";
  const int64_t bytes = store(path);
  if (bytes == 0) return 1;
  void* packed = aligned_alloc(64, (size_t)(bytes + 63) / 64 * 64);
  FILE* file = fopen(path, "rb");
  if (file == NULL || fread(packed, 1, (size_t)bytes, file) != (size_t)bytes) {
    fprintf(stderr, "error: %s cannot be read\n", path);
    return 1;
  }
  fclose(file);
  remove(path);

  tilewright_packed_info info = tilewright_packed_info_defaults();
  tilewright_status status = tilewright_gemm_packed_view(packed, bytes, &info);
  if (status != TILEWRIGHT_OK) return fail("packed_view", status);
  printf("packed weights: N = %lld, K = %lld, %lld bytes\n", (long long)info.n, (long long)info.k,
         (long long)info.bytes);

  for (int m = 1; m <= MAX_M; m += 16) {
    int64_t a_shape[] = {m, K}, d_shape[] = {m, N};
    const TwDLTensor ta = {a, {TW_DL_CPU, 0}, 2, {TW_DL_FLOAT, 32, 1}, a_shape, NULL, 0};
    const TwDLTensor td = {d, {TW_DL_CPU, 0}, 2, {TW_DL_FLOAT, 32, 1}, d_shape, NULL, 0};
    tilewright_gemm_call call = tilewright_gemm_call_defaults();
    call.a = &ta;
    call.b_packed = packed;
    call.b_packed_bytes = bytes;
    call.d = &td;
    status = tilewright_gemm(NULL, &call, NULL);
    if (status != TILEWRIGHT_OK) return fail("gemm", status);
    for (int row = 0; row < m; ++row) {
      for (int n = 0; n < N; ++n) {
        double want = 0;
        for (int k = 0; k < K; ++k) want += (double)a[row * K + k] * weight[n * K + k];
        if (fabs(d[row * N + n] - want) > 1e-4) {
          fprintf(stderr, "error: M = %d: d[%d, %d] is %g, expected %g\n", m, row, n, (double)d[row * N + n], want);
          return 1;
        }
      }
    }

    char recipe[256] = "";
    tilewright_query_result result = tilewright_query_result_defaults();
    result.recipe = recipe;
    result.recipe_size = sizeof(recipe);
    status = tilewright_gemm_query(NULL, &call, NULL, &result);
    if (status != TILEWRIGHT_OK) return fail("query", status);
    printf("M = %-2d ran %s (%s)\n", m, recipe, result.source);
  }
  free(packed);
  printf("ok\n");
  return 0;
}
