// SPDX-License-Identifier: MIT
// A cuBLASLt without a GPU: it multiplies on the host, in float64, what its descriptors describe, refuses what the real one
// refuses of them, and writes down what it is asked.
#include "support/cuda/fake_cublaslt.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "tile/common/numeric.hpp"

using namespace tilewright::cuda;
using tilewright::test::FakeCublasLt;

namespace {

FakeCublasLt& fake() {
  static FakeCublasLt* const state = new FakeCublasLt();
  return *state;
}

LtStatus result_of(const char* function) {
  fake().calls.emplace_back(function);
  const auto it = fake().failures.find(function);
  if (it == fake().failures.end()) return LtStatus::kSuccess;
  const auto result = static_cast<LtStatus>(it->second);
  fake().failures.erase(it);
  return result;
}

// What the opaque structs hold here.
struct Layout {
  LtType type;
  int32_t batch;
  uint64_t rows, columns;
  int64_t leading, batch_stride;
};
struct Product {
  LtCompute compute;
  LtType scale, bias_type;
  int32_t transpose_a, transpose_b, units, scale_mode_a, scale_mode_b;
  uint32_t epilogue;
  const void *bias, *scale_a, *scale_b;
  int64_t bias_batch_stride;
  int8_t fast;
};
struct Preference {
  uint64_t workspace;
  uint32_t reductions, alignment[4];
};
struct Algorithm {
  int32_t values[9];  // in the order of LtAlgoAttribute
};
template <class Inside, class Opaque>
Inside& inside(Opaque* opaque) {
  static_assert(sizeof(Inside) <= sizeof(*opaque));
  return *reinterpret_cast<Inside*>(const_cast<std::remove_const_t<Opaque>*>(opaque));
}

template <class Value>
LtStatus store(Value& to, const void* value, size_t bytes) {
  if (bytes != sizeof(Value)) return LtStatus::kInvalidValue;
  std::memcpy(&to, value, bytes);
  return LtStatus::kSuccess;
}

// ---- Elements ----

double load(LtType type, const void* data, int64_t index) {
  using namespace tilewright;
  switch (type) {
    case LtType::kF32: return static_cast<const float*>(data)[index];
    case LtType::kI32: return static_cast<const int32_t*>(data)[index];
    case LtType::kI8: return static_cast<const int8_t*>(data)[index];
    case LtType::kF16: return widen(static_cast<const f16*>(data)[index]);
    case LtType::kBf16: return widen(static_cast<const bf16*>(data)[index]);
    case LtType::kE4M3: return widen(static_cast<const e4m3*>(data)[index]);
    case LtType::kE5M2: return widen(static_cast<const e5m2*>(data)[index]);
  }
  return 0;
}
void save(LtType type, void* data, int64_t index, double value) {
  using namespace tilewright;
  const auto narrowed = static_cast<float>(value);
  switch (type) {
    case LtType::kF32: static_cast<float*>(data)[index] = narrowed; break;
    case LtType::kI32: static_cast<int32_t*>(data)[index] = static_cast<int32_t>(value); break;
    case LtType::kF16: static_cast<f16*>(data)[index] = narrow<f16>(narrowed); break;
    case LtType::kBf16: static_cast<bf16*>(data)[index] = narrow<bf16>(narrowed); break;
    default: break;
  }
}

// ---- What is refused ----

bool legal(const Layout& l) { return l.rows > 0 && l.columns > 0 && l.leading >= static_cast<int64_t>(l.rows); }

LtStatus check_problem(const Product& p, const Layout& a, const Layout& b, const Layout& c, const Layout& d) {
  const auto size = [](const Layout& l, bool rows, bool transposed) { return rows != transposed ? l.rows : l.columns; };
  const bool ta = p.transpose_a != 0, tb = p.transpose_b != 0;
  if (!legal(a) || !legal(b) || !legal(c) || !legal(d)) return LtStatus::kInvalidValue;
  if (size(a, true, ta) != d.rows || size(b, false, tb) != d.columns || size(a, false, ta) != size(b, true, tb) ||
      c.rows != d.rows || c.columns != d.columns || a.batch != d.batch || b.batch != d.batch || c.batch != d.batch) {
    return LtStatus::kInvalidValue;
  }
  if (c.type != d.type || d.type == LtType::kI8) return LtStatus::kNotSupported;
  if ((p.epilogue & kLtEpilogueBias) != 0 && p.bias_type != d.type) return LtStatus::kNotSupported;
  const bool f8 = a.type == LtType::kE4M3 || a.type == LtType::kE5M2;
  if (f8 && (!ta || tb)) return LtStatus::kNotSupported;
  if (!f8 && (p.scale_a != nullptr || p.scale_b != nullptr)) return LtStatus::kInvalidValue;
  return LtStatus::kSuccess;
}

FakeCublasLt::Algo algo_of(const LtAlgorithm* algorithm) {
  const int32_t* v = inside<Algorithm>(algorithm).values;
  return {v[0], v[1], v[6], v[2], v[3], v[4], v[5], v[7], v[8], 0, 0};
}
void fill(const FakeCublasLt::Algo& algo, LtAlgorithm* algorithm) {
  inside<Algorithm>(algorithm) = {{algo.id, algo.tile, algo.split_k, algo.reduction, algo.swizzle, algo.custom,
                                   algo.stages, algo.inner, algo.cluster}};
}
// The one of the library with these attributes; null = there is none.
const FakeCublasLt::Algo* known(const LtAlgorithm* algorithm) {
  FakeCublasLt::Algo wanted = algo_of(algorithm);
  for (const FakeCublasLt::Algo& algo : fake().algos) {
    wanted.workspace = algo.workspace, wanted.alignment = algo.alignment;
    if (wanted == algo) return &algo;
  }
  return nullptr;
}

double activated(uint32_t epilogue, double x) {
  if ((epilogue & kLtEpilogueRelu) != 0) return std::max(x, 0.0);
  if ((epilogue & kLtEpilogueGelu) == 0) return x;
  return 0.5 * x * (1 + std::tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)));
}

}  // namespace

#define EXPORTED extern "C" __attribute__((visibility("default")))

EXPORTED FakeCublasLt* fake_cublaslt() { return &fake(); }

EXPORTED size_t cublasLtGetVersion() { return fake().version; }
EXPORTED const char* cublasLtGetStatusName(LtStatus status) {
  return status == LtStatus::kNotSupported ? "CUBLAS_STATUS_NOT_SUPPORTED" : "CUBLAS_STATUS_FAKE";
}
EXPORTED const char* cublasLtGetStatusString(LtStatus) { return "as the test wanted"; }
EXPORTED LtStatus cublasLtCreate(LtHandle* handle) {
  const LtStatus result = result_of("cublasLtCreate");
  if (result == LtStatus::kSuccess) *handle = reinterpret_cast<LtHandle>(static_cast<uintptr_t>(++fake().live_handles));
  return result;
}
EXPORTED LtStatus cublasLtDestroy(LtHandle) {
  --fake().live_handles;
  return LtStatus::kSuccess;
}

EXPORTED LtStatus cublasLtMatrixLayoutInit_internal(LtLayout* layout, size_t bytes, LtType type, uint64_t rows,
                                                    uint64_t columns, int64_t leading) {
  if (bytes < sizeof(LtLayout)) return LtStatus::kAllocFailed;
  inside<Layout>(layout) = {type, 1, rows, columns, leading, 0};
  return LtStatus::kSuccess;
}
EXPORTED LtStatus cublasLtMatrixLayoutSetAttribute(LtLayout* layout, LtLayoutAttribute attribute, const void* value,
                                                   size_t bytes) {
  Layout& l = inside<Layout>(layout);
  return attribute == LtLayoutAttribute::kBatchCount ? store(l.batch, value, bytes)
                                                     : store(l.batch_stride, value, bytes);
}
EXPORTED LtStatus cublasLtMatmulDescInit_internal(LtMatmulDescriptor* descriptor, size_t bytes, LtCompute compute,
                                                  LtType scale) {
  if (bytes < sizeof(Product)) return LtStatus::kAllocFailed;
  Product product{};
  product.compute = compute, product.scale = scale, product.epilogue = kLtEpilogueDefault;
  inside<Product>(descriptor) = product;
  return LtStatus::kSuccess;
}
EXPORTED LtStatus cublasLtMatmulDescSetAttribute(LtMatmulDescriptor* descriptor, LtMatmulAttribute attribute,
                                                 const void* value, size_t bytes) {
  if (const LtStatus result = result_of("cublasLtMatmulDescSetAttribute"); result != LtStatus::kSuccess) return result;
  Product& p = inside<Product>(descriptor);
  switch (attribute) {
    case LtMatmulAttribute::kTransposeA: return store(p.transpose_a, value, bytes);
    case LtMatmulAttribute::kTransposeB: return store(p.transpose_b, value, bytes);
    case LtMatmulAttribute::kEpilogue: return store(p.epilogue, value, bytes);
    case LtMatmulAttribute::kBiasPointer: return store(p.bias, value, bytes);
    case LtMatmulAttribute::kBiasBatchStride: return store(p.bias_batch_stride, value, bytes);
    case LtMatmulAttribute::kUnits: return store(p.units, value, bytes);
    case LtMatmulAttribute::kScaleA: return store(p.scale_a, value, bytes);
    case LtMatmulAttribute::kScaleB: return store(p.scale_b, value, bytes);
    case LtMatmulAttribute::kFastAccumulation: return store(p.fast, value, bytes);
    case LtMatmulAttribute::kBiasType: return store(p.bias_type, value, bytes);
    case LtMatmulAttribute::kScaleModeA: return store(p.scale_mode_a, value, bytes);
    case LtMatmulAttribute::kScaleModeB: return store(p.scale_mode_b, value, bytes);
  }
  return LtStatus::kInvalidValue;
}
EXPORTED LtStatus cublasLtMatmulPreferenceInit_internal(LtPreference* preference, size_t bytes) {
  if (bytes < sizeof(LtPreference)) return LtStatus::kAllocFailed;
  inside<Preference>(preference) = {0, 7, {256, 256, 256, 256}};
  return LtStatus::kSuccess;
}
EXPORTED LtStatus cublasLtMatmulPreferenceSetAttribute(LtPreference* preference, LtPreferenceAttribute attribute,
                                                       const void* value, size_t bytes) {
  Preference& p = inside<Preference>(preference);
  switch (attribute) {
    case LtPreferenceAttribute::kWorkspaceBytes: return store(p.workspace, value, bytes);
    case LtPreferenceAttribute::kReductionMask: return store(p.reductions, value, bytes);
    case LtPreferenceAttribute::kAlignmentA: return store(p.alignment[0], value, bytes);
    case LtPreferenceAttribute::kAlignmentB: return store(p.alignment[1], value, bytes);
    case LtPreferenceAttribute::kAlignmentC: return store(p.alignment[2], value, bytes);
    case LtPreferenceAttribute::kAlignmentD: return store(p.alignment[3], value, bytes);
  }
  return LtStatus::kInvalidValue;
}

EXPORTED LtStatus cublasLtMatmulAlgoGetHeuristic(LtHandle, const LtMatmulDescriptor* descriptor, const LtLayout* a,
                                                 const LtLayout* b, const LtLayout* c, const LtLayout* d,
                                                 const LtPreference* preference, int wanted, LtHeuristic* results,
                                                 int* count) {
  *count = 0;
  if (const LtStatus result = result_of("cublasLtMatmulAlgoGetHeuristic"); result != LtStatus::kSuccess) return result;
  const Product& product = inside<Product>(descriptor);
  const Preference& p = inside<Preference>(preference);
  FakeCublasLt::Asked asked{p.workspace, p.reductions, {}, product.units};
  std::copy(std::begin(p.alignment), std::end(p.alignment), asked.alignment);
  fake().asked.push_back(asked);
  const LtStatus status =
      check_problem(product, inside<Layout>(a), inside<Layout>(b), inside<Layout>(c), inside<Layout>(d));
  if (status != LtStatus::kSuccess) return status;
  uint32_t alignment = *std::min_element(std::begin(p.alignment), std::end(p.alignment));
  // A bias's is read from its pointer.
  if ((product.epilogue & kLtEpilogueBias) != 0) {
    const auto address = reinterpret_cast<uintptr_t>(product.bias);
    alignment = std::min(alignment, static_cast<uint32_t>(address & (~address + 1)));
  }
  for (const FakeCublasLt::Algo& algo : fake().algos) {
    const bool reduces = (static_cast<uint32_t>(algo.reduction) & ~p.reductions) == 0;
    if (*count == wanted || algo.workspace > p.workspace || !reduces || algo.alignment > alignment) continue;
    LtHeuristic& result = results[(*count)++];
    result = {};
    fill(algo, &result.algorithm);
    result.workspace_bytes = algo.workspace;
  }
  return LtStatus::kSuccess;
}
EXPORTED LtStatus cublasLtMatmulAlgoInit(LtHandle, LtCompute, LtType, LtType, LtType, LtType, LtType, int id,
                                         LtAlgorithm* algorithm) {
  if (const LtStatus result = result_of("cublasLtMatmulAlgoInit"); result != LtStatus::kSuccess) return result;
  fill({id, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0}, algorithm);
  const auto same = [id](const FakeCublasLt::Algo& algo) { return algo.id == id; };
  return std::any_of(fake().algos.begin(), fake().algos.end(), same) ? LtStatus::kSuccess : LtStatus::kInvalidValue;
}
EXPORTED LtStatus cublasLtMatmulAlgoCheck(LtHandle, const LtMatmulDescriptor* descriptor, const LtLayout* a,
                                          const LtLayout* b, const LtLayout* c, const LtLayout* d,
                                          const LtAlgorithm* algorithm, LtHeuristic* result) {
  if (const LtStatus failed = result_of("cublasLtMatmulAlgoCheck"); failed != LtStatus::kSuccess) return failed;
  const FakeCublasLt::Algo* const algo = known(algorithm);
  if (algo == nullptr) return LtStatus::kNotSupported;
  result->workspace_bytes = algo->workspace;
  return check_problem(inside<Product>(descriptor), inside<Layout>(a), inside<Layout>(b), inside<Layout>(c),
                       inside<Layout>(d));
}
namespace {
// Two of the attributes have 16 bits.
size_t attribute_bytes(LtAlgoAttribute attribute) { return attribute >= LtAlgoAttribute::kInner ? 2 : 4; }
}  // namespace
EXPORTED LtStatus cublasLtMatmulAlgoConfigSetAttribute(LtAlgorithm* algorithm, LtAlgoAttribute attribute,
                                                       const void* value, size_t bytes) {
  if (attribute == LtAlgoAttribute::kId || bytes != attribute_bytes(attribute)) return LtStatus::kInvalidValue;
  std::memcpy(&inside<Algorithm>(algorithm).values[static_cast<int>(attribute)], value, bytes);
  return LtStatus::kSuccess;
}
EXPORTED LtStatus cublasLtMatmulAlgoConfigGetAttribute(const LtAlgorithm* algorithm, LtAlgoAttribute attribute,
                                                       void* value, size_t bytes, size_t* written) {
  if (bytes != attribute_bytes(attribute)) return LtStatus::kInvalidValue;
  std::memcpy(value, &inside<Algorithm>(algorithm).values[static_cast<int>(attribute)], bytes);
  *written = bytes;
  return LtStatus::kSuccess;
}
EXPORTED LtStatus cublasLtMatmulAlgoCapGetAttribute(const LtAlgorithm* algorithm, LtCapability, void* value,
                                                    size_t bytes, size_t* written) {
  const FakeCublasLt::Algo* const algo = known(algorithm);
  if (algo == nullptr || bytes != sizeof(algo->alignment)) return LtStatus::kInvalidValue;
  std::memcpy(value, &algo->alignment, bytes);
  *written = bytes;
  return LtStatus::kSuccess;
}

EXPORTED LtStatus cublasLtMatmul(LtHandle, const LtMatmulDescriptor* descriptor, const void* alpha, const void* a,
                                 const LtLayout* layout_a, const void* b, const LtLayout* layout_b, const void* beta,
                                 const void* c, const LtLayout* layout_c, void* d, const LtLayout* layout_d,
                                 const LtAlgorithm* algorithm, void* workspace, size_t workspace_bytes,
                                 CuStream stream) {
  if (const LtStatus result = result_of("cublasLtMatmul"); result != LtStatus::kSuccess) return result;
  const Product& p = inside<Product>(descriptor);
  const Layout &la = inside<Layout>(layout_a), &lb = inside<Layout>(layout_b), &lc = inside<Layout>(layout_c),
               &ld = inside<Layout>(layout_d);
  if (const LtStatus status = check_problem(p, la, lb, lc, ld); status != LtStatus::kSuccess) return status;
  const FakeCublasLt::Algo* const algo = known(algorithm);
  if (algo == nullptr || workspace_bytes < algo->workspace || (algo->workspace > 0 && workspace == nullptr)) {
    return LtStatus::kInvalidValue;
  }
  if (algo->workspace > 0) std::memset(workspace, 0xEE, algo->workspace);
  fake().multiplied.push_back({*algo, workspace_bytes, p.bias, stream});

  const bool integer = p.scale == LtType::kI32;
  const double scale = integer ? *static_cast<const int32_t*>(alpha) : *static_cast<const float*>(alpha);
  const double add = integer ? *static_cast<const int32_t*>(beta) : *static_cast<const float*>(beta);
  const auto depth = static_cast<int64_t>(p.transpose_a != 0 ? la.rows : la.columns);
  const auto at = [](const Layout& l, int64_t batch, int64_t row, int64_t column) {
    return batch * l.batch_stride + column * l.leading + row;
  };
  for (int64_t batch = 0; batch < ld.batch; ++batch) {
    for (int64_t column = 0; column < static_cast<int64_t>(ld.columns); ++column) {
      for (int64_t row = 0; row < static_cast<int64_t>(ld.rows); ++row) {
        // The scale of a value at `k` of the row of A or column of B.
        const auto group = [&](const void* values, int32_t mode, int64_t index, int64_t lines, int64_t k) {
          if (values == nullptr || mode < static_cast<int32_t>(LtScaleMode::kRows128)) return 1.0;
          const bool rows = mode == static_cast<int32_t>(LtScaleMode::kRows128);
          const int64_t each = rows ? lines : (depth / 128 + 3) / 4 * 4;
          return load(LtType::kF32, values, rows ? k / 128 * each + index : index / 128 * each + k / 128);
        };
        double sum = 0;
        for (int64_t k = 0; k < depth; ++k) {
          sum += group(p.scale_a, p.scale_mode_a, row, static_cast<int64_t>(ld.rows), k) *
                 group(p.scale_b, p.scale_mode_b, column, static_cast<int64_t>(ld.columns), k) *
                 load(la.type, a, p.transpose_a != 0 ? at(la, batch, k, row) : at(la, batch, row, k)) *
                 load(lb.type, b, p.transpose_b != 0 ? at(lb, batch, column, k) : at(lb, batch, k, column));
        }
        sum *= scale;
        const auto factor = [&](const void* values, int32_t mode, int64_t index) {
          if (values == nullptr || mode >= static_cast<int32_t>(LtScaleMode::kRows128)) return 1.0;
          return load(LtType::kF32, values, mode == 0 ? 0 : index);
        };
        sum *= factor(p.scale_a, p.scale_mode_a, row) * factor(p.scale_b, p.scale_mode_b, column);
        if (add != 0) sum += add * load(lc.type, c, at(lc, batch, row, column));
        if ((p.epilogue & kLtEpilogueBias) != 0) sum += load(p.bias_type, p.bias, batch * p.bias_batch_stride + row);
        save(ld.type, d, at(ld, batch, row, column), activated(p.epilogue, sum));
      }
    }
  }
  return LtStatus::kSuccess;
}
