// SPDX-License-Identifier: MIT
// Packed weights through the C ABI.
#include <fmt/format.h>

#include "api/c_structs.hpp"
#include "tilewright/gemm.hpp"

namespace tilewright::c_abi {
namespace {

Result<TensorView> read_unpacked(const char* function, const TwDLTensor* b) {
  if (b == nullptr) return missing(function, "b");
  Result<TensorView> view = from_dlpack(*b);
  // A call looks at the bytes that it is given.
  if (view && view->device.kind != DeviceKind::kCpu) {
    return Status(StatusCode::kInvalidArgument,
                  fmt::format("{}: argument 'b' is on {}, allowed: cpu", function, to_string(view->device)));
  }
  return view;
}

// Packable types as DLPack names them.
constexpr std::pair<DType, TwDLDataType> kPackable[] = {{DType::kF32, {TW_DL_FLOAT, 32, 1}},
                                                        {DType::kF16, {TW_DL_FLOAT, 16, 1}},
                                                        {DType::kBf16, {TW_DL_BFLOAT, 16, 1}},
                                                        {DType::kI8, {TW_DL_INT, 8, 1}},
                                                        {DType::kI4, {TW_DL_INT, 4, 1}},
                                                        {DType::kU4, {TW_DL_UINT, 4, 1}},
                                                        {DType::kF4E2M1, {TW_DL_FLOAT4_E2M1FN, 4, 1}}};

TwDLDataType dlpack_type(DType dtype) {
  for (const auto& [known, type] : kPackable) {
    if (known == dtype) return type;
  }
  return {};
}

}  // namespace
}  // namespace tilewright::c_abi

using namespace tilewright;         // NOLINT(google-build-using-namespace)
using namespace tilewright::c_abi;  // NOLINT(google-build-using-namespace)

tilewright_status tilewright_gemm_packed_bytes(TwDLDataType dtype, int64_t n, int64_t k, int64_t batch,
                                               int64_t* bytes) {
  return guarded([&]() -> Status {
    if (bytes == nullptr) return missing("tilewright_gemm_packed_bytes", "bytes");
    // Through an empty tensor: one place knows which DLPack types there are.
    int64_t shape[] = {0};
    Result<TensorView> typed = from_dlpack(TwDLTensor{nullptr, {TW_DL_CPU, 0}, 1, dtype, shape, nullptr, 0});
    if (!typed) return typed.status();
    Result<int64_t> needed = gemm_packed_bytes(typed->dtype, n, k, batch);
    if (!needed) return needed.status();
    *bytes = *needed;
    return {};
  });
}

tilewright_status tilewright_gemm_pack_weights(tilewright_context* context, const TwDLTensor* b, void* out,
                                               int64_t out_bytes) {
  return guarded([&]() -> Status {
    Result<TensorView> view = read_unpacked("tilewright_gemm_pack_weights", b);
    if (!view) return view.status();
    if (out == nullptr) return missing("tilewright_gemm_pack_weights", "out");
    return gemm_pack_weights(context_of(context), *view, out, out_bytes);
  });
}

tilewright_status tilewright_gemm_packed_view(const void* packed, int64_t packed_bytes, tilewright_packed_info* info) {
  return guarded([&]() -> Status {
    if (packed == nullptr) return missing("tilewright_gemm_packed_view", "packed");
    if (info == nullptr) return missing("tilewright_gemm_packed_view", "info");
    tilewright_packed_info out = tilewright_packed_info_defaults();
    if (Status s = read_struct<40>("tilewright_packed_info", info, out); !s) return s;
    Result<TensorView> view = gemm_packed_view(const_cast<void*>(packed), packed_bytes);
    if (!view) return view.status();
    const int last = view->rank - 1;
    out.dtype = dlpack_type(view->dtype);
    out.n = view->shape[last];
    out.k = view->shape[last - 1];
    out.batch = view->rank == 3 ? view->shape[0] : 1;
    Result<int64_t> bytes = gemm_packed_bytes(view->dtype, out.n, out.k, out.batch);
    if (!bytes) return bytes.status();
    out.bytes = *bytes;
    write_struct(out, info);
    return {};
  });
}

tilewright_status tilewright_gemm_unpack_weights(const void* packed, int64_t packed_bytes, const TwDLTensor* b) {
  return guarded([&]() -> Status {
    if (packed == nullptr) return missing("tilewright_gemm_unpack_weights", "packed");
    Result<TensorView> to = read_unpacked("tilewright_gemm_unpack_weights", b);
    if (!to) return to.status();
    Result<TensorView> from = gemm_packed_view(const_cast<void*>(packed), packed_bytes);
    if (!from) return from.status();
    return gemm_unpack_weights(Context::global(), *from, *to);
  });
}
