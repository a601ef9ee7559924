// SPDX-License-Identifier: MIT
#include <cstddef>
#include <cstring>

#include "ops/sample/families/sample_families.hpp"

namespace tilewright {

Stage sample_stage(const SampleProblem& p, const SampleArgs& with, std::shared_ptr<const LoadedKernel> kernel) {
  SampleArgs args = with;
  args.rows = p.rows, args.vocabulary = p.vocabulary, args.stride = p.stride;
  args.x = p.x, args.joint = p.joint, args.greedy = p.greedy != 0;
  args.seed_words = p.seed_words, args.offset_words = p.offset_words, args.id_words = p.id_words;
  Stage stage;
  stage.kernel = std::move(kernel);
  stage.args.resize(sizeof(args));
  std::memcpy(stage.args.data(), &args, sizeof(args));
  const auto pointer = [&stage](uint16_t slot, size_t offset) {
    stage.patches.push_back({ArgPatch::Kind::kPointer, slot, static_cast<uint32_t>(offset)});
  };
  pointer(kSampleLogits, offsetof(SampleArgs, logits));
  if (p.temperature != 0) pointer(kSampleTemperature, offsetof(SampleArgs, temperature));
  if (p.top_k != 0) pointer(kSampleTopK, offsetof(SampleArgs, top_k));
  if (p.top_p != 0) pointer(kSampleTopP, offsetof(SampleArgs, top_p));
  if (p.min_p != 0) pointer(kSampleMinP, offsetof(SampleArgs, min_p));
  if (p.seed_words != 0) pointer(kSampleSeeds, offsetof(SampleArgs, seeds));
  if (p.offset_words != 0) pointer(kSampleOffsets, offsetof(SampleArgs, offsets));
  pointer(kSampleIds, offsetof(SampleArgs, ids));
  if (p.log_probabilities != 0) pointer(kSampleLogProbabilities, offsetof(SampleArgs, log_probabilities));
  return stage;
}

}  // namespace tilewright
