/* SPDX-License-Identifier: MIT */
/* D = gelu(A B + bias) from C: plain float matrices through the C ABI, checked against a plain loop. */
#include <math.h>
#include <stdio.h>

#include <tilewright/tilewright.h>

enum { M = 6, N = 10, K = 20 };

/* A row-major float matrix as DLPack describes it. */
static TwDLTensor matrix(float* data, int64_t* shape) {
  TwDLTensor tensor = {data, {TW_DL_CPU, 0}, 2, {TW_DL_FLOAT, 32, 1}, shape, NULL, 0};
  return tensor;
}

int main(void) {
  static float a[M * K], b[K * N], d[M * N], bias[N];
  for (int i = 0; i < M * K; ++i) a[i] = (float)(i % 11 - 5) / 8;
  for (int i = 0; i < K * N; ++i) b[i] = (float)(i % 13 - 6) / 8;
  for (int i = 0; i < N; ++i) bias[i] = (float)i / 16;

  int64_t a_shape[] = {M, K}, b_shape[] = {K, N}, d_shape[] = {M, N}, bias_shape[] = {1, N};
  const TwDLTensor ta = matrix(a, a_shape), tb = matrix(b, b_shape), td = matrix(d, d_shape);
  const TwDLTensor tbias = matrix(bias, bias_shape);

  tilewright_gemm_call call = tilewright_gemm_call_defaults();
  call.a = &ta;
  call.b = &tb;
  call.d = &td;
  call.bias = &tbias;
  call.activation = TILEWRIGHT_ACTIVATION_GELU;
  /* NULL: the global context, its own threads and workspace. */
  const tilewright_status status = tilewright_gemm(NULL, &call, NULL);
  if (status != TILEWRIGHT_OK) {
    fprintf(stderr, "error: %s: %s\n", tilewright_status_name(status), tilewright_last_error());
    return 1;
  }

  for (int m = 0; m < M; ++m) {
    for (int n = 0; n < N; ++n) {
      double sum = bias[n];
      for (int k = 0; k < K; ++k) sum += (double)a[m * K + k] * b[k * N + n];
      const double want = 0.5 * sum * (1 + erf(sum / sqrt(2.0)));
      if (fabs(d[m * N + n] - want) > 1e-5) {
        fprintf(stderr, "error: d[%d, %d] is %g, expected %g\n", m, n, (double)d[m * N + n], want);
        return 1;
      }
    }
  }
  printf("tilewright %s: D [%d, %d] = gelu(A B + bias), D[0, 0] = %.6f\nok\n", tilewright_version(), M, N,
         (double)d[0]);
  return 0;
}
