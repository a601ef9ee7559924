// SPDX-License-Identifier: MIT
#include "tensor/buffer.hpp"

#include <new>

#include "tensor/dlpack_exchange.hpp"

namespace tilewright::python {
namespace {

// What a capsule hands over; its deleter frees it.
struct Exported {
  DlpackManaged managed;
  std::shared_ptr<std::byte> memory;
  std::array<int64_t, kMaxRank> shape, strides;
};

TwDLDataType dlpack_type(DType dtype) {
  switch (dtype) {
    case DType::kF32: return {TW_DL_FLOAT, 32, 1};
    case DType::kF16: return {TW_DL_FLOAT, 16, 1};
    case DType::kBf16: return {TW_DL_BFLOAT, 16, 1};
    default: refuse("buffer: dtype is {}, allowed: f32, f16, bf16", dtype_name(dtype));
  }
}

}  // namespace

std::shared_ptr<std::byte> allocate_aligned(int64_t bytes) {
  constexpr std::align_val_t kAlignment{kBufferAlignment};
  const size_t size = bytes > 0 ? static_cast<size_t>(bytes) : 1;
  auto* memory = static_cast<std::byte*>(::operator new(size, kAlignment));
  return {memory, [](std::byte* data) { ::operator delete(data, kAlignment); }};
}

Buffer::Buffer(DType dtype, std::span<const int64_t> shape) : view_(TensorView::contiguous(nullptr, dtype, shape)) {
  dlpack_type(dtype);
  memory_ = allocate_aligned(dtype_bytes(dtype, view_.numel()));
  view_.data = memory_.get();
}

nb::capsule export_buffer(const Buffer& buffer) {
  auto exported = std::make_unique<Exported>();
  const TensorView& view = buffer.view_;
  exported->memory = buffer.memory_;
  exported->shape = view.shape;
  exported->strides = view.stride;
  exported->managed.tensor = {
      view.data, {TW_DL_CPU, 0}, view.rank, dlpack_type(view.dtype), exported->shape.data(), exported->strides.data(),
      0};
  exported->managed.manager = exported.get();
  exported->managed.deleter = [](DlpackManaged* self) { delete static_cast<Exported*>(self->manager); };
  DlpackManaged* const owned = &exported.release()->managed;
  // A consumer renames the capsule and calls the deleter itself.
  nb::object capsule = nb::steal(PyCapsule_New(owned, kLegacyCapsule, [](PyObject* self) {
    if (!PyCapsule_IsValid(self, kLegacyCapsule)) return;
    auto* managed = static_cast<DlpackManaged*>(PyCapsule_GetPointer(self, kLegacyCapsule));
    managed->deleter(managed);
  }));
  if (!capsule.is_valid()) {
    owned->deleter(owned);
    throw nb::python_error();
  }
  return nb::cast<nb::capsule>(capsule);
}

void bind_buffer(nb::module_& module) {
  nb::class_<Buffer>(module, "Buffer", "Memory of the CPU that a framework takes over through DLPack.")
      .def("__dlpack__", [](const Buffer& self, const nb::kwargs&) { return export_buffer(self); })
      .def("__dlpack_device__", [](const Buffer&) { return nb::make_tuple(int{TW_DL_CPU}, 0); });
}

}  // namespace tilewright::python
