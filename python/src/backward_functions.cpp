// SPDX-License-Identifier: MIT
#include "backward_functions.hpp"

#include "row_arguments.hpp"
#include "tilewright/act_and_mul.hpp"
#include "tilewright/layer_norm.hpp"
#include "tilewright/rms_norm.hpp"

namespace tilewright::python {
namespace {

template <class Call>
nb::object norm_backward_function(const char* op, Status (*function)(Context&, const Call&, const Exec&), nb::handle x,
                                  nb::handle dy, nb::handle weight, nb::handle eps, nb::handle dresidual,
                                  bool unit_offset, nb::object dx, nb::object dweight, nb::object dbias,
                                  const std::string& recipe, int units, bool programmatic_edge) {
  RowArguments arguments(op, x, units, programmatic_edge);
  Call call;
  call.x = arguments.input.view;
  call.dy = arguments.optional("dy", dy);
  call.weight = arguments.optional("weight", weight);
  call.dresidual = arguments.optional("dresidual", dresidual);
  call.eps = eps.is_none() ? default_eps(op, call.x.dtype) : nb::cast<float>(eps);
  call.unit_offset = unit_offset;
  call.recipe = recipe;

  // Results.
  const DType column = call.weight.defined() ? call.weight.dtype : call.x.dtype;
  call.dx = arguments.result("dx", dx, call.x.dtype, -1);
  if (!call.weight.defined() && PyBool_Check(dweight.ptr())) dweight = nb::none();
  const int64_t n = call.x.rank > 0 ? call.x.shape[static_cast<size_t>(call.x.rank - 1)] : 0;
  call.dweight = arguments.gradient("dweight", dweight, column, n);
  call.dbias = arguments.gradient("dbias", dbias, column, n);
  Status status;
  {
    const nb::gil_scoped_release released;
    status = function(Context::global(), call, arguments.exec);
  }
  check(status);
  return nb::make_tuple(dx, dweight, dbias);
}

template <class Call>
void define_norm_backward(nb::module_& module, const char* name, Status (*function)(Context&, const Call&, const Exec&),
                          const char* doc) {
  module.def(
      name,
      [name, function](nb::handle x, nb::handle dy, nb::handle weight, nb::handle eps, nb::handle dresidual,
                       bool unit_offset, nb::object dx, nb::object dweight, nb::object dbias, const std::string& recipe,
                       int units, bool programmatic_edge) {
        return norm_backward_function(name, function, x, dy, weight, eps, dresidual, unit_offset, std::move(dx),
                                      std::move(dweight), std::move(dbias), recipe, units, programmatic_edge);
      },
      nb::arg("x"), nb::arg("dy"), nb::arg("weight") = nb::none(), nb::arg("eps") = nb::none(), nb::kw_only(),
      nb::arg("dresidual") = nb::none(), nb::arg("unit_offset") = false, nb::arg("dx") = nb::none(),
      nb::arg("dweight") = true, nb::arg("dbias") = false, nb::arg("recipe") = "", nb::arg("units") = 0,
      nb::arg("programmatic_edge") = false, doc);
}

nb::object act_and_mul_backward_function(nb::handle x, nb::handle dy, nb::handle activation, nb::handle gate,
                                         bool squared, float limit, float alpha, float up_offset, nb::object dx,
                                         const std::string& recipe, int units, bool programmatic_edge) {
  constexpr const char* kOp = "act_and_mul_backward";
  RowArguments arguments(kOp, x, units, programmatic_edge);
  ActAndMulBackwardCall call;
  call.x = arguments.input.view;
  call.dy = arguments.optional("dy", dy);
  // Clamp, the last, is what `limit` does.
  call.activation = named(kOp, "activation", activation, Activation::kNone, static_cast<int>(Activation::kClamp));
  call.gate = named(kOp, "gate", gate, GateMode::kNone);
  call.squared = squared, call.limit = limit, call.alpha = alpha, call.up_offset = up_offset;
  call.recipe = recipe;
  call.dx = arguments.result("dx", dx, call.x.dtype, -1);
  Status status;
  {
    const nb::gil_scoped_release released;
    status = act_and_mul_backward(Context::global(), call, arguments.exec);
  }
  check(status);
  return dx;
}

}  // namespace

void bind_backward_operators(nb::module_& module) {
  define_norm_backward<RmsNormBackwardCall>(module, "rms_norm_backward", &rms_norm_backward,
                                            "The gradients of rms_norm. x is what was normalised; dresidual, the "
                                            "gradient of the sum, is added to dx. Returns "
                                            "dx, dweight and dbias, None where not asked for.");
  define_norm_backward<LayerNormBackwardCall>(module, "layer_norm_backward", &layer_norm_backward,
                                              "The gradients of layer_norm, as rms_norm_backward.");
  module.def("act_and_mul_backward", &act_and_mul_backward_function, nb::arg("x"), nb::arg("dy"),
             nb::arg("activation") = "silu", nb::kw_only(), nb::arg("gate") = "separated", nb::arg("squared") = false,
             nb::arg("limit") = 0.0f, nb::arg("alpha") = 1.0f, nb::arg("up_offset") = 0.0f, nb::arg("dx") = nb::none(),
             nb::arg("recipe") = "", nb::arg("units") = 0, nb::arg("programmatic_edge") = false,
             "The gradient of act_and_mul: of gates and of what they multiply, laid out as x.");
}

}  // namespace tilewright::python
