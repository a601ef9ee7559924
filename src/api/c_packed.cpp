// SPDX-License-Identifier: MIT
// Packed weights through the C ABI.
#include <fmt/format.h>

#include "api/c_gemm_call.hpp"
#include "api/c_structs.hpp"
#include "tilewright/gemm.hpp"

namespace tilewright::c_abi {
namespace {

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

// Through an empty tensor: one place knows which DLPack types and devices there are.
Result<TensorView> empty_tensor(TwDLDevice device, TwDLDataType dtype) {
  int64_t shape[] = {0};
  return from_dlpack(TwDLTensor{nullptr, device, 1, dtype, shape, nullptr, 0});
}

// The view only reads; TensorView has no const form.
Result<TensorView> view_on(tilewright_context* context, TwDLDevice device, const void* packed, int64_t packed_bytes) {
  const Result<TensorView> somewhere = empty_tensor(device, {TW_DL_INT, 8, 1});
  if (!somewhere) return somewhere.status();
  return gemm_packed_view(context_of(context), somewhere->device, const_cast<void*>(packed), packed_bytes);
}

}  // namespace

Result<TensorView> read_packed(const tilewright_packed_info* given, DeviceId device, const void* packed,
                               int64_t packed_bytes) {
  auto* const data = const_cast<void*>(packed);
  if (given == nullptr) {
    if (device == DeviceId{}) return gemm_packed_view(data, packed_bytes);
    return Status(StatusCode::kInvalidArgument,
                  fmt::format("gemm: argument 'b_packed_info' is NULL on {}, where no call reads the header of "
                              "'b_packed', allowed: what tilewright_gemm_packed_view_on() tells",
                              to_string(device)));
  }
  tilewright_packed_info info = tilewright_packed_info_defaults();
  if (Status s = read_struct<40>("tilewright_packed_info", given, info); !s) return s;
  const Result<TensorView> typed = empty_tensor({TW_DL_CPU, 0}, info.dtype);
  if (!typed) return typed.status();
  return gemm_packed_view_as(device, data, packed_bytes, typed->dtype, info.n, info.k, info.batch);
}

}  // namespace tilewright::c_abi

using namespace tilewright;         // NOLINT(google-build-using-namespace)
using namespace tilewright::c_abi;  // NOLINT(google-build-using-namespace)

tilewright_status tilewright_gemm_packed_bytes(TwDLDataType dtype, int64_t n, int64_t k, int64_t batch,
                                               int64_t* bytes) {
  return tilewright_gemm_packed_bytes_on({TW_DL_CPU, 0}, dtype, n, k, batch, bytes);
}

tilewright_status tilewright_gemm_packed_bytes_on(TwDLDevice device, TwDLDataType dtype, int64_t n, int64_t k,
                                                  int64_t batch, int64_t* bytes) {
  return guarded([&]() -> Status {
    if (bytes == nullptr) return missing("tilewright_gemm_packed_bytes", "bytes");
    const Result<TensorView> typed = empty_tensor(device, dtype);
    if (!typed) return typed.status();
    const Result<int64_t> needed = gemm_packed_bytes(typed->dtype, n, k, batch, typed->device);
    if (!needed) return needed.status();
    *bytes = *needed;
    return {};
  });
}

tilewright_status tilewright_gemm_pack_weights(tilewright_context* context, const TwDLTensor* b, void* out,
                                               int64_t out_bytes) {
  return guarded([&]() -> Status {
    if (b == nullptr) return missing("tilewright_gemm_pack_weights", "b");
    if (out == nullptr) return missing("tilewright_gemm_pack_weights", "out");
    const Result<TensorView> view = from_dlpack(*b);
    if (!view) return view.status();
    return gemm_pack_weights(context_of(context), *view, out, out_bytes);
  });
}

tilewright_status tilewright_gemm_packed_view(const void* packed, int64_t packed_bytes, tilewright_packed_info* info) {
  return tilewright_gemm_packed_view_on(nullptr, {TW_DL_CPU, 0}, packed, packed_bytes, info);
}

tilewright_status tilewright_gemm_packed_view_on(tilewright_context* context, TwDLDevice device, const void* packed,
                                                 int64_t packed_bytes, tilewright_packed_info* info) {
  return guarded([&]() -> Status {
    if (packed == nullptr) return missing("tilewright_gemm_packed_view", "packed");
    if (info == nullptr) return missing("tilewright_gemm_packed_view", "info");
    tilewright_packed_info out = tilewright_packed_info_defaults();
    if (Status s = read_struct<40>("tilewright_packed_info", info, out); !s) return s;
    const Result<TensorView> view = view_on(context, device, packed, packed_bytes);
    if (!view) return view.status();
    const int last = view->rank - 1;
    out.dtype = dlpack_type(view->dtype);
    out.n = view->shape[last];
    out.k = view->shape[last - 1];
    out.batch = view->rank == 3 ? view->shape[0] : 1;
    const bool fragments = view->layout == Layout::kPackedGemmFragments;
    const Result<int64_t> bytes = gemm_packed_bytes(view->dtype, out.n, out.k, out.batch,
                                                    fragments ? DeviceId{DeviceKind::kCuda, 0} : DeviceId{});
    if (!bytes) return bytes.status();
    out.bytes = *bytes;
    write_struct(out, info);
    return {};
  });
}

tilewright_status tilewright_gemm_unpack_weights(const void* packed, int64_t packed_bytes, const TwDLTensor* b) {
  return guarded([&]() -> Status {
    if (packed == nullptr) return missing("tilewright_gemm_unpack_weights", "packed");
    if (b == nullptr) return missing("tilewright_gemm_unpack_weights", "b");
    const Result<TensorView> to = from_dlpack(*b);
    if (!to) return to.status();
    const Result<TensorView> from = view_on(nullptr, b->device, packed, packed_bytes);
    if (!from) return from.status();
    return gemm_unpack_weights(Context::global(), *from, *to);
  });
}
