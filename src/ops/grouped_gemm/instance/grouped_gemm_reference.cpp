// SPDX-License-Identifier: MIT
#include "ops/grouped_gemm/instance/grouped_gemm_reference.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "core/tensor/tolerance.hpp"

namespace tilewright {
namespace {

const void* moved(const void* data, DType dtype, int64_t elements) {
  return static_cast<const char*>(data) + elements * (dtype_bits(dtype) / 8);
}

// What the device would hold, where the host can read it.
std::vector<int32_t> numbers_at(const void* data, int64_t count, int64_t stride) {
  std::vector<int32_t> numbers(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) numbers[static_cast<size_t>(i)] = static_cast<const int32_t*>(data)[i * stride];
  return numbers;
}

GroupData read_groups(const GroupedGemmProblem& p, const GroupedGemmBindings& b) {
  GroupData data;
  const int64_t groups = p.gemm.batch;
  if (p.has_sizes()) data.sizes = numbers_at(b.pointers[kSlotSizes], groups, p.stride_sizes);
  if (p.has_offsets()) {
    const int64_t count = p.extents == GroupExtents::kOffsets ? groups + 1 : groups;
    data.offsets = numbers_at(b.pointers[kSlotOffsets], count, p.stride_offsets);
  }
  if (p.has_gather) data.gather = numbers_at(b.pointers[kSlotGather], p.gemm.m, p.stride_gather);
  if (p.has_scatter) data.scatter = numbers_at(b.pointers[kSlotScatter], p.gemm.m, p.stride_scatter);
  return data;
}

}  // namespace

GroupRange output_rows(const GroupedGemmProblem& p, const GroupRange& range) {
  return p.mode == GroupMode::kRaggedK ? GroupRange{0, p.gemm.m} : range;
}

int64_t grouped_gemm_output_index(const GroupedGemmProblem& p, const GroupData& data, int64_t group, int64_t row,
                                  int64_t column) {
  const int64_t d = p.mode == GroupMode::kContiguous ? place_row(p, data, row).d : row;
  if (d < 0) return -1;
  return group * p.gemm.stride_d_batch + d * p.gemm.stride_d_m + column * p.gemm.stride_d_n;
}

void grouped_gemm_reference_block(const GroupedGemmProblem& p, const GroupData& data, const GroupRange& range,
                                  const GroupedGemmBindings& bindings, ArchVendor vendor, int64_t group,
                                  std::span<const int64_t> rows, std::span<const int64_t> columns,
                                  std::vector<ReferenceElement>& out) {
  GemmProblem within = p.gemm;
  GemmBindings bind = bindings.gemm();
  if (p.mode == GroupMode::kRaggedK) {
    within.k = range.count;
    bind.pointers[kSlotA] = moved(bind.pointers[kSlotA], within.a_dtype, range.begin * within.stride_a_k);
    bind.pointers[kSlotB] = moved(bind.pointers[kSlotB], within.b_dtype, range.begin * within.stride_b_k);
  }
  if (!p.indexed()) return gemm_reference_block(within, bind, vendor, group, rows, columns, out);
  std::vector<int64_t> a_rows, d_rows;
  for (const int64_t row : rows) {
    const GroupPlaces::Row place = place_row(p, data, row);
    if (place.d >= 0) a_rows.push_back(place.a), d_rows.push_back(place.d);
  }
  std::vector<ReferenceElement> found;
  gemm_reference_block(within, bind, vendor, group, a_rows, d_rows, columns, found);
  out.assign(rows.size() * columns.size(), {std::numeric_limits<double>::quiet_NaN(), 0});
  size_t from = 0;
  for (size_t i = 0; i < rows.size(); ++i) {
    if (place_row(p, data, rows[i]).d < 0) continue;
    std::copy_n(found.begin() + static_cast<ptrdiff_t>(from * columns.size()), columns.size(),
                out.begin() + static_cast<ptrdiff_t>(i * columns.size()));
    ++from;
  }
}

Status grouped_gemm_reference(const GroupedGemmCall& call) {
  GroupedGemmProblem p;
  GroupedGemmBindings bindings;
  if (Status s = make_grouped_gemm_problem(call, /*check_addresses=*/true, p, bindings); !s) return s;
  if (call.gemm.d.device.kind != DeviceKind::kCpu) {
    return Status(StatusCode::kUnsupported,
                  "grouped_gemm_reference: arguments are on " + to_string(call.gemm.d.device) + ", allowed: cpu");
  }
  if (p.empty()) return {};
  const GroupData data = read_groups(p, bindings);
  const GroupPlaces places = place_groups(p, data);
  if (places.clamped && p.has_status) *static_cast<int32_t*>(call.status.data) = kGroupsClamped;
  std::vector<int64_t> columns(static_cast<size_t>(p.gemm.out_n()));
  std::iota(columns.begin(), columns.end(), 0);
  std::vector<ReferenceElement> block;
  for (int64_t g = 0; g < p.gemm.batch; ++g) {
    const GroupRange& range = places.ranges[static_cast<size_t>(g)];
    const GroupRange all = output_rows(p, range);
    for (int64_t row = all.begin; row < all.begin + all.count; ++row) {
      const int64_t rows[] = {row};
      grouped_gemm_reference_block(p, data, range, bindings, ArchVendor::kX86, g, rows, columns, block);
      if (grouped_gemm_output_index(p, data, g, row, 0) < 0) continue;
      for (size_t i = 0; i < block.size(); ++i) {
        store_element(p.gemm.d_dtype, call.gemm.d.data,
                      grouped_gemm_output_index(p, data, g, row, static_cast<int64_t>(i)), block[i].value);
      }
    }
  }
  return {};
}

}  // namespace tilewright
