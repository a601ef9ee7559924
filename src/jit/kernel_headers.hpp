// SPDX-License-Identifier: MIT
// Which kernel headers a source reaches, with their digests: what a compile needs and what a cache key covers.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/digest.hpp"
#include "tilewright/status.hpp"

namespace tilewright {

struct KernelHeader {
  std::string path;  // from the kernel folder, "gemm/cpu/gemm_cpu.hpp"
  std::string text;
  Digest digest;                      // of the text
  std::vector<std::string> includes;  // as written between the quotes
};

// The transitive closure of #include "..." over the headers carried in the library, or over TILEWRIGHT_KERNEL_DIR, in
// path order. A name is looked for in the including header's folder, then from the kernel folder. Conditions are not
// evaluated: a header under #if counts. A name that is not there is an error.
Result<std::vector<std::shared_ptr<const KernelHeader>>> find_kernel_headers(std::string_view source);

// The names in #include "..." lines, in order, each once.
std::vector<std::string> quoted_includes(std::string_view text);

}  // namespace tilewright
