// SPDX-License-Identifier: MIT
// Packed weights: size, recognition and packing. The layouts are documented in gemm_args.hpp, gemm_packed_layout.hpp and
// gemm_packed_fragments.hpp.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "dispatch/context_impl.hpp"
#include "gemm/gemm_packed_fragments.hpp"
#include "ops/gemm/families/amd/gemm_pack_amd_family.hpp"
#include "ops/gemm/families/cpu/gemm_pack_cpu_family.hpp"
#include "ops/gemm/families/cuda/gemm_pack_fragments_family.hpp"
#include "ops/gemm/problem/gemm_problem.hpp"
#include "ops/op_list.hpp"

namespace tilewright {
namespace {

Status refuse_packing(std::string message) { return Status(StatusCode::kInvalidArgument, std::move(message)); }

Status check_packable(DType dtype, int64_t n, int64_t k, int64_t batch, const char* function) {
  if (!is_packable(dtype)) {
    return refuse_packing(fmt::format("{}: dtype {}, allowed: {}", function, dtype_name(dtype), kPackableNames));
  }
  constexpr int64_t kMax = int64_t{1} << 40;
  if (n < 0 || k < 0 || batch < 0 || n > kMax || k > kMax || batch > kMax ||
      static_cast<__int128>(n + 16) * (k + 64) * std::max<int64_t>(batch, 1) > (int64_t{1} << 56)) {
    return refuse_packing(fmt::format("{}: sizes N = {}, K = {}, batch = {} are out of range", function, n, k, batch));
  }
  return {};
}

Status pack_on_cpu(const OpenDevice& on, const GemmPackArgs& args) {
  const DeviceSpec& spec = on.device->spec();
  Result<std::shared_ptr<const LoadedKernel>> kernel =
      on.dispatcher->load(gemm_pack_cpu_family(), gemm_pack_cpu_key(spec), /*allow_compile=*/true);
  if (!kernel) return kernel.status();
  return on.device->launch(**kernel, std::as_bytes(std::span(&args, 1)), {static_cast<uint32_t>(spec.units)}, {});
}

// Waits until the packed bytes are there.
Status pack_on_gpu(const OpenDevice& on, const GemmPackArgs& args) {
  constexpr int64_t kMostPanels = int64_t{1} << 24;  // a workgroup each, of 256 work-items, which count in 32 bits
  const ArchSpec& arch = *on.device->spec().arch;
  const bool fragments = arch.vendor == ArchVendor::kNvidia;
  const int64_t panels = packed_panels(args.n);
  if (panels >= kMostPanels / args.batch) {
    return refuse_packing(
        fmt::format("gemm_pack_weights: N = {}, batch = {} are too many for a launch", args.n, args.batch));
  }
  Result<std::shared_ptr<const LoadedKernel>> kernel =
      fragments ? on.dispatcher->load(gemm_pack_fragments_family(), gemm_pack_fragments_key(arch.target),
                                      /*allow_compile=*/true)
                : on.dispatcher->load(gemm_pack_amd_family(), gemm_pack_amd_key(arch.target), /*allow_compile=*/true);
  if (!kernel) return kernel.status();
  const LaunchShape shape =
      fragments ? gemm_pack_fragments_shape(panels * args.batch) : gemm_pack_amd_shape(panels * args.batch);
  if (Status s = on.device->launch(**kernel, std::as_bytes(std::span(&args, 1)), shape, {}); !s) return s;
  return on.device->synchronize();
}

// The view of packed bytes at `data`, whose header is `header`.
Result<TensorView> packed_view(const GemmPackedHeader& header, void* data, int64_t bytes) {
  auto corrupt = [](std::string message) {
    return Status(StatusCode::kCorrupt, "gemm_packed_view: " + std::move(message));
  };
  if (header.magic != kPackedMagic) return corrupt("not a packed weight (magic differs)");
  if (header.version != kPackedVersion) {
    return corrupt(fmt::format("packed with layout version {}, this library reads {}; pack the weight again",
                               header.version, kPackedVersion));
  }
  if (Status s = check_packable(header.dtype, header.n, header.k, header.batch, "gemm_packed_view"); !s) return s;
  const PackedLayout layout = packed_layout(header.dtype, header.n, header.k);
  const bool fragments = header.dtype == DType::kF4E2M1 && header.kp == kFragmentK;
  if ((header.kp != layout.kp && !fragments) || header.batch_bytes != layout.batch_bytes ||
      header.total_bytes != static_cast<int64_t>(sizeof(header)) + header.batch * header.batch_bytes ||
      header.total_bytes > bytes) {
    return corrupt(fmt::format("header and size disagree: {} bytes for {} x {} x {} of {}", bytes, header.batch,
                               header.k, header.n, dtype_name(header.dtype)));
  }
  TensorView view;
  view.data = static_cast<char*>(data) + sizeof(header);
  view.dtype = header.dtype;
  view.layout = fragments ? Layout::kPackedGemmFragments : Layout::kPackedGemmB;
  view.rank = header.batch == 1 ? 2 : 3;
  const int at = view.rank - 2;
  if (view.rank == 3) {
    view.shape[0] = header.batch;
    view.stride[0] = header.batch_bytes;
  }
  view.shape[at] = header.k;
  view.shape[at + 1] = header.n;
  return view;
}

}  // namespace

Result<int64_t> gemm_packed_bytes(DType dtype, int64_t n, int64_t k, int64_t batch) {
  if (Status s = check_packable(dtype, n, k, batch, "gemm_packed_bytes"); !s) return s;
  return static_cast<int64_t>(sizeof(GemmPackedHeader)) + batch * packed_layout(dtype, n, k).batch_bytes;
}

Status gemm_pack_weights(Context& context, const TensorView& b, void* out, int64_t out_bytes) {
  if (b.rank != 2 && b.rank != 3) {
    return refuse_packing(fmt::format("gemm_pack_weights: argument 'b' has rank {}, allowed: 2 or 3", b.rank));
  }
  if (b.layout != Layout::kStrided) return refuse_packing("gemm_pack_weights: argument 'b' is packed already");
  const Result<OpenDevice*> on = context.impl().open_device("gemm_pack_weights", b.device);
  if (!on) return on.status();
  const DeviceSpec& spec = (*on)->device->spec();
  const bool fragments = spec.arch->vendor == ArchVendor::kNvidia;
  if (fragments && b.dtype != DType::kF4E2M1) {
    return refuse_packing(
        fmt::format("gemm_pack_weights: argument 'b' is {} on {}, allowed: e2m1; others on cpu, AMD GPUs",
                    dtype_name(b.dtype), to_string(b.device)));
  }
  if (spec.arch->vendor == ArchVendor::kAmd && dtype_bits(b.dtype) == 4) {
    return refuse_packing(fmt::format("gemm_pack_weights: argument 'b' is {} on {}, allowed: on cpu",
                                      dtype_name(b.dtype), to_string(b.device)));
  }
  const int64_t batch = b.rank == 3 ? b.shape[0] : 1, k = b.shape[b.rank - 2], n = b.shape[b.rank - 1];
  Result<int64_t> bytes = gemm_packed_bytes(b.dtype, n, k, batch);
  if (!bytes) return bytes.status();
  if (out == nullptr || reinterpret_cast<uintptr_t>(out) % 64 != 0) {
    return refuse_packing("gemm_pack_weights: argument 'out' must be a 64-byte aligned address");
  }
  if (out_bytes < *bytes) {
    return refuse_packing(fmt::format("gemm_pack_weights: argument 'out_bytes' is {}, needs {}", out_bytes, *bytes));
  }
  if (b.data == nullptr && n * k * batch != 0)
    return refuse_packing("gemm_pack_weights: argument 'b' has a null data pointer");

  GemmPackedHeader header{};
  header.magic = kPackedMagic;
  header.version = kPackedVersion;
  header.dtype = b.dtype;
  const PackedLayout layout = packed_layout(b.dtype, n, k);
  header.kp = static_cast<unsigned char>(fragments ? kFragmentK : layout.kp);
  header.n = n, header.k = k, header.batch = batch;
  header.batch_bytes = layout.batch_bytes;
  header.total_bytes = *bytes;
  Device& device = *(*on)->device;
  if (Status s = device.copy_from_host(out, &header, sizeof(header)); !s) return s;
  if (n * k * batch == 0) {
    return device.fill(static_cast<char*>(out) + sizeof(header), 0, *bytes - static_cast<int64_t>(sizeof(header)));
  }

  GemmPackArgs args{};
  args.n = n, args.k = k, args.batch = batch;
  args.b = b.data;
  args.dtype = b.dtype;
  args.stride_b_batch = b.rank == 3 ? b.stride[0] : 0;
  args.stride_b_k = b.stride[b.rank - 2];
  args.stride_b_n = b.stride[b.rank - 1];
  args.packed = static_cast<char*>(out) + sizeof(header);
  args.packed_batch_bytes = header.batch_bytes;
  return spec.arch->vendor == ArchVendor::kX86 ? pack_on_cpu(**on, args) : pack_on_gpu(**on, args);
}

Result<TensorView> gemm_packed_view(void* data, int64_t bytes) {
  GemmPackedHeader header;
  if (data == nullptr || bytes < static_cast<int64_t>(sizeof(header))) {
    return refuse_packing(fmt::format("gemm_packed_view: {} bytes hold no packed weight", bytes));
  }
  std::memcpy(&header, data, sizeof(header));
  return packed_view(header, data, bytes);
}

Result<TensorView> gemm_packed_view(Context& context, DeviceId device, void* data, int64_t bytes) {
  if (device == DeviceId{}) return gemm_packed_view(data, bytes);
  const Result<OpenDevice*> on = context.impl().open_device("gemm_packed_view", device);
  if (!on) return on.status();
  GemmPackedHeader header;
  if (data == nullptr || bytes < static_cast<int64_t>(sizeof(header))) {
    return refuse_packing(fmt::format("gemm_packed_view: {} bytes hold no packed weight", bytes));
  }
  if (Status s = (*on)->device->copy_to_host(&header, data, sizeof(header)); !s) return s;
  Result<TensorView> view = packed_view(header, data, bytes);
  if (view) view->device = device;
  return view;
}

}  // namespace tilewright
