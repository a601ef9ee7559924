// SPDX-License-Identifier: MIT
// Contexts of the C ABI: a handle is the address of a tilewright::Context.
#include <atomic>

#include "api/c_structs.hpp"
#include "core/counters.hpp"
#include "dispatch/context_impl.hpp"

namespace tilewright::c_abi {
namespace {

// Set once a C caller has seen the global context: destroying that handle does nothing.
std::atomic<Context*> seen_global{nullptr};

Context& global_context() {
  Context& context = Context::global();
  seen_global.store(&context, std::memory_order_relaxed);
  return context;
}

Result<ContextOptions> read_options(const tilewright_context_options* from) {
  ContextOptions options;
  if (from == nullptr) return options;
  tilewright_context_options given = tilewright_context_options_defaults();
  if (Status s = read_struct<48>("tilewright_context_options", from, given); !s) return s;
  auto refuse = [](std::string message) {
    return Status(StatusCode::kInvalidArgument, "tilewright_context_options." + std::move(message));
  };
  if ((given.flags & ~uint32_t{TILEWRIGHT_CONTEXT_NO_USER_TABLES}) != 0) {
    return refuse(fmt::format("flags is {}, allowed: 0, TILEWRIGHT_CONTEXT_NO_USER_TABLES (1)", given.flags));
  }
  if (given.reserved != 0) return refuse(fmt::format("reserved is {}, allowed: 0", given.reserved));
  if (given.cpu_units < 0) return refuse(fmt::format("cpu_units is {}, allowed: 0 (all) or more", given.cpu_units));
  if (given.tuned_file_count > 0 && given.tuned_files == nullptr) {
    return refuse(fmt::format("tuned_files is NULL while tuned_file_count is {}", given.tuned_file_count));
  }
  options.user_tables = (given.flags & TILEWRIGHT_CONTEXT_NO_USER_TABLES) == 0;
  options.cpu_units = given.cpu_units;
  if (given.cache_dir != nullptr) options.cache_dir = given.cache_dir;
  if (given.jit != nullptr) options.jit = given.jit;
  for (size_t i = 0; i < given.tuned_file_count; ++i) {
    if (given.tuned_files[i] == nullptr) return refuse(fmt::format("tuned_files[{}] is NULL", i));
    options.tuned_files.emplace_back(given.tuned_files[i]);
  }
  return options;
}

}  // namespace

Context& context_of(tilewright_context* handle) {
  return handle == nullptr ? global_context() : *reinterpret_cast<Context*>(handle);
}

}  // namespace tilewright::c_abi

using namespace tilewright;         // NOLINT(google-build-using-namespace)
using namespace tilewright::c_abi;  // NOLINT(google-build-using-namespace)

tilewright_status tilewright_context_create(const tilewright_context_options* options, tilewright_context** context) {
  return guarded([&]() -> Status {
    if (context == nullptr) return missing("tilewright_context_create", "context");
    *context = nullptr;
    Result<ContextOptions> read = read_options(options);
    if (!read) return read.status();
    Result<std::unique_ptr<Context>> made = Context::create(*read);
    if (!made) return made.status();
    *context = reinterpret_cast<tilewright_context*>(std::move(*made).release());
    return {};
  });
}

void tilewright_context_destroy(tilewright_context* context) {
  auto* const owned = reinterpret_cast<Context*>(context);
  if (owned == seen_global.load(std::memory_order_relaxed)) return;
  guarded([owned]() -> Status {
    delete owned;
    return {};
  });
}

tilewright_status tilewright_context_global(tilewright_context** context) {
  return guarded([&]() -> Status {
    if (context == nullptr) return missing("tilewright_context_global", "context");
    *context = nullptr;
    *context = reinterpret_cast<tilewright_context*>(&global_context());
    return {};
  });
}

tilewright_status tilewright_tables_digest(tilewright_context* context, char* buffer, size_t* size) {
  return guarded([&]() -> Status {
    if (size == nullptr) return missing("tilewright_tables_digest", "size");
    write_text(context_of(context).tables_digest(), buffer, *size);
    return {};
  });
}

tilewright_status tilewright_counters(tilewright_context* context, tilewright_counter* counters, size_t* count) {
  return guarded([&]() -> Status {
    if (count == nullptr) return missing("tilewright_counters", "count");
    size_t index = 0;
    // Field names are string literals: they outlive every context.
    for_each_field(snapshot(context_of(context).impl().counters()), [&](const char* name, uint64_t value) {
      if (counters != nullptr && index < *count) counters[index] = {name, value};
      ++index;
    });
    *count = index;
    return {};
  });
}
