// SPDX-License-Identifier: MIT
#include "problems/suites/gpu_regimes.hpp"

#include <fmt/format.h>

namespace tilewright::cli {

void add_to_regime(Suite& suite, const Regime& regime, const std::string& text) {
  suite.add(text, {.regime = regime.name, .bar = regime.bar, .sustained = regime.sustained});
  if (regime.edged_fraction == 0) return;
  SuiteBar bar = regime.bar;
  bar.fraction = regime.edged_fraction;
  suite.add(text + ":programmatic_edge=1", {.regime = fmt::format("{}, pdl edges", regime.name), .bar = bar});
}

std::string problem_text(int64_t m, const Weight& w, const char* dtype, std::string_view rest) {
  return fmt::format("m={}:n={}:k={}:a={}{}", m, w.n, w.k, dtype, rest);
}

}  // namespace tilewright::cli
