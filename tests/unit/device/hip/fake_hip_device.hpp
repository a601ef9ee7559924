// SPDX-License-Identifier: MIT
// A HIP device on the fake library of tests/support/hip.
#pragma once

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "device/hip/hip_device.hpp"
#include "support/amd_object.hpp"
#include "support/hip/fake_hip.hpp"

namespace tilewright::test {

inline const std::string kFakeHip = TILEWRIGHT_BINARY_DIR "/tests/libfake_hip.so";

// The library takes code objects as well as emulated ones; their kernels do nothing. Here the device is told that it takes
// nothing else, as a real one.
class FakeHipTest : public testing::Test {
 protected:
  void SetUp() override {
    void* const library = dlopen(kFakeHip.c_str(), RTLD_NOW);
    ASSERT_NE(library, nullptr) << dlerror();
    fake = reinterpret_cast<FakeHip* (*)()>(dlsym(library, "fake_hip"))();
    *fake = FakeHip();
    Result<const hip::Driver*> opened = hip::open_driver(std::span(&kFakeHip, 1));
    ASSERT_TRUE(opened.ok()) << opened.status().message();
    EXPECT_TRUE((*opened)->emulated);
    driver = std::make_unique<hip::Driver>(**opened);
    driver->emulated = false;
    delete *opened;
    driver->hipSetDevice(0);
  }

  std::unique_ptr<Device> open(int index = 0) const {
    Result<std::unique_ptr<Device>> device = hip::make_device(*driver, index);
    EXPECT_TRUE(device.ok()) << device.status().message();
    return device ? std::move(*device) : nullptr;
  }
  // Of a kernel "tw_entry" with 32 bytes of arguments.
  static Artifact code_object(const AmdObjectSpec& spec = {}) {
    Artifact artifact;
    artifact.kind = ArtifactKind::kAmdObject;
    artifact.target = "gfx942";
    artifact.entry = "tw_entry";
    artifact.key = "toy/toy_family/gfx942/any/tile=1";
    const std::string object = make_amd_object(spec);
    const auto* const bytes = reinterpret_cast<const std::byte*>(object.data());
    artifact.image.assign(bytes, bytes + object.size());
    return artifact;
  }
  int calls(const std::string& function) const {
    return static_cast<int>(std::count(fake->calls.begin(), fake->calls.end(), function));
  }

  FakeHip* fake = nullptr;
  std::unique_ptr<hip::Driver> driver;
};

}  // namespace tilewright::test
