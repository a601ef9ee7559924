// SPDX-License-Identifier: MIT
// oneDNN as a peer: a matmul whose weight stands in the layout that oneDNN chooses (packed), or as stored. Versions 2 and
// 3 of its C API, without its headers (onednn_api.hpp). i8 is scaled by column only: a scale for each row, as a step after
// the product, drops version 2 to its reference kernel.
#include <dlfcn.h>
#include <fmt/format.h>

#include <cstring>
#include <vector>

#include "peer/native/native_peer.hpp"
#include "peer/native/onednn_api.hpp"

namespace tilewright::cli {
namespace {

using namespace onednn;

class OneDnn final : public NativePeer {
 public:
  static Result<std::unique_ptr<NativePeer>> make(const std::string& library) {
    auto peer = std::make_unique<OneDnn>();
    if (Status s = peer->api_.open(library); !s) return s;
    if (Status s = check(peer->api_.engine_create(&peer->engine_, kCpu, 0), "engine"); !s) return s;
    if (Status s = check(peer->api_.stream_create(&peer->stream_, peer->engine_, kInOrder), "stream"); !s) return s;
    return std::unique_ptr<NativePeer>(std::move(peer));
  }
  ~OneDnn() override { forget(); }

  std::string name() const override { return api_.name(); }
  void set_threads(int threads) override {
    if (api_.omp_set_num_threads != nullptr) api_.omp_set_num_threads(threads);
    // The number is fixed when a primitive is made.
    if (threads != threads_) primitive_threads_ = 0;
    threads_ = threads;
  }

  Status prepare(const PeerRequest& request) override {
    forget();
    request_ = request;
    return build();
  }

  Status call(int rotation) override {
    if (primitive_threads_ != threads_) {
      if (Status s = prepare(PeerRequest(request_)); !s) return s;
    }
    args_[1].memory = weights_[static_cast<size_t>(rotation)];
    if (Status s = check(api_.execute(primitive_, stream_, static_cast<int>(args_.size()), args_.data()), "execute");
        !s)
      return s;
    return check(api_.stream_wait(stream_), "wait");
  }

 private:
  static Status check(int status, const char* what) {
    if (status == 0) return {};
    return Status(status == kUnimplemented ? StatusCode::kUnsupported : StatusCode::kDeviceError,
                  fmt::format("oneDNN {}: status {}", what, status));
  }

  Status build() {
    const PeerRequest& r = request_;
    const Result<DType> parsed = parse_dtype(r.dtype);
    if (!parsed) return parsed.status();
    const DType dtype = *parsed;
    const int type = type_of(dtype), out_type = dtype == DType::kI8 ? kF32 : type;
    MemoryDesc a_desc, plain, weight, d_desc;
    if (Status s = check(api_.make_desc(a_desc, {r.m, r.k}, type, {r.k, 1}), "source"); !s) return s;
    if (Status s = check(api_.make_desc(plain, {r.k, r.n}, type, {1, r.k}), "weight"); !s) return s;
    if (Status s = check(r.packed ? api_.make_any_desc(weight, {r.k, r.n}, type)
                                  : api_.make_desc(weight, {r.k, r.n}, type, {1, r.k}),
                         "weight");
        !s)
      return s;
    if (Status s = check(api_.make_desc(d_desc, {r.m, r.n}, out_type, {r.n, 1}), "destination"); !s) return s;

    Handle attributes = nullptr;
    if (Status s = check(api_.attr_create(&attributes), "attributes"); !s) return s;
    column_scales_.assign(static_cast<size_t>(r.n), 0.01f);
    if (r.scaled) {
      if (Status s = check(api_.scale_columns(attributes, column_scales_), "scales"); !s) return s;
    }
    Handle description = nullptr;
    Status status = check(api_.matmul(&description, engine_, a_desc, weight, d_desc, attributes), "matmul");
    api_.attr_destroy(attributes);
    if (!status) return status;
    status = check(api_.primitive_create(&primitive_, description), "primitive");
    if (status.ok()) status = make_tensors(dtype, out_type, a_desc, plain, description, d_desc);
    api_.primitive_desc_destroy(description);
    if (status.ok()) primitive_threads_ = threads_;
    return status;
  }

  Status make_tensors(DType dtype, int out_type, const MemoryDesc& a_desc, const MemoryDesc& plain, Handle description,
                      const MemoryDesc& d_desc) {
    const PeerRequest& r = request_;
    Result<PeerBuffer> a = PeerBuffer::random(dtype, r.m * r.k, 1), stored = PeerBuffer::random(dtype, r.n * r.k, 2);
    Result<PeerBuffer> d = PeerBuffer::make(r.m * r.n * (out_type == kF32 ? 4 : 2));
    for (const Result<PeerBuffer>* buffer : {&a, &stored, &d}) {
      if (!*buffer) return buffer->status();
    }
    a_ = std::move(*a), d_ = std::move(*d);
    const void* const own_layout = api_.query_desc(description, kQueryWeights, 0);
    const int64_t bytes = static_cast<int64_t>(api_.desc_size(own_layout));
    for (int i = 0; i < r.rotations; ++i) {
      Result<PeerBuffer> copy = PeerBuffer::make(bytes);
      if (!copy) return copy.status();
      Handle memory = nullptr;
      if (Status s = check(api_.memory_create(&memory, own_layout, engine_, copy->data()), "memory"); !s) return s;
      weights_.push_back(memory);
      if (i == 0) {
        if (Status s = reorder(plain, stored->data(), own_layout, memory); !s) return s;
      } else {
        std::memcpy(copy->data(), weight_data_[0].data(), static_cast<size_t>(bytes));
      }
      weight_data_.push_back(std::move(*copy));
    }
    Handle source = nullptr, destination = nullptr, columns = nullptr;
    if (Status s = add_memory(a_desc.get(), a_.data(), source); !s) return s;
    if (Status s = add_memory(d_desc.get(), d_.data(), destination); !s) return s;
    args_ = {{kArgSource, source}, {kArgWeights, weights_[0]}, {kArgDestination, destination}};
    if (!r.scaled || !api_.scales_are_arguments()) return {};
    MemoryDesc per_column;
    if (Status s = check(api_.make_desc(per_column, {r.n}, kF32, {1}), "column scales"); !s) return s;
    if (Status s = add_memory(per_column.get(), column_scales_.data(), columns); !s) return s;
    args_.push_back({kArgScales | kArgWeights, columns});
    return {};
  }

  Status add_memory(const void* desc, void* data, Handle& memory) {
    if (Status s = check(api_.memory_create(&memory, desc, engine_, data), "memory"); !s) return s;
    memories_.push_back(memory);
    return {};
  }

  Status reorder(const MemoryDesc& plain, void* stored, const void* own_layout, Handle to) {
    Handle from = nullptr, description = nullptr, primitive = nullptr;
    if (Status s = check(api_.memory_create(&from, plain.get(), engine_, stored), "memory"); !s) return s;
    Status status =
        check(api_.reorder_create(&description, plain.get(), engine_, own_layout, engine_, nullptr), "reorder");
    if (status.ok()) status = check(api_.primitive_create(&primitive, description), "reorder");
    const Arg args[] = {{kArgSource, from}, {kArgDestination, to}};
    if (status.ok()) status = check(api_.execute(primitive, stream_, 2, args), "reorder");
    if (status.ok()) status = check(api_.stream_wait(stream_), "reorder");
    if (primitive != nullptr) api_.primitive_destroy(primitive);
    if (description != nullptr) api_.primitive_desc_destroy(description);
    api_.memory_destroy(from);
    return status;
  }

  void forget() {
    for (Handle memory : weights_) api_.memory_destroy(memory);
    for (Handle memory : memories_) api_.memory_destroy(memory);
    if (primitive_ != nullptr) api_.primitive_destroy(primitive_);
    primitive_ = nullptr;
    weights_.clear(), memories_.clear(), weight_data_.clear(), args_.clear();
  }

  Api api_;
  Handle engine_ = nullptr, stream_ = nullptr, primitive_ = nullptr;
  PeerRequest request_;
  int threads_ = 0, primitive_threads_ = 0;
  PeerBuffer a_, d_;
  std::vector<PeerBuffer> weight_data_;
  std::vector<Handle> weights_, memories_;
  std::vector<float> column_scales_;
  std::vector<Arg> args_;
};

}  // namespace

Result<std::unique_ptr<NativePeer>> open_onednn(const std::string& library) { return OneDnn::make(library); }

}  // namespace tilewright::cli
