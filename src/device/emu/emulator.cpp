// SPDX-License-Identifier: MIT
#include "device/emu/emulator.hpp"

#include <fmt/format.h>
#include <link.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <thread>

#include "device/emu/workgroup.hpp"

namespace tilewright::emu {
namespace {

struct ImageSearch {
  uintptr_t inside, begin, end;
};

// Where the object with the address lies.
int find_image(dl_phdr_info* info, size_t, void* data) {
  auto* search = static_cast<ImageSearch*>(data);
  uintptr_t begin = ~uintptr_t{0}, end = 0;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const auto& header = info->dlpi_phdr[i];
    if (header.p_type != PT_LOAD) continue;
    begin = std::min<uintptr_t>(begin, info->dlpi_addr + header.p_vaddr);
    end = std::max<uintptr_t>(end, info->dlpi_addr + header.p_vaddr + header.p_memsz);
  }
  if (search->inside < begin || search->inside >= end) return 0;
  search->begin = begin;
  search->end = end;
  return 1;
}

// One fault for a kind at a place, in the order of the workgroups.
void merge(std::map<uint64_t, std::vector<Fault>>* by_workgroup, uint32_t most, EmulatedReport* report) {
  for (auto& [index, faults] : *by_workgroup) {
    for (Fault& fault : faults) {
      report->faults_found += fault.repeats;
      auto known = std::find_if(report->faults.begin(), report->faults.end(),
                                [&](const Fault& f) { return f.kind == fault.kind && f.site == fault.site; });
      if (known != report->faults.end()) {
        known->repeats += fault.repeats;
      } else if (report->faults.size() < most) {
        report->faults.push_back(std::move(fault));
      }
    }
  }
}

Status check_launch(const ArchSpec& arch, const EmulatedLaunch& launch) {
  uint64_t work_items = 1;
  for (const uint32_t n : launch.block) work_items *= n;
  if (work_items == 0 || work_items > static_cast<uint64_t>(arch.max_threads)) {
    return Status(StatusCode::kInvalidArgument, fmt::format("{}: {} work-items in a workgroup; {} allows 1 to {}",
                                                            launch.kernel, work_items, arch.target, arch.max_threads));
  }
  return {};
}

}  // namespace

Counters& Counters::operator+=(const Counters& other) {
  global_read_bytes += other.global_read_bytes;
  global_written_bytes += other.global_written_bytes;
  lds_read_bytes += other.lds_read_bytes;
  lds_written_bytes += other.lds_written_bytes;
  lds.instructions += other.lds.instructions;
  lds.passes += other.lds.passes;
  lds.conflicts += other.lds.conflicts;
  meetings += other.meetings;
  barriers += other.barriers;
  return *this;
}

Result<KernelEntry> EmulatedObject::entry(const std::string& name) const {
  const void* symbol = object->symbol(name);
  if (symbol == nullptr)
    return Status(StatusCode::kNotFound, fmt::format("the emulated object has no entry '{}'", name));
  return reinterpret_cast<KernelEntry>(const_cast<void*>(symbol));
}

Result<EmulatedObject> load_emulated(std::shared_ptr<const SharedObject> object, std::string_view target) {
  const auto* info = static_cast<const ObjectInfo*>(object->symbol("tilewright_emu_object"));
  if (info == nullptr) return Status(StatusCode::kCorrupt, "the object is not an emulated kernel");
  if (info->abi_version != kAbiVersion) {
    return Status(StatusCode::kUnsupported,
                  fmt::format("the emulated object has interface {}, this library {}", info->abi_version, kAbiVersion));
  }
  if (target != info->target) {
    return Status(StatusCode::kUnsupported, fmt::format("the emulated object is of {}, not {}", info->target, target));
  }
  Result<const ArchSpec*> arch = require_arch(target);
  if (!arch) return arch.status();
  if ((*arch)->wave_size != static_cast<int>(info->wave_size)) {
    return Status(StatusCode::kUnsupported, fmt::format("the emulated object has waves of {}, {} of {}",
                                                        info->wave_size, target, (*arch)->wave_size));
  }
  ImageSearch search{reinterpret_cast<uintptr_t>(info), 0, 0};
  dl_iterate_phdr(find_image, &search);
  return EmulatedObject{std::move(object), *arch, search.begin, search.end};
}

const Fault* EmulatedReport::find(FaultKind kind) const {
  for (const Fault& fault : faults)
    if (fault.kind == kind) return &fault;
  return nullptr;
}

Status EmulatedReport::status() const {
  if (faults.empty()) return {};
  std::string text = fmt::format("emulation: {} fault{}", faults_found, faults_found == 1 ? "" : "s");
  for (size_t i = 0; i < std::min<size_t>(faults.size(), 4); ++i) text += "\n  " + faults[i].text();
  return Status(StatusCode::kDeviceError, std::move(text));
}

Result<EmulatedReport> run_emulated(const EmulatedObject& object, KernelEntry entry, const EmulatedLaunch& launch,
                                    const GlobalMemory& memory) {
  const ArchSpec& arch = *object.arch;
  if (Status status = check_launch(arch, launch); !status) return status;
  EmulatedReport report;
  if (launch.lds_bytes > static_cast<uint64_t>(arch.shared_bytes)) {
    Fault fault;
    fault.kind = FaultKind::kLdsOverflow;
    fault.kernel = launch.kernel;
    fault.bytes = launch.lds_bytes;
    fault.detail =
        fmt::format("{} bytes of LDS; a workgroup of {} can use {}", launch.lds_bytes, arch.target, arch.shared_bytes);
    report.faults.push_back(std::move(fault));
    report.faults_found = 1;
    return report;
  }
  const uint64_t count = uint64_t{launch.grid[0]} * launch.grid[1] * launch.grid[2];
  const uint64_t cores = static_cast<uint64_t>(std::max(1, cpu_info().cores));
  const uint64_t threads =
      std::clamp<uint64_t>(launch.threads == 0 ? cores : launch.threads, 1, std::max<uint64_t>(count, 1));

  std::atomic<uint64_t> next{0};
  std::atomic<bool> given_up{false};
  std::atomic<uint64_t> started{0};
  std::mutex mutex;
  std::map<uint64_t, std::vector<Fault>> faults;
  memory.begin_launch();
  const auto work_in = [&](Workgroup& workgroup) {
    for (uint64_t i = next++; i < count && !given_up; i = next++) {
      const std::array<uint32_t, 3> id = {static_cast<uint32_t>(i % launch.grid[0]),
                                          static_cast<uint32_t>(i / launch.grid[0] % launch.grid[1]),
                                          static_cast<uint32_t>(i / launch.grid[0] / launch.grid[1])};
      if (!workgroup.run(id, launch.seed * 0x9e3779b97f4a7c15u + i)) given_up = true;
      if (workgroup.faults.empty()) continue;
      const std::lock_guard lock(mutex);
      faults[i] = std::move(workgroup.faults);
    }
    const std::lock_guard lock(mutex);
    report.counters += workgroup.counters;
  };
  // Threads that find no memory for stacks and LDS leave the work to the others.
  const auto work = [&] {
    std::unique_ptr<Workgroup> workgroup;
    try {
      workgroup = std::make_unique<Workgroup>(object, entry, launch, memory);
    } catch (const std::bad_alloc&) {
      return;
    }
    ++started;
    work_in(*workgroup);
  };
  std::vector<std::thread> others;
  for (uint64_t t = 1; t < threads; ++t) others.emplace_back(work);
  work();
  for (std::thread& thread : others) thread.join();
  if (started == 0) {
    return Status(StatusCode::kOutOfMemory, fmt::format("emulation: no memory for the stacks of {} work-items and LDS",
                                                        uint64_t{launch.block[0]} * launch.block[1] * launch.block[2]));
  }
  merge(&faults, launch.max_faults, &report);
  return report;
}

}  // namespace tilewright::emu
