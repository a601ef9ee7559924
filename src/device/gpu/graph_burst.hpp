// SPDX-License-Identifier: MIT
// Calls captured into a graph and timed on the device, between two events.
#pragma once

#include <mutex>
#include <vector>

#include "device/device.hpp"
#include "device/gpu/runtime.hpp"

namespace tilewright::gpu {

// Streams that capture graphs, each used again when its burst is gone. Nothing runs on them; what they capture has workspaces by their
// handles, which stay few so.
class BurstStreams {
 public:
  // `runtime` must outlive it.
  explicit BurstStreams(const Runtime& runtime) : runtime_(runtime) {}
  ~BurstStreams();
  BurstStreams(const BurstStreams&) = delete;
  BurstStreams& operator=(const BurstStreams&) = delete;

  // While the device is current.
  Code take(Stream& stream);
  void give_back(Stream stream);

 private:
  const Runtime& runtime_;
  std::mutex mutex_;
  std::vector<Stream> free_;
};

// The graph runs on the default stream. `streams`, and what they were made with, must outlive it.
Result<std::unique_ptr<Burst>> make_graph_burst(const Runtime& runtime, BurstStreams& streams, const TurnedCall& call,
                                                int first_turn, int count);

}  // namespace tilewright::gpu
