// SPDX-License-Identifier: MIT
#include "device/cuda/stream_workspaces.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "device/cuda/driver/context_scope.hpp"

namespace tilewright::cuda {
namespace {

constexpr int64_t kSmallestBlock = int64_t{2} << 20;  // the driver's own granularity

}  // namespace

StreamWorkspaces::~StreamWorkspaces() {
  const ContextScope scope(*place_.driver, place_.context);
  for (const auto& [id, stream] : streams_) {
    for (const DevicePointer block : stream->blocks) place_.driver->cuMemFree_v2(block);
  }
}

Result<Workspace> StreamWorkspaces::get(int64_t bytes, void* stream) {
  const Driver& d = *place_.driver;
  const ContextScope scope(d, place_.context);
  if (Status s = check(d, scope.result(), fmt::format("cuda:{}: workspace", place_.index)); !s) return s;
  unsigned long long id = 0;
  if (Status s = check(d, d.cuStreamGetId(static_cast<CuStream>(stream), &id),
                       fmt::format("cuda:{}: argument 'stream'", place_.index));
      !s) {
    return s;
  }
  Stream* own = nullptr;
  {
    const std::lock_guard lock(mutex_);
    std::unique_ptr<Stream>& known = streams_[id];
    if (known == nullptr) known = std::make_unique<Stream>();
    own = known.get();
  }
  Workspace workspace;
  workspace.in_use = std::unique_lock(own->in_use);
  if (own->bytes < bytes) {
    if (Status s = grow(*own, bytes); !s) return s;
  }
  workspace.data = own->blocks.back();
  return workspace;
}

Status StreamWorkspaces::grow(Stream& stream, int64_t bytes) {
  const int64_t size = std::max({kSmallestBlock, bytes, 2 * stream.bytes});
  const RelaxedCapture relaxed(*place_.driver);
  DevicePointer block = nullptr;
  if (Status s = check(*place_.driver, place_.driver->cuMemAlloc_v2(&block, static_cast<size_t>(size)),
                       fmt::format("cuda:{}: {} bytes of workspace", place_.index, size));
      !s) {
    return s;
  }
  stream.blocks.push_back(block);
  stream.bytes = size;
  return {};
}

}  // namespace tilewright::cuda
