// SPDX-License-Identifier: MIT
// A ProfileRange is a named stretch of this thread's time, "tilewright:<op>:<stage>", told to whoever was switched on:
// TILEWRIGHT_PROFILE's tools and tilewright/profile.hpp's callbacks. Switched off it costs one relaxed load.
#pragma once

#include <atomic>
#include <string_view>

namespace tilewright {

class ProfileSinks;

namespace profile_detail {
// 0: nobody listens; else somebody does, or TILEWRIGHT_PROFILE was not looked at yet.
extern std::atomic<int> listening;
const ProfileSinks* begin(std::string_view op, std::string_view stage, std::string_view detail);
void end(const ProfileSinks* sinks);
}  // namespace profile_detail

inline bool profile_enabled() { return profile_detail::listening.load(std::memory_order_relaxed) != 0; }

class ProfileRange {
 public:
  // `detail`: what it is about (a kernel's key), for tools that show more than a name.
  ProfileRange(std::string_view op, std::string_view stage, std::string_view detail = {})
      : sinks_(profile_enabled() ? profile_detail::begin(op, stage, detail) : nullptr) {}
  ~ProfileRange() {
    if (sinks_ != nullptr) profile_detail::end(sinks_);
  }
  ProfileRange(const ProfileRange&) = delete;
  ProfileRange& operator=(const ProfileRange&) = delete;

 private:
  const ProfileSinks* sinks_;  // who heard of its begin hears of its end
};

}  // namespace tilewright
