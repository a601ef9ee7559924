// SPDX-License-Identifier: MIT
#include "image_functions.hpp"

#include "row_arguments.hpp"
#include "tilewright/group_norm.hpp"

namespace tilewright::python {
namespace {

// Channels are neighbours, and positions are not.
bool has_channels_last(const TensorView& x) {
  if (x.rank < 3 || x.shape[1] <= 1 || x.stride[1] != 1) return false;
  for (auto i = static_cast<size_t>(x.rank); i-- > 2;) {
    if (x.shape[i] > 1) return x.stride[i] != 1;
  }
  return false;
}

// `given`, or a new tensor laid out as x.
TensorView image_result(RowArguments& arguments, const char* name, nb::object& given) {
  if (!given.is_none()) return import_tensor(arguments.op, name, given, Access::kWrite, arguments.scope).view;
  const TensorView& x = arguments.input.view;
  static constinit PythonFunction empty(kFrameworks, "empty_image");
  nb::list shape;
  for (size_t i = 0; i < static_cast<size_t>(x.rank); ++i) shape.append(x.shape[i]);
  given = empty.get()(static_cast<int>(arguments.input.framework), arguments.x, nb::tuple(shape), dtype_name(x.dtype),
                      arguments.op, has_channels_last(x));
  return import_made(arguments.op, name, given, Access::kWrite, arguments.scope).view;
}

nb::object group_norm_function(nb::handle x, int64_t groups, nb::handle weight, nb::handle bias, float eps,
                               nb::handle activation, nb::object out, const std::string& recipe, int units,
                               bool programmatic_edge) {
  constexpr const char* kOp = "group_norm";
  RowArguments arguments(kOp, x, units, programmatic_edge);
  GroupNormCall call;
  call.x = arguments.input.view;
  call.groups = groups, call.eps = eps;
  call.weight = arguments.optional("weight", weight), call.bias = arguments.optional("bias", bias);
  call.activation = named(kOp, "activation", activation, Activation::kNone);
  call.recipe = recipe;
  call.out = image_result(arguments, "out", out);
  Status status;
  {
    const nb::gil_scoped_release released;
    status = group_norm(Context::global(), call, arguments.exec);
  }
  check(status);
  return out;
}

nb::object group_norm_backward_function(nb::handle x, nb::handle dy, int64_t groups, nb::handle weight, nb::handle bias,
                                        float eps, nb::handle activation, nb::object dx, nb::object dweight,
                                        nb::object dbias, const std::string& recipe, int units,
                                        bool programmatic_edge) {
  constexpr const char* kOp = "group_norm_backward";
  RowArguments arguments(kOp, x, units, programmatic_edge);
  GroupNormBackwardCall call;
  call.x = arguments.input.view;
  call.dy = arguments.optional("dy", dy);
  call.groups = groups, call.eps = eps;
  call.weight = arguments.optional("weight", weight), call.bias = arguments.optional("bias", bias);
  call.activation = named(kOp, "activation", activation, Activation::kNone);
  call.recipe = recipe;
  if (call.x.rank < 2)
    refuse("{}: argument 'x' has rank {}, allowed: 2 to {}: [N, C, ...]", kOp, call.x.rank, kMaxRank);

  // Results.
  call.dx = image_result(arguments, "dx", dx);
  if (!call.weight.defined() && PyBool_Check(dweight.ptr())) dweight = nb::none();
  const DType channel = call.weight.defined() ? call.weight.dtype : call.x.dtype;
  call.dweight = arguments.gradient("dweight", dweight, channel, call.x.shape[1]);
  call.dbias = arguments.gradient("dbias", dbias, call.bias.defined() ? call.bias.dtype : channel, call.x.shape[1]);
  Status status;
  {
    const nb::gil_scoped_release released;
    status = group_norm_backward(Context::global(), call, arguments.exec);
  }
  check(status);
  return nb::make_tuple(dx, dweight, dbias);
}

}  // namespace

void bind_image_operators(nb::module_& module) {
  module.def("group_norm", &group_norm_function, nb::arg("x"), nb::arg("groups"), nb::arg("weight") = nb::none(),
             nb::arg("bias") = nb::none(), nb::arg("eps") = 1e-5f, nb::kw_only(), nb::arg("activation") = nb::none(),
             nb::arg("out") = nb::none(), nb::arg("recipe") = "", nb::arg("units") = 0,
             nb::arg("programmatic_edge") = false,
             "(x - mean) / sqrt(variance + eps) * weight + bias of each group of channels of x [N, C, ...], channels "
             "first or last, and its silu where asked for. Returns the output, laid out as x.");
  module.def("group_norm_backward", &group_norm_backward_function, nb::arg("x"), nb::arg("dy"), nb::arg("groups"),
             nb::arg("weight") = nb::none(), nb::arg("bias") = nb::none(), nb::arg("eps") = 1e-5f, nb::kw_only(),
             nb::arg("activation") = nb::none(), nb::arg("dx") = nb::none(), nb::arg("dweight") = true,
             nb::arg("dbias") = false, nb::arg("recipe") = "", nb::arg("units") = 0,
             nb::arg("programmatic_edge") = false,
             "The gradients of group_norm. Returns dx, laid out as x, dweight and dbias, None where not asked for.");
}

}  // namespace tilewright::python
