// SPDX-License-Identifier: MIT
// How many cores this process may keep busy: scheduler affinity, cut by the quota of its cgroups.
#pragma once

#include <string>
#include <string_view>

namespace tilewright {

// At least 1. Cores that the affinity mask allows, and no more than the quota pays for in full.
int usable_cores();

// The smallest CPU quota, in cores, on the way from the process's cgroup to the root; 0 when there is none. `membership`
// is the text of /proc/self/cgroup, `mount` where cgroups are mounted. Versions 1 and 2.
double cgroup_quota(std::string_view membership, const std::string& mount);

}  // namespace tilewright
