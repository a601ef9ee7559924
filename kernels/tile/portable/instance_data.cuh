// SPDX-License-Identifier: MIT
// Makes and looks at the data of a problem where it lies, so that hundreds of megabytes need not cross to the host.
#pragma once

#include "tile/common/instance_data_args.hpp"

namespace tilewright::portable {

// Words of four elements, as they are drawn; the rest singly.
template <class Element, class Words>
__device__ __forceinline__ void fill_random(const InstanceDataArgs& args, long long first, long long step) {
  const auto* const table = static_cast<const Element*>(args.table);
  auto* const data = static_cast<Element*>(args.data);
  for (long long i = 4 * first; i < args.count; i += 4 * step) {
    const unsigned long long bits = instance_data_draw(args.seed, i);
    union {
      Element element[4];
      Words words;
    } drawn;
#pragma unroll
    for (int j = 0; j < 4; ++j) drawn.element[j] = table[bits >> 16 * j & 0xFFFF];
    if (i + 4 <= args.count) {
      *reinterpret_cast<Words*>(data + i) = drawn.words;
    } else {
      for (int j = 0; i + j < args.count; ++j) data[i + j] = drawn.element[j];
    }
  }
}

__device__ __forceinline__ void add_checksum(const InstanceDataArgs& args, long long first, long long step) {
  const auto* const words = static_cast<const unsigned long long*>(args.data);
  const auto* const bytes = static_cast<const unsigned char*>(args.data);
  unsigned long long sum = 0;
  for (long long i = first; i < args.count / 8; i += step) sum += instance_data_draw(words[i], i);
  if (first == 0) {
    for (long long i = args.count / 8 * 8; i < args.count; ++i) sum += instance_data_draw(bytes[i], i);
  }
#pragma unroll
  for (int lanes = 16; lanes > 0; lanes /= 2) sum += __shfl_xor_sync(0xFFFFFFFFu, sum, lanes);
  if (threadIdx.x % 32 == 0) atomicAdd(args.result, sum);
}

template <class Element>
__device__ __forceinline__ void find_unwritten(const InstanceDataArgs& args, long long first, long long step) {
  constexpr Element kPoison = static_cast<Element>(~0ull);
  const auto* const data = static_cast<const Element*>(args.data);
  const bool gaps = args.stride_column == 1 && args.stride_row > args.columns;
  for (long long i = first; i < args.count; i += step) {
    const long long column = i % args.columns, line = i / args.columns;
    const long long row = line % args.rows, batch = line / args.rows;
    const long long at = batch * args.stride_batch + row * args.stride_row;
    if (data[at + column * args.stride_column] == kPoison) atomicMin(args.result, static_cast<unsigned long long>(i));
    if (!gaps || row + 1 == args.rows) continue;
    for (long long gap = args.columns + column; gap < args.stride_row; gap += args.columns) {
      if (data[at + gap] != kPoison) atomicMin(args.result + 1, static_cast<unsigned long long>(line));
    }
  }
}

__device__ __forceinline__ void work_on_instance_data(const InstanceDataArgs& args) {
  const long long first = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
  const long long step = static_cast<long long>(gridDim.x) * blockDim.x;
  if (args.task == InstanceDataTask::kChecksum) return add_checksum(args, first, step);
  if (args.task == InstanceDataTask::kFill) {
    if (args.element_bytes == 1) return fill_random<unsigned char, unsigned>(args, first, step);
    if (args.element_bytes == 2) return fill_random<unsigned short, uint2>(args, first, step);
    return fill_random<unsigned, uint4>(args, first, step);
  }
  if (args.element_bytes == 1) return find_unwritten<unsigned char>(args, first, step);
  if (args.element_bytes == 2) return find_unwritten<unsigned short>(args, first, step);
  return find_unwritten<unsigned>(args, first, step);
}

}  // namespace tilewright::portable
