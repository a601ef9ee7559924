// SPDX-License-Identifier: MIT
// The data of a problem made and looked at on a GPU: the same elements as fill_random() makes on the host, checksums, what
// was not written. A verifier then moves only what it compares.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "device/device.hpp"
#include "dispatch/problem_instance.hpp"

namespace tilewright {

class DeviceData {
 public:
  // `compile`: device.hpp. Keeps a few MiB of the device.
  static Result<std::unique_ptr<DeviceData>> make(Device& device, const ProbeCompiler& compile);
  ~DeviceData();

  // `count` elements of 8, 16 or 32 bits from `data` on, which is aligned to 16 bytes.
  static bool fills(DType dtype) { return dtype_bits(dtype) >= 8; }
  Status fill_random(DType dtype, void* data, int64_t count, InputData input, uint64_t seed, double scale);
  // Of `bytes` from `data` on, aligned to 8.
  Result<uint64_t> checksum(const void* data, int64_t bytes);

  struct Tensor {
    const void* data;
    DType dtype;
    int64_t batch, rows, columns;
    int64_t stride_batch, stride_row, stride_column;
  };
  // What of a tensor, poisoned with bytes 0xFF, is still poison, or was written behind its rows; -1 = nothing.
  struct Traces {
    int64_t unwritten = -1;    // index of the element in row-major order
    int64_t written_gap = -1;  // batch * rows + row
  };
  Result<Traces> find_traces(const Tensor& tensor);

 private:
  explicit DeviceData(Device& device) : device_(device) {}
  Status launch(const void* args, int64_t items);

  Device& device_;
  // What is drawn from: those of the last few kinds of data that were asked for.
  struct Table {
    DType dtype = DType::kNone;
    InputData input{};
    uint64_t seed = 0;
    double scale = 0;
    void* memory = nullptr;
  };
  Result<const void*> table_for(const Table& wanted);
  std::shared_ptr<const LoadedKernel> kernel_;
  std::mutex mutex_;
  std::vector<Table> tables_;  // oldest first
  void* result_ = nullptr;     // two words
};

}  // namespace tilewright
