// SPDX-License-Identifier: MIT
#include "packed_weights.hpp"

#include <cstring>

#include "tensor/buffer.hpp"
#include "tensor/tensor_import.hpp"
#include "tilewright/gemm.hpp"

namespace tilewright::python {
namespace {

PackedWeights view_packed(std::byte* data, int64_t bytes, std::shared_ptr<void> owner) {
  return {value_of(gemm_packed_view(data, bytes)), data, bytes, std::move(owner)};
}

// "kn": B as gemm takes it; "nk": a linear layer's weight.
TensorView import_weight(const char* op, const char* name, nb::handle tensor, const std::string& layout, Access access,
                         Keepers& keepers) {
  const TensorView view = import_tensor(op, name, tensor, access, keepers).view;
  if (view.rank < 2 || view.rank > 3) {
    refuse("{}: argument '{}' has rank {}, allowed: 2, or 3 with a batch", op, name, view.rank);
  }
  if (layout == "kn") return view;
  if (layout == "nk") return view.transposed();
  refuse("{}: argument 'layout' is '{}', allowed: 'kn' (b of gemm), 'nk' (weight of linear)", op, layout);
}

PackedWeights pack_weights(nb::handle b, const std::string& layout) {
  Keepers keepers;
  const TensorView view = import_weight("pack_weights", "b", b, layout, Access::kRead, keepers);
  const int64_t n = view.shape[view.rank - 1], k = view.shape[view.rank - 2];
  const int64_t bytes = value_of(gemm_packed_bytes(view.dtype, n, k, view.rank == 3 ? view.shape[0] : 1));
  const std::shared_ptr<std::byte> memory = allocate_aligned(bytes);
  Status status;
  {
    const nb::gil_scoped_release released;
    status = gemm_pack_weights(Context::global(), view, memory.get(), bytes);
  }
  check(status);
  return view_packed(memory.get(), bytes, memory);
}

// A buffer of any object that has one, released when the last owner goes.
std::shared_ptr<Py_buffer> borrow_buffer(nb::handle data) {
  auto buffer = std::make_unique<Py_buffer>();
  if (PyObject_GetBuffer(data.ptr(), buffer.get(), PyBUF_SIMPLE) != 0) throw nb::python_error();
  return {buffer.release(), [](Py_buffer* held) {
            const nb::gil_scoped_acquire acquired;
            PyBuffer_Release(held);
            delete held;
          }};
}

PackedWeights from_bytes(nb::handle data) {
  const std::shared_ptr<Py_buffer> buffer = borrow_buffer(data);
  const std::shared_ptr<std::byte> memory = allocate_aligned(buffer->len);
  {
    const nb::gil_scoped_release released;
    std::memcpy(memory.get(), buffer->buf, static_cast<size_t>(buffer->len));
  }
  return view_packed(memory.get(), buffer->len, memory);
}

PackedWeights from_buffer(nb::handle data) {
  const std::shared_ptr<Py_buffer> buffer = borrow_buffer(data);
  if (reinterpret_cast<uintptr_t>(buffer->buf) % kBufferAlignment != 0) {
    refuse(
        "PackedWeights.from_buffer: the buffer's address is {}, allowed: a multiple of {} (a mapped file is); "
        "from_bytes() copies and takes any",
        buffer->buf, kBufferAlignment);
  }
  return view_packed(static_cast<std::byte*>(buffer->buf), buffer->len, buffer);
}

void unpack(const PackedWeights& self, nb::handle out, const std::string& layout) {
  Keepers keepers;
  const TensorView view = import_weight("PackedWeights.unpack", "out", out, layout, Access::kWrite, keepers);
  Status status;
  {
    const nb::gil_scoped_release released;
    status = gemm_unpack_weights(self.view(), view);
  }
  check(status);
}

nb::bytes to_bytes(const PackedWeights& self) { return nb::bytes(self.data(), static_cast<size_t>(self.bytes())); }

std::string describe(const PackedWeights& self) {
  const std::string batch = self.view().rank == 3 ? fmt::format("batch={}, ", self.batch()) : "";
  return fmt::format("PackedWeights({}k={}, n={}, dtype='{}')", batch, self.k(), self.n(),
                     dtype_name(self.view().dtype));
}

}  // namespace

const PackedWeights* packed_weights_of(nb::handle object) {
  static const nb::handle kType = nb::type<PackedWeights>();
  return object.type().is(kType) ? nb::inst_ptr<PackedWeights>(object) : nullptr;
}

void bind_packed_weights(nb::module_& module) {
  nb::class_<PackedWeights>(
      module, "PackedWeights", nb::is_final(),
      "Weights in the layout that kernels stream; made by pack_weights(). Stands for B [K, N], or "
      "[batch, K, N], wherever b or weight is asked for.")
      .def_prop_ro("k", &PackedWeights::k)
      .def_prop_ro("n", &PackedWeights::n)
      .def_prop_ro("batch", &PackedWeights::batch)
      .def_prop_ro(
          "dtype", [](const PackedWeights& self) { return dtype_name(self.view().dtype); },
          "\"f32\", \"f16\", \"bf16\" or \"i8\".")
      .def_prop_ro("nbytes", &PackedWeights::bytes)
      .def("to_bytes", &to_bytes, "A copy that from_bytes() reads back, on any machine.")
      .def_static("from_bytes", &from_bytes, nb::arg("data"), "Copies what to_bytes() gave.")
      .def_static("from_buffer", &from_buffer, nb::arg("data"),
                  "Uses 64-byte aligned memory as it is, for instance an mmap of a file; keeps `data` alive.")
      .def("unpack", &unpack, nb::arg("out"), nb::kw_only(), nb::arg("layout") = "kn",
           "Writes the plain weights, exactly those that were packed, into `out`.")
      .def("__repr__", &describe)
      .def("__getstate__", &to_bytes)
      .def("__setstate__", [](PackedWeights& self, nb::handle data) { new (&self) PackedWeights(from_bytes(data)); });
  module.def("pack_weights", &pack_weights, nb::arg("b"), nb::kw_only(), nb::arg("layout") = "kn",
             "Packs b [K, N] (layout 'kn', as gemm takes it) or a linear layer's weight [N, K] (layout 'nk'); a third, "
             "leading dimension is the batch. One packed copy serves every M.");
}

}  // namespace tilewright::python
