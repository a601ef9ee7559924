// SPDX-License-Identifier: MIT
// act_and_mul_backward_gpu: gradients of gates and of what they multiply, along rows, read once. Typed by its config, or at run time.
#pragma once

#include "act_and_mul/act_and_mul_gpu.cuh"
#include "act_and_mul_backward/activation_slope_gpu.cuh"

namespace tilewright {

// Of a piece that becomes its values.
template <Activation kActivation>
__device__ __forceinline__ void slope_of_piece(Piece& p, Piece& slope, float alpha) {
  for_elements([&](int i) {
    const ActivationSlope found = activation_slope<kActivation>(p.v[i], alpha);
    p.v[i] = found.value, slope.v[i] = found.slope;
  });
}
template <RowGpuConfig kConfig>
__device__ __forceinline__ void slope_of_gate(const RowArgs& args, Piece& p, Piece& slope) {
  switch (activation_of<kConfig>(args)) {
    case Activation::kRelu: return slope_of_piece<Activation::kRelu>(p, slope, 1);
    case Activation::kGelu: return slope_of_piece<Activation::kGelu>(p, slope, 1);
    case Activation::kGeluTanh: return slope_of_piece<Activation::kGeluTanh>(p, slope, 1);
    case Activation::kSilu: return slope_of_piece<Activation::kSilu>(p, slope, args.alpha);
    case Activation::kSigmoid: return slope_of_piece<Activation::kSigmoid>(p, slope, 1);
    case Activation::kTanh: return slope_of_piece<Activation::kTanh>(p, slope, 1);
    case Activation::kHardswish: return slope_of_piece<Activation::kHardswish>(p, slope, 1);
    default: return slope_of_piece<Activation::kNone>(p, slope, 1);
  }
}

template <RowGpuConfig kConfig>
__device__ __forceinline__ void act_and_mul_backward_gpu(const RowArgs& given) {
  using Asked = AskedPieces<kConfig, kConfig.residual>;
  GatedInput<kConfig> input;
  Asked dy_words;
  for_rows<kConfig>(given, [&](GpuRow<kConfig>& row) {
    const char* const x = row_start<kConfig.x>(row.args.x, row.at);
    const char* const dy = row_start<kConfig.residual>(row.args.residual, row.at);
    char* const dx = row_start<kConfig.out>(row.args.out, row.at);
    if constexpr (fetches_rows(kConfig)) Asked::fetch(row.args, dy);
    input.start(row);
    dy_words.ask(row.args, dy);
    const auto load = [&](long long n, int count, Piece& grad) {
      if constexpr (!Asked::kAsks)
        load_piece<kConfig.residual, kConfig.whole>(dy, row.args.residual.dtype, n, count, grad);
    };
    row.template each<true>(load, [&](long long n, int count, Piece& grad, int j) {
      const RowArgs& args = anew(row.args);
      if constexpr (Asked::kAsks) dy_words.take(j, count, grad);
      Piece v, up, slope;
      input.take(args, x, n, count, j, v, up);

      // What is cut has no slope.
      unsigned cut = 0;
      for_elements([&](int i) {
        cut |= (v.v[i] > args.limit ? 1u : 0u) << i;
        v.v[i] = at_most(v.v[i], args.limit);
      });
      slope_of_gate<kConfig>(args, v, slope);
      if (is_squared<kConfig>(args)) for_elements([&](int i) { slope.v[i] *= v.v[i] + v.v[i], v.v[i] *= v.v[i]; });
      for_elements([&](int i) { slope.v[i] = (cut >> i & 1) != 0 ? 0 : slope.v[i] * grad.v[i]; });
      const GateMode gate = gate_of<kConfig>(args);
      if (gate == GateMode::kNone) return store_piece<kConfig.out, kConfig.whole>(dx, args.out.dtype, n, count, slope);
      for_elements([&](int i) {
        v.v[i] = fabsf(up.v[i]) > args.limit ? 0 : v.v[i] * grad.v[i];
        slope.v[i] *= at_most(at_least(up.v[i], -args.limit), args.limit) + args.up_offset;
      });
      if (gate == GateMode::kInterleaved) return store_pairs<kConfig.out>(dx, args.out.dtype, n, count, slope, v);
      store_piece<kConfig.out, kConfig.whole>(dx, args.out.dtype, n, count, slope);
      store_piece<kConfig.out, kConfig.whole>(dx, args.out.dtype, row_length<kConfig>(args) + n, count, v);
    });
  });
}

}  // namespace tilewright
