// SPDX-License-Identifier: MIT
// What the dispatcher saw and why it chose, as text for people.
#include <fmt/format.h>

#include <set>
#include <utility>

#include "core/fields.hpp"
#include "dispatch/choice/dispatcher.hpp"

namespace tilewright {

Result<std::string> Dispatcher::explain(const Operator& op, ProblemRef problem, const DeviceSpec& spec,
                                        const TunedTable& table, std::string_view forced) const {
  constexpr size_t kShown = 8;  // candidates listed
  std::vector<std::string> refusals;
  Result<std::vector<Choice>> found = choices(op, problem, spec, table, forced, &refusals);
  if (!found) return found.status();

  std::string text = fmt::format("problem    {} {}\n", op.name(), op.problem_text(problem));
  text += fmt::format("device     {} ({}, part {}, {} unit{})\n", to_string(spec.id), spec.arch->target, spec.part,
                      spec.units, spec.units == 1 ? "" : "s");
  text += fmt::format("work       {:.4g} GFLOP, {:.4g} MB at least\n", op.operations(problem) * 1e-9,
                      op.bytes_moved(problem) * 1e-6);
  const Choice& best = found->front();
  text += fmt::format("chosen     {} ({}{})\n", print_recipe(op.families(), best.recipe),
                      fields_detail::print_value(best.source), built(op, best.recipe) ? "" : ", to be compiled");
  text += fmt::format("choices    {} in all, best first\n", found->size());
  size_t left_out = 0;
  std::set<std::string_view> families;
  for (size_t i = 0; i < found->size(); ++i) {
    const Choice& c = (*found)[i];
    // Beyond the head of the list, the best of each family; the last resort is always worth seeing.
    const bool first = families.insert(c.recipe.steps.front().key.family).second;
    if (i >= kShown && !first && i + 1 < found->size()) {
      ++left_out;
      continue;
    }
    if (left_out > 0) text += fmt::format("  ... {} more\n", std::exchange(left_out, 0));
    text += fmt::format("  {:8} {:>10} {:9} {}\n", fields_detail::print_value(c.source),
                        c.cost > 0 ? fmt::format("{:.1f} us", c.cost * 1e6) : "-",
                        built(op, c.recipe) ? "built" : "not built", print_recipe(op.families(), c.recipe));
  }
  if (!refusals.empty()) text += "refused\n";
  for (const std::string& refusal : refusals) text += fmt::format("  {}\n", refusal);
  return text;
}

}  // namespace tilewright
