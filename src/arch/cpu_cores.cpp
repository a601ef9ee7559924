// SPDX-License-Identifier: MIT
// Affinity and cgroup quotas, read from Linux.
#include "arch/cpu_cores.hpp"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <thread>

#include "arch/cpu_nodes.hpp"

namespace tilewright {

namespace {

std::string read_text(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

double cores_of(double quota, double period) { return quota > 0 && period > 0 ? quota / period : 0; }

// cpu.max: "max 100000" or "150000 100000".
double quota_v2(const std::string& folder) {
  std::istringstream text(read_text(folder + "/cpu.max"));
  double quota = 0;
  double period = 0;
  if (!(text >> quota >> period)) return 0;
  return cores_of(quota, period);
}

double quota_v1(const std::string& folder) {
  const std::string quota = read_text(folder + "/cpu.cfs_quota_us");  // -1 = none
  const std::string period = read_text(folder + "/cpu.cfs_period_us");
  return cores_of(std::atof(quota.c_str()), std::atof(period.c_str()));
}

// Every ancestor's quota holds too.
template <class Read>
double smallest_upward(const std::string& mount, std::string path, Read read) {
  double smallest = 0;
  for (;;) {
    while (!path.empty() && path.back() == '/') path.pop_back();
    const double quota = read(mount + path);
    if (quota > 0 && (smallest == 0 || quota < smallest)) smallest = quota;
    if (path.empty()) return smallest;
    path.resize(path.rfind('/') == std::string::npos ? 0 : path.rfind('/'));
  }
}

bool lists_cpu(const std::string& controllers) {
  std::istringstream text(controllers);
  for (std::string name; std::getline(text, name, ',');) {
    if (name == "cpu") return true;
  }
  return false;
}

}  // namespace

double cgroup_quota(std::string_view membership, const std::string& mount) {
  double smallest = 0;
  const auto take = [&](double quota) {
    if (quota > 0 && (smallest == 0 || quota < smallest)) smallest = quota;
  };
  // Lines are "hierarchy:controllers:path"; version 2 is hierarchy 0 without controllers.
  std::istringstream lines{std::string(membership)};
  for (std::string line; std::getline(lines, line);) {
    const size_t first = line.find(':');
    const size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string path = line.substr(second + 1);
    if (controllers.empty()) {
      take(smallest_upward(mount, path, quota_v2));
      take(smallest_upward(mount + "/unified", path, quota_v2));
    } else if (lists_cpu(controllers)) {
      take(smallest_upward(mount + "/" + controllers, path, quota_v1));
      if (controllers != "cpu") take(smallest_upward(mount + "/cpu", path, quota_v1));
    }
  }
  return smallest;
}

int usable_cores() {
  const size_t cpus = allowed_cpus(0).size();
  const int allowed = std::max(1, static_cast<int>(cpus != 0 ? cpus : std::thread::hardware_concurrency()));
  const double quota = cgroup_quota(read_text("/proc/self/cgroup"), "/sys/fs/cgroup");
  if (quota <= 0) return allowed;
  // A thread on a core that the quota pays in part would be stopped in every period, and the others would wait for it.
  return std::clamp(static_cast<int>(quota), 1, allowed);
}

}  // namespace tilewright
