// SPDX-License-Identifier: MIT
#include "row_functions.hpp"

#include <limits>

#include "call/current_stream.hpp"
#include "call/openmp_threads.hpp"
#include "dispatch/context_impl.hpp"
#include "python_function.hpp"
#include "tensor/tensor_import.hpp"
#include "tilewright/layer_norm.hpp"
#include "tilewright/rms_norm.hpp"

namespace tilewright::python {
namespace {

std::string printed_value(nb::handle value) { return nb::cast<std::string>(nb::str(value)); }

template <class Enum>
Enum named(const char* op, const char* argument, nb::handle value, Enum otherwise) {
  if (value.is_none()) return otherwise;
  std::string allowed;
  std::string_view text;
  const bool is_text = nb::try_cast(value, text);
  for (int i = 0; i < enum_count(Enum{}); ++i) {
    const char* const name = enum_names(Enum{})[i];
    if (is_text && text == name) return static_cast<Enum>(i);
    allowed += fmt::format("{}'{}'", i == 0 ? "" : ", ", name);
  }
  refuse("{}: argument '{}' is {}, allowed: {}", op, argument, printed_value(value), allowed);
}

// What one call imports and makes.
struct RowArguments {
  const char* op;
  nb::handle x;
  ImportedTensor input;
  ImportScope scope;
  Exec exec;

  RowArguments(const char* name, nb::handle tensor, int units) : op(name), x(tensor) {
    input = import_tensor(op, "x", x, Access::kRead, scope);
    if (input.framework == Framework::kJax) {
      refuse("{}: argument 'x' is a JAX array, allowed: tensors of PyTorch, NumPy and CuPy", op);
    }
    if (input.view.rank < 1) refuse("{}: argument 'x' has rank 0, allowed: 1 to {}", op, kMaxRank);
    exec.units = units;
    if (input.view.device.kind != DeviceKind::kCpu) {
      exec.stream = current_stream(traits_of(x), input.view.device);
    } else if (input.framework == Framework::kTorch) {
      const OpenMp openmp = torch_openmp();
      exec.parallel_for = openmp.parallel_for;
      static const int kAll = Context::global().impl().cpu().device->spec().units;
      if (exec.units == 0 && openmp.threads > 0 && openmp.threads < kAll) exec.units = openmp.threads;
    }
  }

  TensorView optional(const char* name, nb::handle value, Access access = Access::kRead) {
    return value.is_none() ? TensorView() : import_tensor(op, name, value, access, scope).view;
  }
  // `given`, or a new tensor of x's framework: x's shape with another last size, -1 = its own; 0 = none.
  TensorView result(const char* name, nb::object& given, DType dtype, int64_t last) {
    if (given.is_none()) {
      nb::list shape;
      const auto rank = static_cast<size_t>(input.view.rank);
      for (size_t i = 0; i + 1 < rank; ++i) shape.append(input.view.shape[i]);
      if (last != 0) shape.append(last < 0 ? input.view.shape[rank - 1] : last);
      static constinit PythonFunction empty(kFrameworks, "empty");
      given = empty.get()(static_cast<int>(input.framework), x, nb::tuple(shape), dtype_name(dtype), op);
      scope.grad = ImportScope::Grad::kOff;
    }
    return import_tensor(op, name, given, Access::kWrite, scope).view;
  }
};

DType output_dtype(const char* op, nb::handle value, DType otherwise) {
  if (value.is_none()) return otherwise;
  static constinit PythonFunction name_of(kFrameworks, "short_dtype_name");
  return value_of(parse_dtype(nb::cast<std::string>(name_of.get()(value, op))));
}

// As PyTorch has it: the machine epsilon of x's dtype.
float default_eps(const RmsNormCall& call) {
  const DType x = call.x.dtype;
  return x == DType::kF16 ? 0x1p-10f : x == DType::kBf16 ? 0x1p-7f : std::numeric_limits<float>::epsilon();
}
float default_eps(const LayerNormCall& call) { return call.eps; }

template <class Call>
nb::object norm_function(const char* op, Status (*function)(Context&, const Call&, const Exec&), nb::handle x,
                         nb::handle weight, nb::handle bias, nb::handle eps, nb::handle residual,
                         nb::object residual_out, nb::object out, nb::handle out_dtype, nb::handle quant,
                         nb::object scale, nb::handle scale_dtype, int64_t group, nb::handle rounding,
                         nb::handle smooth, bool unit_offset, bool round_before_weight, const std::string& recipe,
                         int units) {
  RowArguments arguments(op, x, units);
  Call call;
  call.x = arguments.input.view;
  call.weight = arguments.optional("weight", weight);
  call.bias = arguments.optional("bias", bias);
  call.smooth = arguments.optional("smooth", smooth);
  call.residual = arguments.optional("residual", residual);
  call.eps = eps.is_none() ? default_eps(call) : nb::cast<float>(eps);
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
  const bool finds_scale = call.quant == Quantisation::kRow || call.quant == Quantisation::kGroup;
  if (finds_scale) {
    const DType dtype = output_dtype(op, scale_dtype, DType::kF32);
    if (call.group == 0 && call.quant == Quantisation::kGroup) call.group = dtype == DType::kE8M0 ? 32 : 128;
    const int64_t n = call.x.shape[static_cast<size_t>(call.x.rank - 1)];
    const bool grouped = call.quant == Quantisation::kGroup && call.group > 0;
    call.scale = arguments.result("scale", made_scale, dtype,
                                  grouped ? std::max<int64_t>((n + call.group - 1) / call.group, 0) : 1);
  } else {
    call.scale = arguments.optional("scale", made_scale);
  }

  Status status;
  {
    const nb::gil_scoped_release released;
    status = function(Context::global(), call, arguments.exec);
  }
  check(status);
  if (!sums && !finds_scale) return made_out;
  nb::list all;
  all.append(made_out);
  if (sums) all.append(made_sum);
  if (finds_scale) all.append(made_scale);
  return nb::tuple(all);
}

// `leading`: the arguments that may stand without their names, and what comes before those that all norms have.
template <class Function, class... Arguments>
void define_norm(nb::module_& module, const char* name, Function&& function, const char* doc,
                 const Arguments&... leading) {
  module.def(name, std::forward<Function>(function), leading..., nb::arg("residual") = nb::none(),
             nb::arg("residual_out") = nb::none(), nb::arg("out") = nb::none(), nb::arg("out_dtype") = nb::none(),
             nb::arg("quant") = nb::none(), nb::arg("scale") = nb::none(), nb::arg("scale_dtype") = nb::none(),
             nb::arg("group") = 0, nb::arg("rounding") = nb::none(), nb::arg("smooth") = nb::none(),
             nb::arg("unit_offset") = false, nb::arg("round_before_weight") = false, nb::arg("recipe") = "",
             nb::arg("units") = 0, doc);
}

}  // namespace

void bind_row_operators(nb::module_& module) {
  define_norm(
      module, "rms_norm",
      [](nb::handle x, nb::handle weight, nb::handle eps, nb::handle bias, nb::handle residual, nb::object residual_out,
         nb::object out, nb::handle out_dtype, nb::handle quant, nb::object scale, nb::handle scale_dtype,
         int64_t group, nb::handle rounding, nb::handle smooth, bool unit_offset, bool round_before_weight,
         const std::string& recipe, int units) {
        return norm_function("rms_norm", &rms_norm, x, weight, bias, eps, residual, std::move(residual_out),
                             std::move(out), out_dtype, quant, std::move(scale), scale_dtype, group, rounding, smooth,
                             unit_offset, round_before_weight, recipe, units);
      },
      "x / sqrt(mean(x^2) + eps) * weight + bias along the last dimension. Returns the output; with a residual a "
      "tuple of it and the sum, with scales that are found a tuple that ends with these.",
      nb::arg("x"), nb::arg("weight") = nb::none(), nb::arg("eps") = nb::none(), nb::kw_only(),
      nb::arg("bias") = nb::none());
  define_norm(
      module, "layer_norm",
      [](nb::handle x, nb::handle weight, nb::handle bias, nb::handle eps, nb::handle residual, nb::object residual_out,
         nb::object out, nb::handle out_dtype, nb::handle quant, nb::object scale, nb::handle scale_dtype,
         int64_t group, nb::handle rounding, nb::handle smooth, bool unit_offset, bool round_before_weight,
         const std::string& recipe, int units) {
        return norm_function("layer_norm", &layer_norm, x, weight, bias, eps, residual, std::move(residual_out),
                             std::move(out), out_dtype, quant, std::move(scale), scale_dtype, group, rounding, smooth,
                             unit_offset, round_before_weight, recipe, units);
      },
      "(x - mean(x)) / sqrt(variance(x) + eps) * weight + bias along the last dimension. Returns what rms_norm does.",
      nb::arg("x"), nb::arg("weight") = nb::none(), nb::arg("bias") = nb::none(), nb::arg("eps") = nb::none(),
      nb::kw_only());
}

}  // namespace tilewright::python
