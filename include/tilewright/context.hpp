// SPDX-License-Identifier: MIT
// Context: devices, registry, tuned tables and code cache of one user of the library. Context::global() is the one that
// most programs need; tests and tools make their own. Safe to use from many threads.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tilewright/status.hpp"
#include "tilewright/tensor_view.hpp"

namespace tilewright {

struct ContextOptions {
  std::string cache_dir;                 // code cache; "" = TILEWRIGHT_CACHE_DIR or the user's cache folder
  std::vector<std::string> tuned_files;  // tuned tables layered over built-in, user's and TILEWRIGHT_TUNED ones
  bool user_tables = true;               // read the user's and TILEWRIGHT_TUNED tables, and the user's quarantine
  std::string jit;                       // "off" | "on" | "background" | "force"; "" = TILEWRIGHT_JIT or "on"
  int cpu_units = 0;                     // CPU threads; 0 = TILEWRIGHT_NUM_THREADS or every core the process may use
};

// How one call runs. Nothing here changes what it computes; `units` and `programmatic_edge` may lead to another kernel, which sums
// in another order (but see GemmOptions for bitwise promises).
struct Exec {
  void* stream = nullptr;  // GPU stream; unused on the CPU
  // GPU: the call may begin before the kernels in front of it in the stream have ended (CUDA's programmatic dependent
  // launch). It waits for them before it touches anything but weights, none of which they may still write: a GEMM's B, weight and bias of
  // operators on rows. Where a kernel or a device knows no such edges, nothing changes.
  bool programmatic_edge = false;
  int units = 0;              // cores, SMs or CUs that the call may use; 0 = all
  void* workspace = nullptr;  // at least query().workspace_bytes; null = the context's own
  int64_t workspace_bytes = 0;
  // CPU: runs body(0..count-1) on the caller's threads instead of the context's pool.
  const std::function<void(uint32_t count, const std::function<void(uint32_t)>& body)>* parallel_for = nullptr;
  // Called before a problem that the context has not seen is planned, which may compile: a caller that holds a lock of
  // its own (an interpreter's) gives it away here.
  const std::function<void()>* on_new_problem = nullptr;
};

// What would run, and why.
struct QueryResult {
  std::string source;  // "forced" | "tuned" | "bucket" | "cost" | "generic"
  std::string recipe;  // kernel keys and knobs
  int64_t workspace_bytes = 0;
  bool built = false;     // no compile needed
  bool fallback = false;  // a better recipe exists but is not built and may not be compiled
  double predicted_us = 0;
};

class ContextImpl;

class Context {
 public:
  TILEWRIGHT_API static Result<std::unique_ptr<Context>> create(const ContextOptions& options = {});
  // Made at first use from the environment; lives until the process ends.
  TILEWRIGHT_API static Context& global();

  TILEWRIGHT_API ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  // Digest of all tuned rows in effect, and of kernels in quarantine: ranks of a job compare it to know that they choose alike.
  TILEWRIGHT_API std::string tables_digest() const;
  // Counter values as "name=value" pairs in a fixed order (src/core/counters.hpp).
  TILEWRIGHT_API std::vector<std::pair<std::string, uint64_t>> counters() const;

  ContextImpl& impl() { return *impl_; }

 private:
  explicit Context(std::unique_ptr<ContextImpl> impl);
  std::unique_ptr<ContextImpl> impl_;
};

}  // namespace tilewright
