// SPDX-License-Identifier: MIT
// What a repeated call costs before its kernel: nanoseconds of gemm() on a problem so small that the kernel is next to
// nothing, from C++ and through the C ABI, new pointers each time.
//
//   build/bin/call_overhead [m n k]
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "tilewright/gemm.hpp"
#include "tilewright/tilewright.h"

namespace {

using namespace tilewright;

// The fastest round's mean time of one call, in nanoseconds: whatever else the machine does only adds to it.
template <class Call>
double nanoseconds(Call&& call) {
  constexpr int kRounds = 100, kCalls = 2000;
  for (int i = 0; i < kCalls; ++i) call(i);
  double best = 1e30;
  for (int round = 0; round < kRounds; ++round) {
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < kCalls; ++i) call(i);
    best = std::min(best, std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - start).count());
  }
  return best / kCalls;
}

void stop(const char* what, const std::string& why) {
  std::fprintf(stderr, "call_overhead: %s: %s\n", what, why.c_str());
  std::exit(1);
}

}  // namespace

int main(int argc, char** argv) {
  const int64_t m = argc > 3 ? std::atoll(argv[1]) : 1, n = argc > 3 ? std::atoll(argv[2]) : 16,
                k = argc > 3 ? std::atoll(argv[3]) : 16;
  constexpr int kCopies = 8;
  std::vector<float> a(static_cast<size_t>(kCopies * m * k), 1), b(static_cast<size_t>(k * n), 1),
      d(static_cast<size_t>(kCopies * m * n));
  Context& context = Context::global();

  GemmCall call;
  call.a = TensorView::contiguous(a.data(), DType::kF32, {m, k});
  call.b = TensorView::contiguous(b.data(), DType::kF32, {k, n});
  call.d = TensorView::contiguous(d.data(), DType::kF32, {m, n});
  Exec one_unit;
  one_unit.units = 1;
  auto run = [&](const Exec& exec) {
    return nanoseconds([&](int i) {
      call.a.data = a.data() + i % kCopies * m * k;
      call.d.data = d.data() + i % kCopies * m * n;
      if (Status s = gemm(context, call, exec); !s) stop("gemm", s.to_string());
    });
  };
  Result<QueryResult> query = gemm_query(context, call, one_unit);
  if (!query) stop("query", query.status().to_string());
  std::printf("gemm f32 %dx%dx%d, %s\n", static_cast<int>(m), static_cast<int>(n), static_cast<int>(k),
              query->recipe.c_str());
  // The caller's threads run nothing: what is left is everything before the kernel.
  const std::function<void(uint32_t, const std::function<void(uint32_t)>&)> nothing =
      [](uint32_t, const std::function<void(uint32_t)>&) {};
  Exec no_kernel = one_unit;
  no_kernel.parallel_for = &nothing;
  std::printf("C++, before the kernel %8.0f ns\n", run(no_kernel));
  std::printf("C++, one unit          %8.0f ns\n", run(one_unit));
  std::printf("C++, all units         %8.0f ns\n", run({}));

  int64_t a_shape[] = {m, k}, b_shape[] = {k, n}, d_shape[] = {m, n};
  TwDLTensor ta{a.data(), {TW_DL_CPU, 0}, 2, {TW_DL_FLOAT, 32, 1}, a_shape, nullptr, 0};
  TwDLTensor tb{b.data(), {TW_DL_CPU, 0}, 2, {TW_DL_FLOAT, 32, 1}, b_shape, nullptr, 0};
  TwDLTensor td{d.data(), {TW_DL_CPU, 0}, 2, {TW_DL_FLOAT, 32, 1}, d_shape, nullptr, 0};
  tilewright_gemm_call c_call = tilewright_gemm_call_defaults();
  c_call.a = &ta;
  c_call.b = &tb;
  c_call.d = &td;
  tilewright_exec c_exec = tilewright_exec_defaults();
  c_exec.units = 1;
  std::printf("C, one unit            %8.0f ns\n", nanoseconds([&](int i) {
                ta.data = a.data() + i % kCopies * m * k;
                td.data = d.data() + i % kCopies * m * n;
                if (tilewright_gemm(nullptr, &c_call, &c_exec) != TILEWRIGHT_OK)
                  stop("C gemm", tilewright_last_error());
              }));
  return 0;
}
