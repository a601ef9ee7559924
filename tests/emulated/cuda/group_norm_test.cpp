// SPDX-License-Identifier: MIT
// Kernels of images, the source that NVRTC compiles, on the host.
#include <cmath>
#include <vector>

#include "emulated/cuda/cuda_words.hpp"
#include "emulated/cuda/row_check.hpp"
// After the words of CUDA.
#include "group_norm_backward/group_norm_backward_gpu.cuh"

namespace tilewright {
namespace {

using emulated::check_family, emulated::HostKernel;

constexpr DType kF32 = DType::kF32, kBf16 = DType::kBf16, kNone = DType::kNone;

template <GroupNormConfig kConfig>
void check_images(const Operator& op, const std::shared_ptr<HostKernel>& kernel,
                  std::initializer_list<const char*> problems) {
  const bool generic = kConfig.dtype == kNone;
  const KernelFamily& family =
      *find_family(op.families(), fmt::format("{}{}", op.name(), generic ? "_generic_gpu" : "_gpu"));
  RecipeStep step;
  step.key = family.builtin_keys("sm_90a").front();
  if (!generic) {
    step.key = make_key(op.name(), family.name(), "sm_90a",
                        fmt::format("x={}:channels_last={}", dtype_name(kConfig.dtype), kConfig.channels_last ? 1 : 0),
                        print_fields(kConfig));
  }
  check_family(op, family, step, kernel, problems);
}
template <GroupNormConfig kConfig>
void check_group_norm(std::initializer_list<const char*> problems) {
  check_images<kConfig>(group_norm_operator(), std::make_shared<HostKernel>([](const void* args) {
                          group_norm_gpu<kConfig>(*static_cast<const GroupNormArgs*>(args));
                        }),
                        problems);
}
template <GroupNormConfig kConfig>
void check_group_norm_backward(std::initializer_list<const char*> problems) {
  check_images<kConfig>(group_norm_backward_operator(), std::make_shared<HostKernel>([](const void* args) {
                          group_norm_backward_gpu<kConfig>(*static_cast<const GroupNormArgs*>(args));
                        }),
                        problems);
}

TEST(EmulatedImageOperators, GroupNormMatchesTheReference) {
  check_group_norm<GroupNormConfig{kBf16, true, true}>(
      {"n=2:c=80:s=304:g=8:x=bf16:weight=bf16:bias=f32:activation=silu:channels_last=1",
       "n=3:c=24:s=1:g=4:x=bf16:channels_last=1"});
  check_group_norm<GroupNormConfig{kF32, false, true}>(
      {"n=2:c=6:s=4104:g=2:x=f32:weight=f32:bias=f32", "n=1:c=3:s=64:g=3:x=f32:in_place=1"});
  check_group_norm<GroupNormConfig{kF32, true, false}>({"n=2:c=66:s=33:g=22:x=f32:weight=f32:channels_last=1"});
  check_group_norm<GroupNormConfig{kNone, false, false}>(
      {"n=2:c=7:s=301:g=7:x=f16:weight=bf16:activation=silu", "n=2:c=9:s=70:g=3:x=bf16:bias=f16:channels_last=1",
       "n=1:c=4:s=6:g=2:x=f32:sx=40.9:so=0.7", "n=1:c=1:s=1:g=1:x=f32"});
}

TEST(EmulatedImageOperators, AClustersSlotsKeepGroupsChannelsFirst) {
  check_group_norm<GroupNormConfig{kBf16, false, true, 1, 256}>(
      {"n=2:c=12:s=1000:g=4:x=bf16:weight=bf16:bias=f32:activation=silu", "n=3:c=4:s=8:g=4:x=bf16:in_place=1",
       "n=2:c=6:s=64:g=2:x=bf16:weight=f32:sx=480.72:so=800.80"});
  // More channels of a group than a block has threads, and a block without a piece.
  check_group_norm<GroupNormConfig{kBf16, false, true, 4, 512}>(
      {"n=2:c=600:s=24:g=2:x=bf16:weight=bf16:bias=bf16", "n=2:c=3:s=16:g=3:x=bf16:weight=bf16"});
  check_group_norm<GroupNormConfig{kF32, false, true, 8, 256}>(
      {"n=1:c=6:s=12008:g=2:x=f32:weight=f32:bias=f32:activation=silu"});
}

TEST(EmulatedImageOperators, AClustersSlotsKeepGroupsChannelsLast) {
  // Groups that begin within pieces; a last slab of fewer groups; positions that end within a turn.
  check_group_norm<GroupNormConfig{kBf16, true, true, 1, 256}>(
      {"n=2:c=80:s=304:g=8:x=bf16:weight=bf16:bias=f32:activation=silu:channels_last=1",
       "n=2:c=200:s=77:g=20:x=bf16:weight=f32:channels_last=1:in_place=1", "n=3:c=24:s=1:g=6:x=bf16:channels_last=1",
       "n=2:c=112:s=40:g=16:x=bf16:channels_last=1:sx=5000.120:so=6000.136"});
  // Blocks without a position; one group of more channels than threads, and of all pieces that a block may have beside each other.
  check_group_norm<GroupNormConfig{kBf16, true, true, 8, 256}>(
      {"n=2:c=40:s=5:g=4:x=bf16:weight=bf16:bias=bf16:channels_last=1",
       "n=1:c=320:s=1000:g=32:x=bf16:weight=bf16:bias=bf16:activation=silu:channels_last=1",
       "n=1:c=2048:s=24:g=1:x=bf16:weight=bf16:bias=bf16:channels_last=1"});
  check_group_norm<GroupNormConfig{kF32, true, true, 6, 512}>(
      {"n=2:c=48:s=700:g=3:x=f32:weight=f32:bias=f32:activation=silu:channels_last=1",
       "n=1:c=40:s=129:g=10:x=f32:channels_last=1"});
}

TEST(EmulatedImageOperators, AClustersSlotsKeepGroupsOfGradientsChannelsFirst) {
  check_group_norm_backward<GroupNormConfig{kBf16, false, true, 1, 256}>(
      {"n=2:c=12:s=1000:g=4:x=bf16:weight=bf16:bias=f32:activation=silu:dweight=f32:dbias=f32",
       "n=3:c=4:s=8:g=4:x=bf16:in_place=1",
       "n=2:c=6:s=64:g=2:x=bf16:weight=f32:sx=480.72:so=800.80:sdy=640.88:dweight=bf16",
       "n=2:c=8:s=128:g=2:x=bf16:dbias=f32:in_place=2"});
  // Lines of which a block has a part; more channels of a group than a block has threads; a block without a piece.
  check_group_norm_backward<GroupNormConfig{kBf16, false, true, 4, 512}>(
      {"n=2:c=600:s=24:g=2:x=bf16:weight=bf16:bias=bf16:dweight=f32:dbias=bf16",
       "n=2:c=3:s=16:g=3:x=bf16:weight=bf16:dweight=f32",
       "n=2:c=10:s=1792:g=2:x=bf16:weight=bf16:bias=bf16:activation=silu:dweight=f32:dbias=f32"});
  check_group_norm_backward<GroupNormConfig{kF32, false, true, 8, 256}>(
      {"n=1:c=6:s=12032:g=2:x=f32:weight=f32:bias=f32:activation=silu:dweight=f32:dbias=f32"});
}

TEST(EmulatedImageOperators, AClustersSlotsKeepGroupsOfGradientsChannelsLast) {
  // As of the outputs above.
  check_group_norm_backward<GroupNormConfig{kBf16, true, true, 1, 256}>(
      {"n=2:c=80:s=304:g=8:x=bf16:weight=bf16:bias=f32:activation=silu:channels_last=1:dweight=f32:dbias=f32",
       "n=2:c=200:s=77:g=20:x=bf16:weight=f32:channels_last=1:dweight=bf16:in_place=1",
       "n=3:c=24:s=1:g=6:x=bf16:channels_last=1:dbias=f32:in_place=2",
       "n=2:c=112:s=40:g=16:x=bf16:channels_last=1:sx=5000.120:so=6000.136:sdy=7000.144"});
  check_group_norm_backward<GroupNormConfig{kBf16, true, true, 8, 256}>(
      {"n=2:c=40:s=5:g=4:x=bf16:weight=bf16:bias=bf16:channels_last=1:dweight=f32",
       "n=1:c=320:s=400:g=32:x=bf16:weight=bf16:bias=bf16:activation=silu:channels_last=1:dweight=bf16:dbias=bf16",
       "n=1:c=2048:s=24:g=1:x=bf16:weight=bf16:bias=bf16:channels_last=1"});
  check_group_norm_backward<GroupNormConfig{kF32, true, true, 6, 512}>(
      {"n=2:c=48:s=700:g=3:x=f32:weight=f32:bias=f32:activation=silu:channels_last=1:dweight=f32:dbias=f32",
       "n=1:c=40:s=129:g=10:x=f32:channels_last=1"});
}

TEST(EmulatedImageOperators, AGroupsFirstElementMayBeFarFromTheOthers) {
  constexpr GroupNormConfig kConfig{kF32, false, true, 8, 256};
  constexpr int kElements = 48000;
  std::vector<float> x(kElements), y(kElements);
  for (int i = 0; i < kElements; ++i) x[static_cast<size_t>(i)] = i % 2 == 0 ? 1.0f : -1.0f;
  x[0] = 100;
  double mean = 0, variance = 0;
  for (const float v : x) mean += v / kElements;
  for (const float v : x) variance += (v - mean) * (v - mean) / kElements;

  GroupNormArgs args{};
  args.x = {x.data(), kElements, kElements}, args.out = {y.data(), kElements, kElements};
  args.images = args.channels = args.groups = 1, args.positions = kElements;
  constexpr int kSpan = kElements / kRowPiece / kConfig.cluster,
                kTurns = (kSpan + kConfig.threads - 1) / kConfig.threads;
  args.line_pieces = denominator(kElements / kRowPiece), args.span = kSpan, args.width = 1;
  args.slots = {denominator(1), denominator(1), denominator(1), kTurns, 0};
  args.dtype = kF32, args.step = GroupNormStep::kWhole;
  const char* const failure = emulated::run_grid(
      kConfig.cluster, kConfig.threads, static_cast<size_t>(group_slot_bytes(kF32, kConfig.threads, 1, kTurns)),
      [&] { group_norm_gpu<kConfig>(args); }, kConfig.cluster);
  ASSERT_STREQ(failure, "");
  for (const size_t i : {size_t{0}, size_t{1}, size_t{2}, x.size() - 1}) {
    const double wanted = (x[i] - mean) / std::sqrt(variance);
    EXPECT_NEAR(y[i], wanted, 1e-6 * std::abs(wanted)) << i;
  }
}

TEST(EmulatedImageOperators, GroupsOfManyPartsAndChannelsAreWhole) {
  // More parts of a group than a block's threads keep, and more channels than it has threads.
  check_group_norm<GroupNormConfig{kBf16, true, true}>(
      {"n=1:c=608:s=504:g=2:x=bf16:weight=bf16:bias=f32:channels_last=1"});
  check_group_norm<GroupNormConfig{kF32, false, true}>({"n=2:c=900:s=16:g=1:x=f32:weight=f32:bias=bf16"});
  check_group_norm_backward<GroupNormConfig{kBf16, true, true}>(
      {"n=1:c=608:s=504:g=2:x=bf16:weight=bf16:channels_last=1:dweight=f32"});
}

TEST(EmulatedImageOperators, GradientsOfGroupNormMatchTheReference) {
  check_group_norm_backward<GroupNormConfig{kBf16, true, true}>(
      {"n=2:c=80:s=304:g=8:x=bf16:weight=bf16:bias=f32:activation=silu:channels_last=1:dweight=f32:dbias=f32"});
  check_group_norm_backward<GroupNormConfig{kF32, false, true}>(
      {"n=2:c=6:s=4104:g=2:x=f32:weight=f32:bias=f32:dweight=f32:dbias=f32:activation=silu",
       "n=1:c=3:s=64:g=3:x=f32:in_place=1"});
  check_group_norm_backward<GroupNormConfig{kNone, false, false}>(
      {"n=2:c=7:s=301:g=7:x=f16:weight=bf16:activation=silu:dweight=bf16",
       "n=40:c=9:s=70:g=3:x=bf16:dbias=f16:channels_last=1:in_place=2", "n=0:c=4:s=6:g=2:x=f32:dbias=f32",
       "n=2:c=4:s=0:g=2:x=f32:weight=f32:dweight=f32"});
}

}  // namespace
}  // namespace tilewright
