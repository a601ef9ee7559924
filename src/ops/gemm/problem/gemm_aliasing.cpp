// SPDX-License-Identifier: MIT
#include "ops/gemm/problem/gemm_aliasing.hpp"

#include <fmt/format.h>

#include "core/tensor/strided.hpp"

namespace tilewright {
namespace {

Status refuse_overlap(std::string message) {
  return Status(StatusCode::kInvalidArgument, "gemm: " + std::move(message));
}

}  // namespace

Status check_gemm_self_overlap(const GemmProblem& p) {
  if (may_overlap_itself({{p.batch, p.stride_d_batch}, {p.m, p.stride_d_m}, {p.out_n(), p.stride_d_n}})) {
    return refuse_overlap(fmt::format("argument 'd' overlaps itself: strides [{}, {}, {}] for sizes [{}, {}, {}]",
                                      p.stride_d_batch, p.stride_d_m, p.stride_d_n, p.batch, p.m, p.out_n()));
  }
  return {};
}

Status check_gemm_addresses(const GemmProblem& p, const GemmBindings& b) {
  if (p.k != 0 && b.pointers[kSlotA] == nullptr) return refuse_overlap("argument 'a' has a null data pointer");
  if (p.k != 0 && b.pointers[kSlotB] == nullptr) return refuse_overlap("argument 'b' has a null data pointer");
  if (b.pointers[kSlotD] == nullptr) return refuse_overlap("argument 'd' has a null data pointer");

  const void* d = b.pointers[kSlotD];
  const ByteRange rd =
      touched_bytes(p.d_dtype, {{p.batch, p.stride_d_batch}, {p.m, p.stride_d_m}, {p.out_n(), p.stride_d_n}});
  const ByteRange ra =
      touched_bytes(p.a_dtype, {{p.batch, p.stride_a_batch}, {p.m, p.stride_a_m}, {p.k, p.stride_a_k}});
  if (p.k != 0 && ranges_overlap(d, rd, b.pointers[kSlotA], ra)) return refuse_overlap("argument 'd' overlaps 'a'");
  ByteRange rb = touched_bytes(p.b_dtype, {{p.batch, p.stride_b_batch}, {p.k, p.stride_b_k}, {p.n, p.stride_b_n}});
  if (p.b_packed) rb = {0, (p.batch - 1) * p.stride_b_batch + packed_entry_bytes(p)};
  if (p.k != 0 && ranges_overlap(d, rd, b.pointers[kSlotB], rb)) return refuse_overlap("argument 'd' overlaps 'b'");

  // Epilogue operands: the same memory with the same strides is in place and fine, anything else is not.
  auto check = [&](const char* name, const OperandProblem& o, const void* data, int64_t columns, bool may_be_d) {
    const bool same = may_be_d && data == d && o.dtype == p.d_dtype && columns == p.out_n() &&
                      (o.stride_batch == p.stride_d_batch || p.batch == 1) &&
                      (o.stride_m == p.stride_d_m || p.m == 1) && (o.stride_n == p.stride_d_n || columns == 1);
    const ByteRange ro = touched_bytes(o.dtype, {{p.batch, o.stride_batch}, {p.m, o.stride_m}, {columns, o.stride_n}});
    if (!same && ranges_overlap(d, rd, data, ro)) {
      return refuse_overlap(fmt::format("argument 'd' overlaps '{}'{}", name,
                                        may_be_d ? "; allowed only as the same address, dtype and strides" : ""));
    }
    return Status();
  };
  const struct {
    const char* name;
    const ScaleProblem& scale;
    int64_t outer;
    int slot;
  } scales[] = {{"scale_a", p.scale_a, p.m, kSlotScaleA},
                {"scale_b", p.scale_b, p.n, kSlotScaleB},
                {"zero_b", p.zero_b, p.n, kSlotZeroB}};
  for (const auto& s : scales) {
    if (!s.scale.present()) continue;
    const ScaleCounts counts = scale_counts(s.scale, s.outer, p.k);
    const ByteRange range = touched_bytes(
        s.scale.dtype,
        {{p.batch, s.scale.stride_batch}, {counts.outer, s.scale.stride_outer}, {counts.k, s.scale.stride_k}});
    if (ranges_overlap(d, rd, b.pointers[s.slot], range))
      return refuse_overlap(fmt::format("argument 'd' overlaps '{}'", s.name));
  }
  const struct {
    const char* name;
    const OperandProblem& operand;
    int slot;
  } operands[] = {{"c", p.c, kSlotC}, {"bias", p.bias, kSlotBias}};
  for (const auto& o : operands) {
    if (!o.operand.present()) continue;
    if (Status s = check(o.name, o.operand, b.pointers[o.slot], p.n, p.gate == GateMode::kNone); !s) return s;
  }
  for (int i = 0; i < p.step_count; ++i) {
    if (!p.steps[i].operand.present()) continue;
    const std::string name = fmt::format("steps[{}]", i);
    if (Status s = check(name.c_str(), p.steps[i].operand, b.pointers[kSlotStep0 + i], p.out_n(), true); !s) return s;
  }
  return {};
}

}  // namespace tilewright
