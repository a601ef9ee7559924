// SPDX-License-Identifier: MIT
// A profiler's library for tests: NVTX, roctx, and a tool of NVTX 3, each of which writes what it hears to the file that
// FAKE_PROFILER_LOG names.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

namespace {

int write(const char* api, const char* what, const char* name) {
  FILE* file = std::fopen(std::getenv("FAKE_PROFILER_LOG"), "a");
  if (file == nullptr) return -1;
  std::fprintf(file, "%s %s %s\n", api, what, name);
  return std::fclose(file);
}

int injected_push(const char* name) { return write("injection", "push", name); }
int injected_pop() { return write("injection", "pop", "-"); }

}  // namespace

#define EXPORTED extern "C" __attribute__((visibility("default")))

EXPORTED int nvtxRangePushA(const char* name) { return write("nvtx", "push", name); }
EXPORTED int nvtxRangePop() { return write("nvtx", "pop", "-"); }
EXPORTED int roctxRangePushA(const char* name) { return write("roctx", "push", name); }
EXPORTED int roctxRangePop() { return write("roctx", "pop", "-"); }

// As a profiler does: ask for the tables of every module, check their sizes, fill in the functions it wants.
EXPORTED int InitializeInjectionNvtx2(const void* (*export_table)(uint32_t)) {
  using Function = void (*)();
  struct Callbacks {
    size_t struct_size;
    int (*module_functions)(int module, Function*** table, unsigned* size);
  };
  const auto* callbacks = static_cast<const Callbacks*>(export_table(1));
  if (callbacks == nullptr || callbacks->struct_size < sizeof(Callbacks) || export_table(77) != nullptr) return 0;
  const unsigned sizes[] = {0, 16, 9, 15, 7, 16, 7};
  for (int module = 1; module <= 6; ++module) {
    Function** table = nullptr;
    unsigned size = 0;
    if (callbacks->module_functions(module, &table, &size) != 1 || size != sizes[module]) return 0;
    for (unsigned i = 1; i < size; ++i) *table[i] = reinterpret_cast<Function>(std::abort);
  }
  Function** core = nullptr;
  unsigned size = 0;
  callbacks->module_functions(1, &core, &size);
  *core[9] = reinterpret_cast<Function>(injected_push);
  *core[11] = reinterpret_cast<Function>(injected_pop);
  return 1;
}
