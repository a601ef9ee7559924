// SPDX-License-Identifier: MIT
// The part of cuBLASLt's ABI that tilewright uses, under names of its own, so that no toolkit is needed to build. Layouts
// and values are those of the cuBLAS reference ("Using the cuBLASLt API"), version 12.0 and later.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tilewright::cuda {

// cublasStatus_t; only what is asked for by name.
enum class LtStatus : int { kSuccess = 0, kAllocFailed = 3, kInvalidValue = 7, kArchMismatch = 8, kNotSupported = 15 };

// cudaDataType
enum class LtType : int { kF32 = 0, kF16 = 2, kI8 = 3, kI32 = 10, kBf16 = 14, kE4M3 = 28, kE5M2 = 29 };

// cublasComputeType_t
enum class LtCompute : int { kF32 = 68, kI32 = 72, kTf32 = 77 };

enum class LtTranspose : int32_t { kNone = 0, kTransposed = 1 };  // cublasOperation_t

// cublasLtEpilogue_t. Bits: an activation and a bias may stand together.
inline constexpr uint32_t kLtEpilogueDefault = 1;
inline constexpr uint32_t kLtEpilogueRelu = 2;
inline constexpr uint32_t kLtEpilogueBias = 4;
inline constexpr uint32_t kLtEpilogueGelu = 32;  // the tanh approximation

// cublasLtReductionScheme_t, how parts of a split K meet. Bits of a mask; no reduction is always allowed.
inline constexpr uint32_t kLtReduceInPlace = 1;  // in D's type, one after another
inline constexpr uint32_t kLtReduceCompute = 2;  // in the compute type, by a step of its own
inline constexpr uint32_t kLtReduceOutput = 4;   // in D's type, by a step of its own

// cublasLtMatrixLayoutAttribute_t
enum class LtLayoutAttribute : int { kBatchCount = 5, kBatchStride = 6 };

// cublasLtMatmulDescAttributes_t
enum class LtMatmulAttribute : int {
  kTransposeA = 3,
  kTransposeB = 4,
  kEpilogue = 7,
  kBiasPointer = 8,
  kBiasBatchStride = 10,
  kUnits = 15,
  kScaleA = 17,
  kScaleB = 18,
  kFastAccumulation = 25,
  kBiasType = 26,
  kScaleModeA = 31,  // 12.9
  kScaleModeB = 32,
};

// cublasLtMatmulMatrixScale_t
enum class LtScaleMode : int32_t { kScalar = 0, kVector = 3, kRows128 = 4, kBlocks128 = 5 };

// cublasLtMatmulPreferenceAttributes_t
enum class LtPreferenceAttribute : int {
  kWorkspaceBytes = 1,
  kReductionMask = 3,
  kAlignmentA = 5,
  kAlignmentB = 6,
  kAlignmentC = 7,
  kAlignmentD = 8,
};

// cublasLtMatmulAlgoConfigAttributes_t
enum class LtAlgoAttribute : int {
  kId = 0,
  kTile = 1,
  kSplitK = 2,
  kReduction = 3,
  kSwizzle = 4,
  kCustom = 5,
  kStages = 6,
  kInner = 7,
  kCluster = 8,
};

// cublasLtMatmulAlgoCapAttributes_t
enum class LtCapability : int { kAlignmentA = 16, kAlignmentB = 17, kAlignmentC = 18, kAlignmentD = 19 };

// Structs that the caller provides and the library fills: plain data of a fixed size, which may be copied.
struct LtLayout {  // cublasLtMatrixLayoutOpaque_t
  uint64_t data[8];
};
struct LtMatmulDescriptor {  // cublasLtMatmulDescOpaque_t; earlier versions use less of it
  uint64_t data[32];
};
struct LtPreference {  // cublasLtMatmulPreferenceOpaque_t
  uint64_t data[8];
};
struct LtAlgorithm {  // cublasLtMatmulAlgo_t
  uint64_t data[8];
};
struct LtHeuristic {  // cublasLtMatmulHeuristicResult_t
  LtAlgorithm algorithm;
  size_t workspace_bytes;
  LtStatus state;
  float waves;
  int reserved[4];
};
static_assert(offsetof(LtHeuristic, state) == 72 && sizeof(LtHeuristic) == 96);

struct LtContext;
using LtHandle = LtContext*;

}  // namespace tilewright::cuda
