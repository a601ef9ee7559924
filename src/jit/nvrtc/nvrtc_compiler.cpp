// SPDX-License-Identifier: MIT
#include "jit/nvrtc/nvrtc_compiler.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <chrono>

#include "core/environment.hpp"
#include "core/log.hpp"
#include "jit/flags.hpp"
#include "jit/kernel_headers.hpp"
#include "jit/system/files.hpp"

namespace tilewright {
namespace {

using nvrtc::NvrtcResult;
using Clock = std::chrono::steady_clock;

constexpr const char* kCudaSource = "instance.cu";
constexpr const char* kCudaBinary = "instance.cubin";

// Functions of freestanding headers need no __device__. Nothing of the current folder is read. Who works on kernels gets
// lines for a profiler, which make a cubin three times as large.
std::vector<const char*> base_flag_list() {
  std::vector<const char*> flags = {"--std=c++20", "--device-as-default-execution-space", "--no-source-include"};
  if (environment("TILEWRIGHT_KERNEL_DIR")) flags.push_back("--generate-line-info");
  return flags;
}

// What ends a compile under way.
struct Watch {
  const std::atomic<bool>* stop;
  Clock::time_point deadline;
  bool stopped() const { return stop != nullptr && stop->load(std::memory_order_relaxed); }
  static int ask(void* payload, void*) {
    const auto& watch = *static_cast<const Watch*>(payload);
    return watch.stopped() || Clock::now() > watch.deadline ? 1 : 0;
  }
};

class OwnedProgram {
 public:
  explicit OwnedProgram(const nvrtc::Library& library) : library_(library) {}
  ~OwnedProgram() {
    if (program_ != nullptr) library_.nvrtcDestroyProgram(&program_);
  }
  OwnedProgram(const OwnedProgram&) = delete;
  OwnedProgram& operator=(const OwnedProgram&) = delete;
  nvrtc::Program* address() { return &program_; }
  nvrtc::Program get() const { return program_; }

 private:
  const nvrtc::Library& library_;
  nvrtc::Program program_ = nullptr;
};

std::string program_log(const nvrtc::Library& library, nvrtc::Program program) {
  size_t bytes = 0;
  if (library.nvrtcGetProgramLogSize(program, &bytes) != NvrtcResult::kSuccess || bytes <= 1) return {};
  std::string log(bytes, '\0');
  if (library.nvrtcGetProgramLog(program, log.data()) != NvrtcResult::kSuccess) return {};
  log.resize(bytes - 1);  // its last byte is a zero
  return log;
}

}  // namespace

void NvrtcCompiler::find() const {
  Result<nvrtc::Library> opened = nvrtc::open_library(names_);
  if (!opened) {
    status_ = opened.status();
    return;
  }
  library_ = std::move(*opened);
  identity_ = fmt::format("nvrtc {}.{}", library_->major, library_->minor);
  log(LogLevel::kInfo, "jit", "NVRTC {}.{}: {}", library_->major, library_->minor, library_->name);
}

const std::string& NvrtcCompiler::identity() const {
  std::call_once(found_once_, [this] { find(); });
  return identity_;
}

Status NvrtcCompiler::available() const {
  std::call_once(found_once_, [this] { find(); });
  return status_;
}

std::string NvrtcCompiler::base_flags() const { return fmt::format("{}", fmt::join(base_flag_list(), " ")); }

Result<std::string> NvrtcCompiler::compile(const CompileRequest& request, const std::string& folder,
                                           const std::atomic<bool>* stop) {
  if (Status status = available(); !status) return status;
  Result<std::vector<std::string>> flags = all_flags(request);
  if (!flags) return flags.status();
  Result<std::vector<std::shared_ptr<const KernelHeader>>> headers = find_kernel_headers(request.source);
  if (!headers) return headers.status();
  if (Status status = write_file(folder + "/" + kCudaSource, request.source); !status) return status;

  std::vector<const char*> texts, names, options = base_flag_list();
  for (const auto& header : *headers) {
    texts.push_back(header->text.c_str());
    names.push_back(header->path.c_str());
  }
  for (const std::string& flag : *flags) options.push_back(flag.c_str());

  const nvrtc::Library& library = *library_;
  Watch watch{stop, Clock::now() + std::chrono::milliseconds(static_cast<int64_t>(seconds_limit_ * 1e3))};
  const auto stopped = [&] {
    return Status(StatusCode::kCompileDisabled, fmt::format("jit: the compile of '{}' was stopped", request.name));
  };
  if (watch.stopped()) return stopped();
  OwnedProgram program(library);
  NvrtcResult result = library.nvrtcCreateProgram(program.address(), request.source.c_str(), kCudaSource,
                                                  static_cast<int>(texts.size()), texts.data(), names.data());
  if (result == NvrtcResult::kSuccess && library.nvrtcSetFlowCallback != nullptr) {
    result = library.nvrtcSetFlowCallback(program.get(), &Watch::ask, &watch);
  }
  if (result == NvrtcResult::kSuccess) {
    result = library.nvrtcCompileProgram(program.get(), static_cast<int>(options.size()), options.data());
  }
  const std::string words = program.get() != nullptr ? program_log(library, program.get()) : std::string();
  const std::string text = fmt::format("nvrtc {}\n{}", fmt::join(options, " "), words);
  if (Status status = write_file(folder + "/" + kCompileLogFile, text); !status) return status;
  if (watch.stopped()) return stopped();

  std::string cubin;
  size_t bytes = 0;
  if (result == NvrtcResult::kSuccess) result = library.nvrtcGetCUBINSize(program.get(), &bytes);
  if (result == NvrtcResult::kSuccess) {
    cubin.resize(bytes);
    result = library.nvrtcGetCUBIN(program.get(), cubin.data());
  }
  if (result != NvrtcResult::kSuccess) {
    const bool late = Clock::now() > watch.deadline;
    return Status(late ? StatusCode::kTimeout : StatusCode::kCompileFailed,
                  fmt::format("jit: '{}' for {} does not compile: {}{}\n{}", request.name, request.target,
                              library.nvrtcGetErrorString(result),
                              late ? fmt::format(", over the limit of {} s", seconds_limit_) : "",
                              words.substr(0, kMaxCompilerWords)));
  }
  if (cubin.empty()) {
    return Status(StatusCode::kCompileFailed, fmt::format("jit: '{}': the flags for {} make no cubin: {}", request.name,
                                                          request.target, fmt::join(*flags, " ")));
  }
  if (Status status = write_file(folder + "/" + kCudaBinary, cubin); !status) return status;
  return std::string(kCudaBinary);
}

Compiler& nvrtc_compiler() {
  // Never destroyed: background threads of other static objects may still compile.
  static Compiler* const compiler = new NvrtcCompiler(nvrtc::library_names());
  return *compiler;
}

}  // namespace tilewright
