// SPDX-License-Identifier: MIT
// A compiler turns one instance's source into an artifact file: host C++ and NVRTC.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/digest.hpp"
#include "device/device.hpp"
#include "tilewright/status.hpp"

namespace tilewright {

// A kernel header carried in the library: what an instance's source may include.
struct EmbeddedHeader {
  std::string_view path;  // "gemm/cpu/gemm_cpu.hpp"
  std::string_view text;
};
std::span<const EmbeddedHeader> embedded_headers();

// The headers that `source` reaches through #include "...", transitively, in path order. TILEWRIGHT_KERNEL_DIR replaces
// the embedded ones by a folder's (for kernel development).
Result<std::vector<std::pair<std::string, std::string>>> reachable_headers(std::string_view source);

struct CompileRequest {
  std::string name;                // readable: becomes part of the entry's folder name
  std::string source;              // one instance
  std::string entry;               // extern "C" name inside
  std::string target;              // flags come from arch_specs.json
  std::vector<std::string> flags;  // additional
  std::string op;                  // whose instance it is, for profilers; changes nothing
};

// What every compiler leaves beside the binary, and how much of its words an error repeats.
inline constexpr const char* kCompileLogFile = "build.log";
inline constexpr size_t kMaxCompilerWords = 6000;

class Compiler {
 public:
  virtual ~Compiler() = default;
  virtual std::string_view name() const = 0;  // "host-c++"
  virtual ArtifactKind kind() const = 0;
  // Full identity: program, version line, ABI-relevant defaults. Part of every digest. Empty when there is none.
  virtual const std::string& identity() const = 0;
  // The flags that it adds to every request, known without running a program. Part of every digest.
  virtual std::string base_flags() const { return {}; }
  // Of compiled code that it links with the request's, "" = none. Part of the digest of what it makes, not of the content.
  virtual std::string linked_digest(const CompileRequest&) const { return {}; }
  // Why there is no compiler, or ok.
  virtual Status available() const = 0;
  // Writes source, headers, log and the binary into `folder` (which exists and is private to this call); returns the
  // binary's file name. The error carries the compiler's own words. A compile ends soon after `*stop` (if there is one)
  // becomes true, with kCompileDisabled.
  virtual Result<std::string> compile(const CompileRequest& request, const std::string& folder,
                                      const std::atomic<bool>* stop) = 0;
};

// $TILEWRIGHT_CXX, else $CXX, else c++, g++, clang++ on PATH. Found once.
Compiler& host_compiler();
// nvrtc/nvrtc_library.hpp says where it is looked for.
Compiler& nvrtc_compiler();
// A ProbeCompiler (device.hpp): with the target's compiler, past the code cache.
Result<Artifact> compile_probe(const std::string& source, const std::string& entry, std::string_view target);
// The one that makes a target's code, for its emulation or its hardware. What `available()` says tells why there is none.
Compiler& compiler_for(std::string_view target, bool emulated = false);
inline Compiler& compiler_of(const DeviceSpec& device) {
  return compiler_for(device.arch != nullptr ? device.arch->target : "", device.emulated);
}

}  // namespace tilewright
