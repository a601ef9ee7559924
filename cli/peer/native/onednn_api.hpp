// SPDX-License-Identifier: MIT
// The part of oneDNN's C API that a matmul needs, versions 2 and 3. Version 2 keeps memory descriptors in structs of the
// caller, version 3 behind pointers; a MemoryDesc is either.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tilewright/dtype.hpp"
#include "tilewright/status.hpp"

namespace tilewright::cli::onednn {

using Handle = void*;

// Values that are the same in both versions.
inline constexpr int kF16 = 1, kBf16 = 2, kF32 = 3, kS8 = 5;
inline constexpr int kCpu = 1, kInOrder = 1, kUnimplemented = 3;
inline constexpr int kFormatAny = 1, kQueryWeights = 131;
inline constexpr int kArgSource = 1, kArgDestination = 17, kArgWeights = 33;
inline constexpr int kArgScales = 4096;

int type_of(DType dtype);

struct Arg {
  int index;
  Handle memory;
};

class MemoryDesc {
 public:
  const void* get() const { return opaque_ != nullptr ? opaque_.get() : bytes_.get(); }

 private:
  friend class Api;
  static constexpr size_t kStructBytes = 4096;  // version 2's struct is smaller
  std::unique_ptr<std::byte[]> bytes_;
  std::shared_ptr<void> opaque_;
};

class Api {
 public:
  Status open(const std::string& library);
  std::string name() const { return name_; }
  // Version 3 takes scales when a primitive runs, version 2 when it is made.
  bool scales_are_arguments() const { return major_ >= 3; }

  // All return oneDNN's status, 0 = success.
  int make_desc(MemoryDesc& desc, const std::vector<int64_t>& dims, int type,
                const std::vector<int64_t>& strides) const;
  int make_any_desc(MemoryDesc& desc, const std::vector<int64_t>& dims, int type) const;
  int scale_columns(Handle attributes, const std::vector<float>& scales) const;
  int matmul(Handle* description, Handle engine, const MemoryDesc& a, const MemoryDesc& b, const MemoryDesc& d,
             Handle attributes) const;

  int (*engine_create)(Handle*, int kind, size_t index) = nullptr;
  int (*stream_create)(Handle*, Handle engine, unsigned flags) = nullptr;
  int (*stream_wait)(Handle) = nullptr;
  int (*attr_create)(Handle*) = nullptr;
  int (*attr_destroy)(Handle) = nullptr;
  int (*primitive_desc_destroy)(Handle) = nullptr;
  int (*primitive_create)(Handle*, Handle description) = nullptr;
  int (*primitive_destroy)(Handle) = nullptr;
  int (*execute)(Handle primitive, Handle stream, int count, const Arg* args) = nullptr;
  int (*memory_create)(Handle*, const void* desc, Handle engine, void* data) = nullptr;
  int (*memory_destroy)(Handle) = nullptr;
  size_t (*desc_size)(const void* desc) = nullptr;
  const void* (*query_desc)(Handle description, int what, int index) = nullptr;
  int (*reorder_create)(Handle*, const void* from, Handle from_engine, const void* to, Handle to_engine,
                        Handle attributes) = nullptr;
  void (*omp_set_num_threads)(int) = nullptr;  // null: the library has its own threads

 private:
  // Version 2.
  int (*desc_init_by_strides_)(void*, int, const int64_t*, int, const int64_t*) = nullptr;
  int (*desc_init_by_tag_)(void*, int, const int64_t*, int, int) = nullptr;
  int (*matmul_desc_init_)(void*, const void*, const void*, const void*, const void*) = nullptr;
  int (*primitive_desc_create_)(Handle*, const void*, Handle, Handle, Handle) = nullptr;
  int (*attr_set_output_scales_)(Handle, int64_t, int, const float*) = nullptr;
  // Version 3.
  int (*desc_create_with_strides_)(Handle*, int, const int64_t*, int, const int64_t*) = nullptr;
  int (*desc_create_with_tag_)(Handle*, int, const int64_t*, int, int) = nullptr;
  int (*desc_destroy_)(Handle) = nullptr;
  int (*matmul_create_)(Handle*, Handle, const void*, const void*, const void*, const void*, Handle) = nullptr;
  int (*attr_set_scales_mask_)(Handle, int, int) = nullptr;

  int major_ = 0;
  std::string name_;
};

}  // namespace tilewright::cli::onednn
