// SPDX-License-Identifier: MIT
// The child's side of a peer that is a shared library: opened with dlopen, asked line by line.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "device/cpu/pages.hpp"
#include "peer/peer_request.hpp"

namespace tilewright::cli {

class NativePeer {
 public:
  virtual ~NativePeer() = default;
  virtual std::string name() const = 0;  // "OpenBLAS 0.3.21"
  // Makes the tensors.
  virtual Status prepare(const PeerRequest& request) = 0;
  virtual void set_threads(int threads) = 0;
  // Multiplies with copy `rotation` of the weight.
  virtual Status call(int rotation) = 0;
};

// `library`: a path or a soname. The error says why it cannot be used.
Result<std::unique_ptr<NativePeer>> open_openblas(const std::string& library);
Result<std::unique_ptr<NativePeer>> open_onednn(const std::string& library);

// Answers "hello" with "peer NAME" and a PeerRequest with "us MEDIAN" or "error WHY", until the input ends.
void serve_peer(NativePeer& peer);

// Memory as tilewright's own operands have it: whole pages, huge where the system has them.
class PeerBuffer {
 public:
  PeerBuffer() = default;
  ~PeerBuffer() { unmap_pages(data_, bytes_); }
  PeerBuffer(PeerBuffer&& o) noexcept : data_(std::exchange(o.data_, nullptr)), bytes_(std::exchange(o.bytes_, 0)) {}
  PeerBuffer& operator=(PeerBuffer&& o) noexcept {
    std::swap(data_, o.data_);
    std::swap(bytes_, o.bytes_);
    return *this;
  }
  static Result<PeerBuffer> make(int64_t bytes);
  // Seeded random values of `dtype`.
  static Result<PeerBuffer> random(DType dtype, int64_t count, uint64_t seed);

  void* data() const { return data_; }
  template <class T>
  T* as() const {
    return static_cast<T*>(data_);
  }
  int64_t bytes() const { return bytes_; }

 private:
  void* data_ = nullptr;
  int64_t bytes_ = 0;
};

}  // namespace tilewright::cli
