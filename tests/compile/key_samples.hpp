// SPDX-License-Identifier: MIT
// The kernels that the fast lane compiles out of many; the slow lane compiles all.
#pragma once

#include <algorithm>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "dispatch/registry/kernel_key.hpp"

namespace tilewright::test {

// Of `keys`, in their order, those in whose config a field has a value that it has in none taken before, of `fields` alone where
// those are named: every way through a kernel is in one of them.
inline std::vector<KernelKey> one_of_each_value(const std::vector<KernelKey>& keys,
                                                const std::set<std::string_view>& fields = {}) {
  std::vector<KernelKey> taken;
  std::set<std::string> seen;
  for (const KernelKey& key : keys) {
    bool is_new = false;
    std::string_view left = key.config();
    while (!left.empty()) {
      const std::string_view field = left.substr(0, left.find(':'));
      left.remove_prefix(std::min(left.size(), field.size() + 1));
      if (!fields.empty() && !fields.contains(field.substr(0, field.find('=')))) continue;
      is_new = seen.insert(std::string(key.family) + '/' + std::string(field)).second || is_new;
    }
    if (is_new) taken.push_back(key);
  }
  return taken;
}

}  // namespace tilewright::test
