// SPDX-License-Identifier: MIT
// NUMA nodes: which CPUs sit beside which memory, read from Linux, and which of them the threads of a pool run on.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tilewright {

struct CpuNode {
  int id = 0;
  std::vector<int> cpus;     // in rising order
  int64_t memory_bytes = 0;  // 0 = not known
};

// "0-3,8" and back. What is no number is passed over.
std::vector<int> parse_cpu_list(std::string_view text);
std::string cpu_list_text(std::span<const int> cpus);

// CPUs that the scheduler lets a thread run on (0 = the calling one); empty when the system does not say.
std::vector<int> allowed_cpus(pid_t thread);

// The nodes that have at least one of `allowed`, each with those. One node of all where the system knows none.
std::vector<CpuNode> cpu_nodes(std::span<const int> allowed, const std::string& root = "/sys/devices/system/node");

// Where thread `index` of `threads` runs: on all of `allowed` while they are one node; else within one node, neighbouring
// threads on the same one, and as many on each as its share of the CPUs. Kernels give neighbouring threads neighbouring
// parts of an operand, so what a thread touches first is beside the threads that read it later.
std::vector<int> cpus_of_thread(std::span<const CpuNode> nodes, uint32_t index, uint32_t threads);

}  // namespace tilewright
