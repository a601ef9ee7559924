// SPDX-License-Identifier: MIT
#include "export/plan_document.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/fields.hpp"
#include "device/absent_device.hpp"
#include "device/hip/object/code_object.hpp"
#include "dispatch/registry/family.hpp"
#include "export/stage_arguments.hpp"
#include "jit/nvrtc/cubin_info.hpp"
#include "jit/system/files.hpp"

namespace tilewright::cli {
namespace {

using nlohmann::ordered_json;

constexpr int kScratchAlignment = 256;
constexpr size_t kLineWidth = 180;

// Values that fit on a line stand on one.
void print_json(const ordered_json& value, const std::string& indent, std::string& out) {
  std::string line = value.dump();
  if (!value.is_structured() || value.empty() || line.size() + indent.size() <= kLineWidth) {
    out += line;
    return;
  }
  const std::string inner = indent + "  ";
  out += value.is_array() ? "[" : "{";
  bool first = true;
  for (const auto& item : value.items()) {
    out += first ? "\n" : ",\n";
    first = false;
    out += inner;
    if (value.is_object()) out += ordered_json(item.key()).dump() + ": ";
    print_json(item.value(), inner, out);
  }
  out += "\n" + indent + (value.is_array() ? "]" : "}");
}

ordered_json tensor(const CallBuffer& buffer) {
  return {{"name", buffer.name},       {"role", buffer.output ? "output" : "input"},
          {"meaning", buffer.meaning}, {"dtype", dtype_name(buffer.dtype)},
          {"shape", buffer.shape},     {"strides", buffer.strides},
          {"bytes", buffer.bytes},     {"alignment", buffer.alignment}};
}
ordered_json scratch(const char* name, int64_t bytes, const char* initial, const char* when) {
  return {{"name", name},
          {"role", "workspace"},
          {"dtype", "u8"},
          {"shape", {bytes}},
          {"strides", {1}},
          {"bytes", bytes},
          {"alignment", kScratchAlignment},
          {"initial", initial},
          {"when", when}};
}

// What the compiler made of the kernel.
Result<ordered_json> resources(const Artifact& artifact, std::string_view code) {
  const auto image = std::as_bytes(std::span(code));
  if (artifact.kind == ArtifactKind::kCubin) {
    Result<CubinInfo> info = read_cubin(image);
    if (!info) return info.status();
    for (const CubinKernel& kernel : info->kernels) {
      if (kernel.name != artifact.entry) continue;
      return ordered_json{{"registers", kernel.registers},
                          {"local_bytes", kernel.local_bytes},
                          {"static_shared_bytes", kernel.shared_bytes},
                          {"max_threads", kernel.max_threads}};
    }
  } else if (artifact.kind == ArtifactKind::kAmdObject) {
    Result<AmdObjectInfo> info = read_amd_object(image);
    if (!info) return info.status();
    for (const AmdKernel& kernel : info->kernels) {
      if (kernel.name != artifact.entry) continue;
      return ordered_json{{"vgprs", kernel.vgprs},
                          {"agprs", kernel.agprs},
                          {"sgprs", kernel.sgprs},
                          {"scratch_bytes", kernel.scratch_bytes},
                          {"static_lds_bytes", kernel.lds_bytes},
                          {"argument_bytes", kernel.arg_bytes},
                          {"kernarg_bytes", kernel.kernarg_bytes},
                          {"wave_size", kernel.wave_size},
                          {"max_threads", kernel.max_threads}};
    }
  }
  return Status(StatusCode::kInternal,
                fmt::format("export: '{}': no such kernel in a cubin or a code object", artifact.entry));
}

class PlanDocument {
 public:
  PlanDocument(const NamedProblem& problem, const DeviceSpec& spec, const Plan& plan)
      : problem_(problem), spec_(spec), plan_(plan) {}

  Result<ExportedPlan> run() {
    Result<CallDescription> call = problem_.op->describe_call(problem_.ref());
    if (!call) return call.status();
    call_ = std::move(*call);
    ordered_json stages = ordered_json::array();
    for (const Stage& stage : plan_.stages) {
      Result<ordered_json> made = stage_json(stage);
      if (!made) return made.status();
      stages.push_back(std::move(*made));
    }
    ordered_json document = header();
    document["buffers"] = buffers();
    ordered_json scalars = ordered_json::array();
    for (const CallScalar& scalar : call_.scalars) {
      scalars.push_back({{"name", scalar.name}, {"type", "f32"}, {"meaning", scalar.meaning}});
    }
    document["scalars"] = std::move(scalars);
    document["kernels"] = std::move(kernels_);
    document["stages"] = std::move(stages);
    print_json(document, "", out_.text);
    out_.text += '\n';
    return std::move(out_);
  }

 private:
  ordered_json header() const {
    std::vector<std::string> keys, numerics;
    for (const RecipeStep& step : plan_.recipe.steps) {
      keys.push_back(step.key.text);
      numerics.push_back(find_family(problem_.op->families(), step.key.family)->numerics_id(step));
    }
    return {{"format", "tilewright plan"},
            {"version", kPlanFormatVersion},
            {"tilewright", TILEWRIGHT_VERSION},
            {"operator", problem_.op->name()},
            {"problem", problem_.text()},
            {"meaning", call_.meaning},
            {"target", spec_.arch->target},
            {"part", spec_.part},
            {"units", spec_.units},
            {"chosen_by", fields_detail::print_value(plan_.source)},
            {"recipe", print_recipe(problem_.op->families(), plan_.recipe)},
            {"keys", keys},
            {"numerics", numerics},
            {"workspace_bytes", plan_.workspace_bytes}};
  }

  ordered_json buffers() const {
    ordered_json all = ordered_json::array();
    for (const CallBuffer& buffer : call_.buffers) all.push_back(tensor(buffer));
    if (plan_.workspace_bytes > 0) {
      all.push_back(scratch(kWorkspaceBuffer, plan_.workspace_bytes, "nothing",
                            "any bytes before each run: a stage writes what a later one reads"));
    }
    int64_t zeros = 0;
    for (const Stage& stage : plan_.stages) zeros = std::max(zeros, stage.zero_bytes);
    if (zeros > 0) {
      all.push_back(scratch(kZerosBuffer, zeros, "zeros",
                            "zero before the first run; each stage leaves it zero, ready for the next run"));
    }
    return all;
  }

  // The kernel's entry in `kernels`, added when it is new.
  Result<const ExportedCode*> code_of(const LoadedKernel& kernel) {
    Result<Artifact> artifact = absent_artifact(kernel);
    if (!artifact) return artifact.status();
    const auto known = std::find_if(out_.files.begin(), out_.files.end(),
                                    [&](const ExportedCode& file) { return file.key == artifact->key; });
    if (known != out_.files.end()) return &*known;
    ExportedCode made{artifact->key, artifact->entry, "", ""};
    const bool amd = artifact->kind == ArtifactKind::kAmdObject;
    made.file = artifact->entry + (amd ? ".hsaco" : ".cubin");
    if (artifact->image.empty()) {
      Result<std::string> code = read_file(artifact->path);
      if (!code) return code.status();
      made.code = std::move(*code);
    } else {
      made.code.assign(reinterpret_cast<const char*>(artifact->image.data()), artifact->image.size());
    }
    Result<ordered_json> used = resources(*artifact, made.code);
    if (!used) return used.status();
    kernels_.push_back({{"key", made.key},
                        {"symbol", made.symbol},
                        {"file", made.file},
                        {"format", amd ? "AMD code object" : "cubin"},
                        {"target", artifact->target},
                        {"bytes", made.code.size()},
                        {"resources", std::move(*used)}});
    out_.files.push_back(std::move(made));
    return &out_.files.back();
  }

  Result<ordered_json> stage_json(const Stage& stage) {
    if (stage.call != nullptr || stage.kernel == nullptr) {
      return Status(StatusCode::kUnsupported,
                    "export: a stage of the plan is a call into a vendor's library, which has no code to export");
    }
    Result<const ExportedCode*> code = code_of(*stage.kernel);
    if (!code) return code.status();
    Result<KernelKey> key = parse_key((*code)->key);
    if (!key) return key.status();
    Result<ArgStruct> described = problem_.op->describe_args(key->family);
    if (!described) return described.status();
    Result<ordered_json> arguments = stage_arguments(stage, *described, call_, plan_.workspace_bytes);
    if (!arguments) return arguments.status();
    return ordered_json{{"kernel", (*code)->symbol},
                        {"file", (*code)->file},
                        {"grid", stage.shape.grid},
                        {"block", {stage.shape.threads, 1, 1}},
                        {"cluster", stage.shape.cluster},
                        {"dynamic_shared_bytes", stage.shape.shared_bytes},
                        {"programmatic_edge", stage.shape.programmatic_edge},
                        {"cooperative", stage.shape.cooperative},
                        {"arguments", std::move(*arguments)}};
  }

  const NamedProblem& problem_;
  const DeviceSpec& spec_;
  const Plan& plan_;
  CallDescription call_;
  ordered_json kernels_ = ordered_json::array();
  ExportedPlan out_;
};

}  // namespace

Result<ExportedPlan> export_plan(const NamedProblem& problem, const DeviceSpec& spec, const Plan& plan) {
  return PlanDocument(problem, spec, plan).run();
}

}  // namespace tilewright::cli
