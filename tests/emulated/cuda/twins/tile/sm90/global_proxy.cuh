// SPDX-License-Identifier: MIT
// Twin of kernels/tile/sm90/global_proxy.cuh.
#pragma once

namespace tilewright::sm90 {

inline void show_copy_engine_global() {}

}  // namespace tilewright::sm90
