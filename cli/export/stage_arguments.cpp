// SPDX-License-Identifier: MIT
#include "export/stage_arguments.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "device/cuda/tensor_maps.hpp"

namespace tilewright::cli {
namespace {

using nlohmann::ordered_json;
using Kind = ArgField::Kind;

Status internal(std::string message) { return Status(StatusCode::kInternal, "export: " + std::move(message)); }

std::string type_of(const ArgField& field) {
  switch (field.kind) {
    case Kind::kBool: return "bool";
    case Kind::kFloat: return fmt::format("f{}", 8 * field.bytes);
    case Kind::kPointer: return "pointer";
    case Kind::kTensorMap: return "tensor_map";
    case Kind::kInteger:
    case Kind::kEnum: break;
  }
  return fmt::format("{}{}", field.is_signed ? 'i' : 'u', 8 * field.bytes);
}

template <class T>
T read(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof(value));
  return value;
}

int64_t read_integer(const ArgField& field, const std::byte* from) {
  switch (field.bytes) {
    case 1: return field.is_signed ? read<int8_t>(from) : read<uint8_t>(from);
    case 2: return field.is_signed ? read<int16_t>(from) : read<uint16_t>(from);
    case 4: return field.is_signed ? int64_t{read<int32_t>(from)} : int64_t{read<uint32_t>(from)};
    default: return read<int64_t>(from);
  }
}

void add_value(const ArgField& field, const std::byte* from, ordered_json& out) {
  switch (field.kind) {
    case Kind::kBool: out["value"] = read<bool>(from); return;
    case Kind::kFloat: out["value"] = field.bytes == 4 ? double{read<float>(from)} : read<double>(from); return;
    case Kind::kPointer:
    case Kind::kTensorMap: out["value"] = nullptr; return;
    case Kind::kInteger:
    case Kind::kEnum: break;
  }
  const int64_t value = read_integer(field, from);
  out["value"] = value;
  if (field.names != nullptr && value >= 0 && value < field.name_count) out["means"] = field.names[value];
}

// As cuTensorMapEncodeTiled takes it; dimension 0 is the contiguous one.
Result<ordered_json> tensor_map(const TensorMapSpec& spec, const std::string& buffer) {
  Result<cuda::TensorMapArguments> arguments = cuda::tensor_map_arguments(spec);
  if (!arguments) return arguments.status();
  const cuda::TensorMapArguments& a = *arguments;
  const auto first = [&spec](const auto& values, uint32_t fewer) {
    return std::vector<uint64_t>(values.begin(), values.begin() + (spec.rank - fewer));
  };
  constexpr const char* kSwizzles[] = {"none", "32 bytes", "64 bytes", "128 bytes"};
  return ordered_json{{"buffer", buffer},
                      {"element", dtype_name(spec.dtype)},
                      {"rank", spec.rank},
                      {"dims", first(a.dims, 0)},
                      {"strides_bytes", first(a.strides, 1)},
                      {"box", first(a.box, 0)},
                      {"element_strides", first(a.element_strides, 0)},
                      {"swizzle", kSwizzles[static_cast<size_t>(spec.swizzle)]},
                      {"driver",
                       {{"data_type", static_cast<int>(a.type)},
                        {"interleave", static_cast<int>(a.interleave)},
                        {"swizzle", static_cast<int>(a.swizzle)},
                        {"l2_promotion", static_cast<int>(a.promotion)},
                        {"oob_fill", static_cast<int>(a.out_of_bounds)}}}};
}

template <class Items>
const std::string* stage_name_of(const Items& items, uint16_t slot) {
  for (const auto& item : items) {
    if (item.slot == slot) return &item.name;
  }
  return nullptr;
}

// What a launch puts into the field.
Status add_patch(const Stage& stage, const ArgPatch& patch, const CallDescription& call, int64_t workspace_bytes,
                 ordered_json& out) {
  const auto pointer = [&](const std::string& buffer) {
    out["buffer"] = buffer;
    if (patch.add != 0) out["add"] = patch.add;
    return Status();
  };
  switch (patch.kind) {
    case ArgPatch::Kind::kWorkspace:
      if (workspace_bytes > 0) return pointer(kWorkspaceBuffer);
      out["value"] = nullptr;
      return {};
    case ArgPatch::Kind::kZeros: return pointer(kZerosBuffer);
    case ArgPatch::Kind::kScalar:
      if (const std::string* name = stage_name_of(call.scalars, patch.slot)) {
        out["scalar"] = *name;
        return {};
      }
      return internal(fmt::format("scalar {} has no name", patch.slot));
    case ArgPatch::Kind::kPointer:
    case ArgPatch::Kind::kTensorMap: break;
  }
  const std::string* name = stage_name_of(call.buffers, patch.slot);
  if (name == nullptr) return internal(fmt::format("pointer {} has no name", patch.slot));
  if (patch.kind == ArgPatch::Kind::kPointer) return pointer(*name);
  for (const TensorMapSpec& spec : stage.tensor_maps) {
    if (spec.arg_offset != patch.arg_offset) continue;
    Result<ordered_json> map = tensor_map(spec, *name);
    if (!map) return map.status();
    out["tensor_map"] = std::move(*map);
    return {};
  }
  return internal(fmt::format("no tensor map at {}", patch.arg_offset));
}

std::string hex(std::span<const std::byte> bytes) {
  std::string text;
  for (const std::byte b : bytes) text += fmt::format("{:02x}", static_cast<unsigned>(b));
  return text;
}

}  // namespace

Result<ordered_json> stage_arguments(const Stage& stage, const ArgStruct& arguments, const CallDescription& call,
                                     int64_t workspace_bytes) {
  if (arguments.bytes != stage.args.size()) {
    return internal(
        fmt::format("{} has {} bytes, the stage's arguments {}", arguments.name, arguments.bytes, stage.args.size()));
  }
  size_t patched = 0;
  std::vector<std::byte> shown(stage.args.size());  // what lies between the fields is zero
  ordered_json fields = ordered_json::array();
  for (const ArgField& field : arguments.fields) {
    ordered_json out = {
        {"name", field.name}, {"offset", field.offset}, {"size", field.bytes}, {"type", type_of(field)}};
    const auto patch = std::find_if(stage.patches.begin(), stage.patches.end(),
                                    [&](const ArgPatch& p) { return p.arg_offset == field.offset; });
    if (patch == stage.patches.end()) {
      add_value(field, stage.args.data() + field.offset, out);
    } else {
      ++patched;
      if (Status s = add_patch(stage, *patch, call, workspace_bytes, out); !s) return s;
    }
    std::copy_n(stage.args.begin() + static_cast<ptrdiff_t>(field.offset), field.bytes,
                shown.begin() + static_cast<ptrdiff_t>(field.offset));
    fields.push_back(std::move(out));
  }
  if (patched != stage.patches.size()) {
    return internal(
        fmt::format("{}: {} of {} addresses and scalars go to a field", arguments.name, patched, stage.patches.size()));
  }
  return ordered_json{{"struct", arguments.name},
                      {"bytes", arguments.bytes},
                      {"alignment", arguments.alignment},
                      {"hex", hex(shown)},
                      {"fields", std::move(fields)}};
}

}  // namespace tilewright::cli
