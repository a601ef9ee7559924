// SPDX-License-Identifier: MIT
// Prebuilt kernels of a family, compiled for an AMD GPU without one and inspected, on every core.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "jit/amdgcn/inspection/disassembly.hpp"
#include "jit/amdgcn/inspection/inspection.hpp"
#include "ops/gemm/families/gemm_families.hpp"
#include "unit/jit/cache_test_support.hpp"

namespace tilewright::test {

struct AmdKernelFound {
  AmdInspection inspection;
  std::vector<AmdInstruction> code;
};

inline Result<AmdKernelFound> inspect_amd(const KernelFamily& family, const KernelKey& key, const std::string& folder) {
  const Result<CompileRequest> request = family.source(key);
  if (!request) return request.status();
  if (Status s = make_folders(folder); !s) return s;
  const Result<std::string> file = amdgcn_compiler().compile(*request, folder, nullptr);
  if (!file) return file.status();
  const std::string image = *read_file(folder + "/" + *file);
  const auto object = std::as_bytes(std::span(image));
  AmdInspectOptions options;
  options.source = request->source;
  options.launch_lds = family.launch_shared_bytes(key);
  Result<AmdInspection> inspection = inspect_amd_kernel(amdgcn_compiler(), object, request->entry, options);
  if (!inspection) return inspection.status();
  Result<std::vector<AmdInstruction>> code =
      disassemble(*amdgcn_compiler().tool("llvm-objdump"), object, request->entry);
  if (!code) return code.status();
  return AmdKernelFound{std::move(*inspection), std::move(*code)};
}

inline std::vector<Result<AmdKernelFound>> inspect_all_amd(const KernelFamily& family,
                                                           const std::vector<KernelKey>& keys,
                                                           const ScratchFolder& scratch) {
  std::vector<Result<AmdKernelFound>> found(keys.size(), Status(StatusCode::kInternal, "not compiled"));
  std::atomic<size_t> next = 0;
  const auto work = [&] {
    for (size_t i = next++; i < keys.size(); i = next++) {
      found[i] = inspect_amd(family, keys[i], scratch / std::to_string(i));
    }
  };
  std::vector<std::thread> threads;
  for (unsigned i = 1; i < std::thread::hardware_concurrency(); ++i) threads.emplace_back(work);
  work();
  for (std::thread& thread : threads) thread.join();
  return found;
}

// What holds for every kernel: no spills, no scratch, the waves that its launch bounds declare.
inline void check_budget(const AmdInspection& found, int wave, int threads) {
  const AmdKernel& kernel = found.kernel;
  EXPECT_EQ(kernel.vgpr_spills, 0);
  EXPECT_EQ(kernel.sgpr_spills, 0);
  EXPECT_EQ(kernel.scratch_bytes, 0);
  EXPECT_FALSE(kernel.dynamic_stack);
  EXPECT_EQ(kernel.wave_size, wave);
  EXPECT_EQ(kernel.max_threads, threads);
  EXPECT_GT(found.declared_waves, 0);
  EXPECT_GE(found.occupancy.waves(found.occupancy.by_registers), found.declared_waves) << kernel.vgprs << " registers";
  EXPECT_GE(found.occupancy.workgroups, 1);
  ASSERT_TRUE(found.code_problem.ok()) << found.code_problem.message();
  EXPECT_TRUE(found.loop_at.has_value());
  EXPECT_GT(found.mix.count(InstructionClass::kMatrix), 0);
  EXPECT_EQ(found.mix.count(InstructionClass::kScratch), 0);
  EXPECT_TRUE(found.bound_problem.ok()) << found.bound_problem.message();
}

}  // namespace tilewright::test
