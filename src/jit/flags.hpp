// SPDX-License-Identifier: MIT
// The flags of a compile request in their one normal form: what the compiler gets is what the digest covers.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "jit/compiler.hpp"

namespace tilewright {

// Words between blanks.
std::vector<std::string> split_words(std::string_view text);

// The target's flags from arch_specs.json, then the request's own, split into words. Order is kept: later flags win.
// The error lists every known target.
Result<std::vector<std::string>> all_flags(const CompileRequest& request);

}  // namespace tilewright
