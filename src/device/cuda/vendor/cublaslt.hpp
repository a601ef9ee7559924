// SPDX-License-Identifier: MIT
// cuBLASLt on one device: what it proposes for a multiplication, and calls of what was chosen. Algorithms are named by
// their attributes and rebuilt from them.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "device/cuda/cuda_kernel.hpp"
#include "device/cuda/vendor/cublaslt_library.hpp"
#include "tile/common/fields.hpp"

namespace tilewright::cuda {

// A matrix as cuBLASLt sees it: its columns lie one after another.
struct LtMatrix {
  LtType type = LtType::kF32;
  int64_t rows = 0, columns = 0, leading = 0;  // leading: elements from column to column
  int64_t batch_stride = 0;                    // elements
  uint32_t alignment = 16;                     // bytes, of every address that will come
};

// An operand that scales A or B: its pointer comes with each call. A float for the matrix; for each row of op(A) or column of
// op(B); for each of them and 128 of K, those of one place in K next to each other; for 128 of them and 128 of K, those along
// K next to each other and each line of them in a multiple of four.
enum class LtScale : uint8_t { kNone, kScalar, kVector, kRows128, kBlocks128 };

// D = epilogue(alpha op(A) op(B) + beta C + bias), without addresses. C has D's type.
struct LtProblem {
  LtMatrix a, b, c, d;
  bool transpose_a = false, transpose_b = false;
  bool has_c = false;  // without it c is d, and beta 0
  int64_t batch = 1;
  LtCompute compute = LtCompute::kF32;
  uint32_t activation = 0;  // kLtEpilogueRelu, kLtEpilogueGelu
  bool has_bias = false;    // one element a row of D
  LtType bias_type = LtType::kF32;
  int64_t bias_batch_stride = 0;
  uint32_t bias_alignment = 16;  // bytes
  LtScale scale_a = LtScale::kNone, scale_b = LtScale::kNone;
  bool fast_accumulation = false;
  uint32_t reductions = kLtReduceCompute;  // mask
  int32_t units = 0;                       // SMs to use; 0 = all
};

// What names an algorithm, in every process with this version of the library.
struct LtAlgo {
  static constexpr const char* kTypeName = "LtAlgo";
  int32_t version, algo, tile, stages, split_k, reduction, swizzle, custom, inner, cluster;

  bool operator==(const LtAlgo&) const = default;
  template <class Self, class Visit>
  static constexpr void fields(Self& self, Visit&& visit) {
    visit("version", self.version);
    visit("algo", self.algo);
    visit("tile", self.tile);
    visit("stages", self.stages);
    visit("split_k", self.split_k);
    visit("reduction", self.reduction);
    visit("swizzle", self.swizzle);
    visit("custom", self.custom);
    visit("inner", self.inner);
    visit("cluster", self.cluster);
  }
};

// Arguments of a call. Unused pointers are null.
struct LtArgs {
  const void *a, *b, *c, *bias, *scale_a, *scale_b;
  void *d, *workspace;
  float alpha, beta;
};

class CublasLt {
 public:
  static Result<std::unique_ptr<CublasLt>> open(const LtLibrary& library, const Place& place);
  ~CublasLt();
  CublasLt(const CublasLt&) = delete;
  CublasLt& operator=(const CublasLt&) = delete;

  const LtLibrary& library() const { return library_; }

  // What the library proposes, each once: its own order with the most workspace first, then what less of it adds. Remembered.
  using Algos = std::shared_ptr<const std::vector<LtAlgo>>;
  Result<Algos> propose(const LtProblem& problem) const;
  // Bytes of workspace that the algorithm takes for the problem; the error says why it cannot serve it.
  Result<int64_t> workspace_bytes(const LtProblem& problem, const LtAlgo& algo) const;
  // Everything but addresses and scalars made ready; takes LtArgs.
  Result<std::shared_ptr<const HostCall>> make_call(const LtProblem& problem, const LtAlgo& algo) const;

 private:
  CublasLt(const LtLibrary& library, const Place& place) : library_(library), place_(place) {}
  Result<LtHeuristic> rebuild(const LtProblem& problem, const LtAlgo& algo) const;
  Status check_alignment(const LtProblem& problem, const LtAlgorithm& algorithm) const;
  Result<std::vector<LtAlgo>> ask(const LtProblem& problem) const;
  Result<LtAlgo> read(const LtAlgorithm& algorithm) const;
  std::string where() const;

  const LtLibrary& library_;
  const Place place_;
  LtHandle handle_ = nullptr;
  mutable std::mutex mutex_;
  mutable std::map<std::string, Algos> proposed_;  // by the problem's text
};

}  // namespace tilewright::cuda
