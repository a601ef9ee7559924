// SPDX-License-Identifier: MIT
#include "weights/stored_weights.hpp"

#include "tensor/tensor_import.hpp"
#include "tilewright/stored_weights.hpp"

namespace tilewright::python {
namespace {

// One call's tensors: the stored ones are read and the plain ones written, or the other way.
struct WeightArguments {
  const char* op;
  std::string format, layout;
  nb::handle weight, zeros, group_index, b, zero_b, order;
  nb::handle b_dtype;
};

DType nibbles_of(const WeightArguments& arguments) {
  if (arguments.b_dtype.is_none()) return DType::kNone;
  const std::string name = nb::cast<std::string>(nb::str(arguments.b_dtype));
  if (name == "i4") return DType::kI4;
  if (name == "u4") return DType::kU4;
  refuse("{}: argument 'dtype' is '{}', allowed: None, 'i4', 'u4' (of a uint8 tensor, two a byte)", arguments.op, name);
}

void run_weights(const WeightArguments& arguments, bool import) {
  const char* op = arguments.op;
  if (arguments.layout != "kn" && arguments.layout != "nk") {
    refuse("{}: argument 'layout' is '{}', allowed: 'kn' (b of gemm), 'nk' (weight of linear)", op, arguments.layout);
  }
  const bool nk = arguments.layout == "nk";
  const DType nibbles = nibbles_of(arguments);
  const Access stored_access = import ? Access::kRead : Access::kWrite;
  const Access plain_access = import ? Access::kWrite : Access::kRead;
  ImportScope scope;
  const auto given = [&](const char* name, nb::handle tensor, Access access) {
    return tensor.is_none() ? TensorView{} : import_tensor(op, name, tensor, access, scope).view;
  };
  StoredWeights stored;
  stored.format = value_of(parse_weight_format(arguments.format));
  stored.weight = import_tensor(op, "weight", arguments.weight, stored_access, scope).view;
  stored.zeros = given("zeros", arguments.zeros, stored_access);
  stored.group_index = given("group_index", arguments.group_index, stored_access);

  PlainWeights plain;
  plain.b = import_nibbles(op, "b", arguments.b, plain_access, scope, {nibbles}).view;
  if (plain.b.rank < 2) refuse("{}: argument 'b' has rank {}, allowed: 2, or 3 with a batch", op, plain.b.rank);
  if (nk) plain.b = plain.b.transposed();
  plain.order = given("order", arguments.order, plain_access);
  if (!arguments.zero_b.is_none()) {
    // Bytes are pairs, as zero points of gemm are; the stored ones tell how many groups there are.
    NibbleShape shape{nibbles};
    if (nibbles != DType::kNone && stored.zeros.rank == 2) {
      shape.rows = stored.zeros.shape[0], shape.columns = plain.b.shape[plain.b.rank - 1];
      if (nk) std::swap(shape.rows, shape.columns);
    }
    plain.zero_b = import_nibbles(op, "zero_b", arguments.zero_b, plain_access, scope, shape).view;
    if (nk && plain.zero_b.rank >= 2) plain.zero_b = plain.zero_b.transposed();
  }
  Status status;
  {
    const nb::gil_scoped_release released;
    Context& context = Context::global();
    status = import ? import_weights(context, stored, plain) : export_weights(context, plain, stored);
  }
  check(status);
}

void import_stored(const std::string& format, nb::handle weight, nb::handle out, nb::handle zeros,
                   nb::handle group_index, nb::handle zero_out, nb::handle order_out, nb::handle dtype,
                   const std::string& layout) {
  run_weights({"import_weights", format, layout, weight, zeros, group_index, out, zero_out, order_out, dtype}, true);
}

void export_stored(const std::string& format, nb::handle b, nb::handle out, nb::handle zero_b, nb::handle zeros_out,
                   nb::handle group_index_out, nb::handle dtype, const std::string& layout) {
  run_weights({"export_weights", format, layout, out, zeros_out, group_index_out, b, zero_b, nb::none(), dtype}, false);
}

}  // namespace

void bind_stored_weights(nb::module_& module) {
  module.def("import_weights", &import_stored, nb::arg("format"), nb::arg("weight"), nb::arg("out"), nb::kw_only(),
             nb::arg("zeros") = nb::none(), nb::arg("group_index") = nb::none(), nb::arg("zero_out") = nb::none(),
             nb::arg("order_out") = nb::none(), nb::arg("dtype") = nb::none(), nb::arg("layout") = "kn",
             "Writes into `out` the weight that a checkpoint or another library stores as `format`: 'awq', 'gptq', "
             "'gptq_v2', 'aiter' or 'aiter_scales'; `dtype` is what a uint8 `out` holds, 'u4' or 'i4'. zero_out and "
             "order_out take the zero points and the order of the rows.");
  module.def("export_weights", &export_stored, nb::arg("format"), nb::arg("b"), nb::arg("out"), nb::kw_only(),
             nb::arg("zero_b") = nb::none(), nb::arg("zeros_out") = nb::none(), nb::arg("group_index_out") = nb::none(),
             nb::arg("dtype") = nb::none(), nb::arg("layout") = "kn",
             "The way back from import_weights(): writes `out` and zeros_out as `format` stores them.");
}

}  // namespace tilewright::python
