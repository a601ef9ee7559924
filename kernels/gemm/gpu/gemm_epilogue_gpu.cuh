// SPDX-License-Identifier: MIT
// The epilogue of every GPU kernel of GEMM, on pairs of neighbouring columns.
//
//   GemmEpilogue<kConfig> epilogue(args.epilogue, args.m, args.n, batch);
//   auto row = epilogue.row(m);          // what varies by row, once a row
//   auto columns = epilogue.columns(n);  // what varies by column, once a pair (n, n + 1)
//   epilogue.store(m, n, epilogue.linear(row, columns, sum0, sum1));
//
// One order of operations for all kinds, so that all give the same bits: fma(sum * (alpha * scale_a), scale_b, bias + beta C).
// What is absent is 1 or -0 and changes no bit. n counts columns of B, those of D where the text says so; m and n may lie
// outside the matrix: nothing is read or written there. kFull is long: call it in a loop that is not unrolled (sums in
// shared memory).
#pragma once

#include "gemm/gpu/gemm_activation_gpu.cuh"
#include "tile/gpu/convert.hpp"

namespace tilewright {

struct GemmPair {
  float first, second;
};

__device__ __forceinline__ float gemm_sum(float sum) { return sum; }
__device__ __forceinline__ float gemm_sum(int sum) { return __int2float_rn(sum); }

// One element or an aligned pair of f32, f16 or bf16; the host lets no other type through. Ordinary loads: the kernel in
// front may still write what they read when this one starts.
__device__ __forceinline__ float load_float(const char* data, DType dtype) {
  if (dtype == DType::kF32) return *reinterpret_cast<const float*>(data);
  const unsigned bits = *reinterpret_cast<const unsigned short*>(data);
  return dtype == DType::kBf16 ? widen_bf16(bits) : widen_f16(bits);
}
__device__ __forceinline__ GemmPair load_float_pair(const char* data, DType dtype) {
  if (dtype == DType::kF32) {
    const float2 pair = *reinterpret_cast<const float2*>(data);
    return {pair.x, pair.y};
  }
  const unsigned pair = *reinterpret_cast<const unsigned*>(data);
  if (dtype == DType::kBf16) return {widen_bf16(pair), widen_bf16_high(pair)};
  return {widen_f16(pair & 0xFFFFu), widen_f16(pair >> 16)};
}

// operand[batch, m, n] and [.., n + 1] for n < all_n.
__device__ __forceinline__ GemmPair load_operand(const EpilogueOperand& operand, int64 batch, int64 m, int64 n,
                                                 int64 all_n) {
  const int size = operand.dtype == DType::kF32 ? 4 : 2;
  const int64 index = batch * operand.stride_batch + m * operand.stride_m + n * operand.stride_n;
  const char* data = static_cast<const char*>(operand.data) + index * size;
  const bool both = n + 1 < all_n;
  if (both && operand.stride_n == 1 && (reinterpret_cast<unsigned long long>(data) & (2 * size - 1)) == 0) {
    return load_float_pair(data, operand.dtype);
  }
  const float first = load_float(data, operand.dtype);
  if (!both || operand.stride_n == 0) return {first, first};
  return {first, load_float(data + operand.stride_n * size, operand.dtype)};
}

template <GemmEpilogueConfig kConfig>
class GemmEpilogue {
 public:
  struct Row {
    int64 m;
    float factor;  // alpha * scale_a; kFull reads its own
  };
  struct Columns {
    int64 n;
    GemmPair scale, bias;
  };

  // `all_m`, `all_n`: rows of A and columns of B.
  __device__ __forceinline__ GemmEpilogue(const GemmEpilogueArgs& args, int64 all_m, int64 all_n, int64 batch)
      : e_(args), all_m_(all_m), all_n_(all_n), batch_(batch) {}

  __device__ __forceinline__ Row row(int64 m) const {
    Row row{m, 1.0f};
    if constexpr (kKind == EpilogueKind::kLinear) {
      row.factor = e_.alpha;
      if (e_.scale_a.data != nullptr && m < all_m_) {
        const int size = e_.scale_a.dtype == DType::kF32 ? 4 : 2;
        const int64 index = batch_ * e_.scale_a.stride_batch + m * e_.scale_a.stride_m;
        row.factor =
            __fmul_rn(e_.alpha, load_float(static_cast<const char*>(e_.scale_a.data) + index * size, e_.scale_a.dtype));
      }
    }
    return row;
  }

  __device__ __forceinline__ Columns columns(int64 n) const {
    Columns columns{n, {1.0f, 1.0f}, {-0.0f, -0.0f}};
    if constexpr (kKind == EpilogueKind::kLinear) {
      if (n < all_n_) {
        if (e_.scale_b.data != nullptr) columns.scale = load_operand(e_.scale_b, batch_, 0, n, all_n_);
        if (e_.bias.data != nullptr) columns.bias = load_operand(e_.bias, batch_, 0, n, all_n_);
      }
    }
    return columns;
  }

  // Without a gate: D's values at columns n and n + 1.
  template <class Sum>
  __device__ __forceinline__ GemmPair linear(const Row& row, const Columns& columns, Sum first, Sum second) const {
    static_assert(kConfig.gate == GateMode::kNone);
    const GemmPair x = linear_part(row, columns, first, second);
    return run_steps({activate_one(x.first), activate_one(x.second)}, row.m, columns.n);
  }

  // Separated gate: columns n and n + 1 of both halves, which are D's.
  template <class Sum>
  __device__ __forceinline__ GemmPair gated(const Row& row, const Columns& gate, const Columns& up, Sum gate0,
                                            Sum gate1, Sum up0, Sum up1) const {
    static_assert(kConfig.gate == GateMode::kSeparated);
    const GemmPair x = linear_part(row, gate, gate0, gate1), y = linear_part(row, up, up0, up1);
    return run_steps({__fmul_rn(activate_one(x.first), y.first), __fmul_rn(activate_one(x.second), y.second)}, row.m,
                     gate.n);
  }

  // Interleaved gate: columns n (gate) and n + 1 (up) are column n / 2 of D.
  template <class Sum>
  __device__ __forceinline__ float gated(const Row& row, const Columns& columns, Sum gate, Sum up) const {
    static_assert(kConfig.gate == GateMode::kInterleaved);
    const GemmPair x = linear_part(row, columns, gate, up);
    const float product = __fmul_rn(activate_one(x.first), x.second);
    return run_steps({product, product}, row.m, columns.n / 2, columns.n / 2 + 1).first;
  }

  // D's type: two values in a word (16-bit types), for a caller that stages D itself.
  __device__ __forceinline__ static unsigned pack(float low, float high) {
    static_assert(kConfig.d_dtype == DType::kBf16 || kConfig.d_dtype == DType::kF16);
    return kConfig.d_dtype == DType::kBf16 ? pack_bf16(low, high) : pack_f16(low, high);
  }

  __device__ __forceinline__ static void unpack(unsigned word, float& low, float& high) {
    static_assert(kConfig.d_dtype == DType::kBf16 || kConfig.d_dtype == DType::kF16);
    const bool bf16 = kConfig.d_dtype == DType::kBf16;
    low = bf16 ? widen_bf16(word & 0xFFFFu) : widen_f16(word & 0xFFFFu);
    high = bf16 ? widen_bf16_high(word) : widen_f16(word >> 16);
  }

  // D[m, n] where it exists; n counts D's columns.
  __device__ __forceinline__ void store(int64 m, int64 n, float value) const {
    if (m >= all_m_ || n >= out_n()) return;
    store_one(address(m, n), value);
  }
  __device__ __forceinline__ void store(int64 m, int64 n, GemmPair values) const {
    const float list[] = {values.first, values.second};
    store(m, n, list);
  }
  // kCount values from column n on: 16, 8 or 4 bytes at once where D is contiguous and aligned there.
  template <int kCount>
  __device__ __forceinline__ void store(int64 m, int64 n, const float (&values)[kCount]) const {
    static_assert(kCount == 2 || kCount == 4 || kCount == 8);
    if (m >= all_m_ || n >= out_n()) return;
    char* to = address(m, n);
    const int bytes = kCount * d_size() < 16 ? kCount * d_size() : 16;
    const bool vector =
        e_.stride_d_n == 1 && n + kCount <= out_n() && (reinterpret_cast<unsigned long long>(to) & (bytes - 1)) == 0;
    if (vector) return store_vector(to, values);
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      if (n + i < out_n()) store_one(to + i * e_.stride_d_n * d_size(), values[i]);
    }
  }

  __device__ __forceinline__ int64 rows() const { return all_m_; }

  // For a caller that stores D itself: where D[m, n] is, and how many bytes on the next row begins.
  __device__ __forceinline__ char* address(int64 m, int64 n) const {
    const int64 index = batch_ * e_.stride_d_batch + m * e_.stride_d_m + n * e_.stride_d_n;
    return static_cast<char*>(e_.d) + index * d_size();
  }
  __device__ __forceinline__ int64 row_bytes() const { return e_.stride_d_m * d_size(); }
  // Whether D's rows are contiguous, whole pieces of 16 bytes, and begin at multiples of them.
  __device__ __forceinline__ bool has_pieces() const {
    const auto begin = reinterpret_cast<unsigned long long>(e_.d);
    const auto steps = static_cast<unsigned long long>((e_.stride_d_m | e_.stride_d_batch | out_n()) * d_size());
    return e_.stride_d_n == 1 && ((begin | steps) & 15) == 0;
  }

  __device__ __forceinline__ int64 out_n() const { return kConfig.gate == GateMode::kNone ? all_n_ : all_n_ / 2; }

 private:
  static constexpr EpilogueKind kKind = kConfig.kind;

  __device__ __forceinline__ DType d_dtype() const {
    return kConfig.d_dtype == DType::kNone ? e_.d_dtype : kConfig.d_dtype;
  }
  __device__ __forceinline__ int d_size() const { return d_dtype() == DType::kF32 ? 4 : 2; }

  __device__ __forceinline__ float activate_one(float x) const {
    if constexpr (kKind == EpilogueKind::kFull) return activate(e_.activation, x, e_.low, e_.high);
    if constexpr (kKind == EpilogueKind::kLinear) return activate<kConfig.activation>(x, e_.low, e_.high);
    return x;
  }

  template <class Sum>
  __device__ __forceinline__ GemmPair linear_part(const Row& row, const Columns& columns, Sum first, Sum second) const {
    const GemmPair x{gemm_sum(first), gemm_sum(second)};
    if constexpr (kKind == EpilogueKind::kPlain) return x;
    if constexpr (kKind == EpilogueKind::kLinear) {
      return combine(x, {row.factor, row.factor}, columns.scale, columns.bias);
    }
    if (row.m >= all_m_ || columns.n >= all_n_) return {0.0f, 0.0f};
    const auto operand = [&](const EpilogueOperand& o, float absent) {
      return o.data == nullptr ? GemmPair{absent, absent} : load_operand(o, batch_, row.m, columns.n, all_n_);
    };
    const GemmPair scale_a = operand(e_.scale_a, 1.0f);
    GemmPair added = operand(e_.bias, -0.0f);
    if (e_.c.data != nullptr && e_.beta != 0.0f) {
      const GemmPair c = operand(e_.c, -0.0f);
      added = {__fmaf_rn(e_.beta, c.first, added.first), __fmaf_rn(e_.beta, c.second, added.second)};
    }
    return combine(x, {__fmul_rn(e_.alpha, scale_a.first), __fmul_rn(e_.alpha, scale_a.second)},
                   operand(e_.scale_b, 1.0f), added);
  }
  __device__ __forceinline__ static GemmPair combine(GemmPair sum, GemmPair factor, GemmPair scale, GemmPair added) {
    return {__fmaf_rn(__fmul_rn(sum.first, factor.first), scale.first, added.first),
            __fmaf_rn(__fmul_rn(sum.second, factor.second), scale.second, added.second)};
  }

  // Steps on D[m, n] and D[m, n + 1], n < limit.
  __device__ __forceinline__ GemmPair run_steps(GemmPair x, int64 m, int64 n) const {
    return run_steps(x, m, n, out_n());
  }
  __device__ __forceinline__ GemmPair run_steps(GemmPair x, int64 m, int64 n, int64 limit) const {
    if constexpr (kKind == EpilogueKind::kFull) {
      if (m >= all_m_ || n >= limit) return x;
#pragma unroll 1
      for (int i = 0; i < e_.step_count; ++i) {
        const EpilogueStep& step = e_.steps[i];
        if (step.kind == StepKind::kActivation) {
          x = {activate(step.activation, x.first, step.low, step.high),
               activate(step.activation, x.second, step.low, step.high)};
          continue;
        }
        const GemmPair y = load_operand(step.operand, batch_, m, n, limit);
        x = step.kind == StepKind::kAdd ? GemmPair{__fadd_rn(x.first, y.first), __fadd_rn(x.second, y.second)}
                                        : GemmPair{__fmul_rn(x.first, y.first), __fmul_rn(x.second, y.second)};
      }
    }
    return x;
  }

  __device__ __forceinline__ void store_one(char* to, float value) const {
    if (d_dtype() == DType::kF32) {
      *reinterpret_cast<float*>(to) = value;
    } else {
      *reinterpret_cast<unsigned short*>(to) = d_dtype() == DType::kBf16 ? narrow_bf16(value) : narrow_f16(value);
    }
  }
  template <int kCount>
  __device__ __forceinline__ void store_vector(char* to, const float (&v)[kCount]) const {
    if (d_dtype() == DType::kF32) {
      if constexpr (kCount == 2) *reinterpret_cast<float2*>(to) = {v[0], v[1]};
      if constexpr (kCount == 4) *reinterpret_cast<float4*>(to) = {v[0], v[1], v[2], v[3]};
      if constexpr (kCount == 8) {
        reinterpret_cast<float4*>(to)[0] = {v[0], v[1], v[2], v[3]};
        reinterpret_cast<float4*>(to)[1] = {v[4], v[5], v[6], v[7]};
      }
      return;
    }
    const bool bf16 = d_dtype() == DType::kBf16;
    const auto word = [&](int i) { return bf16 ? pack_bf16(v[i], v[i + 1]) : pack_f16(v[i], v[i + 1]); };
    if constexpr (kCount == 2) *reinterpret_cast<unsigned*>(to) = word(0);
    if constexpr (kCount == 4) *reinterpret_cast<uint2*>(to) = {word(0), word(2)};
    if constexpr (kCount == 8) *reinterpret_cast<uint4*>(to) = {word(0), word(2), word(4), word(6)};
  }

  const GemmEpilogueArgs& e_;
  const int64 all_m_, all_n_, batch_;
};

}  // namespace tilewright
