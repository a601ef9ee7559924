// SPDX-License-Identifier: MIT
#include "dispatch/instance/device_data.hpp"

#include <algorithm>
#include <array>

#include "dispatch/instance/random_data.hpp"
#include "tile/common/instance_data_args.hpp"

namespace tilewright {
namespace {

constexpr const char* kEntry = "tw_instance_data";
constexpr const char* kSource =
    "#include \"tile/portable/instance_data.cuh\"\n"
    "extern \"C\" __global__ void tw_instance_data(const __grid_constant__ tilewright::InstanceDataArgs args) {\n"
    "  tilewright::portable::work_on_instance_data(args);\n"
    "}\n";
constexpr uint32_t kThreads = 256, kBlocksOfUnit = 8;
constexpr int64_t kTableBytes = int64_t{4} << 16;  // 2^16 elements of up to 32 bits
constexpr size_t kTables = 32;
constexpr int64_t kResultBytes = 2 * sizeof(uint64_t);

}  // namespace

Result<std::unique_ptr<DeviceData>> DeviceData::make(Device& device, const ProbeCompiler& compile) {
  const Result<Artifact> artifact = compile(kSource, kEntry, device.spec().arch->target);
  if (!artifact) return artifact.status();
  std::unique_ptr<DeviceData> made(new DeviceData(device));
  Result<std::shared_ptr<const LoadedKernel>> kernel = device.load(*artifact);
  if (!kernel) return kernel.status();
  made->kernel_ = std::move(*kernel);
  Result<void*> result = device.allocate(kResultBytes);
  if (!result) return result.status();
  made->result_ = *result;
  return made;
}

DeviceData::~DeviceData() {
  for (const Table& table : tables_) device_.deallocate(table.memory, kTableBytes);
  if (result_ != nullptr) device_.deallocate(result_, kResultBytes);
}

Result<const void*> DeviceData::table_for(const Table& wanted) {
  const auto known = std::find_if(tables_.begin(), tables_.end(), [&wanted](const Table& t) {
    return t.dtype == wanted.dtype && t.input == wanted.input && t.seed == wanted.seed && t.scale == wanted.scale;
  });
  if (known != tables_.end()) {
    std::rotate(known, known + 1, tables_.end());
    return tables_.back().memory;
  }
  Table made = wanted;
  if (tables_.size() < kTables) {
    Result<void*> memory = device_.allocate(kTableBytes);
    if (!memory) return memory.status();
    made.memory = *memory;
  } else {
    made.memory = tables_.front().memory;
    tables_.erase(tables_.begin());
  }
  const std::vector<uint8_t> values = random_values(made.dtype, made.input, made.seed, made.scale);
  if (Status s = device_.copy_from_host(made.memory, values.data(), static_cast<int64_t>(values.size())); !s) {
    device_.deallocate(made.memory, kTableBytes);
    return s;
  }
  tables_.push_back(made);
  return tables_.back().memory;
}

Status DeviceData::launch(const void* args, int64_t items) {
  const int64_t all = int64_t{device_.spec().units} * kBlocksOfUnit;
  const LaunchShape shape{.grid = {static_cast<uint32_t>(std::clamp<int64_t>(items / kThreads, 1, all)), 1, 1},
                          .threads = kThreads};
  const std::span bytes(static_cast<const std::byte*>(args), sizeof(InstanceDataArgs));
  if (Status s = device_.launch(*kernel_, bytes, shape, {}); !s) return s;
  return device_.synchronize();
}

Status DeviceData::fill_random(DType dtype, void* data, int64_t count, InputData input, uint64_t seed, double scale) {
  const std::lock_guard lock(mutex_);
  const Result<const void*> table = table_for({dtype, input, seed, scale});
  if (!table) return table.status();
  InstanceDataArgs args{};
  args.task = InstanceDataTask::kFill;
  args.element_bytes = dtype_bits(dtype) / 8;
  args.count = count, args.data = data, args.table = *table, args.seed = seed;
  return launch(&args, count / 4);
}

Result<uint64_t> DeviceData::checksum(const void* data, int64_t bytes) {
  const std::lock_guard lock(mutex_);
  uint64_t sum = 0;
  if (Status s = device_.fill(result_, 0, kResultBytes); !s) return s;
  InstanceDataArgs args{};
  args.task = InstanceDataTask::kChecksum;
  args.count = bytes, args.data = const_cast<void*>(data);
  args.result = static_cast<unsigned long long*>(result_);
  if (Status s = launch(&args, bytes / 8); !s) return s;
  if (Status s = device_.copy_to_host(&sum, result_, sizeof(sum)); !s) return s;
  return sum;
}

Result<DeviceData::Traces> DeviceData::find_traces(const Tensor& t) {
  const std::lock_guard lock(mutex_);
  if (Status s = device_.fill(result_, 0xFF, kResultBytes); !s) return s;
  InstanceDataArgs args{};
  args.task = InstanceDataTask::kUnwritten;
  args.element_bytes = dtype_bits(t.dtype) / 8;
  args.count = t.batch * t.rows * t.columns, args.data = const_cast<void*>(t.data);
  args.result = static_cast<unsigned long long*>(result_);
  args.rows = t.rows, args.columns = t.columns;
  args.stride_batch = t.stride_batch, args.stride_row = t.stride_row, args.stride_column = t.stride_column;
  if (Status s = launch(&args, args.count); !s) return s;
  std::array<int64_t, 2> found{};
  if (Status s = device_.copy_to_host(found.data(), result_, kResultBytes); !s) return s;
  return Traces{found[0], found[1]};  // all bits set = -1
}

}  // namespace tilewright
