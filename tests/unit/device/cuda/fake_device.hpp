// SPDX-License-Identifier: MIT
// A CUDA device on the fake driver of tests/support/cuda.
#pragma once

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "device/cuda/cuda_device.hpp"
#include "support/cuda/fake_cuda.hpp"

namespace tilewright::test {

inline const std::string kFakeCuda = TILEWRIGHT_BINARY_DIR "/tests/libfake_cuda.so";

class FakeCudaTest : public testing::Test {
 protected:
  void SetUp() override {
    void* const library = dlopen(kFakeCuda.c_str(), RTLD_NOW);
    ASSERT_NE(library, nullptr) << dlerror();
    fake = reinterpret_cast<FakeCuda* (*)()>(dlsym(library, "fake_cuda"))();
    *fake = FakeCuda();
    Result<const cuda::Driver*> opened = cuda::open_driver(kFakeCuda);
    ASSERT_TRUE(opened.ok()) << opened.status().message();
    driver = *opened;
  }
  void TearDown() override { delete driver; }

  std::unique_ptr<Device> open(int index = 0) const {
    Result<std::unique_ptr<Device>> device = cuda::make_device(*driver, index);
    EXPECT_TRUE(device.ok()) << device.status().message();
    return device ? std::move(*device) : nullptr;
  }
  static Artifact cubin(const std::string& target = "sm_90a") {
    Artifact artifact;
    artifact.kind = ArtifactKind::kCubin;
    artifact.target = target;
    artifact.entry = "tw_entry";
    artifact.key = "toy/toy_family/sm_90a/any/tile=1";
    artifact.image.resize(16);
    return artifact;
  }
  int calls(const std::string& function) const {
    return static_cast<int>(std::count(fake->calls.begin(), fake->calls.end(), function));
  }

  FakeCuda* fake = nullptr;
  const cuda::Driver* driver = nullptr;
};

}  // namespace tilewright::test
