// SPDX-License-Identifier: MIT
// <op>_gpu, an instance for each set of types and way to share rows among threads, and <op>_generic_gpu, which is typed at run time:
// every valid problem runs. One source for NVIDIA and AMD.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "core/fields.hpp"
#include "ops/gemm/families/gpu/gpu_problem.hpp"
#include "ops/gpu_launch.hpp"
#include "ops/row/families/row_families.hpp"
#include "ops/row/families/row_gpu_shapes.hpp"

namespace tilewright {
namespace {

constexpr double kRowGpuLaunchSeconds = 3e-6;
constexpr RowGpuShape kGenericShape{256, 0};

class RowGpuFamily final : public KernelFamily {
 public:
  RowGpuFamily(const RowOp& op, bool generic)
      : op_(op), generic_(generic), name_(fmt::format("{}_{}gpu", op.name, generic ? "generic_" : "")) {}

  std::string_view name() const override { return name_; }
  std::string_view op() const override { return op_.name; }
  Backend backend() const override { return generic_ ? Backend::kReference : Backend::kTile; }
  bool generic() const override { return generic_; }

  Status supports(ProblemRef, const DeviceSpec& device) const override {
    if (is_gpu_target(*device.arch)) return {};
    return refuse_gpu(fmt::format("{} is no GPU", device.arch->target));
  }
  std::vector<Candidate> candidates(ProblemRef ref, const DeviceSpec& device) const override {
    const auto& p = problem_cast<RowProblem>(ref);
    if (generic_) return {{{generic_key(device.arch->target), {}}, 8 * predict_gpu(p, device)}};
    std::vector<Candidate> found;
    double cost = predict_gpu(p, device);
    for (const RowGpuShape& shape : shapes_of(op_, p, *device.arch)) {
      found.push_back({{key_of(gpu_config(p, shape, *device.arch), device.arch->target), {}}, cost});
      cost *= 1.1;  // by rank alone: see row_gpu_shapes
    }
    if (p.programmatic_edge) {  // the kernel of plain calls, which may be built already
      RowProblem plain = p;
      plain.programmatic_edge = 0;
      const RowGpuConfig c = gpu_config(plain, shapes_of(op_, plain, *device.arch).front(), *device.arch);
      const KernelKey key = key_of(c, device.arch->target);
      if (!(key == found.front().step.key)) found.push_back({{key, {}}, cost});
    }
    return found;
  }
  Status check(ProblemRef ref, const DeviceSpec& device, const RecipeStep& step) const override {
    if (Status s = supports(ref, device); !s) return s;
    RowGpuConfig config;
    if (Status s = parse_gpu_config(step.key, config); !s || generic_) return s;
    const auto& p = problem_cast<RowProblem>(ref);
    // What is typed at run time, and rows with a rest, hold whatever the problem has.
    RowGpuConfig need = gpu_config(p, shape_of(config), *device.arch);
    const bool has_columns = p.weight != DType::kNone || p.bias != DType::kNone || p.smooth != DType::kNone;
    if (!config.whole && op_.rotates) need.columns = DType::kNone;
    if (!op_.rotates && (config.columns == DType::kNone || !has_columns)) need.columns = config.columns;
    if (!config.whole) need.whole = false;
    if (!config.plain) set_plain(false, p, need);
    if (!config.full) need.full = false;
    if (config.slots == 0) need.slots = 0;
    if (config.group == 0) need.group = 0;
    need.edge = config.edge;
    if (!(config == need)) {
      return refuse_gpu(
          fmt::format("kernel is for {}, the problem needs {}", print_fields(config), print_fields(need)));
    }
    if (op_.rotates && config.whole) return check_heads(p, config);
    if (config.cluster > 1 && !takes_clusters(op_, p, *device.arch))
      return refuse_gpu("a cluster of blocks shares no such row");
    if (config.parts > 1 && !takes_parts(op_, p, *device.arch)) return refuse_gpu("such a row has no parts");
    const int64_t grid = all_blocks(p, config, int64_t{config.cluster} * config.parts);
    if (grid_covers(config, device) && grid > kMostGridBlocks)
      return refuse_gpu(fmt::format("{} blocks, a grid has at most {}", grid, kMostGridBlocks));
    const bool blocks = op_.quantises && p.quant == Quantisation::kBlock;
    const int64_t capacity = row_capacity(shape_of(config));
    if (blocks && config.pieces < kScaleBlockPieces && p.size[2] > scale_block_rows(config.pieces))
      return refuse_gpu(fmt::format("{} rows, the kernel takes {}", p.size[2], scale_block_rows(config.pieces)));
    if (blocks || config.pieces == 0 || p.n <= capacity) return {};
    return refuse_gpu(fmt::format("rows of {} elements, the kernel keeps {}", p.n, capacity));
  }
  double cost(ProblemRef ref, const DeviceSpec& device, const RecipeStep& step) const override {
    for (const Candidate& c : candidates(ref, device)) {
      if (c.step.key == step.key) return c.cost;
    }
    return predict_gpu(problem_cast<RowProblem>(ref), device);
  }
  int64_t workspace_bytes(ProblemRef ref, const DeviceSpec& device, const RecipeStep& step) const override {
    RowGpuConfig config;
    if (!parse_gpu_config(step.key, config)) return 0;
    const auto& p = problem_cast<RowProblem>(ref);
    if (rows_together(p, config, device).blocks > 0 || scale_together(p, config, device) > 0) return 0;
    if (p.column_sums() > 0) return row_workspace_bytes(p, column_parts(config, row_grid(p, config, device, 0)));
    if (found_of_chunk() > 0)
      return row_chunks(p, config, device) * p.rows() * found_of_chunk() * static_cast<int64_t>(sizeof(float));
    return row_workspace_bytes(p, found_parts(p, config));
  }
  std::string numerics_id(const RecipeStep& step) const override {
    RowGpuConfig config;
    if (!parse_gpu_config(step.key, config)) return "";
    if (config.cluster > 1 && takes_chunks(op_)) return fmt::format("clustered_chunks{}", config.threads);
    const bool pairs = has_pairs_of_pieces(config) && find_arch(step.key.target)->vendor == ArchVendor::kNvidia;
    return fmt::format("threads{}{}{}{}", config.threads * config.cluster, config.full ? "full" : "",
                       config.slots > 0 ? "slots" : "", pairs ? "pairs" : "");
  }
  std::span<const std::string_view> knob_names() const override { return {}; }

  Result<CompileRequest> source(const KernelKey& key) const override {
    RowGpuConfig config;
    if (Status s = parse_gpu_config(key, config); !s) return s;
    CompileRequest request;
    request.target = key.target;
    request.name = generic_
                       ? name_
                       : fmt::format("{}-{}-{}-{}-{}x{}", name_, dtype_name(config.x), dtype_name(config.out),
                                     kQuantisationNames[static_cast<int>(config.quant)], config.threads, config.pieces);
    request.entry = generic_ ? fmt::format("tw_{}", name_) : fmt::format("tw_{}_{}", name_, key.digest.hex());
    const int threads = row_block_threads(config.threads);
    request.source = gpu_instance_source(
        find_arch(key.target)->vendor, fmt::format("{0}/{0}_gpu.cuh", op_.name), request.entry,
        fmt::format("{}_gpu<tilewright::{}{}>", op_.name, RowGpuConfig::kTypeName, cpp_initializer(config)), "RowArgs",
        threads, resident_blocks(op_, config, find_arch(key.target)->vendor));
    return request;
  }
  int64_t launch_shared_bytes(const KernelKey& key) const override {
    RowGpuConfig config;
    if (!parse_gpu_config(key, config)) return row_shared_bytes(1);
    if (op_.norm_backward()) return row_together_bytes(config, true);
    return finds_together(config) ? kRowLargestBytes : shared_bytes(config, true);
  }
  std::vector<KernelKey> builtin_keys(std::string_view target) const override {
    const ArchSpec* arch = find_arch(target);
    std::vector<KernelKey> keys;
    if (arch == nullptr || !is_gpu_target(*arch)) return keys;
    if (generic_) return {generic_key(target)};
    for (const RowProblem& p : usual_row_problems(op_)) {
      keys.push_back(key_of(gpu_config(p, shapes_of(op_, p, *arch).front(), *arch), target));
    }
    return keys;
  }
  Result<std::vector<Stage>> stages(ProblemRef ref, const DeviceSpec& device, const RecipeStep& step,
                                    std::shared_ptr<const LoadedKernel> kernel) const override {
    if (Status s = check(ref, device, step); !s) return s;
    RowGpuConfig config;
    if (Status s = parse_gpu_config(step.key, config); !s) return s;
    const auto& p = problem_cast<RowProblem>(ref);
    const int64_t chunks = found_of_chunk() > 0 ? row_chunks(p, config, device) : 0;
    const int64_t grid = row_grid(p, config, device, chunks);
    Stage stage = row_stage(p, /*stream=*/false, grid, std::move(kernel));
    stage.shape.grid = {static_cast<uint32_t>(grid), 1, 1};
    stage.shape.threads = static_cast<uint32_t>(row_block_threads(config.threads));
    stage.shape.cluster = {static_cast<uint32_t>(config.cluster), 1, 1};
    stage.shape.programmatic_edge = has_edge(config);
    stage.shape.shared_bytes = static_cast<uint32_t>(shared_bytes(config, p.gradients.added.dtype != DType::kNone));
    if (chunks > 0) return chunk_stages(stage, chunks);
    if (const RowTogether together = rows_together(p, config, device); together.blocks > 0) {
      return together_stages(std::move(stage), together.blocks,
                             row_together_bytes(config, p.gradients.added.dtype != DType::kNone));
    }
    if (const int blocks = scale_together(p, config, device); blocks > 0)
      return together_stages(std::move(stage), blocks, kRowLargestBytes);
    if (p.column_sums() > 0) {
      LaunchShape columns = stage.shape;
      const int64_t shares = std::clamp<int64_t>((p.n + kRowLanes - 1) / kRowLanes, 1, kMostRowFoundParts);
      columns.grid[0] = static_cast<uint32_t>(shares * p.column_sums());  // of each sum
      columns.shared_bytes = static_cast<uint32_t>(row_met_bytes(config.threads));
      return column_stages(p, stage, columns, column_parts(config, grid));
    }
    LaunchShape find = stage.shape, scale = stage.shape;
    find.grid[0] = static_cast<uint32_t>(found_parts(p, config)), scale.grid[0] = 1;
    return row_stages(p, std::move(stage), find, scale, find.grid[0]);
  }

 private:
  // Numbers that are found of a chunk: softmax's pair, and cross_entropy's sum and target beside it.
  int64_t found_of_chunk() const { return op_.softmax ? 2 : op_.loses ? 4 : 0; }
  // What threads meet in, and of gradients rows; `adds`: what is added to them, too.
  int64_t shared_bytes(const RowGpuConfig& config, bool adds) const {
    return op_.norm_backward() ? row_backward_bytes(config, adds) : row_shared_bytes(config.cluster);
  }
  // Whether a kernel takes one set of rows a block, however many there are.
  bool grid_covers(const RowGpuConfig& config, const DeviceSpec& device) const {
    return row_grid_covers(config) && device.arch->vendor == ArchVendor::kNvidia && !op_.norm_backward() &&
           !op_.rotates;
  }
  int64_t all_blocks(const RowProblem& p, const RowGpuConfig& config, int64_t together) const {
    return std::max<int64_t>(row_blocks(p, config) * together, 1);
  }
  // Where sums are kept from one row to the next, and on NVIDIA GPUs of whole heads, as many blocks as run at a time, each with as many
  // rows; else a block a row. Most kernels go on where the grid ends; AMD GPUs count work-items in 32 bits.
  int64_t row_grid(const RowProblem& p, const RowGpuConfig& config, const DeviceSpec& device, int64_t chunks) const {
    const int64_t shared = int64_t{config.cluster} * config.parts;
    const int64_t together = std::max<int64_t>(chunks, shared);  // blocks that take a row
    const int64_t blocks = all_blocks(p, config, together);
    if (grid_covers(config, device)) return blocks;
    const bool heads = op_.rotates && config.whole && device.arch->vendor == ArchVendor::kNvidia;
    const int each_unit = op_.norm_backward() ? resident_blocks(op_, config, device.arch->vendor)
                          : heads             ? whole_head_blocks(config)
                                              : 0;
    const int64_t at_a_time = each_unit > 0 ? std::max(1, device.units) * int64_t{each_unit}
                                            : most_walking_blocks(row_block_threads(config.threads));
    const int64_t turns = (blocks + at_a_time - 1) / at_a_time, each = (blocks + turns - 1) / turns;
    return (each + shared - 1) / shared * shared;
  }
  // Of the sums of columns: one for all threads that share rows.
  static int64_t column_parts(const RowGpuConfig& config, int64_t grid) {
    return grid * (row_block_threads(config.threads) / config.threads);
  }
  static bool is_gpu_target(const ArchSpec& arch) { return arch.vendor != ArchVendor::kX86; }
  Status refuse_gpu(const std::string& message) const { return unsupported(fmt::format("{}: {}", name_, message)); }
  Status check_heads(const RowProblem& p, const RowGpuConfig& config) const {
    for (const RowGpuShape& shape : whole_head_shapes(p)) {
      if (shape.threads == config.threads && shape.pieces == config.pieces) return {};
    }
    return refuse_gpu(fmt::format("{} heads of {} elements that turn, the kernel takes {} at a time on {} threads",
                                  p.size[2], p.rotation.dims, config.pieces, config.threads));
  }
  KernelKey generic_key(std::string_view target) const {
    return make_key(op_.name, name_, target, "any", "run_time=1");
  }
  RowGpuConfig gpu_config(const RowProblem& p, const RowGpuShape& shape, const ArchSpec& arch) const {
    RowGpuConfig config{p.x.dtype, p.residual.dtype, p.out.dtype, p.quant, shape.threads, shape.pieces};
    config.cluster = shape.cluster, config.parts = shape.parts;
    config.hadamard = p.hadamard != 0, config.chance = p.state_words != 0;
    set_plain(op_.rotates ? is_plain_turn(p, shape) : is_plain(p), p, config);
    if (!op_.rotates) config.columns = common_column_type(p), config.whole = has_whole_rows(p);
    if (op_.dequantises) config.columns = DType::kNone;
    if (has_groups(p.quant)) config.group = p.group;
    config.full = config.whole && is_full(op_, p, shape);
    if (op_.rotates && takes_whole_heads(p)) config.columns = p.rotation.table, config.whole = true;
    config.slots = row_slots(op_, p, config, arch);
    config.edge = row_edge(op_, p, config);
    return config;
  }
  static RowGpuShape shape_of(const RowGpuConfig& c) { return {c.threads, c.pieces, c.cluster, c.parts}; }
  void set_plain(bool plain, const RowProblem& p, RowGpuConfig& config) const {
    config.plain = plain, config.weight = plain && p.weight != DType::kNone;
    config.bias = plain && p.bias != DType::kNone;
    config.activation = plain && op_.gates ? p.activation : Activation::kNone;
    config.gate = plain && op_.gates ? p.gate : GateMode::kNone;
  }
  KernelKey key_of(const RowGpuConfig& config, std::string_view target) const {
    return make_key(op_.name, name_, target, fmt::format("x={}", dtype_name(config.x)), print_fields(config));
  }
  Status parse_gpu_config(const KernelKey& key, RowGpuConfig& config) const {
    const ArchSpec* arch = find_arch(key.target);
    const bool gpu = arch != nullptr && is_gpu_target(*arch);
    if (generic_) {
      config = {DType::kNone,        DType::kNone,          DType::kNone,
                Quantisation::kNone, kGenericShape.threads, kGenericShape.pieces};
      if (gpu && key == generic_key(key.target)) return {};
      return Status(StatusCode::kNotFound, fmt::format("{}: no such kernel: {}", name_, key.text));
    }
    if (Status s = parse_fields(key.config(), config); !s) return refuse_gpu(key.text + ": " + s.message());
    if (!gpu) return refuse_gpu(fmt::format("{}: {} is no GPU", key.text, key.target));
    if (!(key == key_of(config, key.target)))
      return refuse_gpu(key.text + ": signature and config name different types");
    const int least = op_.rotates && config.whole ? 1 : kLeastRowThreads;
    if (!legal_shape(shape_of(config), least) || (config.whole && config.pieces == 0 && op_.rotates)) {
      return refuse_gpu(fmt::format("{}: {} threads with {} pieces each, clusters of {}, {} parts", key.text,
                                    config.threads, config.pieces, config.cluster, config.parts));
    }
    const bool blocks = op_.quantises && config.quant == Quantisation::kBlock;
    if (blocks && (config.threads != kScaleBlockThreads || config.pieces == 0)) {
      return refuse_gpu(fmt::format("{}: {} threads with {} pieces each, of blocks {} with {}", key.text,
                                    config.threads, config.pieces, kScaleBlockThreads, "1, 2, 4 or 8"));
    }
    if (config.full && (!config.whole || config.pieces == 0 || op_.rotates))
      return refuse_gpu(key.text + ": full rows are whole, stay in registers and do not turn");
    if (config.slots != 0 &&
        (config.slots != kRowSlots || !config.full || !op_.norm_backward() || dtype_bits(config.x) != 16 ||
         dtype_bits(config.residual) != 16 || row_backward_bytes(config, true) > arch->shared_bytes))
      return refuse_gpu(fmt::format("{}: {} slots", key.text, config.slots));
    if (rehearses(config) && !may_rehearse(op_, config)) return refuse_gpu(key.text + ": nothing that is rehearsed");
    if ((config.hadamard || config.chance) && !op_.quantises)
      return refuse_gpu(key.text + ": hadamard and chance are quantize's");
    if (config.group != 0 && !(has_groups(config.quant) && is_row_group(config.group))) {
      return refuse_gpu(fmt::format("{}: groups of {}", key.text, config.group));
    }
    const Status s = check_row_types(op_, config.x, config.residual, config.out, config.quant);
    return s ? s : refuse_gpu(key.text + ": " + s.message());
  }
  static double predict_gpu(const RowProblem& p, const DeviceSpec& device) {
    return kRowGpuLaunchSeconds + row_bytes_moved(p) / memory_bytes_per_second(device);
  }

  const RowOp& op_;
  const bool generic_;
  const std::string name_;
};

}  // namespace

std::unique_ptr<KernelFamily> make_row_gpu_family(const RowOp& op) { return std::make_unique<RowGpuFamily>(op, false); }
std::unique_ptr<KernelFamily> make_row_generic_gpu_family(const RowOp& op) {
  return std::make_unique<RowGpuFamily>(op, true);
}

}  // namespace tilewright
