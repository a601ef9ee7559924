// SPDX-License-Identifier: MIT
// gemv_cpu: up to 16 rows, bound by reading B. Packed weights, or plain [N, K] rows with K contiguous.
#include <fmt/format.h>

#include <algorithm>

#include "core/fields.hpp"
#include "gemm/gemv_cpu_blocking.hpp"
#include "ops/gemm/families/gemm_cpu_cost.hpp"
#include "ops/gemm/families/gemm_families.hpp"
#include "ops/gemm/families/gemm_stage.hpp"

namespace tilewright {
namespace {

constexpr int64_t kMaxRows = 16;

Status refuse(std::string message) { return Status(StatusCode::kUnsupported, "gemv_cpu: " + std::move(message)); }

bool is_vector_mma(CpuMma mma) { return mma != CpuMma::kAmxBf16 && mma != CpuMma::kAmxI8; }

KernelKey key_of(const GemvCpuConfig& config, std::string_view target) {
  return make_key("gemm", "gemv_cpu", target, fmt::format("dtype={}", dtype_name(config.dtype)), print_fields(config));
}

class GemvCpuFamily final : public KernelFamily {
 public:
  std::string_view name() const override { return "gemv_cpu"; }
  std::string_view op() const override { return "gemm"; }
  Backend backend() const override { return Backend::kTile; }

  Status supports(ProblemRef ref, const DeviceSpec& device) const override {
    const auto& p = problem_cast<GemmProblem>(ref);
    if (p.m > kMaxRows) return refuse(fmt::format("M = {}, allowed: at most {}", p.m, kMaxRows));
    if (p.m == 0 || p.out_n() == 0 || p.batch == 0) return refuse("D is empty: there is nothing to compute");
    if (p.k == 0) return refuse("K = 0 has nothing to multiply; the generic kernel applies the epilogue");
    if (p.a_dtype == DType::kI8 && p.k > kMaxExactI8K) {
      return refuse(fmt::format("K = {} for i8, allowed: at most {} (i32 sums)", p.k, kMaxExactI8K));
    }
    if (!p.b_packed && p.stride_b_k != 1) {
      return refuse(fmt::format("B has stride {} along K, allowed: packed, or 1", p.stride_b_k));
    }
    if (vector_choices(device, p.a_dtype).empty()) {
      return refuse(fmt::format("{} has no vector instruction for {}", device.arch->target, dtype_name(p.a_dtype)));
    }
    if (p.batch_invariant) {
      const CpuMma order = cpu_mma_choices(device, p.a_dtype).front().mma;
      if (!p.b_packed || !is_vector_mma(order)) {
        return refuse(fmt::format("batch_invariant: this device's order of summation is gemm_cpu's with {}",
                                  fields_detail::print_value(order)));
      }
    }
    return {};
  }

  std::vector<Candidate> candidates(ProblemRef ref, const DeviceSpec& device) const override {
    const auto& p = problem_cast<GemmProblem>(ref);
    std::vector<Candidate> found;
    const std::vector<CpuMmaChoice> choices = vector_choices(device, p.a_dtype);
    for (const CpuMmaChoice& choice : choices) {
      if (p.batch_invariant && choice.mma != choices.front().mma) break;
      for (const int rows : {1, 2, 4, 8, 16}) {
        if (rows / 2 >= p.m) break;
        for (const int panels : {1, 2, 4, 8}) {
          for (const int prefetch : {0, 16}) {
            const GemvCpuConfig config{p.a_dtype, choice.mma, p.b_packed != 0, rows, panels, prefetch};
            if (gemv_cpu_refusal(config) != nullptr) continue;
            found.push_back({{key_of(config, choice.arch->target), {}}, gemv_cpu_cost(p, device, config)});
          }
        }
      }
    }
    std::stable_sort(found.begin(), found.end(),
                     [](const Candidate& x, const Candidate& y) { return x.cost < y.cost; });
    return found;
  }

  Status check(ProblemRef ref, const DeviceSpec& device, const RecipeStep& step) const override {
    const auto& p = problem_cast<GemmProblem>(ref);
    if (Status s = supports(ref, device); !s) return s;
    GemvCpuConfig config;
    if (Status s = parse_config(step.key, config); !s) return s;
    if (config.dtype != p.a_dtype) {
      return refuse(fmt::format("kernel takes {}, the problem is {}", dtype_name(config.dtype), dtype_name(p.a_dtype)));
    }
    if (config.packed != (p.b_packed != 0))
      return refuse(fmt::format("kernel takes {} weights", config.packed ? "packed" : "plain"));
    if (p.batch_invariant && config.mma != cpu_mma_choices(device, p.a_dtype).front().mma) {
      return refuse("batch_invariant: this device's order of summation is another instruction's");
    }
    return {};
  }

  double cost(ProblemRef ref, const DeviceSpec& device, const RecipeStep& step) const override {
    GemvCpuConfig config;
    if (!parse_config(step.key, config)) return 0;
    return gemv_cpu_cost(problem_cast<GemmProblem>(ref), device, config);
  }

  int64_t workspace_bytes(ProblemRef ref, const DeviceSpec& device, const RecipeStep& step) const override {
    GemvCpuConfig config;
    if (!parse_config(step.key, config)) return 0;
    return gemv_cpu_workspace_bytes(config, gemm_cpu_sizes(gemm_args(problem_cast<GemmProblem>(ref), {})),
                                    device.units);
  }

  std::string numerics_id(const RecipeStep& step) const override {
    GemvCpuConfig config;
    if (!parse_config(step.key, config)) return "";
    return fmt::format("{}:{}", config.packed ? "seq" : "lanes", fields_detail::print_value(config.mma));
  }

  std::span<const std::string_view> knob_names() const override { return {}; }

  Result<CompileRequest> source(const KernelKey& key) const override {
    GemvCpuConfig config;
    if (Status s = parse_config(key, config); !s) return s;
    CompileRequest request;
    request.target = key.target;
    request.name = fmt::format("gemv_cpu-{}-{}-{}x{}", fields_detail::print_value(config.mma),
                               config.packed ? "packed" : "plain", config.rows, config.panels);
    request.entry = "tw_gemv_cpu_" + key.digest.hex();
    request.source =
        "#include \"gemm/gemm_support_cpu.hpp\"\n" +
        cpu_instance_source("gemm/gemv_cpu.hpp", request.entry,
                            "gemv_cpu<tilewright::GemvCpuConfig" + cpp_initializer(config) + ">", "GemmArgs");
    return request;
  }

  std::vector<KernelKey> builtin_keys(std::string_view target) const override {
    std::vector<KernelKey> keys;
    for (const DType dtype : {DType::kF32, DType::kBf16, DType::kF16, DType::kI8}) {
      for (const CpuMma mma : cpu_mma_introduced(target, dtype)) {
        if (!is_vector_mma(mma)) continue;
        for (const bool packed : {true, false}) {
          for (const int rows : {1, 4}) {
            for (const int panels : {4, 2, 1}) {
              const GemvCpuConfig config{dtype, mma, packed, rows, panels, 0};
              if (gemv_cpu_refusal(config) != nullptr) continue;
              keys.push_back(key_of(config, target));
              break;
            }
          }
        }
      }
    }
    return keys;
  }

  Result<std::vector<Stage>> stages(ProblemRef ref, const DeviceSpec& device, const RecipeStep& step,
                                    std::shared_ptr<const LoadedKernel> kernel) const override {
    if (Status s = check(ref, device, step); !s) return s;
    return std::vector<Stage>{
        gemm_stage(problem_cast<GemmProblem>(ref), {}, static_cast<uint32_t>(device.units), std::move(kernel))};
  }

 private:
  static std::vector<CpuMmaChoice> vector_choices(const DeviceSpec& device, DType dtype) {
    std::vector<CpuMmaChoice> choices = cpu_mma_choices(device, dtype);
    std::erase_if(choices, [](const CpuMmaChoice& c) { return !is_vector_mma(c.mma); });
    return choices;
  }

  static Status parse_config(const KernelKey& key, GemvCpuConfig& config) {
    if (Status s = parse_fields(key.config(), config); !s) return refuse(fmt::format("{}: {}", key.text, s.message()));
    if (key.signature() != fmt::format("dtype={}", dtype_name(config.dtype)))
      return refuse(key.text + ": signature and config name different dtypes");
    if (!cpu_mma_takes(config.mma, config.dtype) || !is_vector_mma(config.mma)) {
      return refuse(fmt::format("{}: {} does not take {}", key.text, fields_detail::print_value(config.mma),
                                dtype_name(config.dtype)));
    }
    const ArchSpec* arch = find_arch(key.target);
    if (arch == nullptr || find_mma(*arch, fields_detail::print_value(config.mma)) == nullptr) {
      return refuse(
          fmt::format("{}: target {} has no {}", key.text, key.target, fields_detail::print_value(config.mma)));
    }
    if (const char* reason = gemv_cpu_refusal(config)) return refuse(fmt::format("{}: {}", key.text, reason));
    return {};
  }
};

}  // namespace

const KernelFamily& gemv_cpu_family() {
  static const GemvCpuFamily kFamily;
  return kFamily;
}

}  // namespace tilewright
