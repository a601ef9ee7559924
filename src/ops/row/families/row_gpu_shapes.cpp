// SPDX-License-Identifier: MIT
#include "ops/row/families/row_gpu_shapes.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <iterator>

namespace tilewright {
namespace {

constexpr int kMostRowThreads = 1024;
// More than 32 are whole warps.
bool legal_threads(int threads) {
  return threads <= kMostRowThreads &&
         (threads <= kRowLanes ? std::has_single_bit(static_cast<unsigned>(threads)) : threads % kRowLanes == 0);
}
// Pieces in registers, of 8 floats each, that leave room beside them.
constexpr int most_pieces(int threads) { return threads > 512 ? 2 : threads > 256 ? 4 : 8; }
// That keep a row, its gradient and two sums.
constexpr int kMostBackwardThreads = 512;
// Blocks that share a row which one block's registers do not hold; every part with clusters places eight.
constexpr int kMostRowCluster = 8, kClusterThreads = 512;
// Elements that fill a GPU although each thread takes four pieces, and on NVIDIA GPUs so many that this is faster where codes are made.
constexpr int64_t kManyElements = int64_t{1} << 21, kFourPieceElements = int64_t{1} << 24;
// Elements that are fetched before kernels in front have ended, and rows of norms that run once for nothing.
constexpr int64_t kFewEdgeElements = int64_t{1} << 21, kRehearsedRows = 64;
// Blocks that take a part of a row each, of one piece a thread.
constexpr int kPartThreads = 256, kMostRowParts = 64, kRowPartElements = kPartThreads * kRowPiece;
// Whether pieces are written one by one, as they come.
bool takes_pieces_singly(const RowOp& op, Quantisation quant) {
  return op.dequantises || (op.quantises && quant == Quantisation::kGroup);
}
// Whether something is found of all of a row.
bool reduces_rows(const RowOp& op, Quantisation quant) {
  return op.columns || op.gates_norm || op.norm_backward() || takes_chunks(op) || quant == Quantisation::kRow;
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
// Threads of n elements with so many pieces each, at most one more than there can be.
int row_threads(int64_t n, int pieces) {
  const int64_t each = int64_t{kRowPiece} * pieces,
                threads = std::clamp<int64_t>((n + each - 1) / each, kLeastRowThreads, kMostRowThreads + 1);
  if (threads <= kRowLanes) return static_cast<int>(std::bit_ceil(static_cast<uint64_t>(threads)));
  return static_cast<int>((threads + kRowLanes - 1) / kRowLanes * kRowLanes);
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
// Blocks that a cluster may have.
int most_of_cluster(const DeviceSpec& device) {
  return device.units >= kLargeClusterUnits ? kLargeCluster : kEveryCluster;
}
// Two pieces a thread have loads enough in flight and leave a row few threads to wait for; then one, which has the most threads,
// then more; but those that a row fills, and on NVIDIA GPUs
// blocks of at most 256 threads, first: more of them run at a time. What fits nowhere is read again.
std::vector<RowGpuShape> row_gpu_shapes(int64_t n, const ArchSpec& arch) {
  std::vector<RowGpuShape> shapes;
  for (const int each : {2, 1, 4, 8}) {
    const RowGpuShape shape{row_threads(n, each), each};
    if (legal_shape(shape, kLeastRowThreads)) shapes.push_back(shape);
  }
  const bool small = arch.vendor == ArchVendor::kNvidia;
  std::ranges::stable_partition(shapes, [=](const RowGpuShape& s) { return !small || s.threads <= kRowBlockThreads; });
  std::ranges::stable_partition(shapes, [n](const RowGpuShape& s) { return row_capacity(s) == n; });
  if (shapes.empty()) shapes.push_back({kMostRowThreads, 0});
  return shapes;
}

}  // namespace

// Blocks that a problem's rows fill, and those of them that find parts of the largest magnitude: enough for every GPU, few enough for
// one block to merge.
int64_t row_blocks(const RowProblem& p, const RowGpuConfig& c) {
  if (p.quant == Quantisation::kBlock && !p.reads_codes()) return p.items();
  const bool heads = p.rotates() && c.whole;
  const int64_t rows = int64_t{row_block_threads(c.threads)} / c.threads * (heads ? c.pieces : 1);
  return (p.rows() + rows - 1) / rows;
}
int64_t found_parts(const RowProblem& p, const RowGpuConfig& c) {
  return std::clamp<int64_t>(row_blocks(p, c), 1, kMostRowFoundParts);
}
// Whether long rows are reduced in chunks, of which bits tell nothing but their size.
bool takes_chunks(const RowOp& op) { return op.softmax || op.loses; }
// NVIDIA: blocks that an SM's registers are to have room for. Many are in flight where a row's pieces, as floats and as they were
// asked for, leave room; so many registers are for all else.
int resident_blocks(const RowOp& op, const RowGpuConfig& c, ArchVendor vendor) {
  if (op.quantises && c.quant == Quantisation::kBlock) return c.plain && c.whole ? 3 : 2;
  if (op.rotates && c.whole) return c.pieces >= 4 ? 2 : c.pieces == 2 && (!c.plain || c.x == DType::kF32) ? 3 : 4;
  if (op.quantises && vendor == ArchVendor::kNvidia && has_thread_groups(c))
    return 6 * 256 / row_block_threads(c.threads);
  const bool singly = takes_pieces_singly(op, c.quant);
  if (op.norm_backward()) {  // x, its output's gradient and two sums, and what is added to them
    const int added = c.slots > 0 ? 0 : dtype_bits(c.out) % 32;
    const int each = 4 * kRowPiece + (c.whole ? dtype_bits(c.columns) + added : 0) * kRowPiece / 32;
    // Of rows in slots, 512 pieces an SM have enough on their way, and more are slower.
    const int most = c.slots > 0 ? std::max(512 / (row_block_threads(c.threads) * c.pieces), 1) : 2;
    return std::clamp(65536 / (row_block_threads(c.threads) * (48 + c.pieces * each)), 1, std::min(most, 2));
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
    // A bias takes more, but in full rows of few pieces, a block each, without an edge, whose columns have 16 bits.
    const bool alone = row_block_threads(c.threads) == c.threads && c.edge == RowEdge::kNone;
    const bool biased = c.bias && !(c.full && alone && c.pieces <= 2 && c.columns != DType::kF32);
    const int others = c.x == DType::kF32 ? 30 : !c.plain ? 31 : op.loses ? 27 : biased ? 22 : 18;
    return blocks_of(others + c.pieces * (kRowPiece + asked - words(c.x)), 6);
  }
  const bool lean = c.plain && !op.columns && !op.dequantises && !c.chance;
  const int others = op.backward ? (c.plain ? 36 : 64) : singly ? 40 : lean ? 16 : 24;
  const int most = !c.whole ? 2 : lean ? 6 : 4;
  return blocks_of(others + (singly ? 1 : c.pieces) * kRowPiece + c.pieces * asked, most);
}
// Of an SM, which go on from heads to heads: a block for each set of them was slower.
int whole_head_blocks(const RowGpuConfig& c) { return c.pieces >= 4 ? 2 : c.pieces == 2 ? 3 : 4; }
int64_t scale_block_rows(int pieces) { return int64_t{kScaleBlock} / kScaleBlockPieces * pieces; }
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
// Whether rows fill their threads, or blocks of rows and columns are whole.
bool is_full(const RowOp& op, const RowProblem& p, const RowGpuShape& s) {
  if (op.quantises && p.quant == Quantisation::kBlock)
    return p.n % kScaleBlock == 0 && p.size[2] % scale_block_rows(s.pieces) == 0;
  return p.n == row_capacity(s);
}
int row_slots(const RowOp& op, const RowProblem& p, RowGpuConfig c, const ArchSpec& arch) {
  const bool narrow = dtype_bits(c.x) == 16 && dtype_bits(c.residual) == 16;
  if (!op.norm_backward() || arch.target != "sm_90a" || !c.full || !narrow) return 0;
  c.slots = kRowSlots;
  return p.size[0] == 1 && p.size[1] == 1 && row_backward_bytes(c, true) <= arch.shared_bytes ? kRowSlots : 0;
}
RowTogether rows_together(const RowProblem& p, const RowGpuConfig& c, const DeviceSpec& device) {
  const RowTogether together = row_together(c, most_of_cluster(device));
  return p.column_sums() > 0 && p.rows() > 0 && p.rows() <= together.rows ? together : RowTogether{};
}
int scale_together(const RowProblem& p, const RowGpuConfig& c, const DeviceSpec& device) {
  const bool may = p.finds_of_tensor() && finds_together(c) && device.arch->target == "sm_90a" && p.rows() > 0;
  return may && row_blocks(p, c) <= most_of_cluster(device) ? static_cast<int>(row_blocks(p, c)) : 0;
}
// Norms, whose code is long enough, of rows that stay in the registers of one block.
bool may_rehearse(const RowOp& op, const RowGpuConfig& c) {
  return (op.columns || op.gates_norm) && !op.backward && c.whole && c.pieces > 0 && c.cluster == 1;
}
// Where rows are more than SMs, blocks that begin early share some of these although others are free: where much is computed, or two tensors
// are read, that costs more than an edge.
RowEdge row_edge(const RowOp& op, const RowProblem& p, const RowGpuConfig& c) {
  if (!p.programmatic_edge || c.cluster > 1) return RowEdge::kNone;
  if (p.rows() * p.n > kFewEdgeElements) return RowEdge::kWait;
  if (!may_rehearse(op, c)) return RowEdge::kFetch;
  const bool light = p.quant == Quantisation::kNone && !p.residual.present();
  return light || p.rows() <= kRehearsedRows ? RowEdge::kRehearse : RowEdge::kNone;
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
// The best first. Where pieces are written one by one and rows are many, four of them share what a row costs a thread; of a gate and what it
// multiplies, two.
std::vector<RowGpuShape> shapes_of(const RowOp& op, const RowProblem& p, const ArchSpec& arch) {
  if (takes_whole_heads(p)) return whole_head_shapes(p);
  if (op.quantises && p.quant == Quantisation::kBlock) {
    int pieces = 1;
    while (pieces < kScaleBlockPieces && p.size[2] > scale_block_rows(pieces)) pieces *= 2;
    return {{kScaleBlockThreads, pieces}};
  }
  std::vector<RowGpuShape> shapes = row_gpu_shapes(p.n, arch);
  // Two operands have loads enough of two pieces: more threads were faster.
  if (p.residual.present()) {
    std::ranges::stable_partition(
        shapes, [](const RowGpuShape& s) { return s.threads == 2 * kRowBlockThreads && s.pieces == 2; });
  }
  if (op.norm_backward()) {
    std::erase_if(shapes, [](const RowGpuShape& s) { return s.threads > kMostBackwardThreads || s.pieces > 2; });
    if (shapes.empty()) shapes.push_back({kMostBackwardThreads, 0});
    // AMD GPUs, whose addresses are in vector registers too, have room for one piece.
    // One sum of columns on NVIDIA GPUs: more threads are worth more than what a reduction costs them.
    if (arch.vendor == ArchVendor::kAmd || p.gradients.bias == DType::kNone)
      std::ranges::stable_partition(shapes, [](const RowGpuShape& s) { return s.pieces == 1; });
  }
  if (takes_clusters(op, p, arch)) std::ranges::copy(cluster_shapes(op, p), std::inserter(shapes, shapes.begin()));
  const int64_t elements = p.rows() * p.n;
  const bool many = elements >= kManyElements && takes_pieces_singly(op, p.quant);
  const bool by_four = arch.vendor == ArchVendor::kAmd || (elements >= kFourPieceElements && !op.dequantises);
  // A norm's row that has one scale is reduced twice, however many rows there are: its sums are to have the same bits. AMD GPUs lack registers for it.
  const bool twice = op.columns && p.quant == Quantisation::kRow && arch.vendor == ArchVendor::kNvidia;
  if ((many && by_four && !op.gates) || twice)
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

}  // namespace tilewright
