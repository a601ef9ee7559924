// SPDX-License-Identifier: MIT
// From packed weights back to plain ones, on every unit of the context. The layouts are documented in gemm_args.hpp,
// gemm_packed_layout.hpp and gemm_packed_fragments.hpp.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <memory>

#include "core/tensor/strided.hpp"
#include "device/cpu/run_on_units.hpp"
#include "dispatch/context_impl.hpp"
#include "gemm/cpu/gemm_cpu_blocking.hpp"
#include "gemm/gemm_packed_fragments.hpp"
#include "tilewright/gemm.hpp"

namespace tilewright {
namespace {

Status refuse_unpack(std::string message) { return Status(StatusCode::kInvalidArgument, std::move(message)); }

std::string type_and_sizes(const TensorView& t) {
  return fmt::format("{} [{}]", dtype_name(t.dtype), fmt::join(t.shape.begin(), t.shape.begin() + t.rank, ", "));
}

struct UnpackArgs {
  DType dtype;
  bool fragments;
  int64_t n, k, panels;  // panels of all batch entries
  const char* packed;
  int64_t packed_batch_bytes;
  char* b;
  int64_t stride_batch, stride_k, stride_n;  // in bytes; in elements of 4 bits
};

// One panel of up to 16 columns. Rows in blocks that stay in the first cache, so that each column of a block is written in
// one run where k is contiguous, and each row where n is.
template <DType kType>
void unpack_panel(const UnpackArgs& args, const char* panel, char* to, int64_t columns) {
  constexpr int64_t kRows = 128, kKp = packed_kp(kType), kSize = dtype_bits(kType) / 8;
  const auto copy = [&](int64_t row, int64_t column) {
    const int64_t element = (row / kKp * kPanelColumns + column) * kKp + row % kKp;
    std::memcpy(to + row * args.stride_k + column * args.stride_n, panel + element * static_cast<int64_t>(kSize),
                kSize);
  };
  for (int64_t begin = 0; begin < args.k; begin += kRows) {
    const int64_t end = std::min(begin + kRows, args.k);
    if (std::abs(args.stride_n) <= std::abs(args.stride_k)) {
      for (int64_t row = begin; row < end; ++row) {
        for (int64_t column = 0; column < columns; ++column) copy(row, column);
      }
    } else {
      for (int64_t column = 0; column < columns; ++column) {
        for (int64_t row = begin; row < end; ++row) copy(row, column);
      }
    }
  }
}

// The same of 4 bits: strides count elements, and neighbours may share a byte.
void unpack_nibbles(const UnpackArgs& args, const PackedLayout& layout, const char* entry, int64_t first_column,
                    int64_t first, int64_t columns) {
  auto* const b = reinterpret_cast<unsigned char*>(args.b);
  const auto* const panel =
      reinterpret_cast<const unsigned char*>(entry) + first_column / kPanelColumns * layout.panel_bytes;
  const auto code_of = [&](int64_t row, int64_t column) {
    if (args.fragments) {
      unsigned word;
      std::memcpy(&word, entry + fragment_word(args.dtype, args.k, row, first_column + column) * 4, sizeof(word));
      return static_cast<int>(fragment_code(args.dtype, row, word));
    }
    const int64_t in = layout.element(row, column);
    return panel[in / 2] >> in % 2 * 4 & 15;
  };
  for (int64_t column = 0; column < columns; ++column) {
    for (int64_t row = 0; row < args.k; ++row) {
      const int64_t out = first + row * args.stride_k + column * args.stride_n;
      const int code = code_of(row, column), shift = out % 2 * 4;
      b[out / 2] = static_cast<unsigned char>((b[out / 2] & ~(15 << shift)) | code << shift);
    }
  }
}

// A CpuEntry: unit `unit` of `units` unpacks its share of the panels, the one that it packed.
void unpack_unit(const void* data, uint32_t unit, uint32_t units) {
  const UnpackArgs& args = *static_cast<const UnpackArgs*>(data);
  const int64_t panels = packed_panels(args.n);
  const PackedLayout layout = packed_layout(args.dtype, args.n, args.k);
  const int64_t end = blocking::share_begin(args.panels, units, unit + int64_t{1});
  for (int64_t i = blocking::share_begin(args.panels, units, unit); i < end; ++i) {
    const int64_t batch = i / panels, column = i % panels * kPanelColumns;
    const char* const entry = args.packed + batch * args.packed_batch_bytes;
    const char* const panel = entry + i % panels * layout.panel_bytes;
    const int64_t columns = std::min<int64_t>(args.n - column, kPanelColumns);
    const int64_t first = batch * args.stride_batch + column * args.stride_n;
    if (dtype_bits(args.dtype) == 4) {
      unpack_nibbles(args, layout, entry, column, first, columns);
      continue;
    }
    char* to = args.b + first;
    switch (args.dtype) {
      case DType::kF32: unpack_panel<DType::kF32>(args, panel, to, columns); break;
      case DType::kF16: unpack_panel<DType::kF16>(args, panel, to, columns); break;
      case DType::kBf16: unpack_panel<DType::kBf16>(args, panel, to, columns); break;
      default: unpack_panel<DType::kI8>(args, panel, to, columns); break;
    }
  }
}

// On the host, whose addresses both views have.
Status unpack_on_host(Context& context, const TensorView& packed, const TensorView& b) {
  const int64_t size = std::max(1, dtype_bits(b.dtype) / 8), batch = b.rank == 3 ? b.shape[0] : 1;
  UnpackArgs args{};
  args.dtype = b.dtype;
  args.fragments = packed.layout == Layout::kPackedGemmFragments;
  args.n = b.shape[b.rank - 1], args.k = b.shape[b.rank - 2];
  args.panels = batch * packed_panels(args.n);
  args.packed = static_cast<const char*>(packed.data);
  args.packed_batch_bytes = b.rank == 3 ? packed.stride[0] : 0;
  args.b = static_cast<char*>(b.data);
  args.stride_batch = b.rank == 3 ? b.stride[0] * size : 0;
  args.stride_k = b.stride[b.rank - 2] * size, args.stride_n = b.stride[b.rank - 1] * size;

  // Panels that share bytes are one unit's.
  const bool along_k = args.stride_k == 1 && args.stride_n % 2 == 0,
             along_n = args.stride_n == 1 && args.stride_k % 2 == 0;
  if (dtype_bits(b.dtype) == 4 && (args.stride_batch % 2 != 0 || !(along_k || along_n))) {
    unpack_unit(&args, 0, 1);
    return {};
  }
  return run_on_units(*context.impl().cpu().device, "gemm_unpack", &unpack_unit, std::as_bytes(std::span(&args, 1)));
}

// Through the host's memory, both ways.
Status unpack_of_gpu(Context& context, const TensorView& packed, const TensorView& b) {
  const Result<OpenDevice*> on = context.impl().open_device("gemm_unpack_weights", b.device);
  if (!on) return on.status();
  Device& device = *(*on)->device;
  const int64_t batch = b.rank == 3 ? b.shape[0] : 1, k = b.shape[b.rank - 2], n = b.shape[b.rank - 1];
  const bool fragments = packed.layout == Layout::kPackedGemmFragments;
  const int64_t packed_bytes = (batch - 1) * (b.rank == 3 ? packed.stride[0] : 0) +
                               (fragments ? packed_fragments_bytes(n, k) : packed_layout(b.dtype, n, k).batch_bytes);
  const ByteRange range = touched_bytes(
      b.dtype, {{batch, b.rank == 3 ? b.stride[0] : 0}, {k, b.stride[b.rank - 2]}, {n, b.stride[b.rank - 1]}});
  const auto from = std::make_unique_for_overwrite<char[]>(static_cast<size_t>(packed_bytes));
  const auto to = std::make_unique_for_overwrite<char[]>(static_cast<size_t>(range.high - range.low));
  char* const first = static_cast<char*>(b.data) + range.low;

  if (Status s = device.synchronize(); !s) return s;
  if (Status s = device.copy_to_host(from.get(), packed.data, packed_bytes); !s) return s;
  if (Status s = device.copy_to_host(to.get(), first, range.high - range.low); !s) return s;
  TensorView here = packed, plain = b;
  here.data = from.get(), plain.data = to.get() - range.low;
  here.device = plain.device = DeviceId{};
  if (Status s = unpack_on_host(context, here, plain); !s) return s;
  return device.copy_from_host(first, to.get(), range.high - range.low);
}

}  // namespace

Status gemm_unpack_weights(Context& context, const TensorView& packed, const TensorView& b) {
  if (packed.layout == Layout::kStrided) return refuse_unpack("gemm_unpack_weights: argument 'packed' is not packed");
  if (b.layout != Layout::kStrided || b.rank != packed.rank || b.dtype != packed.dtype ||
      !std::equal(b.shape.begin(), b.shape.begin() + b.rank, packed.shape.begin())) {
    return refuse_unpack(fmt::format("gemm_unpack_weights: argument 'b' is {} {}, expected strided {} as 'packed'",
                                     b.layout == Layout::kStrided ? "strided" : "packed", type_and_sizes(b),
                                     type_and_sizes(packed)));
  }
  if (b.device != packed.device) {
    return refuse_unpack(fmt::format("gemm_unpack_weights: argument 'b' is on {}, 'packed' on {}, allowed: one device",
                                     to_string(b.device), to_string(packed.device)));
  }
  if (b.numel() == 0) return {};
  if (b.data == nullptr) return refuse_unpack("gemm_unpack_weights: argument 'b' has a null data pointer");
  return b.device == DeviceId{} ? unpack_on_host(context, packed, b) : unpack_of_gpu(context, packed, b);
}

}  // namespace tilewright
