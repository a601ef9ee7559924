/* SPDX-License-Identifier: MIT */
/* The part of DLPack's ABI that tilewright reads, for C and C++, under names of its own: it neither needs nor hides
 * <dlpack/dlpack.h>, whatever its version and the order of includes. The layout is that of every DLPack since 0.6; a
 * DLTensor* may be passed where a TwDLTensor* is asked for. Codes are those of DLPack 1.1. */
#ifndef TILEWRIGHT_DLPACK_ABI_H_
#define TILEWRIGHT_DLPACK_ABI_H_

#include <stddef.h>
#include <stdint.h>

enum {
  TW_DL_CPU = 1,
  TW_DL_CUDA = 2,
  TW_DL_CUDA_HOST = 3, /* pinned memory of the CPU */
  TW_DL_ROCM = 10,
  TW_DL_ROCM_HOST = 11 /* pinned memory of the CPU */
};

enum {
  TW_DL_INT = 0,
  TW_DL_UINT = 1,
  TW_DL_FLOAT = 2,
  TW_DL_BFLOAT = 4,
  TW_DL_FLOAT8_E4M3FN = 10,
  TW_DL_FLOAT8_E4M3FNUZ = 11,
  TW_DL_FLOAT8_E5M2 = 12,
  TW_DL_FLOAT8_E5M2FNUZ = 13,
  TW_DL_FLOAT8_E8M0FNU = 14,
  TW_DL_FLOAT4_E2M1FN = 17
};

typedef struct TwDLDevice {
  int32_t device_type; /* TW_DL_CPU ... */
  int32_t device_id;
} TwDLDevice;

typedef struct TwDLDataType {
  uint8_t code; /* TW_DL_INT ... */
  uint8_t bits;
  uint16_t lanes;
} TwDLDataType;

typedef struct TwDLTensor {
  void* data;
  TwDLDevice device;
  int32_t ndim;
  TwDLDataType dtype;
  int64_t* shape;
  int64_t* strides; /* in elements; NULL means row-major */
  uint64_t byte_offset;
} TwDLTensor;

#endif /* TILEWRIGHT_DLPACK_ABI_H_ */
