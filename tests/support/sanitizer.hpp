// SPDX-License-Identifier: MIT
// Which sanitizer the tests were built with, where a test must know.
#pragma once

namespace tilewright::test {

#if defined(__SANITIZE_THREAD__)
inline constexpr bool kThreadSanitizer = true;
#elif defined(__has_feature)
inline constexpr bool kThreadSanitizer = __has_feature(thread_sanitizer);
#else
inline constexpr bool kThreadSanitizer = false;
#endif

#if defined(__SANITIZE_ADDRESS__)
inline constexpr bool kAddressSanitizer = true;
#elif defined(__has_feature)
inline constexpr bool kAddressSanitizer = __has_feature(address_sanitizer);
#else
inline constexpr bool kAddressSanitizer = false;
#endif

inline constexpr const char* kNoForkReason =
    "ThreadSanitizer allows no new threads after a fork of a process with threads";

}  // namespace tilewright::test
