// SPDX-License-Identifier: MIT
// act_and_mul_gpu: activation(gate) * up along rows, read once. Typed by its config, or at run time.
#pragma once

#include "gemm/gpu/gemm_activation_gpu.cuh"
#include "tile/gpu/row_pairs.cuh"
#include "tile/gpu/row_store.cuh"

namespace tilewright {

// Gates and what they multiply, of which x has pairs. A block has one of these for all its rows.
template <RowGpuConfig kConfig>
struct GatedInput {
  // Of interleaved ones eight neighbours, and the eight behind them.
  using Tensors = AskedTensors<kConfig, kConfig.x, kConfig.x>;
  Tensors tensors;

  __device__ __forceinline__ void start(const GpuRow<kConfig>& row) {
    tensors.start(row, [&args = row.args, &at = row.at](auto&& ask) {
      const GateMode gate = gate_of<kConfig>(args);
      const bool interleaved = gate == GateMode::kInterleaved;
      const long long behind = interleaved ? kRowPiece : gate == GateMode::kSeparated ? row_length<kConfig>(args) : 0;
      const char* const x = row_start<kConfig.x>(args.x, at);
      ask(x, x + behind * dtype_bits(kConfig.x) / 8, interleaved ? 2 : 1);
    });
  }
  __device__ __forceinline__ void take(const RowArgs& args, const char* x, long long n, int count, int j, Piece& gate,
                                       Piece& up) const {
    const bool interleaved = gate_of<kConfig>(args) == GateMode::kInterleaved;
    if constexpr (Tensors::kAsks) {
      tensors.take_first(j, count, gate);
      tensors.take_second(j, count, up);
      if (interleaved) part_pairs(gate, up);
    } else {
      const DType dtype = args.x.dtype;
      if (interleaved) return load_pairs<kConfig.x, kConfig.whole>(x, dtype, n, count, gate, up);
      load_piece<kConfig.x, kConfig.whole>(x, dtype, n, count, gate);
      if (gate_of<kConfig>(args) == GateMode::kSeparated)
        load_piece<kConfig.x, kConfig.whole>(x, dtype, args.n + n, count, up);
    }
  }
};

inline constexpr float kNoLimit = __builtin_bit_cast(float, 0x7F800000u);

template <Activation kActivation>
__device__ __forceinline__ void activate_piece(Piece& p) {
  for_elements([&](int i) { p.v[i] = activate<kActivation>(p.v[i], 0, 0); });
}
template <RowGpuConfig kConfig>
__device__ __forceinline__ void activate_gate(const RowArgs& args, Piece& p) {
  switch (activation_of<kConfig>(args)) {
    case Activation::kRelu: return activate_piece<Activation::kRelu>(p);
    case Activation::kGelu: return activate_piece<Activation::kGelu>(p);
    case Activation::kGeluTanh: return activate_piece<Activation::kGeluTanh>(p);
    case Activation::kSigmoid: return activate_piece<Activation::kSigmoid>(p);
    case Activation::kTanh: return activate_piece<Activation::kTanh>(p);
    case Activation::kHardswish: return activate_piece<Activation::kHardswish>(p);
    case Activation::kSilu:
      for_elements([&](int i) { p.v[i] *= activate<Activation::kSigmoid>(p.v[i] * args.alpha, 0, 0); });
      return;
    default: return;
  }
}

template <RowGpuConfig kConfig>
__device__ __forceinline__ void act_and_mul_gpu(const RowArgs& given) {
  GatedInput<kConfig> input;
  for_rows<kConfig>(given, [&](GpuRow<kConfig>& row) {
    const char* const x = row_start<kConfig.x>(row.args.x, row.at);
    input.start(row);
    const auto make = [&](long long n, int count, Piece& p, int j) {
      const RowArgs& args = anew(row.args);
      Piece up;
      input.take(args, x, n, count, j, p, up);

      const bool cuts = args.limit != kNoLimit;
      if (cuts) for_elements([&](int i) { p.v[i] = at_most(p.v[i], args.limit); });
      activate_gate<kConfig>(args, p);
      if (is_squared<kConfig>(args)) for_elements([&](int i) { p.v[i] *= p.v[i]; });
      if (gate_of<kConfig>(args) != GateMode::kNone) {
        if (cuts) for_elements([&](int i) { up.v[i] = at_most(at_least(up.v[i], -args.limit), args.limit); });
        for_elements([&](int i) { p.v[i] *= up.v[i] + args.up_offset; });
      }
      // Zeros behind the row's end: no activation but sigmoid makes another of them.
      if (activation_of<kConfig>(args) == Activation::kSigmoid)
        for_elements([&](int i) { p.v[i] = is_there<kConfig>(i, count) ? p.v[i] : 0; });
    };
    // All of it is read before any of it is written, where it stays in registers.
    if constexpr (kConfig.pieces > 0) row.template each<true>(make, [](long long, int, Piece&) {});
    store_row<kConfig>(row, [&](long long n, int count, Piece& p) {
      if constexpr (kConfig.pieces == 0) make(n, count, p, 0);
    });
  });
}

}  // namespace tilewright
