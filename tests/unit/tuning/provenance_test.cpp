// SPDX-License-Identifier: MIT
// What a tuned row says of the vendor's libraries that its kernels were measured beside.
#include "tuning/store/provenance.hpp"

#include <gmock/gmock.h>

namespace tilewright {
namespace {

using testing::ElementsAre;

class Libraries final : public VendorLibraries {
 public:
  explicit Libraries(std::vector<VendorLibrary> list) : list_(std::move(list)) {}
  std::vector<VendorLibrary> list() const override { return list_; }

 private:
  const std::vector<VendorLibrary> list_;
};

DeviceSpec gpu_with(const VendorLibraries* vendor) {
  DeviceSpec spec;
  spec.arch = find_arch("sm_90a");
  spec.driver = "cuda-13.0";
  spec.vendor = vendor;
  return spec;
}

TunedRow row_from(const VendorLibraries* vendor) {
  TunedRow row;
  row.op = "gemm";
  set_provenance(row, gpu_with(vendor));
  return row;
}

TEST(Provenance, ALibrarysVersionStandsBesideTheDriver) {
  const Libraries one({{"cublaslt", "13.1.2", "/somewhere", {}}});
  EXPECT_EQ(row_from(&one).driver, "cuda-13.0 cublaslt-13.1.2");
  const Libraries missing({{"cublaslt", "", "", Status(StatusCode::kNotFound, "not there")}});
  EXPECT_EQ(row_from(&missing).driver, "cuda-13.0");
  EXPECT_EQ(row_from(nullptr).driver, "cuda-13.0");
}

TEST(Provenance, ARowMeasuredBesideAnotherVersionIsStale) {
  const Libraries then({{"cublaslt", "12.8.4", "", {}}}), now({{"cublaslt", "13.1.2", "", {}}});
  EXPECT_THAT(stale_reasons(row_from(&then), gpu_with(&now)),
              ElementsAre("driver cuda-13.0 cublaslt-12.8.4 -> cuda-13.0 cublaslt-13.1.2"));
  EXPECT_TRUE(stale_reasons(row_from(&now), gpu_with(&now)).empty());
  TuningEnvironment a, b;
  a.libraries = "cublaslt-12.8.4";
  EXPECT_NE(a.id(), b.id());
}

}  // namespace
}  // namespace tilewright
