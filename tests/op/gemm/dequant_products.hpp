// SPDX-License-Identifier: MIT
// What tests of kernels that widen weights share: every built kernel of a family against the reference, and products whose
// operands are set value by value.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <bit>
#include <cstdlib>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "core/tensor/tolerance.hpp"
#include "dispatch/context_impl.hpp"
#include "dispatch/problem_instance.hpp"
#include "op/gemm/built_context.hpp"
#include "ops/op_list.hpp"
#include "tilewright/gemm.hpp"

namespace tilewright::test {

// The recipes of a family's built kernels for a problem.
inline std::vector<std::string> dequant_recipes(const std::vector<std::byte>& problem,
                                                const std::string& family = "gemv_dequant_cpu") {
  ContextImpl& impl = built_context().impl();
  const Operator& op = gemm_operator();
  const auto choices = impl.dispatcher().choices(op, problem, impl.spec(0), TunedTable(), "", nullptr);
  std::vector<std::string> recipes;
  for (const Choice& choice : *choices) {
    const std::string recipe = print_recipe(op.families(), choice.recipe);
    const bool own = recipe.find("/" + family + "/") != std::string::npos;
    if (own && impl.dispatcher().built(op, choice.recipe)) recipes.push_back(recipe);
  }
  return recipes;
}

// How many kernels multiplied the problem.
inline int check_dequant_kernels(const std::string& text, InputData data, std::set<std::string>& seen,
                                 const std::string& family = "gemv_dequant_cpu") {
  SCOPED_TRACE(text);
  const Operator& op = gemm_operator();
  const Result<std::vector<std::byte>> problem = op.parse_problem(text);
  if (!problem) {
    ADD_FAILURE() << problem.status().to_string();
    return 0;
  }
  auto instance = op.instantiate(*problem, built_context().impl().device(), {});
  if (!instance) {
    ADD_FAILURE() << instance.status().to_string();
    return 0;
  }
  (*instance)->fill(3, data);
  int ran = 0;
  for (const std::string& recipe : dequant_recipes(*problem, family)) {
    (*instance)->poison();
    const Status status = built_context().impl().run(op, *problem, (*instance)->bindings(), {}, recipe);
    EXPECT_TRUE(status.ok()) << recipe << ": " << status.to_string();
    const VerifyReport report = (*instance)->verify();
    EXPECT_TRUE(report.passed) << recipe << ": " << report.failure;
    seen.insert(recipe);
    ++ran;
  }
  return ran;
}

// A [m, k] times weights of random codes without scales, and the float64 sums.
struct DequantProduct {
  int64_t m, n, k;
  DType dtype;
  std::vector<uint16_t> a;
  std::vector<uint8_t> b;
  std::vector<float> d;

  DequantProduct(DType type, int64_t rows, int64_t columns, int64_t depth)
      : m(rows), n(columns), k(depth), dtype(type), a(static_cast<size_t>(rows * depth)), b(), d() {
    b.resize(static_cast<size_t>(n * k * dtype_bits(type) / 8));
    d.resize(static_cast<size_t>(m * n));
    uint32_t random = 7;
    const auto next = [&random] { return (random = random * 1664525 + 1013904223) >> 8; };
    for (uint8_t& code : b) code = static_cast<uint8_t>(next());
    for (int64_t i = 0; i < m * k; ++i) set(i / k, i % k, static_cast<float>(next() % 2001) / 1000 - 1);
  }
  void set(int64_t row, int64_t at, float value) {
    a[static_cast<size_t>(row * k + at)] = static_cast<uint16_t>(std::bit_cast<uint32_t>(value) >> 16);
  }
  double product(int64_t row, int64_t column, int64_t at) const {
    const float x = std::bit_cast<float>(static_cast<uint32_t>(a[static_cast<size_t>(row * k + at)]) << 16);
    return static_cast<double>(x) * load_element(dtype, b.data(), column * k + at);
  }
  std::string text() const { return fmt::format("m={}:n={}:k={}:b={}:d=f32", m, n, k, dtype_name(dtype)); }
  void run(const std::string& recipe, bool packed = false) {
    std::fill(d.begin(), d.end(), -1e30f);
    GemmCall call;
    call.a = TensorView::contiguous(a.data(), DType::kBf16, {m, k});
    call.b = TensorView::contiguous(b.data(), dtype, {n, k}).transposed();
    std::unique_ptr<std::byte, decltype(&std::free)> bytes(nullptr, &std::free);
    if (packed) {
      const int64_t size = *gemm_packed_bytes(dtype, n, k);
      bytes.reset(static_cast<std::byte*>(std::aligned_alloc(64, static_cast<size_t>((size + 63) / 64 * 64))));
      ASSERT_TRUE(gemm_pack_weights(built_context(), call.b, bytes.get(), size).ok());
      call.b = *gemm_packed_view(bytes.get(), size);
    }
    call.d = TensorView::contiguous(d.data(), DType::kF32, {m, n});
    call.options.recipe = recipe;
    const Status status = gemm(built_context(), call);
    ASSERT_TRUE(status.ok()) << status.to_string();
  }
};

}  // namespace tilewright::test
