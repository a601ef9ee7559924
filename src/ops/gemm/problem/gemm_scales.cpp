// SPDX-License-Identifier: MIT
#include "ops/gemm/problem/gemm_scales.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <iterator>

#include "core/tensor/strided.hpp"
#include "gemm/gemm_scale_args.hpp"

namespace tilewright {
namespace {

template <class... Args>
Status refuse_scale(fmt::format_string<Args...> format, Args&&... args) {
  return Status(StatusCode::kInvalidArgument, "gemm: " + fmt::format(format, std::forward<Args>(args)...));
}

const char* name_of(ScaleSide side) {
  return side == ScaleSide::kA ? "scale_a" : side == ScaleSide::kB ? "scale_b" : "zero_b";
}
const char* group_name(ScaleSide side) { return side == ScaleSide::kA ? "scale_group_a" : "scale_group_b"; }
int64_t outer_size(const GemmProblem& p, ScaleSide side) { return side == ScaleSide::kA ? p.m : p.n; }

constexpr DType kScaleDTypes[] = {DType::kF32, DType::kF16, DType::kBf16, DType::kE8M0, DType::kF8E4M3};
constexpr DType kZeroDTypes[] = {DType::kI8, DType::kI4, DType::kU4, DType::kF32, DType::kF16, DType::kBf16};

Status check_group(ScaleSide side, int64_t outer, int64_t k) {
  const auto known = [](const auto& list, int64_t value) {
    return std::find(std::begin(list), std::end(list), value) != std::end(list);
  };
  if (k == 0 && outer != 1) {
    return refuse_scale("argument '{}' is {} x 0 (all of K), allowed with k = 0: 1 x 0", group_name(side), outer);
  }
  if (!known(kScaleOuters, outer) || !known(kScaleDepths, k)) {
    return refuse_scale("argument '{}' is {} x {}, allowed: {} x {}", group_name(side), outer, k,
                        fmt::join(kScaleOuters, " or "), fmt::join(kScaleDepths, ", "));
  }
  return {};
}

Status check_dtype(ScaleSide side, DType dtype, bool blocked) {
  if (side == ScaleSide::kZeroB) {
    if (std::find(std::begin(kZeroDTypes), std::end(kZeroDTypes), dtype) != std::end(kZeroDTypes)) return {};
    return refuse_scale("argument 'zero_b' is {}, allowed: i8, i4, u4, f32, f16, bf16", dtype_name(dtype));
  }
  if (dtype == DType::kF32) return {};
  if (!blocked) return refuse_scale("argument '{}' is {}, allowed: f32", name_of(side), dtype_name(dtype));
  if (std::find(std::begin(kScaleDTypes), std::end(kScaleDTypes), dtype) != std::end(kScaleDTypes)) return {};
  return refuse_scale("argument '{}' is {}, allowed for groups along K: f32, f16, bf16, e8m0, e4m3", name_of(side),
                      dtype_name(dtype));
}

Status check_one(const GemmProblem& p, ScaleSide side, const ScaleProblem& s) {
  if (!s.present()) return {};
  if (s.blocked() || s.outer != 1) {
    if (Status status = check_group(side, s.outer, s.k); !status) return status;
  }
  if (Status status = check_dtype(side, s.dtype, s.blocked()); !status) return status;
  const ScaleCounts counts = scale_counts(s, outer_size(p, side), p.k);
  if (reach_fits({{p.batch, s.stride_batch}, {counts.outer, s.stride_outer}, {counts.k, s.stride_k}})) return {};
  return refuse_scale("strides of '{}' reach beyond 2^56 elements", name_of(side));
}

// Zero points stand beside the scales of groups of integers.
Status check_zero_place(const GemmProblem& p) {
  if (!is_weight_integer(p.b_dtype) || p.a_dtype == p.b_dtype) {
    return refuse_scale("argument 'zero_b' is for weights of i8, i4 or u4 with f16 or bf16, 'b' is {} and 'a' {}",
                        dtype_name(p.b_dtype), dtype_name(p.a_dtype));
  }
  if (!p.scale_b.blocked()) {
    return refuse_scale("argument 'zero_b' needs scales of groups along K: 'scale_b' and 'scale_group_b'");
  }
  return {};
}

Status parse_integer(std::string_view text, int64_t& out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  if (error == std::errc() && end == text.data() + text.size()) return {};
  return Status(StatusCode::kInvalidArgument, fmt::format("gemm problem text: '{}' is not a 64-bit integer", text));
}

// "1x32"
Status parse_group(ScaleSide side, std::string_view text, ScaleProblem& s) {
  const size_t by = text.find('x');
  int64_t outer = 0, k = 0;
  if (Status status = parse_integer(text.substr(0, by), outer); !status) return status;
  if (Status status = parse_integer(text.substr(by + 1), k); !status) return status;
  if (Status status = check_group(side, outer, k); !status) return status;
  s.outer = static_cast<uint8_t>(outer), s.k = static_cast<uint8_t>(k);
  return {};
}

}  // namespace

Status read_block_scale(const GemmProblem& p, const ScaleArgument& argument, bool check_addresses, DeviceId device,
                        ScaleProblem& s) {
  const auto& [side, t, group] = argument;
  const char* const name = name_of(side);
  if (side == ScaleSide::kZeroB) {
    if (Status status = check_zero_place(p); !status) return status;
  }
  if (Status status = check_group(side, group.outer, group.k); !status) return status;
  if (!t.defined()) {
    return refuse_scale("argument '{}' is missing and '{}' is {} x {}", name, group_name(side), group.outer, group.k);
  }
  if (t.layout != Layout::kStrided) return refuse_scale("argument '{}' is packed, allowed: strided", name);
  if (Status status = check_dtype(side, t.dtype, group.k != 0); !status) return status;
  if (!(t.device == device)) {
    return refuse_scale("argument '{}' is on {}, D is on {}", name, to_string(t.device), to_string(device));
  }
  s.dtype = t.dtype;
  s.outer = static_cast<uint8_t>(group.outer), s.k = static_cast<uint8_t>(group.k);
  const ScaleCounts counts = scale_counts(s, outer_size(p, side), p.k);
  const bool of_a = side == ScaleSide::kA;
  const int64_t rows = of_a ? counts.outer : counts.k, columns = of_a ? counts.k : counts.outer;
  const auto batch_fits = [&] { return t.rank == 2 || t.shape[0] == p.batch || t.shape[0] == 1; };
  if (t.rank < 2 || t.rank > 3 || t.shape[t.rank - 2] != rows || t.shape[t.rank - 1] != columns || !batch_fits()) {
    return refuse_scale("argument '{}' has shape [{}], expected [{}, {}]{}: groups of {} x {} of {} and K", name,
                        fmt::join(t.shape.begin(), t.shape.begin() + t.rank, ", "), rows, columns,
                        p.batch == 1 ? std::string() : fmt::format(" or [{}, {}, {}]", p.batch, rows, columns),
                        group.outer, group.k, of_a ? "M" : "N");
  }
  const int64_t stride_row = rows == 1 ? 0 : t.stride[t.rank - 2],
                stride_column = columns == 1 ? 0 : t.stride[t.rank - 1];
  s.stride_outer = of_a ? stride_row : stride_column, s.stride_k = of_a ? stride_column : stride_row;
  s.stride_batch = t.rank == 3 && t.shape[0] != 1 ? t.stride[0] : 0;
  if (check_addresses && t.data == nullptr && p.batch * rows * columns != 0) {
    return refuse_scale("argument '{}' has a null data pointer", name);
  }
  return {};
}

Status refuse_varying_scale(ScaleSide side) {
  if (side == ScaleSide::kA) return refuse_scale("argument 'scale_a' varies along N, allowed: a scalar or [M, 1]");
  return refuse_scale("argument 'scale_b' varies along M, allowed: a scalar or [N]");
}

Status check_gemm_scales(const GemmProblem& p) {
  if (Status s = check_one(p, ScaleSide::kA, p.scale_a); !s) return s;
  if (Status s = check_one(p, ScaleSide::kB, p.scale_b); !s) return s;
  if (!p.zero_b.present()) return {};
  if (Status s = check_zero_place(p); !s) return s;
  return check_one(p, ScaleSide::kZeroB, p.zero_b);
}

void set_usual_strides(const GemmProblem& p, ScaleSide side, ScaleProblem& s) {
  const ScaleCounts counts = scale_counts(s, outer_size(p, side), p.k);
  s.stride_outer = counts.outer == 1 ? 0 : counts.k;
  s.stride_k = counts.k == 1 ? 0 : 1;
  s.stride_batch = s.blocked() && p.batch != 1 ? counts.outer * counts.k : 0;
}

void resize_scale(const GemmProblem& from, const GemmProblem& p, ScaleSide side, const ScaleProblem& was,
                  ScaleProblem& s) {
  if (!was.blocked()) {
    s.stride_outer = was.stride_outer == 0 ? 0 : 1;
    s.stride_batch = was.stride_batch == 0 ? 0 : s.stride_outer == 0 ? 1 : outer_size(p, side);
    return;
  }
  const ScaleCounts old = scale_counts(was, outer_size(from, side), from.k);
  const ScaleCounts counts = scale_counts(s, outer_size(p, side), p.k);
  set_usual_strides(p, side, s);
  if (was.stride_outer == 1 && was.stride_k != 1) {  // groups along M or N lie next to each other
    s.stride_outer = counts.outer == 1 ? 0 : 1;
    s.stride_k = counts.k == 1 ? 0 : counts.outer;
  }
  if (was.stride_outer == 0 && old.outer > 1) s.stride_outer = 0;
  if (was.stride_k == 0 && old.k > 1) s.stride_k = 0;
  if (was.stride_batch == 0) s.stride_batch = 0;
}

std::string scale_mode_text(const ScaleProblem& s) {
  return s.blocked() ? fmt::format("{}.{}x{}", dtype_name(s.dtype), s.outer, s.k) : dtype_name(s.dtype);
}

std::string print_scale(const GemmProblem& p, ScaleSide side, const ScaleProblem& s) {
  ScaleProblem usual = s;
  set_usual_strides(p, side, usual);
  std::string mode = side == ScaleSide::kZeroB ? dtype_name(s.dtype) : scale_mode_text(s);
  if (usual.stride_batch == s.stride_batch && usual.stride_outer == s.stride_outer && usual.stride_k == s.stride_k) {
    return mode;
  }
  if (s.blocked()) return fmt::format("{}.{}.{}.{}", mode, s.stride_batch, s.stride_outer, s.stride_k);
  const bool of_a = side == ScaleSide::kA;
  return fmt::format("{}.{}.{}.{}", mode, s.stride_batch, of_a ? s.stride_outer : 0, of_a ? 0 : s.stride_outer);
}

Status parse_scale(const GemmProblem& p, ScaleSide side, std::span<const std::string_view> parts, ScaleProblem& s) {
  if (side == ScaleSide::kZeroB) s.outer = p.scale_b.outer, s.k = p.scale_b.k;
  const size_t mode = parts.size() > 1 && parts[1].find('x') != std::string_view::npos ? 2 : 1;
  if (side == ScaleSide::kZeroB && (!s.blocked() || mode == 2 || (parts.size() != 1 && parts.size() != 4))) {
    return Status(StatusCode::kInvalidArgument,
                  "gemm problem text: zero_b is dtype or dtype.sb.so.sk, beside a scale_b of groups");
  }
  if (parts.size() != mode && parts.size() != mode + 3) {
    return Status(StatusCode::kInvalidArgument,
                  fmt::format("gemm problem text: {} is dtype, dtype.sb.sm.sn, dtype.1x32 or dtype.1x32.sb.so.sk",
                              name_of(side)));
  }
  Result<DType> dtype = parse_dtype(parts[0]);
  if (!dtype) return dtype.status();
  if (mode == 2) {
    if (Status status = parse_group(side, parts[1], s); !status) return status;
  }
  if (Status status = check_dtype(side, *dtype, s.blocked()); !status) return status;
  s.dtype = *dtype;
  set_usual_strides(p, side, s);
  if (parts.size() == mode) return {};
  int64_t strides[3] = {};
  for (size_t i = 0; i < 3; ++i) {
    if (Status status = parse_integer(parts[mode + i], strides[i]); !status) return status;
  }
  s.stride_batch = strides[0];
  if (s.blocked()) {
    s.stride_outer = strides[1], s.stride_k = strides[2];
    return {};
  }
  const bool of_a = side == ScaleSide::kA;
  s.stride_outer = strides[of_a ? 1 : 2];
  return strides[of_a ? 2 : 1] == 0 ? Status() : refuse_varying_scale(side);
}

}  // namespace tilewright
