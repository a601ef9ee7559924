// SPDX-License-Identifier: MIT
#include "ops/gemm/families/cuda/sm90/sm90_cut.hpp"

#include <fmt/format.h>

#include "dispatch/registry/family.hpp"
#include "ops/gemm/families/cuda/sm90/operand_map.hpp"

namespace tilewright {
namespace {

constexpr int64_t kMaxExchangeBytes = int64_t{64} << 20;

}  // namespace

Status check_sm90_cut(const GemmSm90SkinnyCut& cut, int splits, int64_t k) {
  if (splits > cut.chunks) {
    return unsupported(fmt::format("splits = {}: K = {} has {} steps of the kernel", splits, k, cut.chunks));
  }
  if (cut.steps > kMaxCopiedSize) return unsupported("more than 2^31 tiles");
  if (cut.exchange_bytes > kMaxExchangeBytes) {
    return unsupported(fmt::format("splits = {}: {} bytes of sums on their way, allowed: {}", splits,
                                   cut.exchange_bytes, kMaxExchangeBytes));
  }
  return {};
}

}  // namespace tilewright
