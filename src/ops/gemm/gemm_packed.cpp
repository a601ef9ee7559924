// SPDX-License-Identifier: MIT
// Packed weights: size, recognition and packing. The layouts are documented in gemm_args.hpp, gemm_packed_layout.hpp and
// gemm_packed_fragments.hpp.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "dispatch/context_impl.hpp"
#include "gemm/gemm_packed_fragments.hpp"
#include "ops/gemm/families/cpu/gemm_pack_cpu_family.hpp"
#include "ops/gemm/families/gpu/gemm_pack_gpu_family.hpp"
#include "ops/gemm/problem/gemm_problem.hpp"
#include "ops/op_list.hpp"

namespace tilewright {
namespace {

Status refuse_packing(std::string message) { return Status(StatusCode::kInvalidArgument, std::move(message)); }

// How a type is packed for a device.
struct PackedForm {
  bool fragments;
  int64_t at;  // from the header on
  unsigned char kp;
  int64_t batch_bytes;
};
PackedForm packed_form(DType dtype, int64_t n, int64_t k, bool fragments) {
  if (fragments) return {true, kPackedFragmentsAt, kFragmentK, packed_fragments_bytes(n, k)};
  const PackedLayout layout = packed_layout(dtype, n, k);
  return {false, sizeof(GemmPackedHeader), static_cast<unsigned char>(layout.kp), layout.batch_bytes};
}

Status check_packable(DType dtype, const char* function) {
  if (is_packable(dtype)) return {};
  return refuse_packing(fmt::format("{}: dtype {}, allowed: {}", function, dtype_name(dtype), kPackableNames));
}
Status check_packed_sizes(int64_t n, int64_t k, int64_t batch, const char* function) {
  constexpr int64_t kMax = int64_t{1} << 40;
  if (n < 0 || k < 0 || batch < 0 || n > kMax || k > kMax || batch > kMax ||
      static_cast<__int128>(n + 64) * (k + 128) * std::max<int64_t>(batch, 1) > (int64_t{1} << 56)) {
    return refuse_packing(fmt::format("{}: sizes N = {}, K = {}, batch = {} are out of range", function, n, k, batch));
  }
  return {};
}
Status check_packable_on(DeviceId device, DType dtype, const char* function) {
  if (Status s = check_packable(dtype, function); !s) return s;
  if (device.kind == DeviceKind::kCuda && dtype_bits(dtype) != 4) {
    return refuse_packing(fmt::format("{}: dtype {} on {}, allowed: e2m1, i4, u4; others on cpu, AMD GPUs", function,
                                      dtype_name(dtype), to_string(device)));
  }
  const bool amd = device.kind == DeviceKind::kHip || device.kind == DeviceKind::kEmulated;
  if (amd && dtype_bits(dtype) == 4) {
    return refuse_packing(
        fmt::format("{}: dtype {} on {}, allowed: on cpu", function, dtype_name(dtype), to_string(device)));
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
Status pack_on_gpu(const OpenDevice& on, const GemmPackArgs& args, bool fragments) {
  constexpr int64_t kMostPanels = int64_t{1} << 24;  // a block each, of 256 threads, which count in 32 bits
  const ArchSpec& arch = *on.device->spec().arch;
  const int64_t panels = fragments ? packed_fragment_groups(args.n) * kFragmentsAside : packed_panels(args.n);
  if (panels >= kMostPanels / args.batch) {
    return refuse_packing(
        fmt::format("gemm_pack_weights: N = {}, batch = {} are too many for a launch", args.n, args.batch));
  }
  const GpuPacker& packer = gpu_packer(arch.vendor);
  Result<std::shared_ptr<const LoadedKernel>> kernel =
      on.dispatcher->load(packer.family, packer.key(arch.target), /*allow_compile=*/true);
  if (!kernel) return kernel.status();
  const LaunchShape shape = packer.shape(panels * args.batch);
  if (Status s = on.device->launch(**kernel, std::as_bytes(std::span(&args, 1)), shape, {}); !s) return s;
  return on.device->synchronize();
}

TensorView view_of(const PackedForm& form, void* data, DType dtype, int64_t n, int64_t k, int64_t batch) {
  TensorView view;
  view.data = static_cast<char*>(data) + form.at;
  view.dtype = dtype;
  view.layout = form.fragments ? Layout::kPackedGemmFragments : Layout::kPackedGemmB;
  view.rank = batch == 1 ? 2 : 3;
  const int at = view.rank - 2;
  if (view.rank == 3) view.shape[0] = batch, view.stride[0] = form.batch_bytes;
  view.shape[at] = k, view.shape[at + 1] = n;
  return view;
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
  if (Status s = check_packable(header.dtype, "gemm_packed_view"); !s) return s;
  if (Status s = check_packed_sizes(header.n, header.k, header.batch, "gemm_packed_view"); !s) return s;
  const bool fragments = dtype_bits(header.dtype) == 4 && header.kp == kFragmentK;
  const PackedForm form = packed_form(header.dtype, header.n, header.k, fragments);
  if (header.kp != form.kp || header.batch_bytes != form.batch_bytes ||
      header.total_bytes != form.at + header.batch * header.batch_bytes || header.total_bytes > bytes) {
    return corrupt(fmt::format("header and size disagree: {} bytes for {} x {} x {} of {}", bytes, header.batch,
                               header.k, header.n, dtype_name(header.dtype)));
  }
  return view_of(form, data, header.dtype, header.n, header.k, header.batch);
}

}  // namespace

Result<int64_t> gemm_packed_bytes(DType dtype, int64_t n, int64_t k, int64_t batch, DeviceId device) {
  if (Status s = check_packable_on(device, dtype, "gemm_packed_bytes"); !s) return s;
  if (Status s = check_packed_sizes(n, k, batch, "gemm_packed_bytes"); !s) return s;
  const PackedForm form = packed_form(dtype, n, k, device.kind == DeviceKind::kCuda);
  return form.at + batch * form.batch_bytes;
}

Status gemm_pack_weights(Context& context, const TensorView& b, void* out, int64_t out_bytes) {
  if (b.rank != 2 && b.rank != 3) {
    return refuse_packing(fmt::format("gemm_pack_weights: argument 'b' has rank {}, allowed: 2 or 3", b.rank));
  }
  if (b.layout != Layout::kStrided) return refuse_packing("gemm_pack_weights: argument 'b' is packed already");
  const Result<OpenDevice*> on = context.impl().open_device("gemm_pack_weights", b.device);
  if (!on) return on.status();
  if (Status s = check_packable_on(b.device, b.dtype, "gemm_pack_weights: argument 'b'"); !s) return s;
  const int64_t batch = b.rank == 3 ? b.shape[0] : 1, k = b.shape[b.rank - 2], n = b.shape[b.rank - 1];
  Result<int64_t> bytes = gemm_packed_bytes(b.dtype, n, k, batch, b.device);
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
  const PackedForm form = packed_form(b.dtype, n, k, b.device.kind == DeviceKind::kCuda);
  header.kp = form.kp;
  header.n = n, header.k = k, header.batch = batch;
  header.batch_bytes = form.batch_bytes;
  header.total_bytes = *bytes;
  // What stands behind the header, too.
  std::array<std::byte, kPackedFragmentsAt> front{};
  std::memcpy(front.data(), &header, sizeof(header));
  Device& device = *(*on)->device;
  // Streams may still make B, and use the memory of `out`.
  if (Status s = device.synchronize(); !s) return s;
  if (Status s = device.copy_from_host(out, front.data(), form.at); !s) return s;
  if (n * k * batch == 0) return device.fill(static_cast<char*>(out) + form.at, 0, *bytes - form.at);

  GemmPackArgs args{};
  args.n = n, args.k = k, args.batch = batch;
  args.b = b.data;
  args.dtype = b.dtype;
  args.stride_b_batch = b.rank == 3 ? b.stride[0] : 0;
  args.stride_b_k = b.stride[b.rank - 2];
  args.stride_b_n = b.stride[b.rank - 1];
  args.packed = static_cast<char*>(out) + form.at;
  args.packed_batch_bytes = form.batch_bytes;
  return b.device == DeviceId{} ? pack_on_cpu(**on, args) : pack_on_gpu(**on, args, form.fragments);
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

Result<TensorView> gemm_packed_view_as(DeviceId device, void* data, int64_t bytes, DType dtype, int64_t n, int64_t k,
                                       int64_t batch) {
  const Result<int64_t> needed = gemm_packed_bytes(dtype, n, k, batch, device);
  if (!needed) return needed.status();
  if (data == nullptr || bytes != *needed) {
    return refuse_packing(fmt::format("gemm_packed_view: {} bytes are no {} x {} x {} of {} packed on {}, which are {}",
                                      data == nullptr ? 0 : bytes, batch, k, n, dtype_name(dtype), to_string(device),
                                      *needed));
  }
  TensorView view = view_of(packed_form(dtype, n, k, device.kind == DeviceKind::kCuda), data, dtype, n, k, batch);
  view.device = device;
  return view;
}

}  // namespace tilewright
