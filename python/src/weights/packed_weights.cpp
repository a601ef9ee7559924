// SPDX-License-Identifier: MIT
#include "weights/packed_weights.hpp"

#include <fmt/ranges.h>

#include <cstring>
#include <utility>

#include "dispatch/context_impl.hpp"
#include "python_function.hpp"
#include "tensor/buffer.hpp"
#include "tilewright/gemm.hpp"

namespace tilewright::python {
namespace {

constexpr DeviceId kCpu{};

PackedWeights view_packed(const ImportedBytes& bytes, std::shared_ptr<void> owner) {
  Result<TensorView> view = gemm_packed_view(Context::global(), bytes.device, bytes.data, bytes.size);
  return {value_of(std::move(view)), bytes.data, bytes.size, std::move(owner)};
}
// Tensors, and what their exports hold, live as long as weights that have it.
std::shared_ptr<void> owner_of(ImportScope scope) {
  return std::shared_ptr<ImportScope>(new ImportScope(std::move(scope)), [](ImportScope* held) {
    const nb::gil_scoped_acquire acquired;
    delete held;
  });
}

// "kn": B as gemm takes it; "nk": a linear layer's weight.
ImportedTensor as_b(const char* op, const char* name, ImportedTensor weight, const std::string& layout) {
  TensorView& view = weight.view;
  if (view.rank < 2 || view.rank > 3) {
    refuse("{}: argument '{}' has rank {}, allowed: 2, or 3 with a batch", op, name, view.rank);
  }
  if (layout == "nk") view = view.transposed();
  if (layout == "kn" || layout == "nk") return weight;
  refuse("{}: argument 'layout' is '{}', allowed: 'kn' (b of gemm), 'nk' (weight of linear)", op, layout);
}

int64_t packed_bytes(const TensorView& b) {
  const int64_t n = b.shape[b.rank - 1], k = b.shape[b.rank - 2];
  return value_of(gemm_packed_bytes(b.dtype, n, k, b.rank == 3 ? b.shape[0] : 1, b.device));
}

void pack_to(const TensorView& b, void* to, int64_t bytes) {
  Status status;
  {
    const nb::gil_scoped_release released;
    status = gemm_pack_weights(Context::global(), b, to, bytes);
  }
  check(status);
}

// Packed bytes in a tensor of the caller's: the torch operators' form.
ImportedBytes import_aligned(const char* op, const char* name, nb::handle tensor, Access access, ImportScope& scope) {
  const ImportedBytes bytes = import_bytes(op, name, tensor, access, scope);
  if (reinterpret_cast<uintptr_t>(bytes.data) % kBufferAlignment != 0) {
    refuse("{}: argument '{}' is at address {}, allowed: a multiple of {}; a clone of the tensor has one", op, name,
           bytes.data, kBufferAlignment);
  }
  return bytes;
}

// Memory of the weight's device: a GPU's is the framework's.
ImportedBytes memory_like(const ImportedTensor& weight, nb::handle tensor, int64_t bytes, ImportScope& scope) {
  static constinit PythonFunction empty(kFrameworks, "empty");
  nb::object made =
      empty.get()(static_cast<int>(weight.framework), tensor, nb::make_tuple(bytes), "u8", "pack_weights");
  // A JAX array is written before anybody has seen it.
  const Access access = weight.framework == Framework::kJax ? Access::kRead : Access::kWrite;
  const ImportedBytes memory = import_aligned("pack_weights", "out", made, access, scope);
  scope.kept_alive.push_back(std::move(made));
  return memory;
}

ImportedTensor import_packable(nb::handle b, const std::string& layout, nb::handle b_dtype, ImportScope& scope) {
  return as_b("pack_weights", "b", import_weight("pack_weights", "b", b, b_dtype, Access::kRead, scope), layout);
}

PackedWeights pack_weights(nb::handle b, const std::string& layout, nb::handle b_dtype) {
  ImportScope scope;
  const ImportedTensor weight = import_packable(b, layout, b_dtype, scope);
  const int64_t bytes = packed_bytes(weight.view);
  if (weight.view.device == kCpu) {
    const std::shared_ptr<std::byte> memory = allocate_aligned(bytes);
    pack_to(weight.view, memory.get(), bytes);
    return view_packed({memory.get(), bytes, kCpu}, memory);
  }
  ImportScope kept;
  const ImportedBytes memory = memory_like(weight, b, bytes, kept);
  pack_to(weight.view, memory.data, bytes);
  return view_packed(memory, owner_of(std::move(kept)));
}

int64_t packed_nbytes(const std::string& dtype, int64_t n, int64_t k, int64_t batch, const std::string& device) {
  return value_of(gemm_packed_bytes(value_of(parse_dtype(dtype)), n, k, batch, value_of(parse_device(device))));
}

void pack_weights_into(nb::handle b, nb::handle out, const std::string& layout, nb::handle b_dtype) {
  ImportScope scope;
  const TensorView view = import_packable(b, layout, b_dtype, scope).view;
  const ImportedBytes to = import_aligned("pack_weights", "out", out, Access::kWrite, scope);
  if (to.device != view.device) {
    refuse("pack_weights: arguments are on different devices: b on {}, out on {}", to_string(view.device),
           to_string(to.device));
  }
  pack_to(view, to.data, to.size);
}

PackedWeights from_tensor(nb::handle tensor) {
  ImportScope scope;
  const ImportedBytes bytes = import_aligned("PackedWeights.from_tensor", "data", tensor, Access::kRead, scope);
  scope.kept_alive.push_back(nb::borrow(tensor));
  return view_packed(bytes, owner_of(std::move(scope)));
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
  return view_packed({memory.get(), buffer->len, kCpu}, memory);
}

PackedWeights from_buffer(nb::handle data) {
  const std::shared_ptr<Py_buffer> buffer = borrow_buffer(data);
  if (reinterpret_cast<uintptr_t>(buffer->buf) % kBufferAlignment != 0) {
    refuse(
        "PackedWeights.from_buffer: the buffer's address is {}, allowed: a multiple of {} (a mapped file is); "
        "from_bytes() copies and takes any",
        buffer->buf, kBufferAlignment);
  }
  return view_packed({buffer->buf, buffer->len, kCpu}, buffer);
}

// Shapes in the messages are the caller's: of "nk" turned back.
std::string sizes_and_type(TensorView b, const std::string& layout) {
  if (layout == "nk") std::swap(b.shape[b.rank - 1], b.shape[b.rank - 2]);
  return fmt::format("[{}] of {}", fmt::join(b.shape.begin(), b.shape.begin() + b.rank, ", "), dtype_name(b.dtype));
}

void check_unpacked(const char* op, const TensorView& packed, const TensorView& out, const std::string& layout) {
  const std::string given = sizes_and_type(out, layout), expected = sizes_and_type(packed, layout);
  if (given != expected) refuse("{}: argument 'out' has shape {}, expected {}", op, given, expected);
}

void unpack(const PackedWeights& self, nb::handle out, const std::string& layout) {
  ImportScope scope;
  // Integers of 4 bits go back to bytes.
  const DType dtype = self.view().dtype;
  const NibbleShape shape{dtype == DType::kI4 || dtype == DType::kU4 ? dtype : DType::kNone};
  const char* const op = "PackedWeights.unpack";
  const TensorView view = as_b(op, "out", import_nibbles(op, "out", out, Access::kWrite, scope, shape), layout).view;
  check_unpacked(op, self.view(), view, layout);
  Status status;
  {
    const nb::gil_scoped_release released;
    status = gemm_unpack_weights(Context::global(), self.view(), view);
  }
  check(status);
}

nb::bytes to_bytes(const PackedWeights& self) {
  const auto size = static_cast<size_t>(self.bytes());
  const DeviceId device = self.view().device;
  if (device == kCpu) return nb::bytes(self.data(), size);
  nb::bytes copy(nullptr, size);
  OpenDevice* const on = value_of(Context::global().impl().open_device("PackedWeights.to_bytes", device));
  check(on->device->copy_to_host(PyBytes_AsString(copy.ptr()), self.data(), self.bytes()));
  return copy;
}

std::string describe_packed(const PackedWeights& self) {
  const std::string batch = self.view().rank == 3 ? fmt::format("batch={}, ", self.batch()) : "";
  return fmt::format("PackedWeights({}k={}, n={}, dtype='{}')", batch, self.k(), self.n(),
                     dtype_name(self.view().dtype));
}

}  // namespace

TensorView packed_bytes_view(const char* op, const char* name, nb::handle tensor, const PackedSizes& sizes,
                             ImportScope& scope) {
  const ImportedBytes bytes = import_aligned(op, name, tensor, Access::kRead, scope);
  if (bytes.device == kCpu) return value_of(gemm_packed_view(bytes.data, bytes.size));
  return value_of(
      gemm_packed_view_as(bytes.device, bytes.data, bytes.size, sizes.dtype, sizes.n, sizes.k, sizes.batch));
}

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
          "\"f32\", \"f16\", \"bf16\", \"i8\", \"i4\", \"u4\" or \"e2m1\".")
      .def_prop_ro("nbytes", &PackedWeights::bytes)
      .def("to_bytes", &to_bytes, "A copy that from_bytes() reads back, on any machine.")
      .def_static("from_bytes", &from_bytes, nb::arg("data"), "Copies what to_bytes() gave.")
      .def_static("from_buffer", &from_buffer, nb::arg("data"),
                  "Uses 64-byte aligned memory as it is, for instance an mmap of a file; keeps `data` alive.")
      .def_static("from_tensor", &from_tensor, nb::arg("data"),
                  "Uses a 64-byte aligned uint8 vector of any framework as it is; keeps it alive.")
      .def("unpack", &unpack, nb::arg("out"), nb::kw_only(), nb::arg("layout") = "kn",
           "Writes the plain weights, exactly those that were packed, into `out`: those of 4-bit integers into bytes.")
      .def("__repr__", &describe_packed)
      .def("__getstate__", &to_bytes)
      .def("__setstate__", [](PackedWeights& self, nb::handle data) { new (&self) PackedWeights(from_bytes(data)); });
  module.def("pack_weights", &pack_weights, nb::arg("b"), nb::kw_only(), nb::arg("layout") = "kn",
             nb::arg("b_dtype") = nb::none(),
             "Packs b [K, N] (layout 'kn', as gemm takes it) or a linear layer's weight [N, K] (layout 'nk'); a third, "
             "leading dimension is the batch. One packed copy serves every M. `b_dtype`: \"i4\" or \"u4\" of bytes "
             "that hold two each.");
  module.def("packed_nbytes", &packed_nbytes, nb::arg("dtype"), nb::arg("n"), nb::arg("k"), nb::arg("batch") = 1,
             nb::arg("device") = "cpu",
             "Bytes of the packed form of [batch, k, n] weights that the device makes; `dtype` is \"f32\", \"f16\", "
             "\"bf16\" or \"i8\".");
  module.def("pack_weights_into", &pack_weights_into, nb::arg("b"), nb::arg("out"), nb::kw_only(),
             nb::arg("layout") = "kn", nb::arg("b_dtype") = nb::none(),
             "pack_weights() into a 64-byte aligned uint8 vector of packed_nbytes().");
}

}  // namespace tilewright::python
