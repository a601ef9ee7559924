// SPDX-License-Identifier: MIT
// From a call to a problem: shapes, strides, dtypes, devices and aliasing are checked once, here.
#include "ops/gemm/problem/gemm_problem.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "core/tensor/strided.hpp"
#include "gemm/gemm_packed_fragments.hpp"
#include "ops/gemm/problem/gemm_aliasing.hpp"
#include "ops/gemm/problem/gemm_scales.hpp"

namespace tilewright {
namespace {

template <class... Args>
Status refuse_gemm(fmt::format_string<Args...> format, Args&&... args) {
  return Status(StatusCode::kInvalidArgument, "gemm: " + fmt::format(format, std::forward<Args>(args)...));
}

std::string shape_text(const TensorView& t) {
  return fmt::format("[{}]", fmt::join(t.shape.begin(), t.shape.begin() + t.rank, ", "));
}

// A null pointer (no address yet) is aligned.
uint8_t shortfall(const void* data) {
  return static_cast<uint8_t>(4 - std::countr_zero(reinterpret_cast<uintptr_t>(data) | 16));
}

bool is_float_output(DType dtype) { return dtype == DType::kF32 || dtype == DType::kF16 || dtype == DType::kBf16; }

// A, B and D: rank 2, or rank 3 with a batch.
Status check_matrix(const char* name, const TensorView& t) {
  if (!t.defined()) return refuse_gemm("argument '{}' is missing", name);
  if (t.rank < 2 || t.rank > 3) {
    return refuse_gemm("argument '{}' has rank {} {}, allowed: 2 or 3 (at most one batch dimension)", name, t.rank,
                       shape_text(t));
  }
  for (int i = 0; i < t.rank; ++i) {
    if (t.shape[i] < 0) return refuse_gemm("argument '{}' has a negative size in shape {}", name, shape_text(t));
  }
  return {};
}

int64_t batch_of(const TensorView& t) { return t.rank == 3 ? t.shape[0] : 1; }
int64_t batch_stride_of(const TensorView& t, int64_t batch) {
  return t.rank == 3 && t.shape[0] == batch && batch != 1 ? t.stride[0] : 0;
}

// An epilogue operand broadcasts to [batch, rows, columns] as in NumPy.
Status make_operand(const char* name, const TensorView& t, int64_t batch, int64_t rows, int64_t columns,
                    bool check_addresses, const TensorView& d, OperandProblem& out) {
  if (!t.defined()) return {};
  if (t.layout != Layout::kStrided) return refuse_gemm("argument '{}' is packed, allowed: strided", name);
  if (!is_float_output(t.dtype)) {
    return refuse_gemm("argument '{}' is {}, allowed: f32, f16, bf16", name, dtype_name(t.dtype));
  }
  if (t.rank > 3) return refuse_gemm("argument '{}' has rank {} {}, allowed: 0 to 3", name, t.rank, shape_text(t));
  if (!(t.device == d.device)) {
    return refuse_gemm("argument '{}' is on {}, D is on {}", name, to_string(t.device), to_string(d.device));
  }
  const int64_t want[3] = {batch, rows, columns};
  int64_t* strides[3] = {&out.stride_batch, &out.stride_m, &out.stride_n};
  for (int i = 0; i < t.rank; ++i) {
    const int axis = 3 - t.rank + i;
    if (t.shape[i] != want[axis] && t.shape[i] != 1) {
      return refuse_gemm("argument '{}' has shape {}, which does not broadcast to [{}, {}, {}]", name, shape_text(t),
                         batch, rows, columns);
    }
    *strides[axis] = t.shape[i] == 1 ? 0 : t.stride[i];
  }
  if (check_addresses && t.data == nullptr && batch * rows * columns != 0) {
    return refuse_gemm("argument '{}' has a null data pointer", name);
  }
  out.dtype = t.dtype;
  return {};
}

// Of groups along K; else f32: one value, one a token ([.., M, 1]) or one a channel ([N], [.., 1, N]).
Status read_scale(const char* name, const ScaleArgument& argument, bool check_addresses, const TensorView& d,
                  const GemmProblem& p, ScaleProblem& out) {
  const TensorView& t = argument.tensor;
  if (argument.group.k != 0 || argument.group.outer != 1) {
    return read_block_scale(p, argument, check_addresses, d.device, out);
  }
  if (!t.defined()) return {};
  if (t.dtype != DType::kF32) return refuse_gemm("argument '{}' is {}, allowed: f32", name, dtype_name(t.dtype));
  OperandProblem operand;
  if (Status s = make_operand(name, t, p.batch, p.m, p.n, check_addresses, d, operand); !s) return s;
  const bool of_a = argument.side == ScaleSide::kA;
  if ((of_a ? operand.stride_n : operand.stride_m) != 0) return refuse_varying_scale(argument.side);
  out.dtype = operand.dtype;
  out.stride_batch = operand.stride_batch;
  out.stride_outer = of_a ? operand.stride_m : operand.stride_n;
  return {};
}

bool is_small_float(DType dtype) { return is_f8(dtype) || dtype == DType::kF4E2M1; }
bool is_fnuz(DType dtype) { return dtype == DType::kF8E4M3Fnuz || dtype == DType::kF8E5M2Fnuz; }
bool is_input(DType dtype) {
  return is_small_float(dtype) || (is_packable(dtype) && dtype != DType::kI4 && dtype != DType::kU4);
}

// 8- and 4-bit floats with each other, though not OCP's with FNUZ's, and with f16 or bf16; weights of integers with f16 or
// bf16.
bool may_multiply(DType a, DType b) {
  if (a == b) return true;
  const auto is_16_bit = [](DType t) { return t == DType::kF16 || t == DType::kBf16; };
  if (is_weight_integer(b)) return is_16_bit(a);
  if (is_small_float(a) && is_small_float(b)) return !(is_fnuz(a) && is_ocp_f8(b)) && !(is_ocp_f8(a) && is_fnuz(b));
  return (is_small_float(a) && is_16_bit(b)) || (is_16_bit(a) && is_small_float(b));
}

Status check_dtypes(DType a, DType b, DType d) {
  for (const auto& [name, dtype] : {std::pair{"a", a}, {"b", b}}) {
    const bool of_b = name[0] == 'b';
    if (is_input(dtype) || (of_b && is_weight_integer(dtype))) continue;
    return refuse_gemm("argument '{}' is {}, allowed: f32, f16, bf16, i8, e4m3, e5m2, e4m3fnuz, e5m2fnuz, e2m1{}", name,
                       dtype_name(dtype), of_b ? ", i4, u4" : "");
  }
  if (!may_multiply(a, b)) {
    return refuse_gemm(
        "argument 'b' is {} and 'a' is {}: both must have one dtype, or be 8- or 4-bit floats of one flavour, or one "
        "of these and the other f16 or bf16, or 'b' be i8, i4 or u4 and 'a' f16 or bf16; convert one of them first",
        dtype_name(b), dtype_name(a));
  }
  if (!is_float_output(d)) return refuse_gemm("argument 'd' is {}, allowed: f32, f16, bf16", dtype_name(d));
  return {};
}

Status check_activation(const char* name, Activation activation, float low, float high) {
  if (static_cast<int>(activation) >= enum_count(activation)) {
    return refuse_gemm("argument '{}' is {}, allowed: {}", name, static_cast<int>(activation),
                       fmt::join(kActivationNames, kActivationNames + enum_count(activation), ", "));
  }
  if (activation == Activation::kClamp && !(low <= high)) {
    return refuse_gemm("argument '{}' clamps to [{}, {}]: low must not exceed high", name, low, high);
  }
  return {};
}

}  // namespace

int64_t packed_entry_bytes(const GemmProblem& p) {
  return p.b_packed == kPackedFragments ? packed_fragments_bytes(p.n, p.k)
                                        : packed_layout(p.b_dtype, p.n, p.k).batch_bytes;
}

Status read_gemm_call(const GemmCall& call, bool check_addresses, GemmProblem& p, GemmBindings& bindings) {
  // Shapes.
  if (Status s = check_matrix("a", call.a); !s) return s;
  if (Status s = check_matrix("b", call.b); !s) return s;
  if (Status s = check_matrix("d", call.d); !s) return s;
  if (call.a.layout != Layout::kStrided) return refuse_gemm("argument 'a' is packed, allowed: strided");
  if (call.d.layout != Layout::kStrided) return refuse_gemm("argument 'd' is packed, allowed: strided");
  if (Status s = check_dtypes(call.a.dtype, call.b.dtype, call.d.dtype); !s) return s;
  const TensorView &a = call.a, &b = call.b, &d = call.d;
  p.m = a.shape[a.rank - 2];
  p.k = a.shape[a.rank - 1];
  p.n = b.shape[b.rank - 1];
  if (b.shape[b.rank - 2] != p.k) {
    return refuse_gemm("argument 'b' has shape {}: its second-to-last size must be K = {} (the last size of 'a' {})",
                       shape_text(b), p.k, shape_text(a));
  }
  if (static_cast<int>(call.gate) >= enum_count(call.gate)) {
    return refuse_gemm("argument 'gate' is {}, allowed: none, separated, interleaved", static_cast<int>(call.gate));
  }
  p.gate = call.gate;
  if (p.gate != GateMode::kNone && p.n % 2 != 0) return refuse_gemm("argument 'gate' needs an even N, got N = {}", p.n);
  p.batch = std::max({batch_of(a), batch_of(b), batch_of(d)});
  if (std::min({batch_of(a), batch_of(b), batch_of(d)}) == 0) p.batch = 0;
  for (const auto& [name, t] : {std::pair<const char*, const TensorView&>{"a", a}, {"b", b}}) {
    if (batch_of(t) != p.batch && batch_of(t) != 1) {
      return refuse_gemm("argument '{}' has batch {}, which does not broadcast to {}", name, batch_of(t), p.batch);
    }
  }
  if (batch_of(d) != p.batch || d.shape[d.rank - 2] != p.m || d.shape[d.rank - 1] != p.out_n()) {
    return refuse_gemm("argument 'd' has shape {}, expected [{}{}, {}]", shape_text(d),
                       p.batch == 1 && d.rank == 2 ? std::string() : fmt::format("{}, ", p.batch), p.m, p.out_n());
  }

  // Devices and strides.
  if (!(a.device == d.device) || !(b.device == d.device)) {
    return refuse_gemm("arguments are on different devices: a on {}, b on {}, d on {}", to_string(a.device),
                       to_string(b.device), to_string(d.device));
  }
  p.a_dtype = a.dtype;
  p.b_dtype = b.dtype;
  p.d_dtype = d.dtype;
  p.stride_a_batch = batch_stride_of(a, p.batch);
  p.stride_a_m = a.stride[a.rank - 2];
  p.stride_a_k = a.stride[a.rank - 1];
  const bool fragments = b.layout == Layout::kPackedGemmFragments;
  p.b_packed = fragments ? kPackedFragments : b.layout != Layout::kStrided;
  if (p.b_packed && dtype_bits(b.dtype) == 4 && b.device.kind != (fragments ? DeviceKind::kCuda : DeviceKind::kCpu)) {
    return refuse_gemm("argument 'b' is on {}, packed {} of {}, allowed: packed where it is used", to_string(b.device),
                       dtype_name(b.dtype), fragments ? "an NVIDIA GPU" : "a CPU");
  }
  p.stride_b_batch = batch_stride_of(b, p.batch);
  p.stride_b_k = p.b_packed ? 0 : b.stride[b.rank - 2];
  p.stride_b_n = p.b_packed ? 0 : b.stride[b.rank - 1];
  p.stride_d_batch = batch_stride_of(d, p.batch);
  p.stride_d_m = d.stride[d.rank - 2];
  p.stride_d_n = d.stride[d.rank - 1];

  // Epilogue.
  const ScaleArgument scale_a{ScaleSide::kA, call.scale_a, call.scale_group_a};
  const ScaleArgument scale_b{ScaleSide::kB, call.scale_b, call.scale_group_b};
  if (Status s = read_scale("scale_a", scale_a, check_addresses, d, p, p.scale_a); !s) return s;
  if (Status s = read_scale("scale_b", scale_b, check_addresses, d, p, p.scale_b); !s) return s;
  if (call.zero_b.defined()) {
    const ScaleArgument zero_b{ScaleSide::kZeroB, call.zero_b, call.scale_group_b};
    if (Status s = read_block_scale(p, zero_b, check_addresses, d.device, p.zero_b); !s) return s;
  }
  if (call.beta != 0 && !call.c.defined()) return refuse_gemm("argument 'beta' is {} and 'c' is missing", call.beta);
  if (call.beta != 0) {
    if (Status s = make_operand("c", call.c, p.batch, p.m, p.n, check_addresses, d, p.c); !s) return s;
  }
  if (Status s = make_operand("bias", call.bias, p.batch, p.m, p.n, check_addresses, d, p.bias); !s) return s;
  if (Status s = check_activation("activation", call.activation, call.low, call.high); !s) return s;
  p.activation = call.activation;
  if (call.steps.size() > kMaxSteps) {
    return refuse_gemm("argument 'steps' has {} entries, allowed: at most {}", call.steps.size(), kMaxSteps);
  }
  p.step_count = static_cast<uint8_t>(call.steps.size());
  for (size_t i = 0; i < call.steps.size(); ++i) {
    const GemmStep& step = call.steps[i];
    const std::string name = fmt::format("steps[{}]", i);
    p.steps[i].kind = step.kind;
    if (step.kind == StepKind::kActivation) {
      if (Status s = check_activation(name.c_str(), step.activation, step.low, step.high); !s) return s;
      p.steps[i].activation = step.activation;
    } else if (step.kind == StepKind::kAdd || step.kind == StepKind::kMultiply) {
      if (!step.tensor.defined()) return refuse_gemm("argument '{}' has no tensor", name);
      if (Status s =
              make_operand(name.c_str(), step.tensor, p.batch, p.m, p.out_n(), check_addresses, d, p.steps[i].operand);
          !s)
        return s;
    } else {
      return refuse_gemm("argument '{}' has kind {}, allowed: act, add, mul", name, static_cast<int>(step.kind));
    }
  }
  p.has_alpha = call.alpha != 1.0f;
  if (a.device.kind != DeviceKind::kCpu) {
    p.shortfall_a = shortfall(a.data), p.shortfall_b = shortfall(b.data), p.shortfall_d = shortfall(d.data);
    if (p.c.present()) p.c.shortfall = shortfall(call.c.data);
    if (p.bias.present()) p.bias.shortfall = shortfall(call.bias.data);
    if (p.scale_a.blocked()) p.scale_a.shortfall = shortfall(call.scale_a.data);
    if (p.scale_b.blocked()) p.scale_b.shortfall = shortfall(call.scale_b.data);
    if (p.zero_b.present()) p.zero_b.shortfall = shortfall(call.zero_b.data);
  }
  p.deterministic = call.options.deterministic;
  p.batch_invariant = call.options.batch_invariant;
  p.allow_tf32 = call.options.allow_tf32 && p.a_dtype == DType::kF32;
  p.allow_fast_accum = call.options.allow_fast_accum && is_ocp_f8(p.a_dtype);

  // Addresses and scalars.
  bindings.pointers = {a.data, b.data, d.data, call.scale_a.data, call.scale_b.data, call.c.data, call.bias.data};
  bindings.pointers[kSlotZeroB] = call.zero_b.data;
  bindings.scalars[kScalarAlpha] = call.alpha;
  bindings.scalars[kScalarBeta] = call.beta;
  bindings.scalars[kScalarLow] = call.low;
  bindings.scalars[kScalarHigh] = call.high;
  for (size_t i = 0; i < call.steps.size(); ++i) {
    bindings.pointers[kSlotStep0 + i] = call.steps[i].tensor.data;
    bindings.scalars[kScalarStep0 + 2 * i] = call.steps[i].low;
    bindings.scalars[kScalarStep0 + 2 * i + 1] = call.steps[i].high;
  }
  return {};
}

Status make_gemm_problem(const GemmCall& call, bool check_addresses, GemmProblem& p, GemmBindings& bindings) {
  p = {}, bindings = {};
  if (Status s = read_gemm_call(call, check_addresses, p, bindings); !s) return s;
  if (Status s = validate_gemm_problem(p); !s) return s;
  if (p.m == 0 || p.n == 0 || p.batch == 0) return {};
  return check_addresses ? check_gemm_addresses(p, bindings) : Status();
}

Status check_plain_product(const GemmProblem& p) {
  const auto refuse = [](std::string why) { return Status(StatusCode::kUnsupported, std::move(why)); };
  for (const auto& [name, scale] : {std::pair<const char*, const ScaleProblem&>{"A", p.scale_a}, {"B", p.scale_b}}) {
    if (!scale.blocked()) continue;
    return refuse(fmt::format("{} has scales of groups of {} x {}, the kernel has scales of all of K", name,
                              scale.outer, scale.k));
  }
  if (p.a_dtype != p.b_dtype) {
    return refuse(
        fmt::format("A is {} and B {}, the kernel multiplies one type", dtype_name(p.a_dtype), dtype_name(p.b_dtype)));
  }
  if (dtype_bits(p.a_dtype) < 8) {
    return refuse(fmt::format("the kernel reads whole bytes, A and B are {}", dtype_name(p.a_dtype)));
  }
  return {};
}

Status check_gemm_extents(const GemmProblem& p) {
  for (auto [rows, columns] : {std::pair{p.m, p.k}, {p.k, p.n}, {p.m, p.n}}) {
    const __int128 count = static_cast<__int128>(rows) * columns * std::max<int64_t>(p.batch, 1);
    if (count > kMaxReach)
      return refuse_gemm("sizes M = {}, N = {}, K = {}, batch = {} are too large", p.m, p.n, p.k, p.batch);
  }
  return {};
}

Status validate_gemm_problem(const GemmProblem& p) {
  if (Status s = check_dtypes(p.a_dtype, p.b_dtype, p.d_dtype); !s) return s;
  if (p.gate != GateMode::kNone && p.n % 2 != 0) return refuse_gemm("argument 'gate' needs an even N, got N = {}", p.n);
  if (p.allow_tf32 && p.a_dtype != DType::kF32) {
    return refuse_gemm("argument 'allow_tf32' is for f32, 'a' is {}", dtype_name(p.a_dtype));
  }
  if (p.allow_fast_accum && !is_ocp_f8(p.a_dtype)) {
    return refuse_gemm("argument 'allow_fast_accum' is for e4m3 and e5m2, 'a' is {}", dtype_name(p.a_dtype));
  }
  if (Status s = check_gemm_extents(p); !s) return s;
  const bool fits = reach_fits({{p.batch, p.stride_a_batch}, {p.m, p.stride_a_m}, {p.k, p.stride_a_k}}) &&
                    reach_fits({{p.batch, p.stride_b_batch}, {p.k, p.stride_b_k}, {p.n, p.stride_b_n}}) &&
                    reach_fits({{p.batch, p.stride_d_batch}, {p.m, p.stride_d_m}, {p.out_n(), p.stride_d_n}});
  if (!fits) return refuse_gemm("strides of 'a', 'b' or 'd' reach beyond 2^56 elements");
  auto operand_fits = [&p](const OperandProblem& o) {
    return reach_fits({{p.batch, o.stride_batch}, {p.m, o.stride_m}, {p.n, o.stride_n}});
  };
  bool operands_fit = true;
  for (const OperandProblem* o : {&p.c, &p.bias}) operands_fit = operands_fit && operand_fits(*o);
  for (const StepProblem& step : p.steps) operands_fit = operands_fit && operand_fits(step.operand);
  if (!operands_fit) return refuse_gemm("strides of an epilogue operand reach beyond 2^56 elements");
  if (Status s = check_gemm_scales(p); !s) return s;
  if (p.b_packed && !is_packable(p.b_dtype)) {
    return refuse_gemm("argument 'b' is packed {}, allowed: {}", dtype_name(p.b_dtype), kPackableNames);
  }
  if (p.b_packed == kPackedFragments && dtype_bits(p.b_dtype) != 4) {
    return refuse_gemm("argument 'b' is {} packed on an NVIDIA GPU, allowed: e2m1, i4, u4", dtype_name(p.b_dtype));
  }
  if (p.b_packed && p.batch > 1 && p.stride_b_batch != 0 && p.stride_b_batch < packed_entry_bytes(p)) {
    return refuse_gemm("argument 'b' is packed with a batch stride of {} bytes, needs {}", p.stride_b_batch,
                       packed_entry_bytes(p));
  }
  if (p.m == 0 || p.n == 0 || p.batch == 0) return {};
  return check_gemm_self_overlap(p);
}

double gemm_operations(const GemmProblem& p) {
  return 2.0 * static_cast<double>(p.batch) * static_cast<double>(p.m) * static_cast<double>(p.n) *
         static_cast<double>(p.k);
}

double gemm_bytes_moved(const GemmProblem& p) {
  auto bytes = [](DType dtype, double count) { return count * dtype_bits(dtype) / 8; };
  auto times = [&p](int64_t batch_stride) { return batch_stride == 0 ? 1.0 : static_cast<double>(p.batch); };
  const double m = static_cast<double>(p.m), n = static_cast<double>(p.n), k = static_cast<double>(p.k);
  double total = bytes(p.a_dtype, m * k) * times(p.stride_a_batch) + bytes(p.b_dtype, n * k) * times(p.stride_b_batch) +
                 bytes(p.d_dtype, m * static_cast<double>(p.out_n())) * static_cast<double>(p.batch);
  auto add = [&](const OperandProblem& o, double columns) {
    total += bytes(o.dtype, (o.stride_m != 0 ? m : 1) * (o.stride_n != 0 ? columns : 1)) * times(o.stride_batch);
  };
  for (const OperandProblem* o : {&p.c, &p.bias}) add(*o, n);
  for (const auto& [scale, outer] :
       {std::pair<const ScaleProblem*, int64_t>{&p.scale_a, p.m}, {&p.scale_b, p.n}, {&p.zero_b, p.n}}) {
    const ScaleCounts counts = scale_counts(*scale, outer, p.k);
    total += bytes(scale->dtype, static_cast<double>(scale->stride_outer != 0 ? counts.outer : 1) *
                                     static_cast<double>(scale->stride_k != 0 ? counts.k : 1)) *
             times(scale->stride_batch);
  }
  for (int i = 0; i < p.step_count; ++i) add(p.steps[i].operand, static_cast<double>(p.out_n()));
  return total;
}

namespace {

// M is bucketed to powers of two: the choice follows the bucket, the launch the true value.
int64_t bucket_of(int64_t m) {
  int64_t bucket = 1;
  while (bucket < m) bucket *= 2;
  return bucket;
}

std::string operand_text(const OperandProblem& o) {
  return fmt::format("{}{}{}", dtype_name(o.dtype), o.stride_m != 0 ? "m" : "", o.stride_n != 0 ? "n" : "");
}

}  // namespace

ProblemSignature gemm_signature(const GemmProblem& p) {
  ProblemSignature s;
  // Layout letters: r = last index contiguous, c = first one, s = neither, p = packed.
  auto letter = [](int64_t first, int64_t last) { return last == 1 ? 'r' : first == 1 ? 'c' : 's'; };
  s.core = fmt::format("a={}:b={}:layout={}{}{}", dtype_name(p.a_dtype), dtype_name(p.b_dtype),
                       letter(p.stride_a_m, p.stride_a_k), p.b_packed ? 'p' : letter(p.stride_b_k, p.stride_b_n),
                       letter(p.stride_d_m, p.stride_d_n));
  // Scales of groups are part of what is multiplied, with a letter for how they lie; others are the epilogue's.
  if (p.scale_a.blocked()) {
    s.core +=
        fmt::format(":scale_a={}.{}", scale_mode_text(p.scale_a), letter(p.scale_a.stride_outer, p.scale_a.stride_k));
  }
  if (p.scale_b.blocked()) {
    s.core +=
        fmt::format(":scale_b={}.{}", scale_mode_text(p.scale_b), letter(p.scale_b.stride_k, p.scale_b.stride_outer));
  }
  if (p.zero_b.present()) {
    s.core +=
        fmt::format(":zero_b={}.{}", dtype_name(p.zero_b.dtype), letter(p.zero_b.stride_k, p.zero_b.stride_outer));
  }
  if (p.batch_invariant) s.core += ":batch_invariant=1";
  if (p.allow_tf32) s.core += ":allow_tf32=1";
  if (p.allow_fast_accum) s.core += ":allow_fast_accum=1";
  if (p.programmatic_edge) s.add_programmatic_edge();
  s.epilogue = fmt::format("d={}", dtype_name(p.d_dtype));
  if (p.has_alpha) s.epilogue += ":alpha";
  for (auto [name, axis, scale] : {std::tuple{"scale_a", "m", &p.scale_a}, {"scale_b", "n", &p.scale_b}}) {
    if (!scale->present() || scale->blocked()) continue;
    s.epilogue += fmt::format(":{}={}{}", name, dtype_name(scale->dtype), scale->stride_outer != 0 ? axis : "");
  }
  for (auto [name, operand] : {std::pair{"c", &p.c}, {"bias", &p.bias}}) {
    if (operand->present()) s.epilogue += fmt::format(":{}={}", name, operand_text(*operand));
  }
  if (p.activation != Activation::kNone)
    s.epilogue += fmt::format(":act={}", kActivationNames[static_cast<int>(p.activation)]);
  if (p.gate != GateMode::kNone) s.epilogue += fmt::format(":gate={}", kGateModeNames[static_cast<int>(p.gate)]);
  for (int i = 0; i < p.step_count; ++i) {
    const StepProblem& step = p.steps[i];
    s.epilogue += fmt::format(":{}={}", kStepKindNames[static_cast<int>(step.kind)],
                              step.kind == StepKind::kActivation
                                  ? std::string(kActivationNames[static_cast<int>(step.activation)])
                                  : operand_text(step.operand));
  }
  s.sizes = fmt::format("m={}:n={}:k={}:batch={}", p.m, p.n, p.k, p.batch);
  s.bucket = fmt::format("m<={}:n={}:k={}:batch={}", bucket_of(p.m), p.n, p.k, p.batch);
  return s;
}

}  // namespace tilewright
