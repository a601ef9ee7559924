// SPDX-License-Identifier: MIT
#include "ops/gemm/weights/aiter_orders.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstring>
#include <span>

#include "device/cpu/run_on_units.hpp"
#include "dispatch/context_impl.hpp"
#include "gemm/cpu/gemm_cpu_blocking.hpp"
#include "ops/gemm/weights/weight_checks.hpp"

namespace tilewright {
namespace {

constexpr int64_t kPiece = 16;      // bytes
constexpr int64_t kPieceRows = 16;  // whose pieces lie beside each other

struct AiterCopy {
  char* stored;
  char* plain;
  int64_t blocks, blocks_per_batch;            // of 16 rows
  int64_t row_pieces;                          // of 16 bytes
  int64_t plain_batch_bytes, plain_row_bytes;  // from one to the next
  bool import;
};

void copy_blocks(const void* data, uint32_t unit, uint32_t units) {
  const AiterCopy& copy = *static_cast<const AiterCopy*>(data);
  const int64_t end = blocking::share_begin(copy.blocks, units, unit + int64_t{1});
  for (int64_t block = blocking::share_begin(copy.blocks, units, unit); block < end; ++block) {
    char* plain = copy.plain + block / copy.blocks_per_batch * copy.plain_batch_bytes +
                  block % copy.blocks_per_batch * kPieceRows * copy.plain_row_bytes;
    char* stored = copy.stored + block * copy.row_pieces * kPieceRows * kPiece;
    for (int64_t piece = 0; piece < copy.row_pieces; ++piece) {
      for (int64_t row = 0; row < kPieceRows; ++row, stored += kPiece) {
        char* at = plain + row * copy.plain_row_bytes + piece * kPiece;
        std::memcpy(copy.import ? at : stored, copy.import ? stored : at, kPiece);
      }
    }
  }
}

constexpr int64_t round_up(int64_t value, int64_t to) { return (value + to - 1) / to * to; }

}  // namespace

Status copy_aiter_weight(Context& context, const StoredWeights& stored, const PlainWeights& plain, bool import) {
  const WeightChecks check{import ? "import_weights" : "export_weights", stored.format};
  const TensorView &w = stored.weight, &b = plain.b;
  if (b.rank != 2 && b.rank != 3)
    return check.refuse("argument 'b' has rank {}, allowed: 2, or 3 with a batch", b.rank);
  const int64_t k = b.shape[b.rank - 2], n = b.shape[b.rank - 1], batch = b.rank == 3 ? b.shape[0] : 1;
  // A 4-bit type counts as AITER does, in bytes.
  const int64_t values = dtype_bits(b.dtype) == 4 ? 64 : 32;
  if (n % kPieceRows != 0 || k % values != 0) {
    return check.refuse("argument 'b' has N = {} and K = {}, allowed: multiples of 16 and {}", n, k, values);
  }
  if (w.dtype != b.dtype) {
    return check.refuse("argument 'weight' is {}, 'b' is {}: one dtype", dtype_name(w.dtype), dtype_name(b.dtype));
  }
  TensorView expected = TensorView::contiguous(w.data, w.dtype, {batch, n, k});
  if (Status s = check.contiguous("weight", w,
                                  b.rank == 3 ? std::span<const int64_t>(expected.shape.data(), 3)
                                              : std::span<const int64_t>(expected.shape.data() + 1, 2));
      !s) {
    return s;
  }
  if (k > 1 && b.stride[b.rank - 2] != 1) {
    return check.refuse("argument 'b' has stride {} along K, allowed: 1 (a weight [N, K], transposed)",
                        b.stride[b.rank - 2]);
  }
  const int64_t row_stride = b.stride[b.rank - 1], batch_stride = b.rank == 3 ? b.stride[0] : 0;
  const int64_t bits = dtype_bits(b.dtype);
  if (row_stride * bits % 8 != 0 || batch_stride * bits % 8 != 0) {
    return check.refuse("argument 'b' has strides {} and {}, allowed: whole bytes", row_stride, batch_stride);
  }
  if (n * k * batch == 0) return {};
  if (Status s = check.data("weight", w); !s) return s;
  if (Status s = check.data("b", b); !s) return s;

  AiterCopy copy{};
  copy.stored = static_cast<char*>(w.data), copy.plain = static_cast<char*>(b.data);
  copy.blocks_per_batch = n / kPieceRows, copy.blocks = batch * copy.blocks_per_batch;
  copy.row_pieces = k * bits / 8 / kPiece;
  copy.plain_row_bytes = row_stride * bits / 8, copy.plain_batch_bytes = batch_stride * bits / 8;
  copy.import = import;
  return run_on_units(*context.impl().cpu().device, check.function, &copy_blocks, std::as_bytes(std::span(&copy, 1)));
}

Status copy_aiter_scales(const StoredWeights& stored, const PlainWeights& plain, bool import) {
  const WeightChecks check{import ? "import_weights" : "export_weights", stored.format};
  const TensorView &w = stored.weight, &b = plain.b;
  if (b.rank != 2) return check.refuse("argument 'b' has rank {}, allowed: 2, [G, N]", b.rank);
  for (const auto& [name, tensor] : {std::pair{"b", &b}, std::pair{"weight", &w}}) {
    if (tensor->dtype != DType::kE8M0) {
      return check.refuse("argument '{}' is {}, allowed: e8m0", name, dtype_name(tensor->dtype));
    }
  }
  const int64_t groups = b.shape[0], columns = b.shape[1];
  const int64_t shape[] = {round_up(columns, 256), round_up(groups, 8)};
  if (Status s = check.contiguous("weight", w, shape); !s) return s;
  if (shape[0] * shape[1] == 0) return {};
  if (Status s = check.data("weight", w); !s) return s;
  if (Status s = check.data("b", b); !s) return s;

  auto* bytes = static_cast<char*>(w.data);
  auto* scales = static_cast<char*>(b.data);
  for (int64_t row = 0; row < shape[0]; ++row) {
    for (int64_t group = 0; group < shape[1]; ++group) {
      const int64_t tile = row / 32 * (shape[1] / 8) + group / 8;
      char* at = bytes + ((tile * 4 + group % 4) * 16 + row % 16) * 4 + group / 4 % 2 * 2 + row / 16 % 2;
      const bool padding = row >= columns || group >= groups;
      char* scale = scales + (padding ? 0 : group * b.stride[0] + row * b.stride[1]);
      if (!import) {
        *at = padding ? '\0' : *scale;
      } else if (!padding) {
        *scale = *at;
      }
    }
  }
  return {};
}

}  // namespace tilewright
