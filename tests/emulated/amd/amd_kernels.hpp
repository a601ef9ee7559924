// SPDX-License-Identifier: MIT
// Test kernels of AMD targets: source, compiled for the emulation by the machine's compiler, then launched.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "device/emu/emulator.hpp"
#include "jit/amdgcn/emulated_compiler.hpp"
#include "jit/system/files.hpp"
#include "support/sanitizer.hpp"

namespace tilewright::emu {

inline const std::vector<std::string> kAmdTargets = {"gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1201"};

// Fibers and ThreadSanitizer: it follows one stack a thread, and loses its way when stacks change.
#define TILEWRIGHT_SKIP_WITHOUT_FIBERS()                                                   \
  if (test::kThreadSanitizer)                                                              \
  GTEST_SKIP() << "ThreadSanitizer cannot follow fibers; the emulation is tested without " \
                  "it"

inline Result<EmulatedObject> compile_amd(const std::string& source, const std::string& target) {
  CompileRequest request;
  request.name = "emulation_test";
  request.source = source;
  request.target = target;
  request.entry = "unused_entry";
  Result<std::string> made = make_unique_folder(testing::TempDir(), "tilewright-emulated-");
  if (!made) return made.status();
  const ScopedFolder folder(std::move(*made));
  Result<std::string> file = emulated_compiler().compile(request, folder.path(), nullptr);
  if (!file) return file.status();
  Result<std::shared_ptr<SharedObject>> object = SharedObject::open(folder.path() + "/" + *file);
  if (!object) return object.status();
  return load_emulated(*object, target);
}

// One launch: arguments and buffers are added in order, then run.
class AmdLaunch {
 public:
  AmdLaunch(const EmulatedObject& object, const std::string& kernel) : object_(object) { launch.kernel = kernel; }

  EmulatedLaunch launch;

  // A buffer that the launch may touch.
  template <class T>
  AmdLaunch& allow(const std::string& name, std::vector<T>* data, bool initialised = true) {
    memory_.add(name, data->data(), data->size() * sizeof(T), initialised);
    return *this;
  }
  // The same, and its address is the next argument.
  template <class T>
  AmdLaunch& buffer(const std::string& name, std::vector<T>* data, bool initialised = true) {
    return allow(name, data, initialised).value(data->data());
  }
  template <class T>
  AmdLaunch& value(T argument) {
    while (arguments_.size() % alignof(T) != 0) arguments_.push_back(std::byte{0});
    const auto* bytes = reinterpret_cast<const std::byte*>(&argument);
    arguments_.insert(arguments_.end(), bytes, bytes + sizeof(T));
    return *this;
  }
  AmdLaunch& shape(std::array<uint32_t, 3> grid, std::array<uint32_t, 3> block, uint32_t lds_bytes = 0) {
    launch.grid = grid;
    launch.block = block;
    launch.lds_bytes = lds_bytes;
    return *this;
  }
  EmulatedReport run() {
    Result<KernelEntry> entry = object_.entry(launch.kernel);
    EXPECT_TRUE(entry.ok()) << entry.status().to_string();
    if (!entry) return {};
    launch.arguments = arguments_;
    Result<EmulatedReport> report = run_emulated(object_, *entry, launch, memory_);
    EXPECT_TRUE(report.ok()) << report.status().to_string();
    return report ? *report : EmulatedReport();
  }
  // Without a fault.
  EmulatedReport run_clean() {
    EmulatedReport report = run();
    EXPECT_TRUE(report.status().ok()) << report.status().to_string();
    return report;
  }

 private:
  const EmulatedObject& object_;
  GlobalMemory memory_;
  std::vector<std::byte> arguments_;
};

// A source's objects, each target's compiled when it is first asked for.
class AmdKernels {
 public:
  explicit AmdKernels(std::string source) : source_(std::move(source)) {}
  const EmulatedObject& of(const std::string& target) {
    auto found = objects_.find(target);
    if (found == objects_.end()) {
      Result<EmulatedObject> object = compile_amd(source_, target);
      if (!object) {
        ADD_FAILURE() << object.status().to_string();
        std::abort();
      }
      found = objects_.emplace(target, std::move(*object)).first;
    }
    return found->second;
  }

 private:
  const std::string source_;
  std::map<std::string, EmulatedObject> objects_;
};

}  // namespace tilewright::emu
