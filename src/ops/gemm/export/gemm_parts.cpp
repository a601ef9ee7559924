// SPDX-License-Identifier: MIT
#include "ops/gemm/export/gemm_parts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <optional>
#include <set>

namespace tilewright {
namespace {

// Names that say how K is cut, the same in every family that has them.
constexpr std::string_view kWidthKnob = "split_k";    // of a part, 0 = all of K; see width_unit()
constexpr std::string_view kPartsKnob = "split";      // parts
constexpr std::string_view kWorkersKnob = "workers";  // stream-K, 0 = none
constexpr std::string_view kPartsField = "splits";    // of a config: parts, 0 = even shares of all tiles

std::optional<size_t> knob(const KernelFamily& family, std::string_view name) {
  const auto names = family.knob_names();
  const auto found = std::find(names.begin(), names.end(), name);
  if (found == names.end()) return std::nullopt;
  return static_cast<size_t>(found - names.begin());
}

std::optional<int64_t> config_field(const KernelKey& key, std::string_view name) {
  std::string_view rest = key.config();
  while (!rest.empty()) {
    const std::string_view item = rest.substr(0, rest.find(':'));
    rest.remove_prefix(std::min(rest.size(), item.size() + 1));
    const size_t equal = item.find('=');
    if (equal == std::string_view::npos || item.substr(0, equal) != name) continue;
    int64_t value = 0;
    std::from_chars(item.data() + equal + 1, item.data() + item.size(), value);
    return value;
  }
  return std::nullopt;
}

int64_t tile_k(const KernelKey& key) { return std::max<int64_t>(config_field(key, "tile_k").value_or(1), 1); }
// AMD's families count the width of a part in steps of tile_k, gemm_portable in columns.
int64_t width_unit(const KernelKey& key) {
  return key.family == "gemm_amd" || key.family == "gemv_amd" ? tile_k(key) : 1;
}

// The steps of a choice's kernel that may cut K in about `parts`.
std::vector<RecipeStep> steps_with(const GemmProblem& p, const KernelFamily& family, const RecipeStep& chosen,
                                   int64_t parts) {
  std::vector<RecipeStep> steps{chosen};
  RecipeStep step = chosen;
  if (const auto workers = knob(family, kWorkersKnob)) step.knobs.values[*workers] = 0;
  const auto split = knob(family, kPartsKnob), width = knob(family, kWidthKnob);
  if (split) step.knobs.values[*split] = parts;
  if (width) {
    const int64_t tile = tile_k(chosen.key), tiles = (p.k + tile - 1) / tile;
    const int64_t columns = (tiles + parts - 1) / parts * tile;
    step.knobs.values[*width] = parts == 1 ? 0 : columns / width_unit(chosen.key);
  }
  if (split || width) steps.push_back(step);
  return steps;
}

}  // namespace

int64_t gemm_parts_of_k(const GemmProblem& p, const KernelFamily& family, const RecipeStep& step) {
  if (const auto workers = knob(family, kWorkersKnob); workers && step.knobs.values[*workers] != 0) return 0;
  if (const auto split = knob(family, kPartsKnob)) return step.knobs.values[*split];
  if (const auto width = knob(family, kWidthKnob)) {
    const int64_t columns = step.knobs.values[*width] * width_unit(step.key);
    return columns <= 0 || columns >= p.k ? 1 : (p.k + columns - 1) / columns;
  }
  return config_field(step.key, kPartsField).value_or(1);
}

Result<Recipe> choose_gemm_parts(const GemmProblem& p, const DeviceSpec& device,
                                 std::span<const KernelFamily* const> families, std::span<const Choice> choices,
                                 int64_t parts) {
  std::optional<RecipeStep> best;
  int64_t best_distance = 0;
  double best_cost = 0;
  std::set<std::string> seen;  // keys: knobs are made anew
  for (const Choice& choice : choices) {
    if (choice.recipe.steps.size() != 1 || !seen.insert(choice.recipe.steps.front().key.text).second) continue;
    const RecipeStep& chosen = choice.recipe.steps.front();
    const KernelFamily* family = find_family(families, chosen.key.family);
    if (family == nullptr || family->backend() == Backend::kVendor) continue;
    for (const RecipeStep& step : steps_with(p, *family, chosen, parts)) {
      const int64_t count = gemm_parts_of_k(p, *family, step);
      const bool wanted = parts == 1 ? count == 1 : count > 1;
      if (!wanted || !family->check(erase(p), device, step)) continue;
      const int64_t distance = std::abs(count - parts);
      const double cost = family->cost(erase(p), device, step);
      if (best && (distance > best_distance || (distance == best_distance && cost >= best_cost))) continue;
      best = step, best_distance = distance, best_cost = cost;
    }
  }
  if (!best) {
    return unsupported(fmt::format("gemm: no kernel cuts K = {} in {} part{} on {}", p.k, parts, parts == 1 ? "" : "s",
                                   device.arch->target));
  }
  return Recipe{{*best}};
}

}  // namespace tilewright
