// SPDX-License-Identifier: MIT
#include "problems/profile_problems.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "device/absent_device.hpp"

namespace tilewright::cli {
namespace {

// Instances depend on dtype, weight form, rows and the ratio of sizes, not on a model's exact dimensions: these stand for
// the layers of models/*.csv from 1 to 70 billion parameters.
struct Layer {
  int64_t n, k;
};
constexpr Layer kLayers[] = {{1024, 4096}, {4096, 4096}, {6144, 4096}, {28672, 4096}, {4096, 14336}, {8192, 28672}};
constexpr int64_t kDecodeRows[] = {1, 2, 4, 8, 16, 32, 64, 128, 512, 2048};
constexpr int64_t kTrainingRows[] = {512, 2048, 8192};
constexpr int kUnits[] = {1, 2, 8, 32};

Status add_inference(std::vector<NamedProblem>& problems) {
  for (const char* dtype : {"bf16", "f16", "f32", "i8:scale_a=f32:scale_b=f32"}) {
    for (const char* weights : {":packed=1", ""}) {
      for (const Layer& layer : kLayers) {
        for (const int64_t m : kDecodeRows) {
          Result<NamedProblem> problem =
              parse_problem_text(fmt::format("m={}:n={}:k={}:a={}{}", m, layer.n, layer.k, dtype, weights));
          if (!problem) return problem.status();
          problems.push_back(std::move(*problem));
        }
      }
    }
  }
  return {};
}

// Y = X W^T, dX = dY W, dW = dY^T X: weights change every step and stay as they are stored.
Status add_training(std::vector<NamedProblem>& problems) {
  for (const char* dtype : {"bf16", "f16", "f32"}) {
    for (const Layer& layer : kLayers) {
      for (const int64_t m : kTrainingRows) {
        for (const std::string& text : {fmt::format("m={}:n={}:k={}:a={}", m, layer.n, layer.k, dtype),
                                        fmt::format("m={}:n={}:k={}:a={}:layout=rrr", m, layer.k, layer.n, dtype),
                                        fmt::format("m={}:n={}:k={}:a={}:layout=crr", layer.n, layer.k, m, dtype)}) {
          Result<NamedProblem> problem = parse_problem_text(text);
          if (!problem) return problem.status();
          problems.push_back(std::move(*problem));
        }
      }
    }
  }
  return {};
}

}  // namespace

std::vector<std::string> profile_names() { return {"none", "inference", "training", "all"}; }

Result<Profile> profile_problems(const std::string& name) {
  Profile profile;
  const std::vector<std::string> known = profile_names();
  if (std::find(known.begin(), known.end(), name) == known.end()) {
    return Status(StatusCode::kInvalidArgument,
                  fmt::format("--profile '{}' is unknown; allowed: {}", name, fmt::join(known, ", ")));
  }
  if (name == "inference" || name == "all") {
    if (Status s = add_inference(profile.problems); !s) return s;
  }
  if (name == "training" || name == "all") {
    if (Status s = add_training(profile.problems); !s) return s;
  }
  profile.every_candidate = name == "all";
  return profile;
}

namespace {

// A GPU's parts are what they are: each as its device would say it.
std::vector<DeviceSpec> parts_of_gpu(const ArchSpec& arch) {
  std::vector<DeviceSpec> devices;
  for (const PartSpec& part : arch.parts) devices.push_back(spec_of_part(arch, part));
  return devices;
}

}  // namespace

Result<std::vector<DeviceSpec>> devices_of_target(const std::string& target, const DeviceSpec& here) {
  Result<const ArchSpec*> arch = require_arch(target);
  if (!arch) return arch.status();
  if ((*arch)->vendor != ArchVendor::kX86) return parts_of_gpu(**arch);
  std::vector<DeviceSpec> devices;
  if (here.arch == *arch) devices.push_back(here);
  std::set<int64_t> caches;
  for (const PartSpec& part : (*arch)->parts) caches.insert(part.l2_bytes);
  caches.erase(0);
  if (caches.empty()) caches.insert(int64_t{1} << 20);
  for (const int64_t l2 : caches) {
    for (const int units : kUnits) {
      DeviceSpec device;
      device.id = here.id;
      device.arch = *arch;
      for (const ArchSpec* base = *arch; base != nullptr; base = find_arch(base->base)) device.targets.push_back(base);
      device.name = target;
      device.units = units;
      device.l1_bytes = int64_t{32} << 10;
      device.l2_bytes = l2;
      devices.push_back(std::move(device));
    }
  }
  return devices;
}

}  // namespace tilewright::cli
