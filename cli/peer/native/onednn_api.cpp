// SPDX-License-Identifier: MIT
#include "peer/native/onednn_api.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <type_traits>

namespace tilewright::cli::onednn {
namespace {

struct Version {
  int major, minor, patch;
};

}  // namespace

int type_of(DType dtype) {
  switch (dtype) {
    case DType::kF16: return kF16;
    case DType::kBf16: return kBf16;
    case DType::kI8: return kS8;
    default: return kF32;
  }
}

Status Api::open(const std::string& library) {
  void* const handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) return Status(StatusCode::kNotFound, fmt::format("cannot open '{}': {}", library, dlerror()));
  std::string missing;
  const auto load = [&](auto& function, const char* symbol) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(
        dlsym(handle, fmt::format("dnnl_{}", symbol).c_str()));
    if (function == nullptr && missing.empty()) missing = symbol;
  };
  const Version* (*version)() = nullptr;
  load(version, "version");
  if (version == nullptr) return Status(StatusCode::kUnsupported, fmt::format("'{}' is not oneDNN", library));
  major_ = version()->major;
  name_ = fmt::format("oneDNN {}.{}.{}", major_, version()->minor, version()->patch);
  if (major_ != 2 && major_ != 3) {
    return Status(StatusCode::kUnsupported, fmt::format("{} in '{}'; versions 2 and 3 are understood", name_, library));
  }
  load(engine_create, "engine_create");
  load(stream_create, "stream_create");
  load(stream_wait, "stream_wait");
  load(attr_create, "primitive_attr_create");
  load(attr_destroy, "primitive_attr_destroy");
  load(primitive_desc_destroy, "primitive_desc_destroy");
  load(primitive_create, "primitive_create");
  load(primitive_destroy, "primitive_destroy");
  load(execute, "primitive_execute");
  load(memory_create, "memory_create");
  load(memory_destroy, "memory_destroy");
  load(desc_size, "memory_desc_get_size");
  load(query_desc, "primitive_desc_query_md");
  load(reorder_create, "reorder_primitive_desc_create");
  if (major_ == 2) {
    load(desc_init_by_strides_, "memory_desc_init_by_strides");
    load(desc_init_by_tag_, "memory_desc_init_by_tag");
    load(matmul_desc_init_, "matmul_desc_init");
    load(primitive_desc_create_, "primitive_desc_create");
    load(attr_set_output_scales_, "primitive_attr_set_output_scales");
  } else {
    load(desc_create_with_strides_, "memory_desc_create_with_strides");
    load(desc_create_with_tag_, "memory_desc_create_with_tag");
    load(desc_destroy_, "memory_desc_destroy");
    load(matmul_create_, "matmul_primitive_desc_create");
    load(attr_set_scales_mask_, "primitive_attr_set_scales_mask");
  }
  if (!missing.empty()) {
    return Status(StatusCode::kUnsupported, fmt::format("{} in '{}' lacks dnnl_{}", name_, library, missing));
  }
  omp_set_num_threads = reinterpret_cast<void (*)(int)>(dlsym(handle, "omp_set_num_threads"));
  return {};
}

int Api::make_desc(MemoryDesc& desc, const std::vector<int64_t>& dims, int type,
                   const std::vector<int64_t>& strides) const {
  const int count = static_cast<int>(dims.size());
  if (major_ == 2) {
    desc.bytes_ = std::make_unique<std::byte[]>(MemoryDesc::kStructBytes);
    return desc_init_by_strides_(desc.bytes_.get(), count, dims.data(), type, strides.data());
  }
  Handle made = nullptr;
  const int status = desc_create_with_strides_(&made, count, dims.data(), type, strides.data());
  if (status == 0) desc.opaque_.reset(made, [destroy = desc_destroy_](void* one) { destroy(one); });
  return status;
}

int Api::make_any_desc(MemoryDesc& desc, const std::vector<int64_t>& dims, int type) const {
  const int count = static_cast<int>(dims.size());
  if (major_ == 2) {
    desc.bytes_ = std::make_unique<std::byte[]>(MemoryDesc::kStructBytes);
    return desc_init_by_tag_(desc.bytes_.get(), count, dims.data(), type, kFormatAny);
  }
  Handle made = nullptr;
  const int status = desc_create_with_tag_(&made, count, dims.data(), type, kFormatAny);
  if (status == 0) desc.opaque_.reset(made, [destroy = desc_destroy_](void* one) { destroy(one); });
  return status;
}

int Api::scale_columns(Handle attributes, const std::vector<float>& scales) const {
  constexpr int kColumns = 1 << 1;
  return major_ == 2 ? attr_set_output_scales_(attributes, static_cast<int64_t>(scales.size()), kColumns, scales.data())
                     : attr_set_scales_mask_(attributes, kArgWeights, kColumns);
}

int Api::matmul(Handle* description, Handle engine, const MemoryDesc& a, const MemoryDesc& b, const MemoryDesc& d,
                Handle attributes) const {
  if (major_ == 3) return matmul_create_(description, engine, a.get(), b.get(), nullptr, d.get(), attributes);
  constexpr size_t kStructBytes = 32 * 1024;  // version 2's dnnl_matmul_desc_t is smaller
  const auto operation = std::make_unique<std::byte[]>(kStructBytes);
  if (const int status = matmul_desc_init_(operation.get(), a.get(), b.get(), nullptr, d.get()); status != 0)
    return status;
  return primitive_desc_create_(description, operation.get(), attributes, engine, nullptr);
}

}  // namespace tilewright::cli::onednn
