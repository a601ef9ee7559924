// SPDX-License-Identifier: MIT
// OpenBLAS as a peer: cblas_sgemm, and cblas_sgemv for one row. Its weight has no layout of its own.
#include <dlfcn.h>
#include <fmt/format.h>

#include "peer/native/native_peer.hpp"

namespace tilewright::cli {
namespace {

constexpr int kRowMajor = 101, kNoTrans = 111, kTrans = 112;

// With 32-bit or 64-bit integers: the system's library has the first, NumPy's copy the second.
template <class Int>
class OpenBlas final : public NativePeer {
 public:
  // Null when the library does not have the symbols of this form.
  static std::unique_ptr<NativePeer> make(void* library, const char* form) {
    auto peer = std::make_unique<OpenBlas>();
    const auto load = [&](auto& function, const char* name) {
      function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(
          dlsym(library, fmt::format(fmt::runtime(form), name).c_str()));
      return function != nullptr;
    };
    const char* (*config)() = nullptr;
    if (!load(peer->sgemm_, "cblas_sgemm") || !load(peer->sgemv_, "cblas_sgemv") ||
        !load(peer->set_threads_, "openblas_set_num_threads") || !load(config, "openblas_get_config")) {
      return nullptr;
    }
    // "OpenBLAS 0.3.21 DYNAMIC_ARCH ...".
    const std::string text = config();
    peer->name_ = text.substr(0, text.find(' ', text.find(' ') + 1));
    return peer;
  }

  std::string name() const override { return name_; }
  void set_threads(int threads) override { set_threads_(threads); }

  Status prepare(const PeerRequest& r) override {
    if (r.dtype != "f32") return Status(StatusCode::kUnsupported, fmt::format("dtype '{}', allowed: f32", r.dtype));
    m_ = r.m, n_ = r.n, k_ = r.k;
    Result<PeerBuffer> a = PeerBuffer::random(DType::kF32, r.m * r.k, 1);
    Result<PeerBuffer> b = PeerBuffer::random(DType::kF32, r.n * r.k * r.rotations, 2);
    Result<PeerBuffer> d = PeerBuffer::make(r.m * r.n * 4);
    for (const Result<PeerBuffer>* buffer : {&a, &b, &d}) {
      if (!*buffer) return buffer->status();
    }
    a_ = std::move(*a), b_ = std::move(*b), d_ = std::move(*d);
    return {};
  }

  Status call(int rotation) override {
    const float* weight = b_.as<float>() + rotation * n_ * k_;
    const Int m = static_cast<Int>(m_), n = static_cast<Int>(n_), k = static_cast<Int>(k_);
    if (m_ == 1) {
      sgemv_(kRowMajor, kNoTrans, n, k, 1, weight, k, a_.as<float>(), 1, 0, d_.as<float>(), 1);
    } else {
      sgemm_(kRowMajor, kNoTrans, kTrans, m, n, k, 1, a_.as<float>(), k, weight, k, 0, d_.as<float>(), n);
    }
    return {};
  }

 private:
  using Gemm = void (*)(int, int, int, Int, Int, Int, float, const float*, Int, const float*, Int, float, float*, Int);
  using Gemv = void (*)(int, int, Int, Int, float, const float*, Int, const float*, Int, float, float*, Int);
  std::string name_;
  Gemm sgemm_ = nullptr;
  Gemv sgemv_ = nullptr;
  void (*set_threads_)(int) = nullptr;
  int64_t m_ = 0, n_ = 0, k_ = 0;
  PeerBuffer a_, b_, d_;
};

}  // namespace

Result<std::unique_ptr<NativePeer>> open_openblas(const std::string& library) {
  void* const handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) return Status(StatusCode::kNotFound, fmt::format("cannot open '{}': {}", library, dlerror()));
  if (auto peer = OpenBlas<int>::make(handle, "{}")) return peer;
  if (auto peer = OpenBlas<int64_t>::make(handle, "scipy_{}64_")) return peer;
  if (auto peer = OpenBlas<int64_t>::make(handle, "{}64_")) return peer;
  return Status(StatusCode::kUnsupported, fmt::format("'{}' has no cblas_sgemm of OpenBLAS", library));
}

}  // namespace tilewright::cli
