// SPDX-License-Identifier: MIT
// Every kernel on ragged sizes, strides, batches and unit counts, against the float64 reference.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "op/instances/kernel_runner.hpp"

namespace tilewright {
namespace {

TEST(GemmKernelShapes, TailsOfMAreComputed) {
  for (int m : {1, 2, 3, 4, 5, 6, 7, 8, 9, 13, 14, 15, 16, 17, 28, 29, 31, 32, 33, 47, 48, 49, 65}) {
    check_kernels(fmt::format("m={}:n=35:k=37", m));
  }
}

TEST(GemmKernelShapes, TailsOfNAreComputed) {
  for (int n : {1, 2, 7, 15, 16, 17, 31, 32, 33, 47, 48, 49, 63, 64, 65, 127, 130}) {
    check_kernels(fmt::format("m=17:n={}:k=33", n));
    check_kernels(fmt::format("m=1:n={}:k=66", n));
  }
}

TEST(GemmKernelShapes, TailsOfKAreComputed) {
  for (int k : {1, 2, 3, 4, 5, 7, 8, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129, 300}) {
    check_kernels(fmt::format("m=5:n=20:k={}", k));
  }
}

TEST(GemmKernelShapes, ExactIntegersShowEveryWrongElement) {
  RunOptions options;
  options.data = InputData::kIntegers;
  check_kernels("m=37:n=83:k=150:d=f32", options);
  check_kernels("m=3:n=150:k=1000:d=f32", options);
}

TEST(GemmKernelShapes, SeedsDoNotMatter) {
  RunOptions options;
  for (uint64_t seed : {2, 3, 4}) {
    options.seed = seed;
    check_kernels("m=19:n=40:k=70", options);
  }
}

TEST(GemmKernelShapes, EmptySizesAreLegal) {
  check_kernels("m=0:n=16:k=16");
  check_kernels("m=3:n=0:k=16");
  check_kernels("m=3:n=16:k=16:batch=0");
}

TEST(GemmKernelShapes, AnEmptySumIsZeroAndTheEpilogueStillRuns) {
  check_kernels("m=3:n=18:k=0");
  check_kernels("m=3:n=18:k=0:bias=f32:act=sigmoid:c=f32");
  check_kernels("m=3:n=36:k=0:bias=f32:act=silu:gate=separated");
}

TEST(GemmKernelShapes, EveryLayoutIsRead) {
  for (const char* layout : {"rcr", "rrr", "crr", "ccr"}) {
    check_kernels(fmt::format("m=21:n=50:k=75:layout={}", layout));
    check_kernels(fmt::format("m=2:n=17:k=130:layout={}", layout));
  }
}

TEST(GemmKernelShapes, StridesAreHonoured) {
  // Rows with gaps, both strides above 1, broadcast rows of A, reversed rows, D transposed and with gaps.
  check_kernels("m=9:n=33:k=40:sa=0.57.1:sb=0.1.61:sd=0.45.1");
  check_kernels("m=9:n=33:k=40:sa=0.97.2:sb=0.71.2:sd=0.99.3");
  check_kernels("m=9:n=33:k=40:sa=0.0.1:sb=0.3.121");
  check_kernels("m=9:n=33:k=40:sa=0.-40.1:sb=0.1.-40:sd=0.-33.1");
  check_kernels("m=9:n=33:k=40:sa=0.40.-1:sb=0.-33.1:sd=0.1.9");
  check_kernels("m=9:n=33:k=40:sa=0.1.9:sb=0.0.1");
  check_kernels("m=9:n=33:k=40:sa=0.1.9:sb=0.0.0");
}

TEST(GemmKernelShapes, BatchesAndBroadcastBatches) {
  check_kernels("m=5:n=35:k=21:batch=3");
  check_kernels("m=5:n=35:k=21:batch=3:sa=0.21.1:sb=0.1.21");
  check_kernels("m=5:n=35:k=21:batch=3:sa=500.21.1:sb=900.1.21:sd=700.35.1");
}

TEST(GemmKernelShapes, UnitsShareTheWorkInAnyOrder) {
  for (int units : {2, 3, 7, 16}) {
    for (const char* shape : {"m=65:n=150:k=40", "m=200:n=20:k=40", "m=1:n=300:k=40", "m=4:n=40:k=40:batch=5"}) {
      RunOptions options;
      options.units = units;
      options.reversed = units % 2 == 1;
      check_kernels(shape, options);
    }
  }
}

TEST(GemmKernelShapes, BlocksOfEverySizeAreComputed) {
  struct Blocks {
    int64_t m, n, k;
  };
  for (const Blocks& b : {Blocks{1, 1, 1},
                          {16, 16, 64},
                          {32, 64, 64},
                          {48, 48, 128},
                          {1000, 1000, 1000},
                          {1, 1000, 64},
                          {1000, 1, 100000}}) {
    RunOptions options;
    options.knobs = {b.m, b.n, b.k};
    check_kernels("m=70:n=150:k=200", options);
    check_kernels("m=70:n=150:k=130:layout=rrr", options);
  }
}

}  // namespace
}  // namespace tilewright
