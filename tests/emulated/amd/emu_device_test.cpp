// SPDX-License-Identifier: MIT
// Emulated AMD GPUs as devices: what they load, what a launch may touch, and what comes back as an error.
#include "device/emu/emu_device.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "jit/amdgcn/emulated_compiler.hpp"
#include "jit/system/files.hpp"
#include "support/sanitizer.hpp"

namespace tilewright {
namespace {

using testing::HasSubstr;

// to[i] = from[i] for a wave.
constexpr const char* kCopy = R"(
struct Args { const int* from; int* to; };
static void copy(Args args) {
  const unsigned i = __builtin_amdgcn_workitem_id_x();
  args.to[i] = args.from[i];
}
TILEWRIGHT_EMULATED_ENTRY(tw_copy, copy)
)";
struct CopyArgs {
  const void* from;
  void* to;
};

class AmdEmulationDevice : public testing::Test {
 protected:
  void SetUp() override {
    if (test::kThreadSanitizer) GTEST_SKIP() << "ThreadSanitizer cannot follow fibers";
    device = std::move(*emu::EmuDevice::make(kGfx942));
  }
  static constexpr int kGfx942 = 1;

  static Artifact compile(const char* target) {
    CompileRequest request;
    request.name = request.entry = "tw_copy";
    request.source = kCopy;
    request.target = target;
    const ScopedFolder folder(*make_unique_folder(testing::TempDir(), "tilewright-device-"));
    const Result<std::string> file = emulated_compiler().compile(request, folder.path(), nullptr);
    EXPECT_TRUE(file.ok()) << file.status().message();
    const std::string code = *read_file(folder.path() + "/" + *file);
    Artifact artifact;
    artifact.kind = ArtifactKind::kEmulated;
    artifact.target = target;
    artifact.entry = "tw_copy";
    const auto* bytes = reinterpret_cast<const std::byte*>(code.data());
    artifact.image.assign(bytes, bytes + code.size());
    return artifact;
  }
  Status copy(const LoadedKernel& kernel, const void* from, void* to) {
    const CopyArgs args{from, to};
    LaunchShape shape;
    shape.threads = 64;
    return device->launch(kernel, std::as_bytes(std::span(&args, 1)), shape, {});
  }

  std::unique_ptr<emu::EmuDevice> device;
};

TEST_F(AmdEmulationDevice, ThereIsOneForEachAmdTarget) {
  std::vector<std::string> targets;
  for (const ArchSpec& arch : arch_specs()) {
    if (arch.vendor == ArchVendor::kAmd) targets.emplace_back(arch.target);
  }
  EXPECT_THAT(targets, testing::UnorderedElementsAreArray(kEmulatedTargets));
  for (int i = 0; i < static_cast<int>(std::size(kEmulatedTargets)); ++i) {
    const Result<std::unique_ptr<Device>> made = make_device({DeviceKind::kEmulated, i});
    ASSERT_TRUE(made.ok());
    EXPECT_EQ((*made)->spec().arch->target, kEmulatedTargets[i]);
    EXPECT_TRUE((*made)->spec().emulated);
    EXPECT_GT((*made)->spec().units, 0);
  }
  EXPECT_EQ(make_device({DeviceKind::kEmulated, 5}).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(make_device({DeviceKind::kEmulated, -1}).status().code(), StatusCode::kNotFound);
}

TEST_F(AmdEmulationDevice, CodeOfAnotherTargetOrKindIsNotLoaded) {
  EXPECT_THAT(device->load(compile("gfx950")).status().message(), HasSubstr("code for target 'gfx950'"));
  Artifact object;
  object.kind = ArtifactKind::kAmdObject;
  object.target = "gfx942";
  EXPECT_THAT(device->load(object).status().message(), HasSubstr("no emulated object"));
}

TEST_F(AmdEmulationDevice, WhatIsNotExposedOrNotWrittenIsAFault) {
  const auto kernel = *device->load(compile("gfx942"));
  auto* const memory = static_cast<std::byte*>(*device->allocate(1024));
  auto* const result = static_cast<std::byte*>(*device->allocate(1024));
  EXPECT_THAT(copy(*kernel, memory, result).message(), HasSubstr("uninitialised_global"));

  const std::vector<int> values(256, 7);
  ASSERT_TRUE(device->copy_from_host(memory, values.data(), 1024).ok());
  ASSERT_TRUE(copy(*kernel, memory, result).ok());
  std::vector<int> back(64);
  ASSERT_TRUE(device->copy_to_host(back.data(), result, 256).ok());
  EXPECT_THAT(back, testing::Each(7));

  // The second half only; the host still writes all of it.
  device->expose(memory, memory + 512, 512);
  ASSERT_TRUE(device->copy_from_host(memory, values.data(), 1024).ok());
  EXPECT_TRUE(copy(*kernel, memory + 512, result).ok());
  EXPECT_THAT(copy(*kernel, memory, result).message(), HasSubstr("global_out_of_bounds"));
  EXPECT_THAT(copy(*kernel, values.data(), result).message(), HasSubstr("global_out_of_bounds"));
  device->deallocate(memory, 1024);
  EXPECT_THAT(copy(*kernel, memory + 512, result).message(), HasSubstr("global_out_of_bounds"));
}

TEST_F(AmdEmulationDevice, AWorkspaceHoldsNothingOfTheCallBefore) {
  const auto kernel = *device->load(compile("gfx942"));
  void* const values = *device->zeros(256, nullptr);
  void* const first = device->workspace(256, nullptr)->data;
  ASSERT_TRUE(copy(*kernel, values, first).ok());
  EXPECT_TRUE(copy(*kernel, first, values).ok());
  void* const second = device->workspace(128, nullptr)->data;
  EXPECT_EQ(first, second);
  EXPECT_THAT(copy(*kernel, second, values).message(), HasSubstr("uninitialised_global"));
}

}  // namespace
}  // namespace tilewright
