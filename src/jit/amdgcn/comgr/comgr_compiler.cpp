// SPDX-License-Identifier: MIT
#include "jit/amdgcn/comgr/comgr_compiler.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <utility>

#include "arch/arch_spec.hpp"
#include "core/log.hpp"
#include "jit/flags.hpp"
#include "jit/kernel_headers.hpp"
#include "jit/system/files.hpp"

namespace tilewright {
namespace {

using comgr::Action;
using comgr::DataKind;
using comgr::Library;

constexpr std::string_view kIsaPrefix = "amdgcn-amd-amdhsa--";

// LLVM's options and signal handlers are the process's: comgr sets them for an action and puts them back.
std::timed_mutex& action_mutex() {
  static auto* const mutex = new std::timed_mutex;
  return *mutex;
}

// Some inputs, and what an action makes of them.
class OwnedSet {
 public:
  explicit OwnedSet(const Library& library)
      : library_(library), status_(library.check(library.create_data_set(&set_))) {}
  ~OwnedSet() {
    if (set_.handle != 0) library_.destroy_data_set(set_);
  }
  OwnedSet(const OwnedSet&) = delete;
  OwnedSet& operator=(const OwnedSet&) = delete;

  const Status& status() const { return status_; }
  comgr::DataSet get() const { return set_; }

  Status add(DataKind kind, const std::string& name, const std::string& text) {
    comgr::Data data;
    if (Status status = library_.check(library_.create_data(kind, &data)); !status) return status;
    Status status = library_.check(library_.set_data(data, text.size(), text.data()));
    if (status.ok()) status = library_.check(library_.set_data_name(data, name.c_str()));
    if (status.ok()) status = library_.check(library_.data_set_add(set_, data));
    library_.release_data(data);
    return status;
  }

  // The bytes of all of a kind, one after another.
  Result<std::string> bytes(DataKind kind) const {
    size_t count = 0;
    if (Status status = library_.check(library_.action_data_count(set_, kind, &count)); !status) return status;
    std::string all;
    for (size_t i = 0; i < count; ++i) {
      comgr::Data data;
      if (Status status = library_.check(library_.action_data_get_data(set_, kind, i, &data)); !status) return status;
      size_t size = 0;
      Status status = library_.check(library_.get_data(data, &size, nullptr));
      std::string one(size, '\0');
      if (status.ok()) status = library_.check(library_.get_data(data, &size, one.data()));
      library_.release_data(data);
      if (!status) return status;
      all += one;
    }
    return all;
  }

 private:
  const Library& library_;
  comgr::DataSet set_;
  Status status_;
};

// One after another, with what comgr says of each.
class Actions {
 public:
  Actions(const Library& library, std::string_view target) : library_(library) {
    status_ = library.check(library.create_action_info(&info_));
    const auto set = [&](comgr::ComgrStatus result) {
      if (status_.ok()) status_ = library.check(result);
    };
    if (!status_) return;
    set(library.set_isa_name(info_, fmt::format("{}{}", kIsaPrefix, target).c_str()));
    set(library.set_language(info_, comgr::Language::kHip));
    set(library.set_logging(info_, true));
  }
  ~Actions() {
    if (info_.handle != 0) library_.destroy_action_info(info_);
  }
  Actions(const Actions&) = delete;
  Actions& operator=(const Actions&) = delete;

  Status run(Action action, std::vector<const char*> options, const OwnedSet& input, const OwnedSet& result) {
    for (const Status* status : {&std::as_const(status_), &input.status(), &result.status()}) {
      if (!*status) return *status;
    }
    if (Status status = library_.check(library_.set_option_list(info_, options.data(), options.size())); !status) {
      return status;
    }
    Status status = library_.check(library_.do_action(action, info_, input.get(), result.get()));
    if (Result<std::string> words = result.bytes(DataKind::kLog); words.ok()) words_ += *words;
    return status;
  }
  const std::string& words() const { return words_; }

 private:
  const Library& library_;
  comgr::ActionInfo info_;
  Status status_;
  std::string words_;
};

// "20.0.0git (...)", from the compiler's own macro.
Result<std::string> clang_version(const Library& library, const std::string& target) {
  OwnedSet source(library), text(library);
  if (Status status = source.add(DataKind::kSource, "version.hip", "tilewright __clang_version__\n"); !status)
    return status;
  Actions actions(library, target);
  std::vector<const char*> options(hip_flags().begin(), hip_flags().end());
  if (Status status = actions.run(Action::kPreprocess, options, source, text); !status) {
    return Status(status.code(), fmt::format("{}\n{}", status.message(), actions.words()));
  }
  Result<std::string> printed = text.bytes(DataKind::kSource);
  if (!printed) return printed;
  constexpr std::string_view kBefore = "tilewright \"";
  const size_t at = printed->rfind(kBefore);
  if (at == std::string::npos) return Status(StatusCode::kUnsupported, "comgr: its clang does not say what it is");
  const std::string version = printed->substr(at + kBefore.size());
  return version.substr(0, std::min(version.find_last_not_of(' ', version.find('"') - 1) + 1, version.find('"')));
}

// Of those that there are kernels for.
std::vector<std::string> known_targets(const Library& library) {
  std::vector<std::string> targets;
  size_t count = 0;
  if (library.get_isa_count(&count) != comgr::ComgrStatus::kSuccess) return targets;
  for (size_t i = 0; i < count; ++i) {
    const char* name = nullptr;
    if (library.get_isa_name(i, &name) != comgr::ComgrStatus::kSuccess || name == nullptr) continue;
    const std::string_view isa(name);
    if (isa.starts_with(kIsaPrefix) && find_arch(isa.substr(kIsaPrefix.size())) != nullptr) {
      targets.emplace_back(isa.substr(kIsaPrefix.size()));
    }
  }
  return targets;
}

// Source to a code object: what clang's driver does in one go.
Result<std::string> build_object(const Library& library, const CompileRequest& request, Actions& actions,
                                 const std::vector<std::string>& flags) {
  Result<std::vector<std::shared_ptr<const KernelHeader>>> headers = find_kernel_headers(hip_source(request));
  if (!headers) return headers.status();
  OwnedSet source(library), bitcode(library), relocatable(library), object(library);
  Status status = source.add(DataKind::kSource, kHipSourceFile, hip_source(request));
  for (const auto& header : *headers) {
    if (status.ok()) status = source.add(DataKind::kInclude, header->path, header->text);
  }
  std::vector<const char*> options(hip_flags().begin(), hip_flags().end());
  for (const std::string& flag : flags) options.push_back(flag.c_str());
  if (status.ok()) status = actions.run(Action::kCompileToBitcode, options, source, bitcode);
  if (status.ok()) status = actions.run(Action::kBitcodeToRelocatable, {"-O3"}, bitcode, relocatable);
  if (status.ok()) status = actions.run(Action::kLinkToExecutable, {}, relocatable, object);
  if (!status) return status;
  return object.bytes(DataKind::kExecutable);
}

}  // namespace

Status ComgrCompiler::open() const {
  Result<Library> opened = comgr::open_library(names_);
  if (!opened) return opened.status();
  const std::vector<std::string> targets = known_targets(*opened);
  if (targets.empty()) return Status(StatusCode::kUnsupported, fmt::format("{} knows no target of ours", opened->name));
  const std::lock_guard lock(action_mutex());
  Result<std::string> version = clang_version(*opened, targets.back());
  if (!version) return version.status();
  if (std::atoi(version->c_str()) < kOldestAmdClang) {
    return Status(StatusCode::kUnsupported,
                  fmt::format("{}: comgr {}.{} with clang {}; allowed: clang {} or later", opened->name, opened->major,
                              opened->minor, *version, kOldestAmdClang));
  }
  library_ = std::move(*opened);
  targets_ = targets;
  identity_ = fmt::format("comgr {}.{}, clang version {}", library_->major, library_->minor, *version);
  log(LogLevel::kInfo, "jit", "compiler: {} ({})", library_->name, identity_);
  return {};
}

void ComgrCompiler::find() const {
  Status status = open();
  if (!status) {
    status_ = Status(StatusCode::kNotFound, fmt::format("jit: no comgr: {}; install ROCm 7.0 or later, or name one in "
                                                        "TILEWRIGHT_COMGR",
                                                        status.message()));
  }
}

const std::string& ComgrCompiler::identity() const {
  std::call_once(found_once_, [this] { find(); });
  return identity_;
}

Status ComgrCompiler::available() const {
  std::call_once(found_once_, [this] { find(); });
  return status_;
}

Result<std::string> ComgrCompiler::compile(const CompileRequest& request, const std::string& folder,
                                           const std::atomic<bool>* stop) {
  if (Status status = available(); !status) return status;
  Result<std::vector<std::string>> flags = all_flags(request);
  if (!flags) return flags.status();
  if (std::find(targets_.begin(), targets_.end(), request.target) == targets_.end()) {
    return Status(StatusCode::kUnsupported, fmt::format("jit: '{}': {} does not know {}; it knows {}", request.name,
                                                        identity_, request.target, fmt::join(targets_, ", ")));
  }
  if (Status status = write_file(folder + "/" + kHipSourceFile, hip_source(request)); !status) return status;

  std::unique_lock lock(action_mutex(), std::defer_lock);
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds_limit_);
  while (!lock.try_lock_for(std::chrono::milliseconds(20))) {
    if (stop != nullptr && *stop) break;
    if (std::chrono::steady_clock::now() > deadline) {
      return Status(StatusCode::kTimeout, fmt::format("jit: '{}' for {} waited {} s for other compiles", request.name,
                                                      request.target, seconds_limit_));
    }
  }
  if (stop != nullptr && *stop) {
    return Status(StatusCode::kCompileDisabled, fmt::format("jit: the compile of '{}' was stopped", request.name));
  }
  Actions actions(*library_, request.target);
  Result<std::string> object = build_object(*library_, request, actions, *flags);
  lock.unlock();

  const std::string text =
      fmt::format("comgr {} {}\n{}", fmt::join(hip_flags(), " "), fmt::join(*flags, " "), actions.words());
  if (Status status = write_file(folder + "/" + kCompileLogFile, text); !status) return status;
  if (!object || object->empty()) {
    const std::string reason = object ? "it makes no code object" : object.status().message();
    return Status(StatusCode::kCompileFailed,
                  fmt::format("jit: '{}' for {} does not compile: {}\n{}", request.name, request.target, reason,
                              actions.words().substr(0, kMaxCompilerWords)));
  }
  if (Status status = write_file(folder + "/" + kHipBinaryFile, *object); !status) return status;
  return std::string(kHipBinaryFile);
}

}  // namespace tilewright
