// SPDX-License-Identifier: MIT
#include "arch/cpu_nodes.hpp"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <iterator>
#include <sstream>

namespace tilewright {
namespace {

std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

// "Node 0 MemTotal:       16384 kB"
int64_t memory_of(const std::string& folder) {
  std::ifstream file(folder + "/meminfo");
  for (std::string line; std::getline(file, line);) {
    const size_t at = line.find("MemTotal:");
    if (at == std::string::npos) continue;
    std::istringstream text(line.substr(at + 9));
    int64_t kilobytes = 0;
    return text >> kilobytes && kilobytes > 0 ? kilobytes * 1024 : 0;
  }
  return 0;
}

}  // namespace

std::vector<int> parse_cpu_list(std::string_view text) {
  // More CPUs than any machine has: a damaged list must not take all memory.
  constexpr int kMost = 1 << 20;
  std::vector<int> cpus;
  while (!text.empty()) {
    const size_t comma = std::min(text.find(','), text.size());
    const std::string_view part = text.substr(0, comma);
    text.remove_prefix(std::min(comma + 1, text.size()));
    int first = 0, last = 0;
    const char* const end = part.data() + part.size();
    auto [rest, error] = std::from_chars(part.data(), end, first);
    if (error != std::errc() || first < 0) continue;
    last = first;
    if (rest != end && *rest == '-' && std::from_chars(rest + 1, end, last).ec != std::errc()) continue;
    for (int cpu = first; cpu <= std::min(last, kMost); ++cpu) cpus.push_back(cpu);
  }
  std::sort(cpus.begin(), cpus.end());
  cpus.erase(std::unique(cpus.begin(), cpus.end()), cpus.end());
  return cpus;
}

std::string cpu_list_text(std::span<const int> cpus) {
  std::string text;
  for (size_t i = 0; i < cpus.size();) {
    size_t end = i + 1;
    while (end < cpus.size() && cpus[end] == cpus[end - 1] + 1) ++end;
    text += fmt::format("{}{}", text.empty() ? "" : ",", cpus[i]);
    if (end - i > 1) text += fmt::format("-{}", cpus[end - 1]);
    i = end;
  }
  return text;
}

std::vector<int> allowed_cpus(pid_t thread) {
  std::vector<int> cpus;
  // The kernel refuses a mask smaller than its own; machines with more than 1024 CPUs need a larger one.
  for (int most = 1024; most <= 1 << 20 && cpus.empty(); most *= 2) {
    cpu_set_t* const set = CPU_ALLOC(most);
    if (set == nullptr) break;
    const size_t bytes = CPU_ALLOC_SIZE(most);
    if (sched_getaffinity(thread, bytes, set) == 0) {
      for (int cpu = 0; cpu < most; ++cpu) {
        if (CPU_ISSET_S(cpu, bytes, set)) cpus.push_back(cpu);
      }
    }
    CPU_FREE(set);
  }
  return cpus;
}

std::vector<CpuNode> cpu_nodes(std::span<const int> allowed, const std::string& root) {
  std::vector<CpuNode> nodes;
  size_t found = 0;
  for (const int id : parse_cpu_list(first_line(root + "/online"))) {
    const std::string folder = fmt::format("{}/node{}", root, id);
    const std::vector<int> there = parse_cpu_list(first_line(folder + "/cpulist"));
    CpuNode node;
    node.id = id;
    std::set_intersection(there.begin(), there.end(), allowed.begin(), allowed.end(), std::back_inserter(node.cpus));
    if (node.cpus.empty()) continue;  // memory only, or another job's
    node.memory_bytes = memory_of(folder);
    found += node.cpus.size();
    nodes.push_back(std::move(node));
  }
  // A container may hide the files, or show those of another machine.
  if (found != allowed.size()) {
    CpuNode all;
    all.cpus.assign(allowed.begin(), allowed.end());
    nodes.clear();
    nodes.push_back(std::move(all));
  }
  return nodes;
}

std::vector<int> cpus_of_thread(std::span<const CpuNode> nodes, uint32_t index, uint32_t threads) {
  size_t all = 0;
  for (const CpuNode& node : nodes) all += node.cpus.size();
  // The thread's place among the CPUs, node after node.
  size_t place = threads == 0 ? 0 : static_cast<size_t>(index) * all / threads;
  for (const CpuNode& node : nodes) {
    if (place < node.cpus.size()) return node.cpus;
    place -= node.cpus.size();
  }
  return {};
}

}  // namespace tilewright
