// SPDX-License-Identifier: MIT
#include "op/instances/kernel_runner.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <stdexcept>

#include "arch/arch_spec.hpp"
#include "core/fields.hpp"
#include "gemm/cpu/gemv_cpu_blocking.hpp"
#include "ops/gemm/instance/gemm_instance.hpp"

namespace tilewright {
namespace {

Device& cpu() {
  static const std::unique_ptr<Device> device = make_cpu_device(1);
  return *device;
}

int64_t workspace_bytes(const KernelUnderTest& kernel, const GemmScaledArgs& args, int units) {
  switch (kernel.kind) {
    case KernelKind::kGemm: return gemm_cpu_workspace_bytes(kernel.gemm, gemm_cpu_sizes(args.gemm), units);
    case KernelKind::kGemv: return gemv_cpu_workspace_bytes(kernel.gemv, gemm_cpu_sizes(args.gemm), units);
    case KernelKind::kDequant: return gemm_dequant_cpu_workspace_bytes(kernel.dequant, args, units);
    case KernelKind::kGeneric: return 0;
  }
  return 0;
}

constexpr size_t kGuard = 4096;

}  // namespace

std::vector<const KernelTarget*> all_kernel_targets() {
  return {&kernels_baseline(), &kernels_v3(), &kernels_v3_twin(), &kernels_v4(), &kernels_dot(), &kernels_amx()};
}

bool runs_here(const KernelTarget& target) {
  if (target.count == 0) return false;
  if (std::string_view(target.target).empty()) return true;
  const std::string_view here = cpu_info().target;
  return !here.empty() && runs_on(target.target, here);
}

std::string kernel_name(const KernelTarget& target, const KernelUnderTest& kernel) {
  switch (kernel.kind) {
    case KernelKind::kGemm: return fmt::format("{}/gemm_cpu {}", target.label, print_fields(kernel.gemm));
    case KernelKind::kGemv: return fmt::format("{}/gemv_cpu {}", target.label, print_fields(kernel.gemv));
    case KernelKind::kDequant: return fmt::format("{}/gemm_dequant_cpu {}", target.label, print_fields(kernel.dequant));
    case KernelKind::kGeneric: break;
  }
  return fmt::format("{}/gemm_generic", target.label);
}

DType kernel_dtype(const KernelUnderTest& kernel) {
  switch (kernel.kind) {
    case KernelKind::kGemm: return kernel.gemm.dtype;
    case KernelKind::kGemv: return kernel.gemv.dtype;
    case KernelKind::kDequant:
    case KernelKind::kGeneric: break;
  }
  return DType::kNone;
}

bool serves(const KernelUnderTest& kernel, const GemmProblem& problem) {
  const bool plain = check_plain_product(problem).ok() && !is_f8(problem.a_dtype);
  if (kernel.kind == KernelKind::kDequant) {
    return !plain && dequant_product_refusal(kernel.dequant, gemm_scaled_args(problem, {})) == nullptr;
  }
  if (kernel.kind != KernelKind::kGeneric && !plain) return false;
  const DType dtype = kernel_dtype(kernel);
  if (dtype != DType::kNone && dtype != problem.a_dtype) return false;
  if (kernel.kind != KernelKind::kGemv) return true;
  return kernel.gemv.packed ? problem.b_packed != 0 : problem.b_packed == 0 && problem.stride_b_k == 1;
}

KernelRun::KernelRun(const std::string& text, const RunOptions& options) : options_(options) {
  Result<GemmProblem> problem = parse_gemm_problem(text);
  if (!problem) throw std::runtime_error(text + ": " + problem.status().to_string());
  problem_ = *problem;
  Result<std::unique_ptr<ProblemInstance>> instance = make_gemm_instance(problem_, cpu(), {});
  if (!instance) throw std::runtime_error(text + ": " + instance.status().to_string());
  instance_ = std::move(*instance);
  instance_->fill(options.seed, options.data);

  args_ = gemm_args(problem_, options.knobs);
  scaled_ = gemm_scaled_args(problem_, options.knobs);
  const CallBindings call = instance_->bindings();
  const auto pointer = [&](int slot) { return call.pointers[static_cast<size_t>(slot)]; };
  const auto scalar = [&](int slot) { return call.scalars[static_cast<size_t>(slot)]; };
  args_.a = pointer(kSlotA);
  args_.b = pointer(kSlotB);
  GemmEpilogueArgs& e = args_.epilogue;
  e.d = const_cast<void*>(pointer(kSlotD));
  e.alpha = scalar(kScalarAlpha);
  e.beta = scalar(kScalarBeta);
  (problem_.scale_a.blocked() ? scaled_.scale.a.data : e.scale_a.data) = pointer(kSlotScaleA);
  (problem_.scale_b.blocked() ? scaled_.scale.b.data : e.scale_b.data) = pointer(kSlotScaleB);
  scaled_.zero_b.data = pointer(kSlotZeroB);
  e.c.data = pointer(kSlotC);
  e.bias.data = pointer(kSlotBias);
  e.low = scalar(kScalarLow);
  e.high = scalar(kScalarHigh);
  for (int i = 0; i < e.step_count; ++i) {
    e.steps[i].operand.data = pointer(kSlotStep0 + i);
    e.steps[i].low = scalar(kScalarStep0 + 2 * i);
    e.steps[i].high = scalar(kScalarStep0 + 2 * i + 1);
  }
}

std::string KernelRun::execute(const KernelUnderTest& kernel) {
  scaled_.gemm = args_;  // which kernels of GemmArgs find at the same place
  // The workspace starts as NaN, and has guards of its own.
  const auto bytes = static_cast<size_t>(workspace_bytes(kernel, scaled_, options_.units));
  const std::unique_ptr<unsigned char, decltype(&std::free)> memory(
      static_cast<unsigned char*>(std::aligned_alloc(4096, (bytes + 2 * kGuard + 4095) / 4096 * 4096)), &std::free);
  std::memset(memory.get(), 0xFF, bytes + 2 * kGuard);
  scaled_.gemm.workspace = memory.get() + kGuard;
  instance_->poison();
  for (int i = 0; i < options_.units; ++i) {
    const int unit = options_.reversed ? options_.units - 1 - i : i;
    kernel.entry(&scaled_, static_cast<unsigned>(unit), static_cast<unsigned>(options_.units));
  }
  for (size_t i = 0; i < kGuard; ++i) {
    if (memory.get()[i] != 0xFF) return fmt::format("wrote {} bytes before the workspace", kGuard - i);
    if (memory.get()[kGuard + bytes + i] != 0xFF) return fmt::format("wrote {} bytes past the workspace", i + 1);
  }
  return "";
}

std::string KernelRun::run(const KernelUnderTest& kernel) {
  if (std::string wrong = execute(kernel); !wrong.empty()) return wrong;
  const VerifyReport report = instance_->verify();
  return report.passed ? "" : report.failure;
}

std::vector<unsigned char> KernelRun::output() const {
  // Rows of a D with contiguous columns.
  const GemmProblem& p = problem_;
  const size_t size = static_cast<size_t>(dtype_bits(p.d_dtype) / 8), row = static_cast<size_t>(p.out_n()) * size;
  std::vector<unsigned char> bytes;
  for (int64_t m = 0; m < p.m; ++m) {
    const auto* from =
        static_cast<const unsigned char*>(args_.epilogue.d) + m * p.stride_d_m * static_cast<int64_t>(size);
    bytes.insert(bytes.end(), from, from + row);
  }
  return bytes;
}

void check_kernels(const std::string& text, const RunOptions& options) {
  std::vector<std::string> dtypes = {":a=f32", ":a=f16", ":a=bf16", ":a=i8"}, packings = {"", ":packed=1"};
  if (text.find(":a=") != std::string::npos) dtypes = {""};
  if (text.find(":packed=") != std::string::npos || text.find(":sb=") != std::string::npos ||
      text.find(":layout=") != std::string::npos) {
    packings = {""};
  }
  for (const std::string& dtype : dtypes) {
    for (const std::string& packing : packings) {
      const std::string full = text + dtype + packing;
      KernelRun run(full, options);
      const auto check = [&](const KernelTarget& target, const KernelUnderTest& kernel) {
        if (!serves(kernel, run.problem())) return;
        EXPECT_EQ(run.run(kernel), "") << kernel_name(target, kernel) << "\n  " << full;
      };
      for_each_kernel(check);
      for_each_dequant_kernel(check);
    }
  }
}

}  // namespace tilewright
