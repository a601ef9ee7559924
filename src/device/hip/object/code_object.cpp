// SPDX-License-Identifier: MIT
#include "device/hip/object/code_object.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "core/elf/elf_file.hpp"
#include "device/hip/object/msgpack.hpp"

namespace tilewright {
namespace {

using Kind = MsgpackValue::Kind;

constexpr uint16_t kMachineAmdgpu = 224;                     // EM_AMDGPU
constexpr uint8_t kAbiHsa = 64;                              // ELFOSABI_AMDGPU_HSA
constexpr uint8_t kOldestFormat = 2, kNewestFormat = 4;      // ELF's ABI versions of code objects 4 and 6
constexpr uint32_t kMetadataNote = 32;                       // NT_AMDGPU_METADATA
constexpr std::string_view kTriple = "amdgcn-amd-amdhsa--";  // in front of the processor
constexpr int64_t kDescriptorBytes = 64;                     // of a kernel: sizes of LDS, scratch and arguments first

// e_flags: the processor, and two bits for each feature.
constexpr uint32_t kProcessorBits = 0xFF;
constexpr int kXnackShift = 8, kSrameccShift = 10;
struct Processor {
  uint32_t number;
  std::string_view name;
};
constexpr Processor kProcessors[] = {
    {0x3F, "gfx90a"}, {0x4C, "gfx942"}, {0x4F, "gfx950"}, {0x41, "gfx1100"}, {0x4E, "gfx1201"}};

Status corrupt_object(std::string_view why) {
  return Status(StatusCode::kCorrupt, fmt::format("AMD code object: {}", why));
}

AmdFeature feature_of(uint32_t flags, int shift) { return static_cast<AmdFeature>(flags >> shift & 3); }

std::string_view sign_of(AmdFeature feature) {
  return feature == AmdFeature::kOn ? "+" : feature == AmdFeature::kOff ? "-" : "";
}

// The setting of one feature in "gfx942:sramecc+:xnack-".
AmdFeature setting_in(std::string_view device, std::string_view feature) {
  const std::string on = fmt::format(":{}+", feature), off = fmt::format(":{}-", feature);
  if (device.find(on) != std::string_view::npos) return AmdFeature::kOn;
  return device.find(off) != std::string_view::npos ? AmdFeature::kOff : AmdFeature::kAny;
}

class AmdObject {
 public:
  explicit AmdObject(ElfFile file) : file_(std::move(file)) {}

  Result<AmdObjectInfo> read() {
    const Elf64_Ehdr& header = file_.header();
    const uint8_t format = header.e_ident[EI_ABIVERSION];
    if (header.e_ident[EI_OSABI] != kAbiHsa || format < kOldestFormat || format > kNewestFormat) {
      return corrupt_object("not of version 4, 5 or 6 for HSA");
    }
    const auto notes = file_.notes("AMDGPU", kMetadataNote);
    if (notes.size() != 1) return corrupt_object(fmt::format("{} notes with metadata; allowed: 1", notes.size()));
    Result<MsgpackValue> metadata = read_msgpack(notes.front());
    if (!metadata) return corrupt_object(fmt::format("metadata: {}", metadata.status().message()));
    AmdObjectInfo info;
    if (Status s = read_target(*metadata, info); !s) return s;
    const MsgpackValue* const kernels = metadata->find("amdhsa.kernels");
    if (kernels == nullptr || kernels->kind != Kind::kList || kernels->items.empty()) {
      return corrupt_object("no kernel in it");
    }
    for (const MsgpackValue& entry : kernels->items) {
      AmdKernel& kernel = info.kernels.emplace_back();
      if (Status s = read_kernel(entry, kernel); !s) return s;
      if (Status s = check_symbols(entry, kernel); !s) return s;
    }
    return info;
  }

 private:
  static std::string_view text_in(const MsgpackValue& map, std::string_view key) {
    const MsgpackValue* const value = map.find(key);
    return value != nullptr && value->kind == Kind::kText ? value->text : std::string_view();
  }

  // Flags and metadata say the same.
  Status read_target(const MsgpackValue& metadata, AmdObjectInfo& info) const {
    const uint32_t flags = file_.header().e_flags;
    info.xnack = feature_of(flags, kXnackShift);
    info.sramecc = feature_of(flags, kSrameccShift);
    const std::string_view target = text_in(metadata, "amdhsa.target");
    if (!target.starts_with(kTriple)) return corrupt_object(fmt::format("its target is '{}'", target));
    const std::string_view settings = target.substr(kTriple.size());
    info.target = settings.substr(0, settings.find(':'));
    std::string expected = info.target;
    if (const auto sign = sign_of(info.sramecc); !sign.empty()) expected += fmt::format(":sramecc{}", sign);
    if (const auto sign = sign_of(info.xnack); !sign.empty()) expected += fmt::format(":xnack{}", sign);
    bool agree = settings == expected;
    for (const Processor& known : kProcessors) {
      agree &= (known.number == (flags & kProcessorBits)) == (known.name == info.target);
    }
    if (!agree) return corrupt_object(fmt::format("flags {:#x} are not those of '{}'", flags, target));
    return {};
  }

  // Counts and sizes. Absent is an error, or `otherwise`.
  static Status number(const MsgpackValue& map, std::string_view key, int64_t& value,
                       std::optional<int64_t> otherwise = {}) {
    const MsgpackValue* const found = map.find(key);
    if (found == nullptr && otherwise) {
      value = *otherwise;
      return {};
    }
    constexpr int64_t kMost = INT32_MAX;
    if (found == nullptr || found->kind != Kind::kInteger || found->integer < 0 || found->integer > kMost) {
      return corrupt_object(fmt::format("no valid {} of a kernel", key));
    }
    value = found->integer;
    return {};
  }
  static Status number(const MsgpackValue& map, std::string_view key, int& value,
                       std::optional<int64_t> otherwise = {}) {
    int64_t wide = 0;
    Status status = number(map, key, wide, otherwise);
    value = static_cast<int>(wide);
    return status;
  }

  static Status read_kernel(const MsgpackValue& entry, AmdKernel& kernel) {
    kernel.name = text_in(entry, ".name");
    if (kernel.name.empty()) return corrupt_object("a kernel without a name");
    const MsgpackValue* const stack = entry.find(".uses_dynamic_stack");
    kernel.dynamic_stack = stack != nullptr && stack->kind == Kind::kBool && stack->integer != 0;
    for (Status s :
         {number(entry, ".kernarg_segment_size", kernel.kernarg_bytes),
          number(entry, ".group_segment_fixed_size", kernel.lds_bytes),
          number(entry, ".private_segment_fixed_size", kernel.scratch_bytes),
          number(entry, ".vgpr_count", kernel.vgprs), number(entry, ".agpr_count", kernel.agprs, 0),
          number(entry, ".sgpr_count", kernel.sgprs), number(entry, ".vgpr_spill_count", kernel.vgpr_spills, 0),
          number(entry, ".sgpr_spill_count", kernel.sgpr_spills, 0), number(entry, ".wavefront_size", kernel.wave_size),
          number(entry, ".max_flat_workgroup_size", kernel.max_threads)}) {
      if (!s) return s;
    }
    if (kernel.wave_size != 32 && kernel.wave_size != 64) return corrupt_object("a wave of neither 32 nor 64 lanes");
    const MsgpackValue* const args = entry.find(".args");
    if (args == nullptr) return {};
    if (args->kind != Kind::kList) return corrupt_object("arguments that are no list");
    for (const MsgpackValue& item : args->items) {
      AmdArgument& arg = kernel.args.emplace_back();
      arg.kind = text_in(item, ".value_kind");
      if (Status s = number(item, ".offset", arg.offset); !s) return s;
      if (Status s = number(item, ".size", arg.bytes); !s) return s;
      const int64_t end = arg.offset + arg.bytes;
      if (arg.kind.empty() || end > kernel.kernarg_bytes) return corrupt_object("an argument outside the arguments");
      if (!arg.hidden()) kernel.arg_bytes = std::max(kernel.arg_bytes, end);
    }
    return {};
  }

  // The code, and the descriptor that the hardware reads, which says the same as the metadata.
  Status check_symbols(const MsgpackValue& entry, AmdKernel& kernel) const {
    const ElfFile::Section* const symbols = file_.find(".dynsym");
    if (symbols == nullptr) return corrupt_object("no symbols");
    const auto code = file_.find_symbol(*symbols, kernel.name);
    const auto descriptor = file_.find_symbol(*symbols, text_in(entry, ".symbol"));
    if (!code || !descriptor || descriptor->entry.st_size != kDescriptorBytes) {
      return corrupt_object(fmt::format("no code or no descriptor of '{}'", kernel.name));
    }
    kernel.code_bytes = static_cast<int64_t>(code->entry.st_size);
    const auto section = descriptor->entry.st_shndx;
    if (section >= file_.sections().size()) return corrupt_object("a descriptor outside the file");
    const Elf64_Shdr& place = file_.sections()[section].header;
    const uint64_t at = place.sh_offset + (descriptor->entry.st_value - place.sh_addr);
    const auto lds = file_.reader().at<uint32_t>(at), scratch = file_.reader().at<uint32_t>(at + 4);
    const auto kernarg = file_.reader().at<uint32_t>(at + 8);
    if (!kernarg || *lds != kernel.lds_bytes || *scratch != kernel.scratch_bytes || *kernarg != kernel.kernarg_bytes) {
      return corrupt_object(fmt::format("the descriptor of '{}' is not that of its metadata", kernel.name));
    }
    return {};
  }

  const ElfFile file_;
};

}  // namespace

Result<AmdObjectInfo> read_amd_object(std::span<const std::byte> image) {
  Result<ElfFile> file = ElfFile::read(image, kMachineAmdgpu);
  if (!file) return corrupt_object(file.status().message());
  return AmdObject(std::move(*file)).read();
}

Status amd_object_matches(std::span<const std::byte> image, std::string_view device) {
  Result<AmdObjectInfo> info = read_amd_object(image);
  if (!info) return info.status();
  if (device.substr(0, device.find(':')) != info->target) {
    return Status(StatusCode::kUnsupported,
                  fmt::format("AMD code object: made for {}, the device is {}", info->target, device));
  }
  for (const auto& [name, made_for] : {std::pair{"xnack", info->xnack}, {"sramecc", info->sramecc}}) {
    if (sign_of(made_for).empty() || setting_in(device, name) == made_for) continue;
    return Status(StatusCode::kUnsupported, fmt::format("AMD code object: made for {}:{}{}, the device is {}",
                                                        info->target, name, sign_of(made_for), device));
  }
  return {};
}

}  // namespace tilewright
