// SPDX-License-Identifier: MIT
// The text forms of knobs and recipes, and the source of an instance.
#include "dispatch/registry/family.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/fields.hpp"

namespace tilewright {

const KernelFamily* find_family(std::span<const KernelFamily* const> families, std::string_view name) {
  for (const KernelFamily* family : families) {
    if (family->name() == name) return family;
  }
  return nullptr;
}

std::string print_knobs(const KernelFamily& family, const Knobs& knobs) {
  std::string text;
  const auto names = family.knob_names();
  for (size_t i = 0; i < names.size(); ++i)
    text += fmt::format("{}{}={}", i == 0 ? "" : ":", names[i], knobs.values[i]);
  return text;
}

Result<Knobs> parse_knobs(const KernelFamily& family, std::string_view text) {
  Knobs knobs;
  for (size_t i = 0; i < family.knob_names().size(); ++i) {
    const std::string_view name = family.knob_names()[i];
    const std::string_view item = text.substr(0, text.find(':'));
    const size_t equal = item.find('=');
    if (equal == std::string_view::npos || item.substr(0, equal) != name) {
      return Status(StatusCode::kInvalidArgument,
                    fmt::format("{}: expected knob '{}', got '{}'", family.name(), name, item));
    }
    if (Status s = fields_detail::parse_integer(item.substr(equal + 1), 0, int64_t{1} << 40, knobs.values[i]); !s) {
      return Status(StatusCode::kInvalidArgument, fmt::format("{}: knob '{}': {}", family.name(), name, s.message()));
    }
    text.remove_prefix(std::min(text.size(), item.size() + 1));
  }
  if (!text.empty()) {
    return Status(StatusCode::kInvalidArgument, fmt::format("{}: unexpected knobs '{}'", family.name(), text));
  }
  return knobs;
}

std::string print_recipe(std::span<const KernelFamily* const> families, const Recipe& recipe) {
  std::string text;
  for (const RecipeStep& step : recipe.steps) {
    if (!text.empty()) text += '+';
    text += step.key.text;
    const KernelFamily* family = find_family(families, step.key.family);
    if (family != nullptr && !family->knob_names().empty()) text += '@' + print_knobs(*family, step.knobs);
  }
  return text;
}

Result<Recipe> parse_recipe(std::span<const KernelFamily* const> families, std::string_view text) {
  Recipe recipe;
  while (true) {
    const size_t plus = text.find('+');
    const std::string_view part = text.substr(0, plus);
    const size_t at = part.find('@');
    Result<KernelKey> key = parse_key(part.substr(0, at));
    if (!key) return key.status();
    const auto of_operator = [&](const KernelFamily* f) { return f->op() == key->op; };
    if (!families.empty() && std::ranges::none_of(families, of_operator)) {
      return Status(StatusCode::kNotFound, fmt::format("kernel key '{}' is of operator '{}', expected '{}'", key->text,
                                                       key->op, families.front()->op()));
    }
    const KernelFamily* family = find_family(families, key->family);
    if (family == nullptr || family->op() != key->op) {
      return Status(StatusCode::kNotFound,
                    fmt::format("no kernel family '{}' for operator '{}'", key->family, key->op));
    }
    Result<Knobs> knobs = parse_knobs(*family, at == std::string_view::npos ? "" : part.substr(at + 1));
    if (!knobs) return knobs.status();
    recipe.steps.push_back({std::move(*key), *knobs});
    if (plus == std::string_view::npos) return recipe;
    text.remove_prefix(plus + 1);
  }
}

std::string cpu_instance_source(std::string_view header, std::string_view entry, std::string_view kernel,
                                std::string_view args) {
  // Not exported here: the JIT exports the entry of what it compiles, and the library hides that of what is linked in.
  return fmt::format(
      "#include \"{}\"\n"
      "extern \"C\" void {}(const void* args, unsigned unit, unsigned units) {{ "
      "tilewright::{}(*static_cast<const tilewright::{}*>(args), unit, units); }}\n",
      header, entry, kernel, args);
}

}  // namespace tilewright
