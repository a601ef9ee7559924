// SPDX-License-Identifier: MIT
// The argument bytes of one stage, field by field: each with its value, or with what a launch puts there.
#pragma once

#include <nlohmann/json.hpp>

#include "dispatch/call_description.hpp"
#include "dispatch/plan.hpp"

namespace tilewright::cli {

// Buffers that are no tensor of the call.
inline constexpr const char* kWorkspaceBuffer = "workspace";
inline constexpr const char* kZerosBuffer = "zeros";

// {"struct", "bytes", "alignment", "hex", "fields": [{"name", "offset", "size", "type", and "value", "buffer", "scalar" or
// "tensor_map"}]}. Of what a launch puts there the hex is zeros. An error is a fault of the field list.
Result<nlohmann::ordered_json> stage_arguments(const Stage& stage, const ArgStruct& arguments,
                                               const CallDescription& call, int64_t workspace_bytes);

}  // namespace tilewright::cli
