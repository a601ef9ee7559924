// SPDX-License-Identifier: MIT
// The end of a task's search: the best few timed longer, the winner verified in full and confirmed, the row filled.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "tuning/search.hpp"

namespace tilewright {
namespace {

constexpr size_t kFinalists = 3;
constexpr double kSustainedSeconds = 0.5;  // of all members; the power limit has acted in the first half

}  // namespace

std::vector<TaskSearch::Candidate*> TaskSearch::finalists(double seconds) {
  std::vector<Candidate*> best;
  for (Candidate& c : candidates_) {
    if (&c != untuned_ && c.result.outcome == CandidateOutcome::kTimed && c.ratio > 1) best.push_back(&c);
  }
  const auto faster = [](const Candidate* x, const Candidate* y) { return x->ratio > y->ratio; };
  std::sort(best.begin(), best.end(), faster);
  if (best.size() > kFinalists) best.resize(kFinalists);
  if (best.size() < 2 || seconds <= 0) return best;
  // One group, so that all are timed under the same conditions. Should it fail, the short timings' order stands, and the
  // confirmation finds out who it was.
  std::vector<Candidate*> group = {untuned_};
  group.insert(group.end(), best.begin(), best.end());
  const double each = std::clamp(seconds / static_cast<double>(group.size()), 0.05, 0.5);
  const Result<std::vector<Timing>> timings = time(group, each, 7, 101);
  for (size_t i = 1; timings && i < timings->size(); ++i) {
    group[i]->ratio = paired_ratio((*timings)[0], (*timings)[i]).ratio;
    group[i]->result.us = (*timings)[i].us;
    group[i]->result.spread = (*timings)[i].spread;
  }
  std::sort(best.begin(), best.end(), faster);
  return best;
}

void TaskSearch::confirm(const std::vector<Candidate*>& finalists, double seconds, TuneResult& result) {
  result.untuned_recipe = untuned_->result.recipe;
  const double each = std::clamp(seconds / 2, 0.1, 1.0);
  for (Candidate* winner : finalists) {
    if (!worker_problem_.ok()) break;
    if (winner->result.outcome != CandidateOutcome::kTimed || winner->ratio < 1 + state_.options.min_gain) continue;
    if (!verify(*winner, "full")) continue;
    const Result<Confirmation> confirmed = time_for_row({untuned_, winner}, each);
    if (!confirmed) continue;
    winner->result.us = confirmed->timings.back().us;
    winner->result.spread = confirmed->timings.back().spread;
    // Faster by the wanted margin, and faster beyond doubt.
    if (confirmed->gain.ratio >= 1 + state_.options.min_gain && confirmed->gain.low > 1) {
      result.untuned_us = confirmed->timings.front().us;
      return fill_row(*winner, *confirmed, result);
    }
    break;  // those behind it are no better
  }
  const Result<Confirmation> alone = time_for_row({untuned_}, each);
  if (!alone) {
    result.status = Status(alone.status().code(), fmt::format("{}: the untuned choice could not be timed again: {}",
                                                              op_.name(), alone.status().message()));
    return;
  }
  untuned_->result.us = result.untuned_us = alone->timings.front().us;
  untuned_->result.spread = alone->timings.front().spread;
  fill_row(*untuned_, *alone, result);
}

Result<TaskSearch::Confirmation> TaskSearch::time_for_row(const std::vector<Candidate*>& group, double seconds) {
  const bool hot = !state_.context.device().host_memory() && heats(op_.operations(task_.problem), best_us_);
  Confirmation confirmed;
  Result<std::vector<Timing>> timings = time(group, seconds, 11, 301, hot ? TimeMode::kRested : TimeMode::kPlain);
  if (!timings) return timings.status();
  confirmed.timings = std::move(*timings);
  confirmed.gain = paired_ratio(confirmed.timings.front(), confirmed.timings.back());
  if (!hot) return confirmed;
  Result<std::vector<Timing>> sustained =
      time(group, kSustainedSeconds / static_cast<double>(group.size()), 5, 301, TimeMode::kSustained);
  if (!sustained) return sustained.status();
  confirmed.sustained = std::move(*sustained);
  const PairedRatio other = paired_ratio(confirmed.sustained.front(), confirmed.sustained.back());
  const auto both = [](double x, double y) { return std::sqrt(x * y); };
  confirmed.gain = {both(confirmed.gain.ratio, other.ratio), both(confirmed.gain.low, other.low),
                    both(confirmed.gain.high, other.high)};
  return confirmed;
}

bool TaskSearch::vendors(const Candidate& candidate) const {
  const KernelFamily* family = find_family(op_.families(), candidate.recipe.steps.front().key.family);
  return family != nullptr && family->backend() == Backend::kVendor;
}

void TaskSearch::fill_row(const Candidate& chosen, const Confirmation& confirmed, TuneResult& result) const {
  const Timing& timing = confirmed.timings.back();
  const ProblemSignature signature = op_.signature(task_.problem);
  TunedRow& row = result.row;
  row.op = op_.name();
  row.target = spec_.arch != nullptr ? spec_.arch->target : "";
  row.part = spec_.part;
  row.units = spec_.units;
  row.core = signature.core;
  row.epilogue = signature.epilogue;
  row.sizes = signature.sizes;
  row.bucket = signature.bucket;
  row.recipe = chosen.result.recipe;
  row.us = timing.us;
  row.spread = timing.spread;
  row.untuned_us = result.untuned_us;
  row.gflops = op_.operations(task_.problem) / timing.us * 1e-3;
  row.rel_error = chosen.result.rel_error;
  row.samples = timing.samples();
  if (!confirmed.sustained.empty()) row.sustained_us = confirmed.sustained.back().us;
  row.power = power_;
  if (!vendors(chosen)) return;
  // What serves where the vendor's library is not.
  const Candidate* own = nullptr;
  for (const Candidate& c : candidates_) {
    if (c.result.outcome != CandidateOutcome::kTimed || c.generic || vendors(c)) continue;
    if (own == nullptr || c.ratio > own->ratio) own = &c;
  }
  if (own != nullptr) row.own_recipe = own->result.recipe, row.own_us = own->result.us;
}

}  // namespace tilewright
