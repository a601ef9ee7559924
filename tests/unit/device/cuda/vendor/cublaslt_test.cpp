// SPDX-License-Identifier: MIT
// cuBLASLt as the device layer opens and asks it, without a GPU: what is missing, what is refused, and algorithms named by
// their attributes.
#include "core/fields.hpp"
#include "unit/device/cuda/vendor/fake_cublaslt_test.hpp"

namespace tilewright {
namespace {

using cuda::CublasLt;
using cuda::LtAlgo;
using cuda::LtProblem;
using cuda::LtType;
using testing::AllOf;
using testing::HasSubstr;

// A variable of the environment for one test.
class Variable {
 public:
  Variable(const char* name, const std::string& value) : name_(name) { setenv(name, value.c_str(), 1); }
  ~Variable() { unsetenv(name_); }

 private:
  const char* name_;
};

class CublasLtTest : public test::FakeCublasLtTest {
 protected:
  void SetUp() override {
    test::FakeCublasLtTest::SetUp();
    const auto opened = cuda::open_lt_library({}, {test::kFakeCublasLt});
    ASSERT_TRUE(opened.ok()) << opened.status().message();
    library.reset(*opened);
    place = {.driver = driver, .context = reinterpret_cast<cuda::CuContext>(0x1000)};
    auto made = CublasLt::open(*library, place);
    ASSERT_TRUE(made.ok()) << made.status().message();
    cublaslt = std::move(*made);
  }
  // Its handle goes back to the driver, which the base deletes.
  void TearDown() override {
    cublaslt.reset();
    test::FakeCublasLtTest::TearDown();
  }

  // D [n, m] by columns from A [k, n] transposed and B [k, m].
  static LtProblem problem(int64_t n = 8, int64_t m = 4, int64_t k = 16) {
    LtProblem p;
    p.a = {.type = LtType::kBf16, .rows = k, .columns = n, .leading = k};
    p.b = {.type = LtType::kBf16, .rows = k, .columns = m, .leading = k};
    p.d = {.type = LtType::kBf16, .rows = n, .columns = m, .leading = n};
    p.transpose_a = true;
    return p;
  }

  std::unique_ptr<const cuda::LtLibrary> library;
  cuda::Place place;
  std::unique_ptr<CublasLt> cublaslt;
};

TEST_F(CublasLtTest, ALibraryThatIsNotThereIsRefusedWithEveryPlaceThatWasTried) {
  const Status status = cuda::open_lt_library({}, {"/nowhere/libcublasLt.so.13", "/nowhere/either.so"}).status();
  EXPECT_EQ(status.code(), StatusCode::kNotFound);
  EXPECT_THAT(status.message(), AllOf(HasSubstr("no cuBLASLt"), HasSubstr("/nowhere/libcublasLt.so.13"),
                                      HasSubstr("/nowhere/either.so"), HasSubstr("TILEWRIGHT_CUBLASLT")));
}

TEST_F(CublasLtTest, OneThatTheProcessHasGoesFirst) {
  EXPECT_FALSE(cuda::open_lt_library({"libnobody_has_this.so.7"}, {}));
  const auto present = cuda::open_lt_library({test::kFakeCublasLt}, {"/nowhere/libcublasLt.so.13"});
  ASSERT_TRUE(present.ok()) << present.status().message();
  EXPECT_EQ((*present)->name, test::kFakeCublasLt);
  delete *present;
}

TEST_F(CublasLtTest, TheEnvironmentNamesTheLibraryOrSwitchesItOff) {
  const Variable named("TILEWRIGHT_CUBLASLT", test::kFakeCublasLt);
  const auto found = cuda::find_lt_library();
  ASSERT_TRUE(found.ok()) << found.status().message();
  EXPECT_EQ(cuda::lt_version_text((*found)->version), "13.1.2");
  delete *found;
  const Variable off("TILEWRIGHT_VENDOR", "off");
  EXPECT_THAT(cuda::find_lt_library().status().message(), HasSubstr("TILEWRIGHT_VENDOR=off"));
}

TEST_F(CublasLtTest, AnOldVersionAndALibraryWithoutItsFunctionsAreRefused) {
  lt->version = 110502;
  EXPECT_THAT(cuda::open_lt_library({}, {test::kFakeCublasLt}).status().message(),
              AllOf(HasSubstr("cuBLASLt 11.5.2"), HasSubstr("allowed: at least 12.0.0")));
  EXPECT_THAT(cuda::open_lt_library({}, {test::kFakeCuda}).status().message(), HasSubstr("without cublasLtGetVersion"));
}

TEST_F(CublasLtTest, AFailureCarriesItsNameAndTheDevice) {
  lt->failures["cublasLtCreate"] = 1;
  EXPECT_THAT(CublasLt::open(*library, place).status().message(),
              HasSubstr("cuda:0: cuBLASLt: handle: CUBLAS_STATUS_FAKE (1): as the test wanted"));
  lt->failures["cublasLtMatmulDescSetAttribute"] = 7;
  EXPECT_THAT(cublaslt->propose(problem()).status().message(),
              HasSubstr("cuBLASLt: descriptors: CUBLAS_STATUS_FAKE (7)"));
  LtProblem wide = problem();
  wide.d.leading = 3;
  EXPECT_THAT(cublaslt->propose(wide).status().message(), HasSubstr("heuristics: CUBLAS_STATUS_FAKE (7)"));
  lt->algos.clear();
  EXPECT_THAT(cublaslt->propose(problem()).status().message(), HasSubstr("no algorithm serves the problem"));
}

TEST_F(CublasLtTest, ProposalsAreInTheLibrarysOrderAndAskedForOnce) {
  const auto found = cublaslt->propose(problem());
  ASSERT_TRUE(found.ok()) << found.status().message();
  // One reduces in D's 16 bits.
  ASSERT_EQ((*found)->size(), 3u);
  EXPECT_EQ((**found)[0], (LtAlgo{130102, 66, 20, 36, 1, 0, 0, 1, 0, 3}));
  EXPECT_EQ((**found)[1].split_k, 4);
  EXPECT_EQ((**found)[2].algo, 24);
  ASSERT_EQ(lt->asked.size(), 3u);  // workspace limits
  EXPECT_GT(lt->asked[0].workspace, lt->asked[1].workspace);
  EXPECT_EQ(lt->asked[2].workspace, 0u);
  EXPECT_EQ(lt->asked[0].reductions, cuda::kLtReduceCompute);
  EXPECT_EQ(*cublaslt->propose(problem()), *found);
  EXPECT_EQ(lt->asked.size(), 3u);
  LtProblem other = problem();
  other.units = 100, other.a.alignment = 2;
  const auto unaligned = cublaslt->propose(other);
  ASSERT_TRUE(unaligned.ok());
  EXPECT_EQ((*unaligned)->size(), 1u);
  EXPECT_EQ(lt->asked.back().units, 100);
  EXPECT_EQ(lt->asked.back().alignment[0], 2u);
}

TEST_F(CublasLtTest, WhatCannotBeRebuiltFromItsAttributesIsNoProposal) {
  lt->failures["cublasLtMatmulAlgoInit"] = 7;
  const auto found = cublaslt->propose(problem());
  ASSERT_TRUE(found.ok()) << found.status().message();
  // The second question brings it again.
  EXPECT_EQ((**found)[0].algo, 66);
  EXPECT_EQ((**found)[0].split_k, 4);
}

TEST_F(CublasLtTest, AnAlgorithmComesBackFromItsText) {
  const auto found = cublaslt->propose(problem());
  ASSERT_TRUE(found.ok());
  for (const LtAlgo& algo : **found) {
    LtAlgo read{};
    ASSERT_TRUE(parse_fields(print_fields(algo), read)) << print_fields(algo);
    EXPECT_EQ(read, algo);
    const Result<int64_t> bytes = cublaslt->workspace_bytes(problem(), read);
    ASSERT_TRUE(bytes.ok()) << bytes.status().message();
    EXPECT_EQ(*bytes, algo.split_k == 4 ? int64_t{8} << 20 : 0);
  }
}

TEST_F(CublasLtTest, AnAlgorithmOfAnotherVersionOrWithAnotherReductionIsRefused) {
  LtAlgo algo = (**cublaslt->propose(problem()))[0];
  algo.version = 120804;
  EXPECT_THAT(cublaslt->workspace_bytes(problem(), algo).status().message(),
              HasSubstr("an algorithm of cuBLASLt 12.8.4, this process has 13.1.2"));
  algo.version = 130102, algo.reduction = 4;
  EXPECT_THAT(cublaslt->make_call(problem(), algo).status().message(), HasSubstr("reduction scheme 4, allowed"));
  algo.reduction = 0, algo.tile = 999;
  EXPECT_THAT(cublaslt->make_call(problem(), algo).status().message(),
              AllOf(HasSubstr("tile=999"), HasSubstr("CUBLAS_STATUS_NOT_SUPPORTED (15)")));
}

TEST_F(CublasLtTest, AFailingCallNamesTheAlgorithm) {
  const auto call = cublaslt->make_call(problem(), (**cublaslt->propose(problem()))[0]);
  ASSERT_TRUE(call.ok()) << call.status().message();
  const cuda::LtArgs args{};
  lt->failures["cublasLtMatmul"] = 13;
  EXPECT_THAT((*call)->run(std::as_bytes(std::span(&args, 1)), {}).message(),
              AllOf(HasSubstr("cuda:0: cublasLtMatmul (version=130102:algo=66"), HasSubstr("CUBLAS_STATUS_FAKE (13)")));
  EXPECT_THAT((*call)->run({}, {}).message(), HasSubstr("0 bytes of arguments"));
}

TEST_F(CublasLtTest, HandlesAreOnePerDeviceAndClosed) {
  int opened = 0;
  {
    const cuda::CudaLibraries libraries(place, 132, [&]() -> Result<const cuda::LtLibrary*> {
      if (++opened == 1) return Status(StatusCode::kNotFound, "not yet");
      return library.get();
    });
    EXPECT_EQ(libraries.list()[0].status.message(), "not yet");
    EXPECT_EQ(libraries.list()[0].version, "13.1.2");
    EXPECT_EQ(*libraries.cublaslt(), *libraries.cublaslt());
    EXPECT_EQ(opened, 2);
    EXPECT_EQ(lt->live_handles, 2);  // this one and the test's
  }
  EXPECT_EQ(lt->live_handles, 1);
}

}  // namespace
}  // namespace tilewright
