// SPDX-License-Identifier: MIT
#include "support/hip/machine.hpp"

#include <elf.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <sstream>

#include "device/cpu/pages.hpp"
#include "device/host_memory.hpp"

namespace tilewright::test {
namespace {

constexpr uint16_t kMachineAmdgpu = 224;

struct ThreadState {
  int device = 0;
  gpu::CaptureMode mode = gpu::CaptureMode::kGlobal;
  Code last_error = gpu::kSuccess;
  std::string fault;  // of the last error
};
ThreadState& thread_state() {
  thread_local ThreadState state;
  return state;
}

// HIP is told no size of an image: the file's own header tells how far its sections go.
size_t elf_bytes(const void* image) {
  const auto* const bytes = static_cast<const char*>(image);
  Elf64_Ehdr header;
  std::memcpy(&header, bytes, sizeof(header));
  size_t end = header.e_shoff + size_t{header.e_shnum} * header.e_shentsize;
  for (size_t i = 0; i < header.e_shnum; ++i) {
    Elf64_Shdr section;
    std::memcpy(&section, bytes + header.e_shoff + i * header.e_shentsize, sizeof(section));
    if (section.sh_type != SHT_NOBITS) end = std::max<size_t>(end, section.sh_offset + section.sh_size);
  }
  return end;
}

}  // namespace

FakeHip FakeHip::from_environment() {
  FakeHip told;
  if (const char* const target = std::getenv("FAKE_HIP_TARGET")) {
    told.processor = target;
    const ArchSpec* const arch = find_arch(std::string_view(target).substr(0, told.processor.find(':')));
    if (arch != nullptr && !arch->parts.empty()) {
      const PartSpec& part = arch->parts.front();
      told.name = part.ids.empty() ? std::string(part.name) : std::string(part.ids.front());
      told.units = arch->wave_size == 32 ? part.units / 2 : part.units;
      told.memory_bytes = static_cast<uint64_t>(part.memory_gib * (1 << 30));
      told.lds_bytes = static_cast<int>(arch->shared_bytes);
    }
  }
  if (const char* const devices = std::getenv("FAKE_HIP_DEVICES")) told.devices = std::atoi(devices);
  std::istringstream failures(std::getenv("FAKE_HIP_FAIL") != nullptr ? std::getenv("FAKE_HIP_FAIL") : "");
  for (std::string one; std::getline(failures, one, ',');) {
    told.failures[one.substr(0, one.find('='))] = std::atoi(one.c_str() + one.find('=') + 1);
  }
  return told;
}

// Never destroyed: kernels of other threads may outlive main().
Machine& Machine::get() {
  static Machine* const machine = new Machine();
  return *machine;
}

Code Machine::begin(const char* function) {
  told.calls.emplace_back(function);
  const auto wanted = told.failures.find(function);
  if (wanted == told.failures.end()) return gpu::kSuccess;
  const Code code = wanted->second;
  told.failures.erase(wanted);
  return code;
}

Code Machine::done(Code code) {
  if (code != gpu::kSuccess) thread_state().last_error = code;
  return code;
}

Code Machine::take_last_error() { return std::exchange(thread_state().last_error, gpu::kSuccess); }

const std::string& Machine::words_of(Code code) const {
  static const std::string kOther = "as the test wanted";
  return code == kFakeIllegalAddress && !thread_state().fault.empty() ? thread_state().fault : kOther;
}

int& Machine::current() { return thread_state().device; }
gpu::CaptureMode& Machine::mode() { return thread_state().mode; }

const ArchSpec* Machine::arch() const { return find_arch(told.processor.substr(0, told.processor.find(':'))); }

Code Machine::allocate(size_t bytes, void** data) {
  if (static_cast<int64_t>(bytes) > available_host_memory()) return kFakeOutOfMemory;
  const Result<void*> pages = map_pages(static_cast<int64_t>(bytes));
  if (!pages) return kFakeOutOfMemory;
  *data = *pages;
  allocations_[reinterpret_cast<uintptr_t>(*data)] = {current(), bytes};
  memory(current()).add(fmt::format("memory of hip:{}", current()), *data, bytes, /*initialised=*/false);
  ++told.live_allocations;
  return gpu::kSuccess;
}

Code Machine::release(void* data) {
  if (data == nullptr) return gpu::kSuccess;
  const auto found = allocations_.find(reinterpret_cast<uintptr_t>(data));
  if (found == allocations_.end()) return kFakeInvalidValue;
  memory(found->second.device).remove(data);
  unmap_pages(data, static_cast<int64_t>(found->second.bytes));
  allocations_.erase(found);
  --told.live_allocations;
  return gpu::kSuccess;
}

int Machine::owner(const void* data, size_t bytes) const {
  const auto address = reinterpret_cast<uintptr_t>(data);
  auto after = allocations_.upper_bound(address);
  if (after == allocations_.begin()) return -1;
  const auto& [begin, allocation] = *std::prev(after);
  return address + bytes <= begin + allocation.bytes ? allocation.device : -1;
}

void Machine::written(void* to, size_t bytes) { memory(owner(to, bytes)).set_initialised(to, bytes); }

// What was never written stays so.
void Machine::copied(void* to, const void* from, size_t bytes) {
  const auto* const source = memory(owner(from, bytes)).find(reinterpret_cast<uintptr_t>(from));
  const auto begin = reinterpret_cast<uintptr_t>(from);
  if (source == nullptr || source->is_written(begin, bytes)) return written(to, bytes);
  for (size_t i = 0; i < bytes; ++i) {
    if (source->is_written(begin + i, 1)) written(static_cast<char*>(to) + i, 1);
  }
}

Code Machine::load(const void* image, FakeModule** module) {
  Elf64_Ehdr header;
  std::memcpy(&header, image, sizeof(header));
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) return kFakeInvalidImage;
  auto made = std::make_unique<FakeModule>();
  made->device = current();
  if (header.e_machine != kMachineAmdgpu) {
    const auto bytes = std::span(static_cast<const std::byte*>(image), elf_bytes(image));
    Result<std::shared_ptr<SharedObject>> object = SharedObject::open_image(bytes, "hip_module");
    if (!object) return kFakeInvalidImage;
    Result<emu::EmulatedObject> emulated = emu::load_emulated(std::move(*object), arch()->target);
    if (!emulated) return kFakeNoBinary;
    made->object = std::move(*emulated);
  }
  *module = made.release();
  ++told.live_modules;
  return gpu::kSuccess;
}

// A fault is told to whoever waits next.
void Machine::run(const FakeFunction& function, const FakeHip::Launch& launch) {
  told.launches.push_back(launch);
  if (function.entry == nullptr) return;
  emu::EmulatedLaunch emulated;
  emulated.kernel = function.name;
  std::copy_n(launch.grid, 3, emulated.grid.begin());
  emulated.block = {launch.threads, 1, 1};
  emulated.lds_bytes = launch.lds_bytes;
  emulated.arguments = std::as_bytes(std::span(launch.args));
  const Result<emu::EmulatedReport> report =
      run_emulated(function.module->object, function.entry, emulated, memory(launch.device));
  const Status status = report ? report->status() : report.status();
  if (!status && faults_[launch.device].empty()) faults_[launch.device] = status.message();
}

FakeStream* Machine::stream(void* handle) {
  constexpr uintptr_t kLegacy = 1, kPerThread = 2;
  const auto value = reinterpret_cast<uintptr_t>(handle);
  if (value <= kPerThread) {
    FakeStream& own = default_streams_[value == kPerThread ? ~current() : current()];
    own.device = current();
    own.id = value == kPerThread ? std::hash<std::thread::id>()(std::this_thread::get_id()) : kLegacy;
    return &own;
  }
  return streams.contains(handle) ? static_cast<FakeStream*>(handle) : nullptr;
}

void Machine::enqueue(FakeStream& stream, Operation operation) {
  if (stream.capturing != nullptr) {
    stream.capturing->operations.push_back(std::move(operation));
  } else {
    operation();
  }
}

bool Machine::forbidden() {
  if (mode() == gpu::CaptureMode::kRelaxed) return false;
  bool found = false;
  for (void* const handle : streams) {
    auto& stream = *static_cast<FakeStream*>(handle);
    if (stream.capturing == nullptr || stream.mode == gpu::CaptureMode::kRelaxed) continue;
    if (stream.mode == gpu::CaptureMode::kThreadLocal && stream.captured_by != std::this_thread::get_id()) continue;
    found = stream.spoiled = told.spoiled_capture = true;
  }
  return found;
}

Code Machine::wait(int device) {
  if (forbidden()) return kFakeCaptureUnsupported;
  std::string& fault = faults_[device];
  if (fault.empty()) return gpu::kSuccess;
  thread_state().fault = std::exchange(fault, {});
  return kFakeIllegalAddress;
}

}  // namespace tilewright::test
