// SPDX-License-Identifier: MIT
// gemv_amd: at most 32 rows of A on CDNA2 to CDNA4, RDNA3 and RDNA4, weights streamed once.
#include <cmath>

#include "ops/gemm/families/amd/gemm_amd_cost.hpp"
#include "ops/gemm/families/amd/gemv_amd_cost.hpp"
#include "ops/gemm/families/gemm_families.hpp"
#include "ops/gemm/families/gpu/gpu_family.hpp"

namespace tilewright {
namespace {

struct Cut {
  int blocks_n, row_bytes, waves;
};
// Of rows; what does not fit a target's registers, gemv_amd_registers() drops. The last are for A by elements, which take many.
constexpr Cut kRowCuts[] = {{1, 256, 8}, {2, 256, 8}, {4, 128, 8}, {1, 256, 4}, {2, 256, 4}, {1, 256, 16},
                            {1, 128, 8}, {2, 128, 8}, {2, 128, 4}, {2, 64, 8},  {1, 32, 8},  {1, 16, 8}};
// Of columns and of packed weights: pieces of 16 bytes where there are such, then narrower ones.
constexpr Cut kColumnCuts[] = {{16, 64, 8}, {16, 64, 4}, {8, 64, 8}, {8, 64, 4}, {8, 32, 8}, {8, 32, 4}, {4, 128, 8},
                               {4, 64, 8},  {4, 64, 16}, {4, 64, 4}, {4, 32, 8}, {4, 32, 4}, {4, 16, 8}};
constexpr int kMostLoads = 32;     // of weights by a lane in a step, of which two are in flight: waits count to 63
constexpr int kMostElements = 32;  // of A by a lane of RDNA in a step: with more the compiler spills
constexpr int64_t kWindow = (int64_t{1} << 31) - 4096;  // that offsets of buffer loads reach

// Of A, of a lane in a step; on gfx1100 both halves of a wave hold the same.
int elements_of(const GemvAmdConfig& c, const ArchSpec& arch) {
  return c.tile_m * c.tile_k * (arch.target == "gfx1100" ? 2 : 1) / c.wave;
}
int size_of(DType dtype) { return dtype_bits(dtype) / 8; }

GemvAmdWeights weights_of(const GemmProblem& p) {
  if (p.b_packed != 0) return GemvAmdWeights::kPacked;
  return access_b(p).major == Major::kK ? GemvAmdWeights::kRows : GemvAmdWeights::kColumns;
}
// Chunks of 16 bytes of A lie along K, whole or not there.
int a_copy_of(const GemmProblem& p) {
  const OperandAccess a = access_a(p);
  const bool chunks = a.major == Major::kK && a.copy != 0 && p.k * size_of(p.a_dtype) % 16 == 0;
  return chunks ? 16 : 0;
}

GemvAmdConfig make_config(const GemmProblem& p, int wave, const Cut& cut) {
  const GemmEpilogueConfig e = choose_epilogue(p);
  return {p.a_dtype,
          wave,
          weights_of(p),
          a_copy_of(p),
          p.m <= 16 ? 16 : kGemvAmdRows,
          cut.blocks_n,
          cut.row_bytes / size_of(p.a_dtype),
          cut.waves,
          e.kind,
          e.activation,
          e.gate,
          e.d_dtype};
}
std::span<const Cut> cuts_of(GemvAmdWeights weights) {
  return weights == GemvAmdWeights::kRows ? std::span<const Cut>(kRowCuts) : std::span<const Cut>(kColumnCuts);
}

// Columns of gate and of up each are whole pieces.
int64_t columns_together(const GemmProblem& p) { return p.gate == GateMode::kSeparated ? p.out_n() : p.n; }

// Ok, or why offsets of A or B do not count in 31 bits from where a workgroup begins.
Status check_offsets(const GemmProblem& p, const GemvAmdConfig& c) {
  const GemvAmdShape s = gemv_amd_shape(c);
  const auto reach = [&](int64_t count, int64_t stride) {
    return static_cast<double>(count - 1) * static_cast<double>(count == 1 ? 0 : stride) * s.size;
  };
  const int64_t depth = std::min<int64_t>(p.k, c.tile_k);
  if ((p.m > 1 && p.stride_a_m < 0) || (p.k > 1 && p.stride_a_k < 0)) {
    return unsupported("a: a negative stride, allowed: those of 0 and more");
  }
  const double along_k = c.a_copy == 16 ? s.row_bytes : reach(depth, p.stride_a_k);
  if (reach(p.m, p.stride_a_m) + along_k > kWindow) return unsupported("a: rows further than 2 GiB apart");
  const int64_t columns = p.gate == GateMode::kSeparated ? p.out_n() + s.tile_n : std::min<int64_t>(p.n, s.tile_n);
  double reached = 0;
  if (c.weights == GemvAmdWeights::kPacked) {
    reached = static_cast<double>(packed_panels(columns)) * static_cast<double>(packed_panel_bytes(c.dtype, p.k));
  } else {
    if ((p.n > 1 && p.stride_b_n < 0) || (p.k > 1 && p.stride_b_k < 0)) {
      return unsupported("b: a negative stride, allowed: those of 0 and more");
    }
    reached = reach(columns, p.stride_b_n) + reach(depth, p.stride_b_k);
  }
  if (reached + s.row_bytes > kWindow) return unsupported("b: columns of a workgroup further than 2 GiB apart");
  return {};
}

// Ok, or why the weights do not come in the pieces of the config.
Status check_pieces(const GemmProblem& p, const GemvAmdConfig& c) {
  const GemvAmdWeights have = weights_of(p);
  if (c.weights != have) {
    return unsupported(fmt::format("b lies as {}, the kernel reads {}", fields_detail::print_value(have),
                                   fields_detail::print_value(c.weights)));
  }
  if (have == GemvAmdWeights::kRows) {
    if (p.k * size_of(p.a_dtype) % 16 == 0) return {};
    return unsupported(fmt::format("K = {}: the kernel wants rows of whole pieces of 16 bytes", p.k));
  }
  const bool whole = have == GemvAmdWeights::kPacked && p.gate != GateMode::kSeparated;
  if (whole || columns_together(p) % c.blocks_n == 0) return {};
  return unsupported(fmt::format("N = {}: the kernel wants whole pieces of {} columns", p.n, c.blocks_n));
}

class GemvAmdFamily final : public GpuFamily<GemvAmdConfig> {
 public:
  GemvAmdFamily() : GpuFamily("gemv_amd", {ArchVendor::kAmd, "amd/gemv_amd.hpp", "GemvAmdArgs"}) {}

  std::span<const std::string_view> knob_names() const override {
    static constexpr std::string_view kNames[] = {"split_k"};
    return kNames;
  }

 protected:
  bool reads_packed() const override { return true; }
  Status check_problem(const GemmProblem& p, const DeviceSpec& device) const override {
    if (p.m > kGemvAmdRows) return unsupported(fmt::format("M = {}, allowed: at most {}", p.m, kGemvAmdRows));
    if (p.batch_invariant) return unsupported("batch_invariant: more rows are summed in another order");
    if (amd_mma(*device.arch, p.a_dtype, 16) == nullptr) {
      return unsupported(
          fmt::format("{} has no matrix instruction for {}", device.arch->target, dtype_name(p.a_dtype)));
    }
    if (p.b_packed == 0 && access_b(p).copy == 0) {
      return unsupported("b: the kernel wants rows along K or N at multiples of 4 bytes");
    }
    Status refused = unsupported("no kernel for the target");
    for (const Cut& cut : cuts_of(weights_of(p))) {
      const GemvAmdConfig c = make_config(p, device.arch->wave_size, cut);
      if (refusal_of(c, *device.arch) != nullptr) continue;
      refused = check_fit(p, c);
      if (refused) return {};
    }
    return refused;
  }
  Status check_pair(const GemmProblem& p, const DeviceSpec&, const GemvAmdConfig& c,
                    const Knobs& knobs) const override {
    if (p.m > c.tile_m) return unsupported(fmt::format("M = {}, the kernel takes {}", p.m, c.tile_m));
    if (c.a_copy == 16 && a_copy_of(p) != 16) return unsupported("a does not lie in chunks of 16 bytes along K");
    if (Status s = check_fit(p, c); !s) return s;
    const int64_t split_k = knobs.values[0], steps = gemv_amd_steps(c, p.k);
    if (split_k < 0 || split_k > steps) {
      return unsupported(fmt::format("split_k = {}, allowed: 0 to the {} steps of K", split_k, steps));
    }
    if (!fits_launch(p, c, gemv_amd_splits(c, p.k, split_k))) {
      return unsupported(fmt::format("split_k = {}: more work-items than a launch has", split_k));
    }
    return {};
  }

  const char* refusal_of(const GemvAmdConfig& c, const ArchSpec& arch) const override {
    if (const char* reason = gemv_amd_refusal(c)) return reason;
    if (c.wave != arch.wave_size) return "the target's waves have another size";
    if (amd_mma(arch, c.dtype, 16) == nullptr) return "the target has no such matrix instruction";
    const int step = gemv_amd_step_bytes(arch, c.dtype);
    if (gemv_amd_shape(c).row_bytes % step != 0) return "tile_k is no multiple of a step of the matrix instruction";
    if (gemv_amd_loads(c, arch) > kMostLoads) return "more loads in flight than a wait counts";
    if (c.a_copy == 0 && c.wave == 32 && elements_of(c, arch) > kMostElements / (c.waves == 16 ? 2 : 1)) {
      return "more elements of A than a lane puts together";
    }
    if (gemv_amd_shape(c).lds_bytes > arch.shared_bytes) return "more LDS than a workgroup can use";
    const int simds = c.wave == 64 ? 4 : 2, most = c.wave == 64 ? 512 : 256, registers = gemv_amd_registers(c, arch);
    if (registers > most || gemv_amd_waves(c, arch) * simds < c.waves) return "more registers than its waves have";
    return nullptr;
  }

  void add_candidates(const GemmProblem& p, const DeviceSpec& device, std::vector<Candidate>& found) const override {
    for (const Cut& cut : cuts_of(weights_of(p))) {
      const GemvAmdConfig c = make_config(p, device.arch->wave_size, cut);
      if (refusal_of(c, *device.arch) != nullptr || !check_fit(p, c)) continue;
      const KernelKey key = key_of(c, device.arch->target);
      for (const int64_t split_k : splits(p, device, c)) {
        found.push_back({{key, Knobs{{split_k}}}, gemv_amd_cost(p, device, c, split_k)});
      }
    }
  }
  // Of each layout the first cuts that a target has, with the least epilogue and the full one.
  std::vector<GemvAmdConfig> builtin_configs(const GemmProblem& usual, const ArchSpec&) const override {
    std::vector<GemvAmdConfig> configs;
    for (const GemvAmdWeights weights : {GemvAmdWeights::kRows, GemvAmdWeights::kColumns, GemvAmdWeights::kPacked}) {
      if (weights == GemvAmdWeights::kPacked && !is_packable(usual.b_dtype)) continue;
      GemmProblem p = usual;
      p.m = 16;
      p.b_packed = weights == GemvAmdWeights::kPacked;
      if (weights == GemvAmdWeights::kColumns) p.stride_b_k = p.stride_b_n, p.stride_b_n = 1;
      add_builtin(p, configs);
      p.step_count = 1;
      if (weights == GemvAmdWeights::kRows) add_builtin(p, configs);
    }
    return configs;
  }

  double cost_of(const GemmProblem& p, const DeviceSpec& device, const GemvAmdConfig& c,
                 const Knobs& knobs) const override {
    return gemv_amd_cost(p, device, c, knobs.values[0]);
  }
  int64_t workspace_of(const GemmProblem& p, const DeviceSpec&, const GemvAmdConfig& c,
                       const Knobs& knobs) const override {
    return gemv_amd_workspace_bytes(c, p.n, p.k, p.batch, knobs.values[0]);
  }
  std::string order_of(const GemvAmdConfig& c, const Knobs& knobs) const override {
    const int64_t split_k = knobs.values[0];
    const std::string parts = split_k > 0 ? fmt::format("split{}:", split_k * c.tile_k) : "";
    return fmt::format("{}interleaved{}x{}:{}16", parts, c.waves, c.tile_k, c.wave == 64 ? "mfma" : "wmma");
  }
  std::string label_of(const GemvAmdConfig& c) const override {
    return fmt::format("{}-{}x{}", fields_detail::print_value(c.weights), 16 * c.blocks_n, c.waves);
  }
  int threads_of(const GemvAmdConfig& c) const override { return gemv_amd_shape(c).threads; }
  // Waves of a SIMD that registers must leave room for: those of one workgroup, which also leaves room for an estimate
  // that is too low.
  int blocks_of(const GemvAmdConfig& c) const override {
    const int simds = c.wave == 64 ? 4 : 2;
    return std::max(1, c.waves / simds);
  }
  int shared_bytes_of(const GemvAmdConfig& c) const override { return gemv_amd_shape(c).lds_bytes; }

  std::vector<Stage> stages_of(const GemmProblem& p, const DeviceSpec&, const GemvAmdConfig& c, const Knobs& knobs,
                               Kernel kernel) const override {
    const GemvAmdShape shape = gemv_amd_shape(c);
    const int64_t splits = gemv_amd_splits(c, p.k, knobs.values[0]), groups = gemv_amd_groups(c, p.n);
    const auto stage = [&](GemvAmdPhase phase, int64_t count) {
      GemvAmdArgs args{};
      args.phase = phase;
      args.groups = static_cast<unsigned>(groups);
      args.splits = static_cast<unsigned>(splits);
      args.split_k = splits > 1 ? static_cast<unsigned>(knobs.values[0]) : 0;
      Stage made = enclosing_stage(p, args, kernel);
      made.shape.grid = {static_cast<uint32_t>(count), 1, 1};
      made.shape.threads = static_cast<uint32_t>(shape.threads);
      made.shape.shared_bytes = static_cast<uint32_t>(shape.lds_bytes);
      return made;
    };
    std::vector<Stage> made{stage(GemvAmdPhase::kWork, groups * p.batch * splits)};
    if (splits > 1) made.push_back(stage(GemvAmdPhase::kReduce, groups * p.batch));
    return made;
  }

 private:
  static bool fits_launch(const GemmProblem& p, const GemvAmdConfig& c, int64_t parts) {
    const double groups = static_cast<double>(gemv_amd_groups(c, p.n)) * static_cast<double>(p.batch);
    return groups * static_cast<double>(parts) * gemv_amd_shape(c).threads < 0x1p32;
  }
  static Status check_fit(const GemmProblem& p, const GemvAmdConfig& c) {
    if (Status s = check_pieces(p, c); !s) return s;
    if (Status s = check_offsets(p, c); !s) return s;
    if (!fits_launch(p, c, 1)) return unsupported("more work-items than a launch has");
    return {};
  }
  // Parts of K that fill the CUs, in steps of tile_k.
  static std::vector<int64_t> splits(const GemmProblem& p, const DeviceSpec& device, const GemvAmdConfig& c) {
    std::vector<int64_t> found{0};
    const int64_t steps = gemv_amd_steps(c, p.k), groups = gemv_amd_groups(c, p.n) * p.batch;
    for (const int64_t count : {2, 3, 4, 6, 8, 12, 16}) {
      const int64_t rounds = (steps + count * c.waves - 1) / (count * c.waves), part = rounds * c.waves;
      if (groups * count > 2 * int64_t{device.units} || rounds < 2 || part >= steps) break;
      if (found.back() != part) found.push_back(part);
    }
    return found;
  }
  void add_builtin(const GemmProblem& p, std::vector<GemvAmdConfig>& configs) const {
    for (const std::string_view target : {"gfx942", "gfx950", "gfx1100", "gfx1201"}) {
      const ArchSpec* arch = find_arch(target);
      for (const Cut& cut : cuts_of(weights_of(p))) {
        const GemvAmdConfig c = make_config(p, arch->wave_size, cut);
        if (refusal_of(c, *arch) != nullptr || !check_fit(p, c)) continue;
        if (std::find(configs.begin(), configs.end(), c) == configs.end()) configs.push_back(c);
        break;
      }
    }
  }
};

}  // namespace

const KernelFamily& gemv_amd_family() {
  static const GemvAmdFamily kFamily;
  return kFamily;
}

}  // namespace tilewright
