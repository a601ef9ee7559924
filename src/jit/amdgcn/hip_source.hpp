// SPDX-License-Identifier: MIT
// What every compiler for AMD GPUs is given: the same source makes the same kernel, whichever is there.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "jit/compiler.hpp"

namespace tilewright {

inline constexpr std::string_view kAmdClangName = "amdgcn-clang";
inline constexpr const char* kHipSourceFile = "instance.hip";
inline constexpr const char* kHipBinaryFile = "instance.hsaco";
inline constexpr int kOldestAmdClang = 20;  // the first that knows gfx950

// The language and its code, without the target's.
std::span<const char* const> hip_flags();
// The instance, with HIP's words in front.
std::string hip_source(const CompileRequest& request);
// Compiler::base_flags of all of them: what one made, a pack gives to the others.
std::string hip_base_flags();

}  // namespace tilewright
