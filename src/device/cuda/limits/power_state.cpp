// SPDX-License-Identifier: MIT
#include "device/cuda/limits/power_state.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <array>

namespace tilewright::cuda {
namespace {

// The part of NVML's ABI that is used (NVML API reference; stable since version 11).
using NvmlDevice = struct NvmlDeviceHandle*;
constexpr int kNvmlSuccess = 0;
constexpr int kNvmlClockSm = 1;           // NVML_CLOCK_SM
constexpr int kNvmlTemperatureOfGpu = 0;  // NVML_TEMPERATURE_GPU

// Opened once, never closed.
class Nvml {
 public:
  static const Nvml& get() {
    static const auto* const kOpened = new Nvml();
    return *kOpened;
  }
  bool find(const char* bus_id, NvmlDevice& device) const {
    return usable_ && by_bus_(bus_id, &device) == kNvmlSuccess;
  }
  std::string text(NvmlDevice device) const {
    std::string text;
    const auto add = [&text](const char* name, int result, unsigned value) {
      if (result == kNvmlSuccess) text += fmt::format("{}{}={}", text.empty() ? "" : ":", name, value);
    };
    unsigned value = 0;
    int result = clock_(device, kNvmlClockSm, &value);
    add("clock", result, value);
    result = power_limit_(device, &value);
    add("limit", result, value / 1000);
    result = power_(device, &value);
    add("draw", result, value / 1000);
    result = temperature_(device, kNvmlTemperatureOfGpu, &value);
    add("temperature", result, value);
    return text;
  }

 private:
  Nvml() {
    void* const library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return;
    int (*init)() = nullptr;
    const auto find = [library](auto& function, const char* name) {
      function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
      return function != nullptr;
    };
    usable_ = find(init, "nvmlInit_v2") && find(by_bus_, "nvmlDeviceGetHandleByPciBusId_v2") &&
              find(clock_, "nvmlDeviceGetClockInfo") && find(power_limit_, "nvmlDeviceGetEnforcedPowerLimit") &&
              find(power_, "nvmlDeviceGetPowerUsage") && find(temperature_, "nvmlDeviceGetTemperature") &&
              init() == kNvmlSuccess;
  }
  bool usable_ = false;
  int (*by_bus_)(const char* bus_id, NvmlDevice* device) = nullptr;
  int (*clock_)(NvmlDevice device, int which, unsigned* megahertz) = nullptr;
  int (*power_limit_)(NvmlDevice device, unsigned* milliwatts) = nullptr;
  int (*power_)(NvmlDevice device, unsigned* milliwatts) = nullptr;
  int (*temperature_)(NvmlDevice device, int sensor, unsigned* degrees) = nullptr;
};

}  // namespace

std::string power_state(const Place& place) {
  const Driver& d = *place.driver;
  std::array<char, 32> bus_id{};
  NvmlDevice device = nullptr;
  if (d.cuDeviceGetPCIBusId != nullptr &&
      d.cuDeviceGetPCIBusId(bus_id.data(), static_cast<int>(bus_id.size()), place.device) == CuResult::kSuccess &&
      Nvml::get().find(bus_id.data(), device)) {
    if (std::string text = Nvml::get().text(device); !text.empty()) return text;
  }
  int kilohertz = 0;
  if (d.cuDeviceGetAttribute(&kilohertz, DeviceAttribute::kClockRate, place.device) != CuResult::kSuccess) return "";
  return fmt::format("max_clock={}", kilohertz / 1000);
}

}  // namespace tilewright::cuda
