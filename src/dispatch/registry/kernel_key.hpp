// SPDX-License-Identifier: MIT
// The erased kernel key and its canonical text: op/family/target/signature/config, e.g.
//   gemm/gemm_cpu/x86-64-v4-amx/dtype=bf16/mma=amx_bf16:tile_m=32:tile_n=32:prefetch=0
// Safe in a shell word and in a CSV cell. Text parses, orders and is what tables store.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "core/digest.hpp"
#include "tilewright/status.hpp"

namespace tilewright {

struct KernelKey {
  std::string op, family, target;
  std::string text;
  Digest digest;  // of text

  std::string_view signature() const;
  std::string_view config() const;
  bool operator==(const KernelKey& other) const { return text == other.text; }
  auto operator<=>(const KernelKey& other) const { return text <=> other.text; }
};

KernelKey make_key(std::string_view op, std::string_view family, std::string_view target, std::string_view signature,
                   std::string_view config);
// Checks the form only; whether the family knows the config is for the family to say.
Result<KernelKey> parse_key(std::string_view text);

// Run-time choices; their names belong to the family.
inline constexpr int kMaxKnobs = 8;
struct Knobs {
  std::array<int64_t, kMaxKnobs> values{};
  bool operator==(const Knobs&) const = default;
};

// What a tuned row or a cost model chooses: ordered keys and knobs.
struct RecipeStep {
  KernelKey key;
  Knobs knobs;
  bool operator==(const RecipeStep&) const = default;
};
struct Recipe {
  std::vector<RecipeStep> steps;
  bool operator==(const Recipe&) const = default;
};

}  // namespace tilewright
