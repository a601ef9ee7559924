// SPDX-License-Identifier: MIT
// The OpenMP threads that PyTorch computes on. Its workers spin for a while after each of its operators, and would keep a
// pool's threads from the cores: calls with torch tensors run on them instead, as many as torch.set_num_threads() says.
#pragma once

#include "device/device.hpp"

namespace tilewright::python {

struct OpenMp {
  int threads = 0;                            // what torch.set_num_threads() set
  const ParallelFor* parallel_for = nullptr;  // runs on them
};

// Zero and null where PyTorch has no OpenMP, where TILEWRIGHT_OPENMP=off, and in the child of a fork, to which libgomp's
// workers did not come along: the library's own pool serves there. `parallel_for` alone is null for a while after workers
// came late: a region ends only when all have been there, and on a machine that others use too that may take many times
// as long as the work; the pool's caller does itself what nobody has begun.
OpenMp torch_openmp();

}  // namespace tilewright::python
