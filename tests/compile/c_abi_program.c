/* SPDX-License-Identifier: MIT */
/* Compiled as C11 with -Wall -Wextra -pedantic -Werror against libtilewright.so by c_abi_test.py, then run. */
#include <stdio.h>

#include "tilewright/tilewright.h"

int main(void) {
  float a[2 * 3] = {1, 2, 3, 4, 5, 6};
  float b[3 * 2] = {1, 0, 0, 1, 1, 1};
  float d[2 * 2] = {0};
  int64_t a_shape[2] = {2, 3}, b_shape[2] = {3, 2}, d_shape[2] = {2, 2};
  const TwDLDevice cpu = {TW_DL_CPU, 0};
  const TwDLDataType f32 = {TW_DL_FLOAT, 32, 1};
  const TwDLTensor ta = {a, cpu, 2, f32, a_shape, NULL, 0};
  const TwDLTensor tb = {b, cpu, 2, f32, b_shape, NULL, 0};
  const TwDLTensor td = {d, cpu, 2, f32, d_shape, NULL, 0};
  const float want[4] = {4, 5, 10, 11};
  tilewright_gemm_call call = tilewright_gemm_call_defaults();
  tilewright_status status;
  int i;

  if (tilewright_c_abi() < TILEWRIGHT_C_ABI) return 2;
  call.a = &ta;
  call.b = &tb;
  call.d = &td;
  status = tilewright_gemm(NULL, &call, NULL);
  if (status != TILEWRIGHT_OK) {
    fprintf(stderr, "%s: %s\n", tilewright_status_name(status), tilewright_last_error());
    return 1;
  }
  for (i = 0; i < 4; ++i) {
    if (d[i] != want[i]) {
      fprintf(stderr, "d[%d] is %g, expected %g\n", i, (double)d[i], (double)want[i]);
      return 1;
    }
  }
  return 0;
}
