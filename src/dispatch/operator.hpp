// SPDX-License-Identifier: MIT
// What dispatch knows of an operator: a descriptor that reads the op's problem (a plain value without padding) for it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "dispatch/call_description.hpp"
#include "tilewright/dtype.hpp"
#include "tilewright/status.hpp"

namespace tilewright {

class Device;
class KernelFamily;
class ProblemInstance;
struct InstanceOptions;

// A problem, erased: bytes that compare equal exactly when the problems do.
using ProblemRef = std::span<const std::byte>;
// Of a problem, at most: a thread keeps its last ones, where a repeated call finds its plan (recent_plans.hpp).
inline constexpr size_t kMostProblemBytes = 768;

template <class Problem>
ProblemRef erase(const Problem& problem) {
  static_assert(sizeof(Problem) <= kMostProblemBytes);
  static_assert(std::has_unique_object_representations_v<Problem>, "a problem is a plain value without padding");
  return std::as_bytes(std::span<const Problem, 1>(&problem, 1));
}
template <class Problem>
const Problem& problem_cast(ProblemRef ref) {
  return *reinterpret_cast<const Problem*>(ref.data());
}

// The parts of a tuned row's key. `sizes` pins every size; `bucket` pins exact sizes and rounds the bucketed ones.
struct ProblemSignature {
  std::string core;      // dtypes, layouts, scale mode
  std::string epilogue;  // "none" or the epilogue's own text
  std::string sizes;     // "m=16:n=4096:k=4096:batch=1"
  std::string bucket;    // "m<=16:n=4096:k=4096:batch=1"
  // Of the same problem called otherwise: its rows serve where there are none of `core`. "" = there is no such problem.
  std::string other_core = {};

  // Of calls with programmatic edges: a problem of its own.
  void add_programmatic_edge() {
    other_core = core;
    core += ":programmatic_edge=1";
  }
};

class Operator {
 public:
  virtual ~Operator() = default;
  virtual std::string_view name() const = 0;
  virtual std::span<const KernelFamily* const> families() const = 0;  // the generic family last
  // Families that serve the operator without computing it (packing): never candidates, but built and listed.
  virtual std::span<const KernelFamily* const> helper_families() const { return {}; }
  virtual ProblemSignature signature(ProblemRef problem) const = 0;
  // One line that parses back: logs, journals and the command line speak it.
  virtual std::string problem_text(ProblemRef problem) const = 0;
  virtual Result<std::vector<std::byte>> parse_problem(std::string_view text) const = 0;
  virtual double operations(ProblemRef problem) const = 0;   // multiply and add count as two
  virtual double bytes_moved(ProblemRef problem) const = 0;  // compulsory traffic: each operand once
  // GPU: whether its calls have programmatic edges, and are measured so.
  virtual bool programmatic_edge(ProblemRef) const { return false; }
  // What its multiplications take: names the arithmetic roof. kNone = none worth a roof, memory is the limit.
  virtual DType multiplied_dtype(ProblemRef) const { return DType::kNone; }
  // The same for people and columns; of two types both: "e4m3xe2m1".
  virtual std::string dtype_text(ProblemRef problem) const { return dtype_name(multiplied_dtype(problem)); }

  // What `tilewright export` writes down of a call, and of the arguments of a family's GPU kernels.
  virtual Result<CallDescription> describe_call(ProblemRef) const {
    return Status(StatusCode::kUnsupported, std::string(name()) + ": calls are not described");
  }
  virtual Result<ArgStruct> describe_args(std::string_view) const {
    return Status(StatusCode::kUnsupported, std::string(name()) + ": arguments of kernels are not described");
  }

  // Buffers, data and reference for verifying and measuring.
  virtual Result<std::unique_ptr<ProblemInstance>> instantiate(ProblemRef problem, Device& device,
                                                               const InstanceOptions& options) const = 0;
  // Smaller problems of the same signature that exercise every tail (sizes one off tile multiples, size 1): a kernel
  // enters a tuned table only when it is right on all of them.
  virtual std::vector<std::vector<std::byte>> tail_problems(ProblemRef problem) const = 0;
};

}  // namespace tilewright
