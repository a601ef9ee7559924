// SPDX-License-Identifier: MIT
#include "results/recipe_text.hpp"

#include <algorithm>

#include "command.hpp"

namespace tilewright::cli {
namespace {

bool is_number(const std::string& text) {
  return !text.empty() && text.find_first_not_of("-0123456789") == std::string::npos;
}

std::string short_step(const std::string& step) {
  const size_t at = step.find('@');
  const std::vector<std::string> parts = split_words(step.substr(0, at), '/');
  if (parts.size() != 5) return step;
  std::string text = parts[1];
  const std::vector<std::string> signature = split_words(parts[3], ':');
  std::vector<std::string> items = split_words(parts[4], ':');
  if (at != std::string::npos) {
    for (std::string& knob : split_words(step.substr(at + 1), ':')) items.push_back(knob);
  }
  for (const std::string& item : items) {
    if (std::find(signature.begin(), signature.end(), item) != signature.end()) continue;
    const size_t equal = item.find('=');
    const std::string value = equal == std::string::npos ? item : item.substr(equal + 1);
    if (value == "0" || item.starts_with("dtype=")) continue;
    text += " " + (is_number(value) ? item : value);
  }
  return text;
}

}  // namespace

std::string short_recipe(const std::string& recipe) {
  std::string text;
  for (const std::string& step : split_words(recipe, '+')) text += (text.empty() ? "" : " + ") + short_step(step);
  return text;
}

}  // namespace tilewright::cli
