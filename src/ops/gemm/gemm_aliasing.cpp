// SPDX-License-Identifier: MIT
#include "ops/gemm/gemm_aliasing.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>

namespace tilewright {
namespace {

struct Extent {
  int64_t size, stride;
};

// Bytes [low, high) relative to the first element that a strided tensor touches.
struct ByteRange {
  int64_t low, high;
};

ByteRange range_of(DType dtype, std::array<Extent, 3> extents) {
  int64_t low = 0, high = 0;
  for (const Extent& e : extents) {
    if (e.size <= 0) return {0, 0};
    const int64_t reach = (e.size - 1) * e.stride;
    (reach < 0 ? low : high) += reach;
  }
  const int64_t bytes = dtype_bits(dtype) / 8;
  return {low * bytes, (high + 1) * bytes};
}

bool overlap(const void* a, ByteRange ra, const void* b, ByteRange rb) {
  const auto pa = reinterpret_cast<intptr_t>(a), pb = reinterpret_cast<intptr_t>(b);
  return ra.low != ra.high && rb.low != rb.high && pa + ra.low < pb + rb.high && pb + rb.low < pa + ra.high;
}

Status refuse(std::string message) { return Status(StatusCode::kInvalidArgument, "gemm: " + std::move(message)); }

}  // namespace

Status check_gemm_self_overlap(const GemmProblem& p) {
  std::array<Extent, 3> e = {Extent{p.batch, p.stride_d_batch}, {p.m, p.stride_d_m}, {p.out_n(), p.stride_d_n}};
  std::sort(e.begin(), e.end(), [](Extent x, Extent y) { return std::llabs(x.stride) < std::llabs(y.stride); });
  int64_t reach = 0;  // of the dimensions so far; a larger stride must step over it
  for (const Extent& x : e) {
    if (x.size <= 1) continue;
    if (std::llabs(x.stride) <= reach) {
      return refuse(fmt::format("argument 'd' overlaps itself: strides [{}, {}, {}] for sizes [{}, {}, {}]",
                                p.stride_d_batch, p.stride_d_m, p.stride_d_n, p.batch, p.m, p.out_n()));
    }
    reach += (x.size - 1) * std::llabs(x.stride);
  }
  return {};
}

Status check_gemm_addresses(const GemmProblem& p, const GemmBindings& b) {
  if (p.k != 0 && b.pointers[kSlotA] == nullptr) return refuse("argument 'a' has a null data pointer");
  if (p.k != 0 && b.pointers[kSlotB] == nullptr) return refuse("argument 'b' has a null data pointer");
  if (b.pointers[kSlotD] == nullptr) return refuse("argument 'd' has a null data pointer");

  const void* d = b.pointers[kSlotD];
  const ByteRange rd =
      range_of(p.d_dtype, {Extent{p.batch, p.stride_d_batch}, {p.m, p.stride_d_m}, {p.out_n(), p.stride_d_n}});
  const ByteRange ra = range_of(p.a_dtype, {Extent{p.batch, p.stride_a_batch}, {p.m, p.stride_a_m}, {p.k, p.stride_a_k}});
  if (p.k != 0 && overlap(d, rd, b.pointers[kSlotA], ra)) return refuse("argument 'd' overlaps 'a'");
  ByteRange rb = range_of(p.b_dtype, {Extent{p.batch, p.stride_b_batch}, {p.k, p.stride_b_k}, {p.n, p.stride_b_n}});
  if (p.b_packed) rb = {0, (p.batch - 1) * p.stride_b_batch + packed_batch_bytes(p.b_dtype, p.n, p.k)};
  if (p.k != 0 && overlap(d, rd, b.pointers[kSlotB], rb)) return refuse("argument 'd' overlaps 'b'");

  // Epilogue operands: the same memory with the same strides is in place and fine, anything else is not.
  auto check = [&](const char* name, const OperandProblem& o, const void* data, int64_t columns, bool may_be_d) {
    if (!o.present()) return Status();
    const bool same = may_be_d && data == d && o.dtype == p.d_dtype && columns == p.out_n() &&
                      (o.stride_batch == p.stride_d_batch || p.batch == 1) && (o.stride_m == p.stride_d_m || p.m == 1) &&
                      (o.stride_n == p.stride_d_n || columns == 1);
    const ByteRange ro = range_of(o.dtype, {Extent{p.batch, o.stride_batch}, {p.m, o.stride_m}, {columns, o.stride_n}});
    if (!same && overlap(d, rd, data, ro)) {
      return refuse(fmt::format("argument 'd' overlaps '{}'{}", name,
                                may_be_d ? "; allowed only as the same address, dtype and strides" : ""));
    }
    return Status();
  };
  if (Status s = check("scale_a", p.scale_a, b.pointers[kSlotScaleA], p.n, false); !s) return s;
  if (Status s = check("scale_b", p.scale_b, b.pointers[kSlotScaleB], p.n, false); !s) return s;
  if (Status s = check("c", p.c, b.pointers[kSlotC], p.n, p.gate == GateMode::kNone); !s) return s;
  if (Status s = check("bias", p.bias, b.pointers[kSlotBias], p.n, p.gate == GateMode::kNone); !s) return s;
  for (int i = 0; i < p.step_count; ++i) {
    const std::string name = fmt::format("steps[{}]", i);
    if (Status s = check(name.c_str(), p.steps[i].operand, b.pointers[kSlotStep0 + i], p.out_n(), true); !s) return s;
  }
  return {};
}

}  // namespace tilewright
