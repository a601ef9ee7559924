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
      const bool interleaved = args.gate == GateMode::kInterleaved;
      const long long behind = interleaved ? kRowPiece : args.gate == GateMode::kSeparated ? args.n : 0;
      const char* const x = row_start<kConfig.x>(args.x, at);
      ask(x, x + behind * dtype_bits(kConfig.x) / 8, interleaved ? 2 : 1);
    });
  }
  __device__ __forceinline__ void take(const RowArgs& args, const char* x, long long n, int count, int j, Piece& gate,
                                       Piece& up) const {
    const bool interleaved = args.gate == GateMode::kInterleaved;
    if constexpr (Tensors::kAsks) {
      tensors.take_first(j, count, gate);
      tensors.take_second(j, count, up);
      if (interleaved) part_pairs(gate, up);
    } else {
      const DType dtype = args.x.dtype;
      if (interleaved) return load_pairs<kConfig.x, kConfig.whole>(x, dtype, n, count, gate, up);
      load_piece<kConfig.x, kConfig.whole>(x, dtype, n, count, gate);
      if (args.gate == GateMode::kSeparated) load_piece<kConfig.x, kConfig.whole>(x, dtype, args.n + n, count, up);
    }
  }
};

template <Activation kActivation>
__device__ __forceinline__ void activate_piece(Piece& p) {
  for_elements([&](int i) { p.v[i] = activate<kActivation>(p.v[i], 0, 0); });
}
__device__ __forceinline__ void activate_gate(const RowArgs& args, Piece& p) {
  switch (args.activation) {
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

      for_elements([&](int i) { p.v[i] = at_most(p.v[i], args.limit); });
      activate_gate(args, p);
      if (args.squared) for_elements([&](int i) { p.v[i] *= p.v[i]; });
      if (args.gate != GateMode::kNone) {
        for_elements([&](int i) { p.v[i] *= at_most(at_least(up.v[i], -args.limit), args.limit) + args.up_offset; });
      }
      // Zeros behind the row's end: no activation but sigmoid makes another of them.
      if (args.activation == Activation::kSigmoid)
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
