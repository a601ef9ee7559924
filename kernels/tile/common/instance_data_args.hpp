// SPDX-License-Identifier: MIT
// Arguments of the kernel that makes and looks at the data of a problem on a GPU. Freestanding: host and kernel share them.
#pragma once

namespace tilewright {

enum class InstanceDataTask : int {
  kFill,      // `count` elements from the table
  kChecksum,  // of `count` bytes, added to result[0]
  kUnwritten  // result[0], [1]: the least element with poison left, the least row with something behind its end
};

struct InstanceDataArgs {
  InstanceDataTask task;
  int element_bytes;
  long long count;
  void* data;
  const void* table;  // kFill: 2^16 elements
  unsigned long long seed;
  unsigned long long* result;
  // kUnwritten: a tensor of batch x rows x columns; strides in elements.
  long long rows, columns;
  long long stride_batch, stride_row, stride_column;
};

// Of dispatch/instance/random_data.cpp: the same bits for the same element, wherever they are made.
constexpr unsigned long long instance_data_bits(unsigned long long x) {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
  return x ^ (x >> 31);
}
// Four elements, the first of which is `element`: 16 bits each, the first one's lowest.
constexpr unsigned long long instance_data_draw(unsigned long long seed, long long element) {
  return instance_data_bits(seed + 0x632BE59BD9B4E019ull * static_cast<unsigned long long>(element + 1));
}

}  // namespace tilewright
