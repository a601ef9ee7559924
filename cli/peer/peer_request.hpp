// SPDX-License-Identifier: MIT
// What a peer is asked to time: a matrix product that other libraries have as well, or an operator on rows, as one line
// of text.
#pragma once

#include <cstdint>
#include <string>

#include "dispatch/operator.hpp"
#include "tile/common/fields.hpp"

namespace tilewright::cli {

struct PeerRequest {
  int64_t m = 0, n = 0, k = 0;  // A [m, k], weight [n, k]
  std::string dtype;            // of A: f32, f16, bf16, i8
  std::string weight;           // dtype of the weight: that of A, or u4, i4, i8 beside bf16
  int64_t group = 0;            // values of K that a scale of such a weight serves; 0 = a row
  bool packed = false;          // the weight in the peer's own layout, brought there outside the time
  bool scaled = false;          // i8: a scale for each row of A and each row of the weight
  std::string rows = {};        // an operator on rows and its problem, "rms_norm;m=8;n=64;x=bf16": x is [m, n]
  int threads = 1;
  int rotations = 1;  // copies of the weight, used in turn
  int repetitions = 1;

  template <class Self, class Visit>
  static constexpr void fields(Self& self, Visit&& visit) {
    visit("m", self.m);
    visit("n", self.n);
    visit("k", self.k);
    visit("dtype", self.dtype);
    visit("weight", self.weight);
    visit("group", self.group);
    visit("packed", self.packed);
    visit("scaled", self.scaled);
    visit("rows", self.rows);
    visit("threads", self.threads);
    visit("rotations", self.rotations);
    visit("repetitions", self.repetitions);
  }
  // Whether the same tensors serve both.
  bool same_tensors(const PeerRequest& o) const {
    return m == o.m && n == o.n && k == o.k && dtype == o.dtype && weight == o.weight && group == o.group &&
           packed == o.packed && scaled == o.scaled && rows == o.rows && rotations == o.rotations;
  }
};

// Sizes and dtypes from a problem; refuses what is more than a product: batches, strided operands, an epilogue other
// than the scales of i8, scales of weights that no peer has. Of operators on rows, strided ones.
Status peer_request(const Operator& op, ProblemRef problem, PeerRequest& request);

}  // namespace tilewright::cli
