// SPDX-License-Identifier: MIT
// <op>_gpu, an instance for each set of types and way to share rows among threads, and <op>_generic_gpu, which is typed at run time:
// every valid problem runs. One source for NVIDIA and AMD.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <iterator>

#include "core/fields.hpp"
#include "ops/gemm/families/gpu/gpu_problem.hpp"
#include "ops/row/families/row_families.hpp"

namespace tilewright {
namespace {

constexpr double kRowGpuLaunchSeconds = 3e-6;
constexpr int kMostRowThreads = 1024;
// A group of 128 elements, or a few short rows a warp; a head's pairs take as few as one. More than 32 are whole warps.
constexpr int kLeastRowThreads = 16;
bool legal_threads(int threads) {
  return threads <= kMostRowThreads &&
         (threads <= kRowLanes ? std::has_single_bit(static_cast<unsigned>(threads)) : threads % kRowLanes == 0);
}
// Pieces in registers, of 8 floats each, that leave room beside them.
constexpr int most_pieces(int threads) { return threads > 512 ? 2 : threads > 256 ? 4 : 8; }
// That keep a row, its gradient and two sums.
constexpr int kMostBackwardThreads = 512;
constexpr RowGpuShape kGenericShape{256, 0};
// Blocks that share a row which one block's registers do not hold; every part with clusters places eight.
constexpr int kMostRowCluster = 8, kClusterThreads = 512;
constexpr int64_t kMostParts = 2048;
// Elements that fill a GPU although each thread takes four pieces.
constexpr int64_t kManyElements = int64_t{1} << 21;

// Blocks that take a part of a row each, of one piece a thread.
constexpr int kPartThreads = 256, kMostRowParts = 64, kRowPartElements = kPartThreads * kRowPiece;

// A block of rows and columns that share a scale is found and written by a block of threads, in eight turns.
constexpr RowGpuShape kScaleBlockShape{16, 8};

// Blocks that a problem's rows fill, and those of them that find parts of the largest magnitude: enough for every GPU, few enough for
// one block to merge.
int64_t row_blocks(const RowProblem& p, const RowGpuConfig& c) {
  if (p.quant == Quantisation::kBlock && !p.reads_codes()) return p.items();
  const bool heads = p.rotates() && c.whole;
  const int64_t rows = int64_t{row_block_threads(c.threads)} / c.threads * (heads ? c.pieces : 1);
  return (p.rows() + rows - 1) / rows;
}
int64_t found_parts(const RowProblem& p, const RowGpuConfig& c) {
  return std::clamp<int64_t>(row_blocks(p, c), 1, kMostParts);
}

// Whether pieces are written one by one, as they come.
bool takes_pieces_singly(const RowOp& op, Quantisation quant) {
  return op.dequantises || (op.quantises && quant == Quantisation::kGroup);
}

// Whether long rows are reduced in chunks, of which bits tell nothing but their size.
bool takes_chunks(const RowOp& op) { return op.softmax || op.loses; }

// Whether something is found of all of a row.
bool reduces_rows(const RowOp& op, Quantisation quant) {
  return op.columns || op.gates_norm || op.norm_backward() || takes_chunks(op) || quant == Quantisation::kRow;
}

// NVIDIA: blocks that an SM's registers are to have room for. Many are in flight where a row's pieces, as floats and as they were
// asked for, leave room; so many registers are for all else.
int resident_blocks(const RowOp& op, const RowGpuConfig& c) {
  if (op.quantises && c.quant == Quantisation::kBlock) return c.plain && c.whole ? 3 : 2;
  if (op.rotates && c.whole) return c.pieces >= 4 ? 2 : c.pieces == 2 && (!c.plain || c.x == DType::kF32) ? 3 : 4;
  const bool singly = takes_pieces_singly(op, c.quant);
  if (op.norm_backward()) {  // x, its output's gradient and two sums, and what is added to them
    const int added = c.slots > 0 ? 0 : dtype_bits(c.out) % 32;
    const int each = 4 * kRowPiece + (c.whole ? dtype_bits(c.columns) + added : 0) * kRowPiece / 32;
    return std::clamp(65536 / (row_block_threads(c.threads) * (48 + c.pieces * each)), 1, 2);
  }
  const auto words = [](DType t) { return dtype_bits(t) * kRowPiece / 32; };
  const int x_words = (op.gates ? 2 : 1) * words(c.x) + words(c.residual);
  const int asked = c.whole ? x_words + (row_asks_weight(c) && !singly ? words(c.columns) : 0) : words(DType::kF32);
  // In chunks, pieces stay as they lie; what a loss takes has no room for eight.
  if (c.cluster > 1 && op.loses) return c.pieces <= 4 ? 2 : 1;
  if (c.cluster > 1) return op.softmax && c.pieces * (c.whole ? words(c.x) : kRowPiece) <= 32 ? 2 : 1;
  const auto blocks_of = [&c](int registers, int most) {
    return std::clamp(65536 / (row_block_threads(c.threads) * registers), 1, most * 256 / row_block_threads(c.threads));
  };
  if (c.whole && c.quant == Quantisation::kNone && !singly && !op.backward) {  // x's words become the floats
    const int others = c.x == DType::kF32 ? 30 : !c.plain ? 31 : op.loses ? 27 : c.bias ? 22 : 18;
    return blocks_of(others + c.pieces * (kRowPiece + asked - words(c.x)), 6);
  }
  const bool lean = c.plain && !op.columns && !op.dequantises && !c.chance;
  const int others = op.backward ? (c.plain ? 36 : 64) : singly ? 40 : lean ? 16 : 24;
  const int most = !c.whole ? 2 : lean ? 6 : 4;
  return blocks_of(others + (singly ? 1 : c.pieces) * kRowPiece + c.pieces * asked, most);
}
bool legal_shape(const RowGpuShape& s, int least_threads) {
  const bool clustered = s.cluster > 1;
  const int most = clustered ? 8 : most_pieces(s.threads);
  const bool pieces = s.pieces == 0 || (std::has_single_bit(static_cast<unsigned>(s.pieces)) && s.pieces <= most);
  if (clustered && (s.pieces < row_chunk_pieces(s.cluster) || s.threads != kClusterThreads)) return false;
  if (s.cluster > kMostRowCluster || !std::has_single_bit(static_cast<unsigned>(s.cluster))) return false;
  if (s.parts < 1 || s.parts > kMostRowParts) return false;
  if (s.parts > 1 && (clustered || s.pieces == 0)) return false;
  return pieces && s.threads >= least_threads && legal_threads(s.threads);
}
// The type of all vectors along a row; kNone: they differ. Without any it does not matter.
DType common_column_type(const RowProblem& p) {
  DType common = DType::kNone;
  for (const DType type : {p.weight, p.bias, p.smooth}) {
    if (type == DType::kNone || type == common) continue;
    if (common != DType::kNone) return DType::kNone;
    common = type;
  }
  return common == DType::kNone ? p.x.dtype : common;
}
// Whether each row is made of whole pieces that one load or store takes.
bool has_whole_rows(const RowProblem& p) {
  bool whole = p.n > 0 && p.n % kRowPiece == 0 && !p.unaligned && !p.single;
  for (const RowTensorProblem* t : {&p.x, &p.residual, &p.residual_out, &p.out, &p.gradients.added}) {
    for (const int64_t stride : t->stride) whole = whole && stride % kRowPiece == 0;
  }
  return whole;
}
// Whether a call has nothing that few calls have (RowGpuConfig).
bool is_plain(const RowProblem& p) {
  return p.size[0] == 1 && p.size[1] == 1 && p.smooth == DType::kNone && !p.unit_offset && !p.round_before_weight &&
         !p.squared && !p.rotates();
}
// The same of heads that turn: their pairs, parts and tables, too.
bool has_whole_heads(const RowProblem& p) {
  const RowRotationProblem& r = p.rotation;
  const int64_t entries = 128 / dtype_bits(r.table);  // of 16 bytes
  const bool parts = r.sections == RopeSections::kParts && !r.interleaved;
  const bool cut = parts && std::ranges::any_of(r.section_pairs, [](int32_t pairs) { return pairs % kRowPiece != 0; });
  return !cut && has_whole_rows(p) && r.dims > 0 && r.dims % (2 * kRowPiece) == 0 && r.stride_table % entries == 0;
}
// A thread takes so many heads of a token that no set of them has another's. The best first: two have loads enough in flight, and four
// lack registers; where heads are few, as many threads as there can be.
constexpr int64_t kFewHeads = 2048;
std::vector<RowGpuShape> whole_head_shapes(const RowProblem& p) {
  std::vector<RowGpuShape> shapes;
  const auto threads = std::bit_ceil(static_cast<uint64_t>(std::max<int64_t>(p.rotation.dims / (2 * kRowPiece), 1)));
  if (threads > kRowBlockThreads) return shapes;
  const bool few = p.size[0] * p.size[1] * p.size[2] <= kFewHeads;
  for (const int heads : few ? std::array{1, 2, 4} : std::array{2, 4, 1}) {
    if (p.size[2] % heads == 0) shapes.push_back({static_cast<int>(threads), heads});
  }
  return shapes;
}
// Whether rows are taken as whole heads.
bool takes_whole_heads(const RowProblem& p) {
  return p.rotates() && has_whole_heads(p) && !whole_head_shapes(p).empty();
}
// Whether nothing is asked at run time of them: all dims turn, two halves by one axis, a pair for each lane, and the heads of a set are
// of one tensor.
bool is_plain_turn(const RowProblem& p, const RowGpuShape& shape) {
  const RowRotationProblem& r = p.rotation;
  return takes_whole_heads(p) && !r.interleaved && r.axes() <= 1 && r.dims == p.n &&
         r.dims == int64_t{2} * kRowPiece * shape.threads && r.heads % shape.pieces == 0;
}
int64_t row_capacity(const RowGpuShape& s) { return int64_t{s.threads} * s.pieces * s.cluster * s.parts * kRowPiece; }
// Threads of n elements with so many pieces each, at most one more than there can be.
int row_threads(int64_t n, int pieces) {
  const int64_t each = int64_t{kRowPiece} * pieces,
                threads = std::clamp<int64_t>((n + each - 1) / each, kLeastRowThreads, kMostRowThreads + 1);
  if (threads <= kRowLanes) return static_cast<int>(std::bit_ceil(static_cast<uint64_t>(threads)));
  return static_cast<int>((threads + kRowLanes - 1) / kRowLanes * kRowLanes);
}
// Whether rows fill their threads, or blocks of rows and columns are whole.
bool is_full(const RowOp& op, const RowProblem& p, const RowGpuShape& s) {
  if (op.quantises && p.quant == Quantisation::kBlock) return p.n % kScaleBlock == 0 && p.size[2] % kScaleBlock == 0;
  return p.n == row_capacity(s);
}
// Rows of a gradient that have slots in shared memory: one that is written, one that is reduced and two on their way.
constexpr int kRowSlots = 4;
int row_slots(const RowOp& op, const RowProblem& p, RowGpuConfig c, const ArchSpec& arch) {
  const bool narrow = dtype_bits(c.x) == 16 && dtype_bits(c.residual) == 16;
  if (!op.norm_backward() || arch.vendor != ArchVendor::kNvidia || !c.full || !narrow) return 0;
  c.slots = kRowSlots;
  return p.size[0] == 1 && p.size[1] == 1 && row_backward_bytes(c, true) <= arch.shared_bytes ? kRowSlots : 0;
}
// Whether blocks may take a part of a row each.
bool takes_parts(const RowOp& op, const RowProblem& p, const ArchSpec& arch) {
  return arch.vendor == ArchVendor::kNvidia && !reduces_rows(op, p.quant) && !p.rotates() && !p.finds_of_tensor() &&
         !(op.quantises && p.quant == Quantisation::kBlock);
}

// Rows that one block would read twice: a cluster keeps them in registers. Those that nothing is found of are read once anyway, and a
// scale of the tensor has steps of its own.
bool takes_clusters(const RowOp& op, const RowProblem& p, const ArchSpec& arch) {
  return arch.target == "sm_90a" && reduces_rows(op, p.quant) && !op.gates_norm && !op.backward &&
         !p.finds_of_tensor() && p.n > row_capacity({kMostRowThreads, most_pieces(kMostRowThreads)});
}
// Four pieces a thread, or eight. Softmax's chunks, which stay as they lie, have room for eight where rows are many: fewer blocks meet for
// a row.
std::vector<RowGpuShape> cluster_shapes(const RowOp& op, const RowProblem& p) {
  std::vector<RowGpuShape> shapes;
  for (const int pieces : {4, 8}) {
    const int64_t one = row_capacity({kClusterThreads, pieces});
    const auto blocks = std::bit_ceil(static_cast<uint64_t>((p.n + one - 1) / one));
    if (blocks > 1 && blocks <= kMostRowCluster) shapes.push_back({kClusterThreads, pieces, static_cast<int>(blocks)});
  }
  constexpr int64_t kManyBlocks = 256;
  const bool many = shapes.size() == 2 && p.rows() * shapes[0].cluster >= kManyBlocks;
  if (many && op.softmax && has_whole_rows(p) && p.x.dtype != DType::kF32) std::swap(shapes[0], shapes[1]);
  return shapes;
}

// The best first. Where pieces are written one by one and rows are many, four of them share what a row costs a thread; of a gate and what it
// multiplies, two.
std::vector<RowGpuShape> shapes_of(const RowOp& op, const RowProblem& p, const ArchSpec& arch) {
  if (takes_whole_heads(p)) return whole_head_shapes(p);
  if (op.quantises && p.quant == Quantisation::kBlock) return {kScaleBlockShape};
  std::vector<RowGpuShape> shapes = row_gpu_shapes(p.n);
  if (op.norm_backward()) {
    std::erase_if(shapes, [](const RowGpuShape& s) { return s.threads > kMostBackwardThreads || s.pieces > 2; });
    if (shapes.empty()) shapes.push_back({kMostBackwardThreads, 0});
    // AMD GPUs, whose addresses are in vector registers too, have room for one piece.
    if (arch.vendor == ArchVendor::kAmd)
      std::ranges::stable_partition(shapes, [](const RowGpuShape& s) { return s.pieces == 1; });
  }
  if (takes_clusters(op, p, arch)) std::ranges::copy(cluster_shapes(op, p), std::inserter(shapes, shapes.begin()));
  const bool large = p.rows() * p.n >= kManyElements, many = large && takes_pieces_singly(op, p.quant);
  // A norm's row that has one scale is reduced twice. AMD GPUs lack registers for it.
  const bool twice = large && op.columns && p.quant == Quantisation::kRow && arch.vendor == ArchVendor::kNvidia;
  if ((many && !op.gates) || twice)
    std::ranges::stable_partition(shapes, [](const RowGpuShape& s) { return s.pieces == 4; });
  const int64_t parts = (p.n + kRowPartElements - 1) / kRowPartElements;
  if (!many && takes_parts(op, p, arch) && parts > 1 && parts <= kMostRowParts)
    shapes.insert(shapes.begin(), {row_threads((p.n + parts - 1) / parts, 1), 1, 1, static_cast<int>(parts)});
  return shapes;
}

// What is reduced to exponentials and read twice: chunks of a row that have a block each where there are fewer rows than that many, else none. Bits do not
// depend on it.
int64_t row_chunks(const RowProblem& p, const RowGpuConfig& c, const DeviceSpec& device) {
  const int64_t size = int64_t{c.threads} * row_chunk_pieces(1) * kRowPiece, chunks = (p.n + size - 1) / size;
  return c.pieces == 0 && row_blocks(p, c) < device.units && chunks > 1 ? chunks : 0;
}

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
    if (!(config == need)) {
      return refuse_gpu(
          fmt::format("kernel is for {}, the problem needs {}", print_fields(config), print_fields(need)));
    }
    if (op_.rotates && config.whole) return check_heads(p, config);
    if (config.cluster > 1 && !takes_clusters(op_, p, *device.arch))
      return refuse_gpu("a cluster of blocks shares no such row");
    if (config.parts > 1 && !takes_parts(op_, p, *device.arch)) return refuse_gpu("such a row has no parts");
    const bool blocks = op_.quantises && p.quant == Quantisation::kBlock;
    const int64_t capacity = row_capacity(shape_of(config));
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
    if (p.column_sums() > 0) return row_workspace_bytes(p, column_parts(config, row_grid(p, config, device, 0)));
    if (found_of_chunk() > 0)
      return row_chunks(p, config, device) * p.rows() * found_of_chunk() * static_cast<int64_t>(sizeof(float));
    return row_workspace_bytes(p, found_parts(p, config));
  }
  std::string numerics_id(const RecipeStep& step) const override {
    RowGpuConfig config;
    if (!parse_gpu_config(step.key, config)) return "";
    if (config.cluster > 1 && takes_chunks(op_)) return fmt::format("clustered_chunks{}", config.threads);
    return fmt::format("threads{}{}", config.threads * config.cluster, config.full ? "full" : "");
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
        threads, resident_blocks(op_, config));
    return request;
  }
  int64_t launch_shared_bytes(const KernelKey& key) const override {
    RowGpuConfig config;
    return parse_gpu_config(key, config) ? shared_bytes(config, true) : row_shared_bytes(1);
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
    stage.shape.shared_bytes = static_cast<uint32_t>(shared_bytes(config, p.gradients.added.dtype != DType::kNone));
    if (chunks > 0) return chunk_stages(stage, chunks);
    if (p.column_sums() > 0) {
      LaunchShape columns = stage.shape;
      const int64_t shares = std::clamp<int64_t>((p.n + kRowLanes - 1) / kRowLanes, 1, kMostParts);
      columns.grid[0] = static_cast<uint32_t>(shares * p.column_sums());  // of each sum
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
  // Where sums are kept from one row to the next, as many blocks as run at a time, each with as many rows; else
  // a block a row. The kernel goes on where the grid ends; AMD GPUs count work-items in 32 bits.
  int64_t row_grid(const RowProblem& p, const RowGpuConfig& config, const DeviceSpec& device, int64_t chunks) const {
    const int64_t shared = int64_t{config.cluster} * config.parts;
    const int64_t together = std::max<int64_t>(chunks, shared);  // blocks that take a row
    const int64_t blocks = std::max<int64_t>(row_blocks(p, config) * together, 1);
    const int64_t at_a_time = op_.norm_backward() ? std::max(1, device.units) * int64_t{resident_blocks(op_, config)}
                                                  : (int64_t{1} << 31) / row_block_threads(config.threads);
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
    if (blocks && (config.threads != kScaleBlockShape.threads || config.pieces != kScaleBlockShape.pieces)) {
      return refuse_gpu(fmt::format("{}: {} threads with {} pieces each, of blocks {} with {}", key.text,
                                    config.threads, config.pieces, kScaleBlockShape.threads, kScaleBlockShape.pieces));
    }
    if (config.full && (!config.whole || config.pieces == 0 || op_.rotates))
      return refuse_gpu(key.text + ": full rows are whole, stay in registers and do not turn");
    if (config.slots != 0 &&
        (config.slots != kRowSlots || !config.full || !op_.norm_backward() || dtype_bits(config.x) != 16 ||
         dtype_bits(config.residual) != 16 || row_backward_bytes(config, true) > arch->shared_bytes))
      return refuse_gpu(fmt::format("{}: {} slots", key.text, config.slots));
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

// Two pieces a thread have loads enough in flight and leave a row few threads to wait for; then one, which has the most threads,
// then more. What fits nowhere is read again.
std::vector<RowGpuShape> row_gpu_shapes(int64_t n) {
  std::vector<RowGpuShape> shapes;
  for (const int each : {2, 1, 4, 8}) {
    const RowGpuShape shape{row_threads(n, each), each};
    if (legal_shape(shape, kLeastRowThreads)) shapes.push_back(shape);
  }
  std::ranges::stable_partition(shapes, [](const RowGpuShape& s) { return s.threads <= kRowBlockThreads; });
  if (shapes.empty()) shapes.push_back({kMostRowThreads, 0});
  return shapes;
}

std::unique_ptr<KernelFamily> make_row_gpu_family(const RowOp& op) { return std::make_unique<RowGpuFamily>(op, false); }
std::unique_ptr<KernelFamily> make_row_generic_gpu_family(const RowOp& op) {
  return std::make_unique<RowGpuFamily>(op, true);
}

}  // namespace tilewright
