// SPDX-License-Identifier: MIT
// The in-process part of the code cache: who waits for whom, modes, and the background thread.
#include "jit/code_cache.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cctype>
#include <condition_variable>
#include <deque>
#include <future>
#include <mutex>
#include <thread>
#include <unordered_map>

#include "core/environment.hpp"
#include "core/log.hpp"
#include "jit/cache/entry_store.hpp"
#include "jit/flags.hpp"
#include "jit/kernel_headers.hpp"
#include "jit/system/files.hpp"

namespace tilewright {
namespace {

using Answer = Result<Artifact>;

bool is_ready(const std::shared_future<Answer>& future) {
  return future.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
}

// A build in memory is of no use when its file was removed (by `cache prune`, by the user).
bool still_there(const Artifact& artifact) { return artifact.path.empty() || is_file(artifact.path); }

Status compile_disabled(const CompileRequest& request) {
  return Status(
      StatusCode::kCompileDisabled,
      fmt::format("jit: '{}' for {} is not in the code cache and TILEWRIGHT_JIT=off forbids compiling; build it "
                  "ahead of time with `tilewright prebuild`, or set TILEWRIGHT_JIT=on",
                  request.name, request.target));
}

Status compile_pending(const CompileRequest& request) {
  return Status(StatusCode::kCompileDisabled,
                fmt::format("jit: '{}' for {} is being compiled in the background", request.name, request.target));
}

}  // namespace

struct CodeCache::Impl {
  struct Job {
    CompileRequest request;
    Compiler* compiler;
    Digest digest;
    std::promise<Answer> promise;
  };

  // All that threads share. A forked child gets one of its own: in the parent's, a lock may be held and a future be
  // waited for by threads that the child does not have.
  struct Memory {
    const pid_t process = getpid();
    PrivateFolder spare;
    std::mutex mutex;
    std::unordered_map<Digest, std::shared_future<Answer>, DigestHash> artifacts;
    // Background compiling.
    std::condition_variable work;
    std::deque<Job> jobs;
    bool closing = false;
    std::thread worker;
  };

  Impl(const CodeCacheOptions& options, Counters& counters)
      : counters(counters), store(options, counters), mode(options.mode), memory(new Memory) {}

  ~Impl() {
    Memory* own = memory.load();
    if (own->process != getpid()) return;  // made before a fork: its thread is not ours to join
    {
      const std::lock_guard lock(own->mutex);
      own->closing = true;
    }
    own->work.notify_all();
    if (own->worker.joinable()) own->worker.join();
    delete own;
  }

  Memory& current_memory() {
    Memory* own = memory.load(std::memory_order_acquire);
    if (own->process == getpid()) return *own;
    auto fresh = std::make_unique<Memory>();
    if (memory.compare_exchange_strong(own, fresh.get(), std::memory_order_acq_rel)) return *fresh.release();
    return *own;
  }

  Answer get(const CompileRequest& request, Compiler& compiler, const Digest& digest);
  Answer make(Memory& own, Job job);
  void answer(Memory& own, Job& job, Answer result);
  void enqueue(Memory& own, Job& job);  // takes the job, or throws and leaves it
  void work_in_background(Memory& own);

  Counters& counters;
  EntryStore store;
  std::atomic<JitMode> mode;
  std::atomic<Memory*> memory;
};

// Reaches every waiter; an error is not remembered. It is forgotten first: who comes now begins anew.
void CodeCache::Impl::answer(Memory& own, Job& job, Answer result) {
  if (!result.ok()) {
    const std::lock_guard lock(own.mutex);
    own.artifacts.erase(job.digest);
  }
  job.promise.set_value(std::move(result));
}

Answer CodeCache::Impl::get(const CompileRequest& request, Compiler& compiler, const Digest& digest) {
  Memory& own = current_memory();
  Job job{request, &compiler, digest, {}};
  {
    std::unique_lock lock(own.mutex);
    if (const auto it = own.artifacts.find(digest); it != own.artifacts.end()) {
      const std::shared_future<Answer> known = it->second;
      if (!is_ready(known)) {
        if (const JitMode how = mode.load(); how == JitMode::kBackground || how == JitMode::kOff) {
          return compile_pending(request);
        }
        lock.unlock();
        Answer shared = known.get();
        if (shared.ok()) count(counters.cache_memory_hits);
        return shared;
      }
      const Answer& done = known.get();
      if (done.ok() && still_there(*done)) {
        count(counters.cache_memory_hits);
        return done;
      }
      own.artifacts.erase(it);
      if (!done.ok()) return done;  // a background compile failed: told once, then tried again
    }
    own.artifacts.emplace(digest, job.promise.get_future().share());
  }
  return make(own, std::move(job));
}

Answer CodeCache::Impl::make(Memory& own, Job job) {
  const JitMode how = mode.load();
  Answer result = Status(StatusCode::kInternal, "jit: no answer");
  try {
    if (how != JitMode::kForce) {
      result = store.find(job.request, job.digest);
      if (result.ok()) count(counters.cache_disk_hits);
    }
    if (!result.ok() && how == JitMode::kOff) {
      result = compile_disabled(job.request);
    } else if (!result.ok() && how == JitMode::kBackground) {
      const Status pending = compile_pending(job.request);
      enqueue(own, job);
      return pending;
    } else if (!result.ok()) {
      result = store.build(job.request, *job.compiler, job.digest, how == JitMode::kForce, own.spare);
    }
  } catch (const std::exception& error) {
    result = Status(StatusCode::kInternal, fmt::format("jit: '{}': {}", job.request.name, error.what()));
  }
  answer(own, job, result);
  return result;
}

void CodeCache::Impl::enqueue(Memory& own, Job& job) {
  {
    const std::lock_guard lock(own.mutex);
    if (!own.worker.joinable()) own.worker = std::thread([this, &own] { work_in_background(own); });
    own.jobs.push_back(std::move(job));
  }
  own.work.notify_one();
}

void CodeCache::Impl::work_in_background(Memory& own) {
  std::unique_lock lock(own.mutex);
  for (;;) {
    own.work.wait(lock, [&] { return own.closing || !own.jobs.empty(); });
    if (own.jobs.empty()) return;
    Job job = std::move(own.jobs.front());
    own.jobs.pop_front();
    const bool closing = own.closing;
    lock.unlock();
    Answer result = Status(StatusCode::kCompileDisabled, "jit: the code cache was closed before the compile began");
    if (!closing) {
      try {
        result = store.build(job.request, *job.compiler, job.digest, /*force=*/false, own.spare);
      } catch (const std::exception& error) {
        result = Status(StatusCode::kInternal, fmt::format("jit: '{}': {}", job.request.name, error.what()));
      }
    }
    // An error stays until the next get() takes it: nobody waits for it here.
    job.promise.set_value(std::move(result));
    lock.lock();
  }
}

CodeCache::CodeCache(const CodeCacheOptions& options, Counters& counters)
    : impl_(std::make_unique<Impl>(options, counters)) {}
CodeCache::~CodeCache() = default;

Result<Digest> CodeCache::digest(const CompileRequest& request, const Compiler& compiler) {
  if (Status status = compiler.available(); !status) return status;
  Result<std::vector<std::string>> flags = all_flags(request);
  if (!flags) return flags.status();
  Result<std::vector<std::shared_ptr<const KernelHeader>>> headers = find_kernel_headers(request.source);
  if (!headers) return headers.status();
  Digester digester;
  digester.update(fmt::format("tilewright abi {}", kKernelAbi));
  digester.update(compiler.name()).update(compiler.identity()).update(request.target);
  digester.update(request.entry).update(request.source);
  digester.update(fmt::format("{} flags", flags->size()));
  for (const std::string& flag : *flags) digester.update(flag);
  digester.update(fmt::format("{} headers", headers->size()));
  for (const auto& header : *headers) digester.update(header->path).update_bytes(header->digest.bytes);
  return digester.finish();
}

bool CodeCache::has(const CompileRequest& request, const Compiler& compiler) {
  Result<Digest> key = digest(request, compiler);
  if (!key) return false;
  Impl::Memory& own = impl_->current_memory();
  {
    const std::lock_guard lock(own.mutex);
    if (const auto it = own.artifacts.find(*key); it != own.artifacts.end()) {
      return is_ready(it->second) && it->second.get().ok() && still_there(*it->second.get());
    }
  }
  Answer found = impl_->store.find(request, *key);
  if (!found) return false;
  // Verified once a process: what was found here is not read again by get().
  std::promise<Answer> promise;
  promise.set_value(std::move(found));
  const std::lock_guard lock(own.mutex);
  if (own.artifacts.emplace(*key, promise.get_future().share()).second) count(impl_->counters.cache_disk_hits);
  return true;
}

Result<Artifact> CodeCache::get(const CompileRequest& request, Compiler& compiler) {
  if (Status status = compiler.available(); !status) {
    if (mode() == JitMode::kOff) return compile_disabled(request);
    return Status(status.code(),
                  fmt::format("jit: '{}' for {} needs a compiler: {}", request.name, request.target, status.message()));
  }
  Result<Digest> key = digest(request, compiler);
  if (!key) return key.status();
  return impl_->get(request, compiler, *key);
}

JitMode CodeCache::mode() const { return impl_->mode.load(); }
void CodeCache::set_mode(JitMode mode) { impl_->mode.store(mode); }
const std::string& CodeCache::root() const { return impl_->store.root(); }
const Status& CodeCache::root_problem() const { return impl_->store.root_problem(); }
std::vector<CacheEntryInfo> CodeCache::list() { return impl_->store.list(); }
Result<int64_t> CodeCache::prune(int64_t keep_bytes) { return impl_->store.prune(keep_bytes); }

CodeCacheOptions code_cache_options_from_environment() {
  CodeCacheOptions options;
  options.root = user_cache_dir();
  std::string folders = environment("TILEWRIGHT_CACHE_READ").value_or("");
  for (std::string_view rest = folders; !rest.empty();) {
    const std::string_view folder = rest.substr(0, rest.find(':'));
    rest.remove_prefix(std::min(folder.size() + 1, rest.size()));
    if (!folder.empty()) options.read_roots.emplace_back(folder);
  }
  constexpr std::pair<std::string_view, JitMode> kModes[] = {
      {"off", JitMode::kOff}, {"on", JitMode::kOn}, {"background", JitMode::kBackground}, {"force", JitMode::kForce}};
  std::string name = environment("TILEWRIGHT_JIT").value_or("");
  std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
  const auto* const known =
      std::find_if(std::begin(kModes), std::end(kModes), [&](const auto& mode) { return mode.first == name; });
  if (known != std::end(kModes)) {
    options.mode = known->second;
  } else if (!name.empty()) {
    log(LogLevel::kError, "jit", "TILEWRIGHT_JIT='{}' is ignored; allowed: off, on, background, force", name);
  }
  return options;
}

}  // namespace tilewright
