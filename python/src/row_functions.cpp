// SPDX-License-Identifier: MIT
#include "row_functions.hpp"

#include "row_arguments.hpp"
#include "tilewright/act_and_mul.hpp"
#include "tilewright/dequantize.hpp"
#include "tilewright/elementwise.hpp"
#include "tilewright/gated_rms_norm.hpp"
#include "tilewright/layer_norm.hpp"
#include "tilewright/quantize.hpp"
#include "tilewright/rms_norm.hpp"
#include "tilewright/rope.hpp"
#include "tilewright/transpose.hpp"

namespace tilewright::python {
namespace {

template <class Call>
nb::object norm_function(const char* op, Status (*function)(Context&, const Call&, const Exec&), nb::handle x,
                         nb::handle weight, nb::handle bias, nb::handle eps, nb::handle residual,
                         nb::object residual_out, nb::object out, nb::handle out_dtype, nb::handle quant,
                         nb::object scale, nb::handle scale_dtype, nb::handle tensor_scale, int64_t group,
                         nb::handle rounding, nb::handle smooth, bool unit_offset, bool round_before_weight,
                         const std::string& recipe, int units, bool programmatic_edge) {
  RowArguments arguments(op, x, units, programmatic_edge);
  Call call;
  call.x = arguments.input.view;
  call.weight = arguments.optional("weight", weight);
  call.bias = arguments.optional("bias", bias);
  call.smooth = arguments.optional("smooth", smooth);
  call.residual = arguments.optional("residual", residual);
  call.eps = eps.is_none() ? default_eps(op, call.x.dtype) : nb::cast<float>(eps);
  call.unit_offset = unit_offset, call.round_before_weight = round_before_weight;
  call.quant = named(op, "quant", quant, Quantisation::kNone);
  call.rounding = named(op, "rounding", rounding, ScaleRounding::kDown);
  call.group = group;
  call.recipe = recipe;

  // Results.
  const bool quantised = call.quant != Quantisation::kNone;
  nb::object made_out = std::move(out), made_sum = std::move(residual_out), made_scale = std::move(scale);
  call.out =
      arguments.result("out", made_out, output_dtype(op, out_dtype, quantised ? DType::kF8E4M3 : call.x.dtype), -1);
  const bool sums = call.residual.defined();
  if (sums || !made_sum.is_none()) {
    call.residual_out = arguments.result("residual_out", made_sum, sums ? call.residual.dtype : call.x.dtype, -1);
  }
  const int64_t n = call.x.shape[static_cast<size_t>(call.x.rank - 1)];
  call.scale = arguments.scale(made_scale, call.quant, scale_dtype, call.group, n);
  call.tensor_scale = arguments.optional("tensor_scale", tensor_scale);

  Status status;
  {
    const nb::gil_scoped_release released;
    status = function(Context::global(), call, arguments.exec);
  }
  check(status);
  if (!sums && !finds_scale(call.quant)) return made_out;
  nb::list all;
  all.append(made_out);
  if (sums) all.append(made_sum);
  if (finds_scale(call.quant)) all.append(made_scale);
  return nb::tuple(all);
}

nb::object act_and_mul_function(nb::handle x, nb::handle activation, nb::handle gate, bool squared, float limit,
                                float alpha, float up_offset, nb::object out, nb::handle out_dtype, nb::handle quant,
                                nb::object scale, nb::handle scale_dtype, nb::handle tensor_scale, int64_t group,
                                nb::handle rounding, const std::string& recipe, int units, bool programmatic_edge) {
  constexpr const char* kOp = "act_and_mul";
  RowArguments arguments(kOp, x, units, programmatic_edge);
  ActAndMulCall call;
  call.x = arguments.input.view;
  // Clamp, the last, is what `limit` does.
  call.activation = named(kOp, "activation", activation, Activation::kNone, static_cast<int>(Activation::kClamp));
  call.gate = named(kOp, "gate", gate, GateMode::kNone);
  call.squared = squared, call.limit = limit, call.alpha = alpha, call.up_offset = up_offset;
  call.quant = named(kOp, "quant", quant, Quantisation::kNone);
  call.rounding = named(kOp, "rounding", rounding, ScaleRounding::kDown);
  call.group = group;
  call.recipe = recipe;

  // Results.
  const bool quantised = call.quant != Quantisation::kNone;
  const int64_t length = call.x.shape[static_cast<size_t>(call.x.rank - 1)];
  const int64_t n = call.gate == GateMode::kNone ? length : length / 2;
  nb::object made_out = std::move(out), made_scale = std::move(scale);
  call.out = arguments.result("out", made_out, output_dtype(kOp, out_dtype, quantised ? DType::kF8E4M3 : call.x.dtype),
                              n > 0 ? n : -1);
  call.scale = arguments.scale(made_scale, call.quant, scale_dtype, call.group, n);
  call.tensor_scale = arguments.optional("tensor_scale", tensor_scale);

  Status status;
  {
    const nb::gil_scoped_release released;
    status = act_and_mul(Context::global(), call, arguments.exec);
  }
  check(status);
  if (!finds_scale(call.quant)) return made_out;
  return nb::make_tuple(made_out, made_scale);
}

nb::object rope_function(nb::handle q, nb::handle cos, nb::handle sin, nb::handle k, nb::handle positions,
                         bool interleaved, bool inverse, nb::handle sections, nb::handle section_order,
                         nb::handle cumulative_lengths, nb::handle offsets, nb::object out, nb::object k_out,
                         const std::string& recipe, int units, bool programmatic_edge) {
  RowArguments arguments("rope", q, units, programmatic_edge, "q");
  RopeCall call;
  call.q = arguments.input.view;
  call.cos = arguments.optional("cos", cos), call.sin = arguments.optional("sin", sin);
  call.k = arguments.optional("k", k);
  call.positions = arguments.indices("positions", positions);
  call.interleaved = interleaved, call.inverse = inverse;
  call.sections = section_pairs("rope", sections);
  call.section_order = named("rope", "section_order", section_order, RopeSections::kRuns);
  call.cumulative_lengths = arguments.optional("cumulative_lengths", cumulative_lengths);
  call.offsets = arguments.optional("offsets", offsets);
  call.recipe = recipe;

  // Results.
  nb::object made_q = std::move(out), made_k = std::move(k_out);
  call.q_out = arguments.result("out", made_q, call.q.dtype, -1);
  if (call.k.defined() && made_k.is_none()) {
    RowArguments of_k("rope", k, units, programmatic_edge, "k");
    call.k_out = of_k.result("k_out", made_k, call.k.dtype, -1);
  } else {
    call.k_out = arguments.optional("k_out", made_k, Access::kWrite);
  }

  Status status;
  {
    const nb::gil_scoped_release released;
    status = rope(Context::global(), call, arguments.exec);
  }
  check(status);
  if (!call.k.defined()) return made_q;
  return nb::make_tuple(made_q, made_k);
}

// "tensor" without a scale finds it.
nb::object quantize_function(nb::handle x, nb::handle quant, nb::object out, nb::handle out_dtype, nb::object scale,
                             nb::handle scale_dtype, nb::object tensor_scale, bool find_tensor_scale, int64_t group,
                             nb::handle rounding, nb::handle smooth, int64_t hadamard, nb::handle random_state,
                             const std::string& recipe, int units, bool programmatic_edge) {
  constexpr const char* kOp = "quantize";
  RowArguments arguments(kOp, x, units, programmatic_edge);
  QuantizeCall call;
  call.x = arguments.input.view;
  call.smooth = arguments.optional("smooth", smooth);
  call.hadamard = hadamard, call.random_state = arguments.numbers("random_state", random_state);
  call.quant = named(kOp, "quant", quant, Quantisation::kRow);
  if (call.quant == Quantisation::kTensor && scale.is_none()) call.quant = Quantisation::kDynamic;
  call.rounding = named(kOp, "rounding", rounding, ScaleRounding::kDown);
  call.group = group;
  call.recipe = recipe;
  call.out = arguments.result("out", out, output_dtype(kOp, out_dtype, DType::kF8E4M3), -1);
  const int64_t n = call.x.shape[static_cast<size_t>(call.x.rank - 1)];
  call.scale = arguments.scale(scale, call.quant, scale_dtype, call.group, n);
  call.find_tensor_scale = find_tensor_scale;
  call.tensor_scale = find_tensor_scale ? arguments.number("tensor_scale", tensor_scale)
                                        : arguments.optional("tensor_scale", tensor_scale);
  Status status;
  {
    const nb::gil_scoped_release released;
    status = quantize(Context::global(), call, arguments.exec);
  }
  check(status);
  return find_tensor_scale ? nb::make_tuple(out, scale, tensor_scale) : nb::make_tuple(out, scale);
}

nb::object dequantize_function(nb::handle x, nb::handle scale, nb::handle quant, nb::object out, nb::handle out_dtype,
                               nb::handle tensor_scale, int64_t group, const std::string& recipe, int units,
                               bool programmatic_edge) {
  constexpr const char* kOp = "dequantize";
  RowArguments arguments(kOp, x, units, programmatic_edge);
  DequantizeCall call;
  call.x = arguments.input.view;
  call.scale = arguments.optional("scale", scale);
  call.tensor_scale = arguments.optional("tensor_scale", tensor_scale);
  call.quant = named(kOp, "quant", quant, Quantisation::kRow);
  if (call.quant == Quantisation::kDynamic) call.quant = Quantisation::kTensor;  // as quantize() was told
  call.group = group;
  call.recipe = recipe;
  call.out = arguments.result("out", out, output_dtype(kOp, out_dtype, DType::kF32), -1);
  Status status;
  {
    const nb::gil_scoped_release released;
    status = dequantize(Context::global(), call, arguments.exec);
  }
  check(status);
  return out;
}

nb::object transpose_function(nb::handle x, nb::object out, const std::string& recipe, int units,
                              bool programmatic_edge) {
  constexpr const char* kOp = "transpose";
  RowArguments arguments(kOp, x, units, programmatic_edge);
  TransposeCall call;
  call.x = arguments.input.view;
  if (call.x.rank < 2) refuse("{}: argument 'x' has rank {}, allowed: 2 to {}", kOp, call.x.rank, kMaxRank);
  call.recipe = recipe;
  nb::list shape;
  const auto rank = static_cast<size_t>(call.x.rank);
  for (size_t i = 0; i + 2 < rank; ++i) shape.append(call.x.shape[i]);
  shape.append(call.x.shape[rank - 1]), shape.append(call.x.shape[rank - 2]);
  call.out = arguments.made("out", out, call.x.dtype, shape);
  Status status;
  {
    const nb::gil_scoped_release released;
    status = transpose(Context::global(), call, arguments.exec);
  }
  check(status);
  return out;
}

// `leading`: the arguments that may stand without their names, and what comes before those that all norms have.
template <class Function, class... Arguments>
void define_norm(nb::module_& module, const char* name, Function&& function, const char* doc,
                 const Arguments&... leading) {
  module.def(name, std::forward<Function>(function), leading..., nb::arg("residual") = nb::none(),
             nb::arg("residual_out") = nb::none(), nb::arg("out") = nb::none(), nb::arg("out_dtype") = nb::none(),
             nb::arg("quant") = nb::none(), nb::arg("scale") = nb::none(), nb::arg("scale_dtype") = nb::none(),
             nb::arg("tensor_scale") = nb::none(), nb::arg("group") = 0, nb::arg("rounding") = nb::none(),
             nb::arg("smooth") = nb::none(), nb::arg("unit_offset") = false, nb::arg("round_before_weight") = false,
             nb::arg("recipe") = "", nb::arg("units") = 0, nb::arg("programmatic_edge") = false, doc);
}

nb::object gated_rms_norm_function(nb::handle x, nb::handle z, nb::handle weight, float eps, int64_t norm_group,
                                   bool norm_before_gate, nb::object out, nb::handle out_dtype, nb::handle quant,
                                   nb::object scale, nb::handle scale_dtype, nb::handle tensor_scale, int64_t group,
                                   nb::handle rounding, const std::string& recipe, int units, bool programmatic_edge) {
  constexpr const char* kOp = "gated_rms_norm";
  RowArguments arguments(kOp, x, units, programmatic_edge);
  GatedRmsNormCall call;
  call.x = arguments.input.view;
  call.z = arguments.optional("z", z), call.weight = arguments.optional("weight", weight);
  call.eps = eps, call.norm_group = norm_group, call.norm_before_gate = norm_before_gate;
  call.quant = named(kOp, "quant", quant, Quantisation::kNone);
  call.rounding = named(kOp, "rounding", rounding, ScaleRounding::kDown);
  call.group = group;
  call.recipe = recipe;

  // Results.
  const bool quantised = call.quant != Quantisation::kNone;
  nb::object made_out = std::move(out), made_scale = std::move(scale);
  call.out =
      arguments.result("out", made_out, output_dtype(kOp, out_dtype, quantised ? DType::kF8E4M3 : call.x.dtype), -1);
  call.scale = arguments.scale(made_scale, call.quant, scale_dtype, call.group,
                               call.x.shape[static_cast<size_t>(call.x.rank - 1)]);
  call.tensor_scale = arguments.optional("tensor_scale", tensor_scale);
  Status status;
  {
    const nb::gil_scoped_release released;
    status = gated_rms_norm(Context::global(), call, arguments.exec);
  }
  check(status);
  if (!finds_scale(call.quant)) return made_out;
  return nb::make_tuple(made_out, made_scale);
}

// b: absent of a cast.
nb::object elementwise_function(const char* op, Arithmetic arithmetic, nb::handle x, nb::handle b, nb::object out,
                                nb::handle out_dtype, const std::string& recipe, int units, bool programmatic_edge) {
  RowArguments arguments(op, x, units, programmatic_edge);
  ElementwiseCall call;
  call.x = arguments.input.view;
  call.b = arguments.optional("b", b);
  call.arithmetic = arithmetic;
  call.recipe = recipe;
  nb::object made = std::move(out);
  call.out = arguments.result("out", made, output_dtype(op, out_dtype, call.x.dtype), -1);
  Status status;
  {
    const nb::gil_scoped_release released;
    status = elementwise(Context::global(), call, arguments.exec);
  }
  check(status);
  return made;
}

}  // namespace

void bind_row_operators(nb::module_& module) {
  module.def("gated_rms_norm", &gated_rms_norm_function, nb::arg("x"), nb::arg("z"), nb::arg("weight") = nb::none(),
             nb::arg("eps") = 1e-5f, nb::kw_only(), nb::arg("norm_group") = 0, nb::arg("norm_before_gate") = false,
             nb::arg("out") = nb::none(), nb::arg("out_dtype") = nb::none(), nb::arg("quant") = nb::none(),
             nb::arg("scale") = nb::none(), nb::arg("scale_dtype") = nb::none(), nb::arg("tensor_scale") = nb::none(),
             nb::arg("group") = 0, nb::arg("rounding") = nb::none(), nb::arg("recipe") = "", nb::arg("units") = 0,
             nb::arg("programmatic_edge") = false,
             "norm(x silu(z)) weight, or norm(x) weight silu(z), along the last dimension or groups of it. Returns the "
             "output, with scales that are found a tuple that ends with these.");
  const auto define_arithmetic = [&module](const char* name, auto function, const char* doc) {
    module.def(name, function, nb::arg("x"), nb::arg("b"), nb::kw_only(), nb::arg("out") = nb::none(),
               nb::arg("out_dtype") = nb::none(), nb::arg("recipe") = "", nb::arg("units") = 0,
               nb::arg("programmatic_edge") = false, doc);
  };
  define_arithmetic(
      "add",
      [](nb::handle x, nb::handle b, nb::object out, nb::handle out_dtype, const std::string& recipe, int units,
         bool programmatic_edge) {
        return elementwise_function("add", Arithmetic::kAdd, x, b, std::move(out), out_dtype, recipe, units,
                                    programmatic_edge);
      },
      "x + b, with b broadcast to x.");
  define_arithmetic(
      "mul",
      [](nb::handle x, nb::handle b, nb::object out, nb::handle out_dtype, const std::string& recipe, int units,
         bool programmatic_edge) {
        return elementwise_function("mul", Arithmetic::kMul, x, b, std::move(out), out_dtype, recipe, units,
                                    programmatic_edge);
      },
      "x * b, with b broadcast to x.");
  module.def(
      "cast",
      [](nb::handle x, nb::handle out_dtype, nb::object out, const std::string& recipe, int units,
         bool programmatic_edge) {
        return elementwise_function("cast", Arithmetic::kNone, x, nb::none(), std::move(out), out_dtype, recipe, units,
                                    programmatic_edge);
      },
      nb::arg("x"), nb::arg("out_dtype") = nb::none(), nb::kw_only(), nb::arg("out") = nb::none(),
      nb::arg("recipe") = "", nb::arg("units") = 0, nb::arg("programmatic_edge") = false,
      "x in another dtype; what is beyond it becomes its largest value.");
  define_norm(
      module, "rms_norm",
      [](nb::handle x, nb::handle weight, nb::handle eps, nb::handle bias, nb::handle residual, nb::object residual_out,
         nb::object out, nb::handle out_dtype, nb::handle quant, nb::object scale, nb::handle scale_dtype,
         nb::handle tensor_scale, int64_t group, nb::handle rounding, nb::handle smooth, bool unit_offset,
         bool round_before_weight, const std::string& recipe, int units, bool programmatic_edge) {
        return norm_function("rms_norm", &rms_norm, x, weight, bias, eps, residual, std::move(residual_out),
                             std::move(out), out_dtype, quant, std::move(scale), scale_dtype, tensor_scale, group,
                             rounding, smooth, unit_offset, round_before_weight, recipe, units, programmatic_edge);
      },
      "x / sqrt(mean(x^2) + eps) * weight + bias along the last dimension. Returns the output; with a residual a "
      "tuple of it and the sum, with scales that are found a tuple that ends with these.",
      nb::arg("x"), nb::arg("weight") = nb::none(), nb::arg("eps") = nb::none(), nb::kw_only(),
      nb::arg("bias") = nb::none());
  define_norm(
      module, "layer_norm",
      [](nb::handle x, nb::handle weight, nb::handle bias, nb::handle eps, nb::handle residual, nb::object residual_out,
         nb::object out, nb::handle out_dtype, nb::handle quant, nb::object scale, nb::handle scale_dtype,
         nb::handle tensor_scale, int64_t group, nb::handle rounding, nb::handle smooth, bool unit_offset,
         bool round_before_weight, const std::string& recipe, int units, bool programmatic_edge) {
        return norm_function("layer_norm", &layer_norm, x, weight, bias, eps, residual, std::move(residual_out),
                             std::move(out), out_dtype, quant, std::move(scale), scale_dtype, tensor_scale, group,
                             rounding, smooth, unit_offset, round_before_weight, recipe, units, programmatic_edge);
      },
      "(x - mean(x)) / sqrt(variance(x) + eps) * weight + bias along the last dimension. Returns what rms_norm does.",
      nb::arg("x"), nb::arg("weight") = nb::none(), nb::arg("bias") = nb::none(), nb::arg("eps") = nb::none(),
      nb::kw_only());
  module.def(
      "rope", &rope_function, nb::arg("q"), nb::arg("cos"), nb::arg("sin"), nb::kw_only(), nb::arg("k") = nb::none(),
      nb::arg("positions") = nb::none(), nb::arg("interleaved") = false, nb::arg("inverse") = false,
      nb::arg("sections") = nb::none(), nb::arg("section_order") = nb::none(),
      nb::arg("cumulative_lengths") = nb::none(), nb::arg("offsets") = nb::none(), nb::arg("out") = nb::none(),
      nb::arg("k_out") = nb::none(), nb::arg("recipe") = "", nb::arg("units") = 0, nb::arg("programmatic_edge") = false,
      "Rotary embedding: pairs of each head's elements [..., heads, D] turned by the angle of their token. Returns q's "
      "output, with k a tuple of both.");
  module.def("act_and_mul", &act_and_mul_function, nb::arg("x"), nb::arg("activation") = "silu", nb::kw_only(),
             nb::arg("gate") = "separated", nb::arg("squared") = false, nb::arg("limit") = 0.0f,
             nb::arg("alpha") = 1.0f, nb::arg("up_offset") = 0.0f, nb::arg("out") = nb::none(),
             nb::arg("out_dtype") = nb::none(), nb::arg("quant") = nb::none(), nb::arg("scale") = nb::none(),
             nb::arg("scale_dtype") = nb::none(), nb::arg("tensor_scale") = nb::none(), nb::arg("group") = 0,
             nb::arg("rounding") = nb::none(), nb::arg("recipe") = "", nb::arg("units") = 0,
             nb::arg("programmatic_edge") = false,
             "activation(gate) * up along the last dimension, of which gates are the first half, or every other "
             "element; with gate='none' the activation alone. Returns the output, with scales that are found a tuple "
             "of it and these.");
  module.def("transpose", &transpose_function, nb::arg("x"), nb::kw_only(), nb::arg("out") = nb::none(),
             nb::arg("recipe") = "", nb::arg("units") = 0, nb::arg("programmatic_edge") = false,
             "x [..., M, N] as [..., N, M] in memory. Returns the output.");
  module.def("quantize", &quantize_function, nb::arg("x"), nb::arg("quant") = "row", nb::kw_only(),
             nb::arg("out") = nb::none(), nb::arg("out_dtype") = nb::none(), nb::arg("scale") = nb::none(),
             nb::arg("scale_dtype") = nb::none(), nb::arg("tensor_scale") = nb::none(),
             nb::arg("find_tensor_scale") = false, nb::arg("group") = 0, nb::arg("rounding") = nb::none(),
             nb::arg("smooth") = nb::none(), nb::arg("hadamard") = 0, nb::arg("random_state") = nb::none(),
             nb::arg("recipe") = "", nb::arg("units") = 0, nb::arg("programmatic_edge") = false,
             "x as codes, and the scales: codes * scale is x. Returns both, and a scale of the tensor that is found.");
  module.def("dequantize", &dequantize_function, nb::arg("x"), nb::arg("scale"), nb::arg("quant") = "row",
             nb::kw_only(), nb::arg("out") = nb::none(), nb::arg("out_dtype") = nb::none(),
             nb::arg("tensor_scale") = nb::none(), nb::arg("group") = 0, nb::arg("recipe") = "", nb::arg("units") = 0,
             nb::arg("programmatic_edge") = false,
             "Codes times their scales, quantize's way back. Returns the output, f32 unless said.");
}

}  // namespace tilewright::python
