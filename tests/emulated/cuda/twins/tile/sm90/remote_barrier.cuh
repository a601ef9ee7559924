// SPDX-License-Identifier: MIT
// Twin of kernels/tile/sm90/remote_barrier.cuh.
#pragma once

#include "tile/sm90/barrier.cuh"

namespace tilewright::sm90 {

class RemoteBarriers {
 public:
  RemoteBarriers(Barrier& first, unsigned block) : first_(&barrier_of(first, block)) {}
  void arrive(int index) const { sm90::arrive(first_[index]); }
  void arrive_after(int index, unsigned) const { arrive(index); }

 private:
  Barrier* first_;
};

}  // namespace tilewright::sm90
