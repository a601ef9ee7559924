// SPDX-License-Identifier: MIT
// The fake cuBLASLt of tests/support/cuda beside the fake driver.
#pragma once

#include "device/cuda/vendor/cuda_libraries.hpp"
#include "support/cuda/fake_cublaslt.hpp"
#include "unit/device/cuda/fake_device.hpp"

namespace tilewright::test {

inline const std::string kFakeCublasLt = TILEWRIGHT_BINARY_DIR "/tests/libfake_cublaslt.so";

class FakeCublasLtTest : public FakeCudaTest {
 protected:
  void SetUp() override {
    FakeCudaTest::SetUp();
    void* const library = dlopen(kFakeCublasLt.c_str(), RTLD_NOW);
    ASSERT_NE(library, nullptr) << dlerror();
    lt = reinterpret_cast<FakeCublasLt* (*)()>(dlsym(library, "fake_cublaslt"))();
    *lt = FakeCublasLt();
  }

  int lt_calls(const std::string& function) const {
    return static_cast<int>(std::count(lt->calls.begin(), lt->calls.end(), function));
  }

  FakeCublasLt* lt = nullptr;
};

}  // namespace tilewright::test
