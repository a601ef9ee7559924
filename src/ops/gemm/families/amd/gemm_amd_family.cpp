// SPDX-License-Identifier: MIT
// gemm_amd: MFMA on CDNA2 to CDNA4 and WMMA on RDNA3 and RDNA4, any strides and alignments.
#include <cmath>

#include "ops/gemm/families/amd/gemm_amd_cost.hpp"
#include "ops/gemm/families/amd/gemm_amd_operands.hpp"
#include "ops/gemm/families/gemm_families.hpp"
#include "ops/gemm/families/gpu/gpu_family.hpp"

namespace tilewright {
namespace {

struct Tile {
  int m, n, row_bytes, waves_m, waves_n, mma, stages;
  int direct = 0;
};
// What is worth trying, bytes of a row of K those of the wider operand; gemm_amd_refusal() and the target's LDS and registers have the last word.
constexpr Tile kCdnaTiles[] = {{256, 256, 128, 2, 2, 32, 2}, {256, 256, 64, 2, 2, 32, 2}, {256, 256, 64, 2, 2, 16, 2},
                               {256, 128, 128, 2, 2, 32, 2}, {256, 128, 64, 2, 2, 32, 2}, {128, 256, 64, 2, 2, 32, 2},
                               {128, 128, 128, 2, 2, 32, 2}, {128, 128, 64, 2, 2, 32, 2}, {128, 128, 256, 2, 2, 32, 1},
                               {128, 64, 128, 2, 2, 32, 2},  {64, 128, 128, 2, 2, 32, 2}, {64, 64, 128, 2, 2, 32, 2},
                               {64, 64, 256, 2, 2, 16, 2},   {32, 128, 128, 1, 4, 32, 2}, {32, 64, 256, 1, 4, 16, 2},
                               {16, 128, 256, 1, 4, 16, 1},  {16, 64, 256, 1, 4, 16, 2}};
// CDNA4, which has more LDS, and copies straight to it.
constexpr Tile kDirectTiles[] = {
    {256, 256, 128, 2, 2, 32, 2, 1}, {256, 256, 64, 2, 2, 32, 4, 1},  {256, 128, 128, 2, 2, 32, 3, 1},
    {128, 256, 128, 2, 2, 32, 3, 1}, {128, 128, 128, 2, 2, 32, 4, 1}, {64, 128, 128, 2, 2, 32, 4, 1},
    {64, 64, 256, 2, 2, 16, 4, 1},   {32, 64, 256, 1, 4, 16, 4, 1},   {16, 64, 256, 1, 4, 16, 4, 1}};
// The largest where 4-bit floats take part. With both of 4 bits by instructions of 16 rows: those of 32 leave the compiler
// to move sums about.
constexpr Tile kLargeOfFourBits = {256, 256, 64, 2, 2, 16, 4, 1}, kLargeOfTwoWidths = {256, 256, 128, 2, 2, 32, 3, 1};
constexpr Tile kRdnaTiles[] = {{128, 128, 64, 2, 4, 16, 2}, {128, 128, 128, 2, 4, 16, 2}, {256, 128, 64, 4, 2, 16, 2},
                               {128, 64, 128, 4, 2, 16, 2}, {64, 128, 128, 2, 4, 16, 2},  {64, 64, 128, 2, 2, 16, 2},
                               {32, 128, 128, 1, 4, 16, 2}, {32, 64, 128, 1, 4, 16, 2},   {16, 64, 128, 1, 4, 16, 2},
                               {16, 64, 256, 1, 4, 16, 1}};
constexpr Tile kPrebuiltCdna[] = {
    {256, 256, 64, 2, 2, 32, 2}, {128, 128, 128, 2, 2, 32, 2}, {16, 64, 256, 1, 4, 16, 2}};
constexpr Tile kPrebuiltDirect[] = {{256, 256, 128, 2, 2, 32, 2, 1}, {128, 128, 128, 2, 2, 32, 4, 1}};
// With block scales, after the largest.
constexpr Tile kPrebuiltScaled[] = {{128, 128, 128, 2, 2, 32, 4, 1}, {16, 64, 256, 1, 4, 16, 4, 1}};
constexpr Tile kPrebuiltRdna[] = {{128, 128, 64, 2, 4, 16, 2}, {64, 64, 128, 2, 2, 16, 2}, {16, 64, 128, 1, 4, 16, 2}};
constexpr int64_t kUsualBand = 8;
constexpr double kUnusualBand = 1.02;

GemmAmdKnobs typed(const Knobs& knobs) { return {knobs.values[0], knobs.values[1], knobs.values[2]}; }
Knobs erase_knobs(const GemmAmdKnobs& knobs) { return {{knobs.band, knobs.split_k, knobs.workers}}; }

int depth_of(const GemmProblem& p, const Tile& tile) {
  return tile.row_bytes * 8 / dtype_bits(wider_dtype(p.a_dtype, p.b_dtype));
}

// Elements that a lane copies one by one: each has a register of its own until it is written to LDS, and its offset and its
// test others; along K its chunk's besides. With more, beside the sums, the compiler spills, where a lane has 256 registers,
// and where it has 512 (SlowAmdGemmKernels.NoneThatCopiesByElementsSpills).
bool fits_elements(const GemmAmdConfig& c, bool alone) {
  const GemmAmdShape s = gemm_amd_shape(c);
  const int a = c.a_copy == 0 ? c.tile_m * c.tile_k / s.threads : 0;
  const int b = c.b_copy == 0 && !c.b_packed ? c.tile_n * c.tile_k / s.threads : 0;
  const int most = alone ? 64 : 32, all = alone ? 448 : 128;
  const int weights = (c.a_major == Major::kK ? 2 : 1) * a + (c.b_major == Major::kK ? 2 : 1) * b;
  return a <= most && b <= most && weights + s.wave_rows * s.wave_columns / c.wave <= all;
}

GemmAmdConfig make_config(const GemmProblem& p, int wave, const Tile& tile) {
  const AmdChunks chunks = amd_chunks(p, tile.m, tile.n, depth_of(p, tile));
  const GemmEpilogueConfig e = choose_epilogue(p);
  GemmAmdConfig c{
      p.a_dtype,       p.b_dtype,         wave,          tile.mma,           chunks.a.major,    chunks.b.major,
      p.b_packed != 0, chunks.a.copy,     chunks.b.copy, amd_scale_dtype(p), amd_scale_copy(p), tile.m,
      tile.n,          depth_of(p, tile), tile.waves_m,  tile.waves_n,       tile.direct,       tile.stages,
      e.kind,          e.activation,      e.gate,        e.d_dtype};
  // Too few groups of four for all work-items: by elements, which neighbouring work-items still read side by side.
  if (gemm_amd_refusal(c) != nullptr && c.a_major == Major::kMn) {
    GemmAmdConfig other = c;
    other.a_copy = 0;
    if (gemm_amd_refusal(other) == nullptr) return other;
  }
  if (gemm_amd_refusal(c) != nullptr && c.b_major == Major::kMn && !c.b_packed) {
    c.b_copy = 0;
    if (gemm_amd_refusal(c) != nullptr && c.a_major == Major::kMn) c.a_copy = 0;
  }
  return c;
}

bool is_cdna(const ArchSpec& arch) { return arch.wave_size == 64; }
bool has_direct_copies(const ArchSpec& arch) { return arch.target == "gfx950"; }
std::vector<Tile> tiles_for(const GemmProblem& p, const ArchSpec& arch) {
  const std::span<const Tile> usual =
      is_cdna(arch) ? std::span<const Tile>(kCdnaTiles) : std::span<const Tile>(kRdnaTiles);
  std::vector<Tile> tiles(usual.begin(), usual.end());
  if (has_direct_copies(arch)) tiles.insert(tiles.end(), std::begin(kDirectTiles), std::end(kDirectTiles));
  // Of equal cost the first is taken.
  if (p.a_dtype == DType::kF4E2M1 || p.b_dtype == DType::kF4E2M1) {
    tiles.insert(tiles.begin(), p.a_dtype == p.b_dtype ? kLargeOfFourBits : kLargeOfTwoWidths);
  }
  return tiles;
}

GemmAmdTiles tiles_of(const GemmProblem& p, const GemmAmdConfig& c, const GemmAmdKnobs& knobs) {
  return gemm_amd_tiles(c, p.m, p.n, p.k, p.batch, static_cast<unsigned>(knobs.split_k));
}
// Whether steps count in 31 bits and the work-items of each launch in 32, with K in `parts`.
bool fits_counts(const GemmProblem& p, const GemmAmdConfig& c, double parts = 1) {
  const auto pieces = [](int64_t size, int64_t tile) {
    return std::ceil(static_cast<double>(size) / static_cast<double>(tile));
  };
  const int out = c.gate == GateMode::kNone ? c.tile_n : c.tile_n / 2;
  const double tiles = pieces(p.m, c.tile_m) * pieces(p.out_n(), out) * static_cast<double>(p.batch);
  const double groups = tiles * std::max<double>(parts, gemm_amd_reduce_slices(c));
  return tiles * pieces(p.k, c.tile_k) < static_cast<double>(kMaxAmdSteps) &&
         groups * gemm_amd_shape(c).threads < 0x1p32;
}

// Parts of K that fill the CUs, in steps of tile_k.
std::vector<int64_t> splits(const GemmProblem& p, const DeviceSpec& device, const GemmAmdConfig& c) {
  std::vector<int64_t> found{0};
  const GemmAmdTiles tiles = tiles_of(p, c, {});
  if (p.batch_invariant) return found;
  for (const int64_t count : {2, 3, 4, 6, 8, 12, 16, 24, 32}) {
    const int64_t part = (tiles.steps + count - 1) / count;
    if (int64_t{tiles.count} * count > 4 * device.units || part < 4 || part >= tiles.steps) break;
    if (found.back() != part) found.push_back(part);
  }
  return found;
}

// Ok, or why packed weights do not come in groups of four columns with offsets that count in 31 bits.
Status check_packed(const GemmProblem& p) {
  if (p.b_packed == 0) return {};
  const bool separated = p.gate == GateMode::kSeparated;
  if (separated && p.out_n() % 4 != 0) {
    return unsupported(fmt::format("packed: N = {}, of a separated gate the kernel wants whole groups of 4", p.n));
  }
  const double panels = static_cast<double>(packed_panels((separated ? p.out_n() : 0) + 256) + 1);
  if (panels * static_cast<double>(packed_panel_bytes(p.b_dtype, p.k)) < 0x1p31) return {};
  return unsupported("packed: columns of a tile further than 2 GiB apart");
}

class GemmAmdFamily final : public GpuFamily<GemmAmdConfig> {
 public:
  GemmAmdFamily() : GpuFamily("gemm_amd", {ArchVendor::kAmd, "amd/gemm_amd.hpp", "GemmAmdArgs"}) {}

  std::span<const std::string_view> knob_names() const override {
    static constexpr std::string_view kNames[] = {"band", "split_k", "workers"};
    return kNames;
  }

 protected:
  bool reads_packed() const override { return true; }
  // Which types and scales go together is the target's.
  Status check_product(const GemmProblem&) const override { return {}; }
  Status check_problem(const GemmProblem& p, const DeviceSpec& device) const override {
    if (Status s = check_amd_product(p, *device.arch); !s) return s;
    if (Status s = check_packed(p); !s) return s;
    // The largest tile that every target and type has.
    const Tile& largest = is_cdna(*device.arch) ? kPrebuiltCdna[0] : kPrebuiltRdna[0];
    if (!fits_counts(p, make_config(p, device.arch->wave_size, largest))) {
      return unsupported("more steps of tiles than a launch can count");
    }
    return {};
  }
  Status check_pair(const GemmProblem& p, const DeviceSpec& device, const GemmAmdConfig& c,
                    const Knobs& erased) const override {
    if (c.b_dtype != p.b_dtype) {
      return unsupported(
          fmt::format("kernel takes {} as b, the problem is {}", dtype_name(c.b_dtype), dtype_name(p.b_dtype)));
    }
    const int scale_copy = amd_scale_copy(p);
    if (c.scale_copy > scale_copy || c.scale != amd_scale_dtype(p)) {
      return unsupported(fmt::format("the kernel reads block scales of {} by {} bytes, the problem has {} by {}",
                                     dtype_name(c.scale), c.scale_copy, dtype_name(amd_scale_dtype(p)), scale_copy));
    }
    const AmdChunks chunks = amd_chunks(p, c.tile_m, c.tile_n, c.tile_k);
    for (const auto& [name, access, major, copy] :
         {std::tuple{"a", chunks.a, c.a_major, c.a_copy}, {"b", chunks.b, c.b_major, c.b_copy}}) {
      if (copy == 0 || (major == access.major && copy <= access.copy)) continue;
      return unsupported(fmt::format("{} lies along {} in chunks of {} bytes, the kernel copies {} along {}", name,
                                     fields_detail::print_value(access.major), access.copy, copy,
                                     fields_detail::print_value(major)));
    }
    if (c.b_packed != (p.b_packed != 0)) {
      return unsupported(fmt::format("b is {}packed, the kernel reads the other", p.b_packed != 0 ? "" : "not "));
    }
    const GemmAmdKnobs knobs = typed(erased);
    if (knobs.band < 0 || knobs.band > 65536) {
      return unsupported(fmt::format("band = {}, allowed: 0 to 65536", knobs.band));
    }
    if (!fits_counts(p, c)) return unsupported("more steps of tiles than a launch can count");
    const GemmAmdTiles tiles = tiles_of(p, c, {});
    if (knobs.split_k < 0 || knobs.split_k > tiles.steps) {
      return unsupported(fmt::format("split_k = {}, allowed: 0 to the {} steps of K", knobs.split_k, tiles.steps));
    }
    if (knobs.split_k > 0 && !fits_counts(p, c, std::ceil(tiles.steps / static_cast<double>(knobs.split_k)))) {
      return unsupported(fmt::format("split_k = {}: more work-items than a launch has", knobs.split_k));
    }
    const int64_t most = std::min<int64_t>(int64_t{tiles.count} * tiles.steps, 4 * device.units);
    if (knobs.workers < 0 || knobs.workers > most) {
      return unsupported(fmt::format("workers = {}, allowed: 0 to {}", knobs.workers, most));
    }
    if (knobs.workers > 0 && knobs.split_k > 0) return unsupported("workers and split_k both cut K");
    if (p.batch_invariant && (knobs.workers > 0 || knobs.split_k > 0)) {
      return unsupported("batch_invariant: a cut of K has another order");
    }
    return {};
  }

  const char* refusal_of(const GemmAmdConfig& c, const ArchSpec& arch) const override {
    if (const char* reason = gemm_amd_refusal(c)) return reason;
    if (c.wave != arch.wave_size) return "the target's waves have another size";
    const bool known = amd_mma(arch, c.dtype, c.mma) != nullptr && amd_mma(arch, c.b_dtype, c.mma) != nullptr;
    if (!known) return "the target has no such matrix instruction";
    const bool plain = c.scale != DType::kE8M0 && c.b_dtype == c.dtype;
    if (!plain && !has_block_scales(arch))
      return "the target's matrix instructions take no block scales, nor two types";
    if (c.direct != 0 && !has_direct_copies(arch)) return "the target copies no 16 bytes straight to LDS";
    const GemmAmdShape s = gemm_amd_shape(c);
    const int step = amd_step_depth(arch, c.dtype, c.mma);
    if (c.tile_k % step != 0) return "tile_k is no multiple of a step of the matrix instruction";
    if (is_cdna(arch) && s.wave_rows * s.wave_columns == 256 * c.wave && c.tile_k > 2 * step) {
      return "a lane with 256 sums has registers for the fragments of two steps of K, not of more";
    }
    if (s.lds_bytes > arch.shared_bytes) return "more LDS than a workgroup can use";
    if (gemm_amd_registers(c, step) > (is_cdna(arch) ? 512 : 256)) return "more registers than a lane has";
    return nullptr;
  }

  void add_candidates(const GemmProblem& p, const DeviceSpec& device, std::vector<Candidate>& found) const override {
    for (Tile tile : tiles_for(p, *device.arch)) {
      GemmAmdConfig config = make_config(p, device.arch->wave_size, tile);
      const auto fits = [&] { return fits_elements(config, config.wave == 64 && blocks_of(config) == 1); };
      while (!fits() && tile.row_bytes > 64) {
        tile.row_bytes /= 2;
        config = make_config(p, device.arch->wave_size, tile);
      }
      if (!fits()) continue;
      if (refusal_of(config, *device.arch) != nullptr || !fits_counts(p, config)) continue;
      const KernelKey key = key_of(config, device.arch->target);
      const auto add = [&](const GemmAmdKnobs& knobs, double factor = 1) {
        found.push_back({{key, erase_knobs(knobs)}, gemm_amd_cost(p, device, config, knobs) * factor});
      };
      for (const int64_t split_k : splits(p, device, config)) add({0, split_k, 0});
      const GemmAmdTiles tiles = tiles_of(p, config, {});
      if (tiles.m > kUsualBand) add({4, 0, 0}, kUnusualBand), add({16, 0, 0}, kUnusualBand);
      // Stream-K, where the last round of tiles would leave CUs idle.
      const int64_t workers = int64_t{device.units} * gemm_amd_residents(*device.arch, config);
      const bool uneven = tiles.count % device.units != 0 && int64_t{tiles.count} * tiles.steps > 4 * workers;
      if (uneven && !p.batch_invariant) add({0, 0, workers});
    }
  }
  // The least epilogue and the full one: what serves while better instances are built.
  std::vector<GemmAmdConfig> builtin_configs(const GemmProblem& usual, const ArchSpec&) const override {
    std::vector<GemmAmdConfig> configs;
    for (const uint8_t steps : {0, 1}) {
      GemmProblem p = usual;
      p.step_count = steps;
      for (const Tile& tile : kPrebuiltCdna) configs.push_back(make_config(p, 64, tile));
      for (const Tile& tile : kPrebuiltDirect) configs.push_back(make_config(p, 64, tile));
      for (const Tile& tile : kPrebuiltRdna) configs.push_back(make_config(p, 32, tile));
      if (usual.a_dtype == DType::kF8E4M3) add_scaled_configs(p, configs);
    }
    return configs;
  }

  // mxfp8, mxfp4, and the first by the second, where the target has them.
  static void add_scaled_configs(GemmProblem p, std::vector<GemmAmdConfig>& configs) {
    p.has_alpha = 0;
    p.scale_a = p.scale_b = {0, p.k / kAmdScaleDepth, 1, DType::kE8M0, 1, kAmdScaleDepth, 0, {}};
    constexpr DType kEight = DType::kF8E4M3, kFour = DType::kF4E2M1;
    for (const auto& [a, b, largest] : {std::tuple{kEight, kEight, kPrebuiltDirect[0]},
                                        {kFour, kFour, kLargeOfFourBits},
                                        {kEight, kFour, kLargeOfTwoWidths}}) {
      p.a_dtype = a, p.b_dtype = b;
      configs.push_back(make_config(p, 64, largest));
      for (const Tile& tile : kPrebuiltScaled) configs.push_back(make_config(p, 64, tile));
    }
  }

  double cost_of(const GemmProblem& p, const DeviceSpec& device, const GemmAmdConfig& c,
                 const Knobs& knobs) const override {
    return gemm_amd_cost(p, device, c, typed(knobs));
  }
  int64_t workspace_of(const GemmProblem& p, const DeviceSpec&, const GemmAmdConfig& c,
                       const Knobs& erased) const override {
    const GemmAmdKnobs knobs = typed(erased);
    return gemm_amd_workspace_bytes(c, tiles_of(p, c, knobs), static_cast<unsigned>(knobs.workers));
  }
  std::string order_of(const GemmAmdConfig& c, const Knobs& erased) const override {
    const GemmAmdKnobs knobs = typed(erased);
    const std::string order = knobs.workers > 0   ? fmt::format("stream{}", knobs.workers)
                              : knobs.split_k > 0 ? fmt::format("split{}", knobs.split_k * c.tile_k)
                                                  : "seq";
    return fmt::format("{}:{}{}", order, c.wave == 64 ? "mfma" : "wmma", c.mma);
  }
  std::string label_of(const GemmAmdConfig& c) const override {
    return fmt::format("{}x{}x{}", c.tile_m, c.tile_n, c.tile_k);
  }
  int threads_of(const GemmAmdConfig& c) const override { return gemm_amd_shape(c).threads; }
  // Waves of a SIMD that registers must leave room for. More may fit: an estimate that is too low would spill.
  int blocks_of(const GemmAmdConfig& c) const override {
    return c.wave == 64 && gemm_amd_registers(c, 512 / dtype_bits(wider_dtype(c.dtype, c.b_dtype))) < 180 ? 2 : 1;
  }

  int shared_bytes_of(const GemmAmdConfig& c) const override { return gemm_amd_shape(c).lds_bytes; }

  std::vector<Stage> stages_of(const GemmProblem& p, const DeviceSpec& device, const GemmAmdConfig& c,
                               const Knobs& erased, Kernel kernel) const override {
    const GemmAmdKnobs knobs = typed(erased);
    const GemmAmdShape shape = gemm_amd_shape(c);
    const GemmAmdTiles tiles = tiles_of(p, c, knobs);
    const auto stage = [&](GemmAmdPhase phase, uint32_t groups) {
      GemmAmdArgs args{};
      args.tiles = tiles;
      args.phase = phase;
      args.xcds = amd_dies(*device.arch);
      args.band = static_cast<unsigned>(knobs.band > 0 ? knobs.band : kUsualBand);
      args.split_k = static_cast<unsigned>(knobs.split_k);
      args.workers = static_cast<unsigned>(knobs.workers);
      args.scale = gemm_scale_args(p);
      Stage made = enclosing_stage(p, args, kernel);
      add_scale_patches(made, p, offsetof(GemmAmdArgs, scale));
      made.shape.grid = {groups, 1, 1};
      made.shape.threads = static_cast<uint32_t>(shape.threads);
      made.shape.shared_bytes = static_cast<uint32_t>(shape.lds_bytes);
      return made;
    };
    const bool streams = knobs.workers > 0;
    std::vector<Stage> made{
        stage(GemmAmdPhase::kWork, streams ? static_cast<uint32_t>(knobs.workers) : tiles.count * tiles.splits)};
    if (streams || tiles.splits > 1) {
      made.push_back(stage(GemmAmdPhase::kReduce, tiles.count * static_cast<uint32_t>(gemm_amd_reduce_slices(c))));
    }
    return made;
  }
};

}  // namespace

const KernelFamily& gemm_amd_family() {
  static const GemmAmdFamily kFamily;
  return kFamily;
}

}  // namespace tilewright
