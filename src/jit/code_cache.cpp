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
#include "jit/cache/pack_set.hpp"
#include "jit/flags.hpp"
#include "jit/kernel_headers.hpp"
#include "jit/system/files.hpp"

namespace tilewright {
namespace {

using Answer = Result<Artifact>;

// What is asked for, in one process: artifacts of different compilers are different.
struct Asked {
  Digest content;
  const Compiler* compiler;
  bool operator==(const Asked&) const = default;
};
struct AskedHash {
  size_t operator()(const Asked& asked) const {
    return DigestHash()(asked.content) ^ std::hash<const void*>()(asked.compiler);
  }
};

// A background compile that failed so often is not tried again: every try costs a core for seconds.
constexpr int kBackgroundTries = 2;

bool is_ready(const std::shared_future<Answer>& future) {
  return future.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
}

// A build in memory is of no use when its file was removed (by `cache prune`, by the user).
bool still_there(const Artifact& artifact) { return artifact.path.empty() || is_file(artifact.path); }

Digest with_compiler(const Digest& content, const CompileRequest& request, const Compiler& compiler,
                     std::string_view identity) {
  Digester digester;
  digester.update_bytes(content.bytes).update(identity).update(compiler.linked_digest(request));
  return digester.finish();
}
Digest with_compiler(const Digest& content, const CompileRequest& request, const Compiler& compiler) {
  return with_compiler(content, request, compiler, compiler.identity());
}

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

// The paths that a variable names, divided by colons.
std::vector<std::string> listed_paths(std::string_view variable) {
  const std::string text = environment(variable).value_or("");
  std::vector<std::string> paths;
  for (std::string_view rest = text; !rest.empty();) {
    const std::string_view path = rest.substr(0, rest.find(':'));
    rest.remove_prefix(std::min(path.size() + 1, rest.size()));
    if (!path.empty()) paths.emplace_back(path);
  }
  return paths;
}

}  // namespace

struct CodeCache::Impl {
  struct Job {
    CompileRequest request;
    Compiler* compiler;
    Asked asked;
    std::promise<Answer> promise;
    Digest digest() const { return with_compiler(asked.content, request, *compiler); }
  };

  // All that threads share. A forked child gets one of its own: in the parent's, a lock may be held and a future be
  // waited for by threads that the child does not have.
  struct Memory {
    const pid_t process = getpid();
    PrivateFolder spare;
    std::mutex mutex;
    std::unordered_map<Asked, std::shared_future<Answer>, AskedHash> artifacts;
    // Background compiling.
    std::condition_variable work;
    std::deque<Job> jobs;
    std::unordered_map<Asked, int, AskedHash> failures;
    std::atomic<bool> closing{false};  // also ends the compile under way
    std::thread worker;
  };

  Impl(const CodeCacheOptions& options, Counters& counters)
      : counters(counters),
        packs(options.packs, options.library_packs, counters),
        store(options, counters),
        mode(options.mode),
        memory(new Memory) {}

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

  Answer get(const CompileRequest& request, Compiler& compiler, const Digest& content);
  Answer find(const CompileRequest& request, const Compiler& compiler, const Digest& content);
  Answer make(Memory& own, Job job);
  void answer(Memory& own, Job& job, Answer result);
  void enqueue(Memory& own, Job& job);  // takes the job, or throws and leaves it
  void work_in_background(Memory& own);

  Counters& counters;
  PackSet packs;
  EntryStore store;
  std::atomic<JitMode> mode;
  std::atomic<uint64_t> generation{0};
  std::atomic<Memory*> memory;
};

// Reaches every waiter; an error is not remembered. It is forgotten first: who comes now begins anew.
void CodeCache::Impl::answer(Memory& own, Job& job, Answer result) {
  if (!result.ok()) {
    const std::lock_guard lock(own.mutex);
    own.artifacts.erase(job.asked);
  }
  job.promise.set_value(std::move(result));
}

Answer CodeCache::Impl::get(const CompileRequest& request, Compiler& compiler, const Digest& content) {
  if (!packs.empty() && mode.load() != JitMode::kForce) {
    if (Answer packed = packs.find(content, request); packed.ok()) {
      count(counters.cache_pack_hits);
      return packed;
    }
  }
  Memory& own = current_memory();
  Job job{request, &compiler, {content, &compiler}, {}};
  {
    std::unique_lock lock(own.mutex);
    if (const auto it = own.artifacts.find(job.asked); it != own.artifacts.end()) {
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
      if (!done.ok() && mode.load() == JitMode::kBackground && own.failures[job.asked] >= kBackgroundTries) return done;
      own.artifacts.erase(it);      // `known` keeps the answer
      if (!done.ok()) return done;  // a background compile failed: told once, then tried again
    }
    own.artifacts.emplace(job.asked, job.promise.get_future().share());
  }
  return make(own, std::move(job));
}

// On the disk: the entry of this compiler. Where it is absent, or must not be run, that of an earlier one serves as well:
// it was made from the same content.
Answer CodeCache::Impl::find(const CompileRequest& request, const Compiler& compiler, const Digest& content) {
  const bool available = compiler.available().ok();
  if (available) {
    Answer found = store.find(request, with_compiler(content, request, compiler));
    if (found.ok() || mode.load() != JitMode::kOff) return found;
  }
  return store.find_of_earlier_compilers(
      request, [&](std::string_view identity) { return with_compiler(content, request, compiler, identity); });
}

Answer CodeCache::Impl::make(Memory& own, Job job) {
  const JitMode how = mode.load();
  Answer result = Status(StatusCode::kInternal, "jit: no answer");
  try {
    const Status compiler = job.compiler->available();
    if (!compiler.ok() || how != JitMode::kForce) {
      result = find(job.request, *job.compiler, job.asked.content);
      if (result.ok()) count(counters.cache_disk_hits);
    }
    if (!result.ok() && how == JitMode::kOff) {
      result = compile_disabled(job.request);
    } else if (!result.ok() && !compiler.ok()) {
      result = Status(compiler.code(), fmt::format("jit: '{}' for {} needs a compiler: {}", job.request.name,
                                                   job.request.target, compiler.message()));
    } else if (!result.ok() && how == JitMode::kBackground) {
      const Status pending = compile_pending(job.request);
      enqueue(own, job);
      return pending;
    } else if (!result.ok()) {
      result = store.build(job.request, *job.compiler, job.digest(), how == JitMode::kForce, own.spare, nullptr);
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
        result = store.build(job.request, *job.compiler, job.digest(), /*force=*/false, own.spare, &own.closing);
      } catch (const std::exception& error) {
        result = Status(StatusCode::kInternal, fmt::format("jit: '{}': {}", job.request.name, error.what()));
      }
    }
    // An error stays until the next get() takes it: nobody waits for it here.
    lock.lock();
    if (!result.ok()) ++own.failures[job.asked];
    job.promise.set_value(std::move(result));
    generation.fetch_add(1, std::memory_order_release);
  }
}

CodeCache::CodeCache(const CodeCacheOptions& options, Counters& counters)
    : impl_(std::make_unique<Impl>(options, counters)) {}
CodeCache::~CodeCache() = default;

Result<Digest> CodeCache::content_digest(const CompileRequest& request, const Compiler& compiler) {
  Result<std::vector<std::string>> flags = all_flags(request);
  if (!flags) return flags.status();
  Result<std::vector<std::shared_ptr<const KernelHeader>>> headers = find_kernel_headers(request.source);
  if (!headers) return headers.status();
  Digester digester;
  digester.update(fmt::format("tilewright abi {}", kKernelAbi));
  digester.update(compiler.name()).update(compiler.base_flags()).update(request.target);
  digester.update(request.entry).update(request.source);
  digester.update(fmt::format("{} flags", flags->size()));
  for (const std::string& flag : *flags) digester.update(flag);
  digester.update(fmt::format("{} headers", headers->size()));
  for (const auto& header : *headers) digester.update(header->path).update_bytes(header->digest.bytes);
  return digester.finish();
}

Result<Digest> CodeCache::digest(const CompileRequest& request, const Compiler& compiler) {
  if (Status status = compiler.available(); !status) return status;
  Result<Digest> content = content_digest(request, compiler);
  if (!content) return content;
  return with_compiler(*content, request, compiler);
}

bool CodeCache::has(const CompileRequest& request, const Compiler& compiler) {
  Result<Digest> content = content_digest(request, compiler);
  if (!content) return false;
  if (!impl_->packs.empty() && mode() != JitMode::kForce && impl_->packs.has(*content, request)) return true;
  Impl::Memory& own = impl_->current_memory();
  const Asked asked{*content, &compiler};
  {
    const std::lock_guard lock(own.mutex);
    if (const auto it = own.artifacts.find(asked); it != own.artifacts.end()) {
      return is_ready(it->second) && it->second.get().ok() && still_there(*it->second.get());
    }
  }
  Answer found = impl_->find(request, compiler, *content);
  if (!found) return false;
  // Verified once a process: what was found here is not read again by get().
  std::promise<Answer> promise;
  promise.set_value(std::move(found));
  const std::lock_guard lock(own.mutex);
  if (own.artifacts.emplace(asked, promise.get_future().share()).second) count(impl_->counters.cache_disk_hits);
  return true;
}

Result<Artifact> CodeCache::get(const CompileRequest& request, Compiler& compiler) {
  Result<Digest> content = content_digest(request, compiler);
  if (!content) return content.status();
  return impl_->get(request, compiler, *content);
}

std::vector<std::string> CodeCache::earlier_compilers() const { return impl_->store.earlier_compilers(); }
uint64_t CodeCache::background_generation() const { return impl_->generation.load(std::memory_order_acquire); }
JitMode CodeCache::mode() const { return impl_->mode.load(); }
void CodeCache::set_mode(JitMode mode) { impl_->mode.store(mode); }
const std::string& CodeCache::root() const { return impl_->store.root(); }
const Status& CodeCache::root_problem() const { return impl_->store.root_problem(); }
std::vector<CacheEntryInfo> CodeCache::list() { return impl_->store.list(); }
Result<PruneReport> CodeCache::prune(const PruneOptions& options) { return impl_->store.prune(options); }

std::vector<CacheEntryInfo> CodeCache::list_all() {
  std::vector<CacheEntryInfo> entries = impl_->packs.list();
  for (CacheEntryInfo& entry : impl_->store.list_read_roots()) entries.push_back(std::move(entry));
  for (CacheEntryInfo& entry : impl_->store.list()) entries.push_back(std::move(entry));
  return entries;
}

std::vector<CacheLayer> CodeCache::layers() {
  std::vector<CacheLayer> layers = impl_->packs.layers();
  for (CacheLayer& layer : impl_->store.layers()) layers.push_back(std::move(layer));
  return layers;
}

CodeCacheOptions code_cache_options_from_environment() {
  CodeCacheOptions options;
  options.root = user_cache_dir();
  options.read_roots = listed_paths("TILEWRIGHT_CACHE_READ");
  options.packs = listed_paths("TILEWRIGHT_PACKS");
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
