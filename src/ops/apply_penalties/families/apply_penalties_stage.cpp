// SPDX-License-Identifier: MIT
#include <cstddef>
#include <cstring>

#include "ops/apply_penalties/families/apply_penalties_families.hpp"

namespace tilewright {

Stage apply_penalties_stage(const ApplyPenaltiesProblem& p, long long grid,
                            std::shared_ptr<const LoadedKernel> kernel) {
  ApplyPenaltiesArgs args{};
  args.rows = p.rows, args.n = p.n, args.stride = p.stride, args.stride_out = p.stride_out, args.dtype = p.x;
  args.chunks = penalty_chunks(p), args.grid = grid;
  SeenTokens* const seen[] = {&args.prompt, &args.output};
  for (size_t i = 0; i < p.seen.size(); ++i) {
    const SeenProblem& from = p.seen[i];
    *seen[i] = {nullptr, nullptr, from.stride_row, from.stride, from.tokens, from.stride_counts};
  }
  Stage stage;
  stage.kernel = std::move(kernel);
  stage.args.resize(sizeof(args));
  std::memcpy(stage.args.data(), &args, sizeof(args));
  const auto pointer = [&stage](bool present, size_t slot, size_t offset) {
    if (!present) return;
    stage.patches.push_back({ArgPatch::Kind::kPointer, static_cast<uint16_t>(slot), static_cast<uint32_t>(offset)});
  };
  pointer(true, kPenaltyLogits, offsetof(ApplyPenaltiesArgs, logits));
  pointer(true, kPenaltyOut, offsetof(ApplyPenaltiesArgs, out));
  const size_t at[] = {offsetof(ApplyPenaltiesArgs, prompt), offsetof(ApplyPenaltiesArgs, output)};
  for (size_t i = 0; i < p.seen.size(); ++i) {
    pointer(p.seen[i].tokens > 0, kPenaltyTokens + i, at[i] + offsetof(SeenTokens, tokens));
    pointer(p.seen[i].counts != 0, kPenaltyCounts + i, at[i] + offsetof(SeenTokens, counts));
  }
  pointer(p.repetition != 0, kPenaltyRepetition, offsetof(ApplyPenaltiesArgs, repetition));
  pointer(p.presence != 0, kPenaltyPresence, offsetof(ApplyPenaltiesArgs, presence));
  pointer(p.frequency != 0, kPenaltyFrequency, offsetof(ApplyPenaltiesArgs, frequency));
  return stage;
}

}  // namespace tilewright
