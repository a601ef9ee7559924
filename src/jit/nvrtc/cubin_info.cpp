// SPDX-License-Identifier: MIT
#include "jit/nvrtc/cubin_info.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string_view>

#include "core/elf/elf_file.hpp"

namespace tilewright {
namespace {

constexpr uint16_t kMachineCuda = 190;     // EM_CUDA
constexpr uint8_t kAbiCapabilityHigh = 8;  // from this ABI version on the capability is the second byte of the flags
constexpr int64_t kReservedShared = 1024;  // of the system, counted in sections of targets from sm_90 on

// Records of .nv.info: a format, an attribute, and 2 bytes of value or of size.
enum class Format : uint8_t { kNone = 1, kByte = 2, kHalf = 3, kSized = 4 };
enum class Attribute : uint8_t {
  kMaxThreads = 0x05,
  kFrameSize = 0x11,
  kMinStackSize = 0x12,
  kParamSize = 0x19,
  kRegisters = 0x2f,
};

Status corrupt_cubin(std::string_view why) { return Status(StatusCode::kCorrupt, fmt::format("cubin: {}", why)); }

// Loads from shared memory of a warp that nothing has waited for, from one instruction to the next. They end in their order, and
// the last of several in a row has a counter that later instructions wait for.
class PendingLoads {
 public:
  // Whether this is an arrival with such loads in front of it.
  bool meets_arrival(uint64_t word, uint64_t control) {
    constexpr uint64_t kOpcode = 0xFFF, kLoad = 0x984, kLoadMatrices = 0x83B, kArrival = 0x9A7, kBranch = 0x947,
                       kExit = 0x94D;
    const uint64_t opcode = word & kOpcode, always = word >> 12 & 0xF;
    const unsigned waits = control >> 52 & 0x3F, sets = control >> 46 & 7;
    counters_ &= ~waits;
    if (waits != 0 && counters_ == 0) uncounted_ = false;
    if (opcode == kLoad || opcode == kLoadMatrices) {
      if (sets < 6) counters_ |= 1u << sets;
      uncounted_ = sets >= 6;
    }
    const bool met = opcode == kArrival && (counters_ != 0 || uncounted_);
    // What stands behind is reached from elsewhere.
    if ((opcode == kBranch || opcode == kExit) && always == 7) counters_ = 0, uncounted_ = false;
    return met;
  }

 private:
  unsigned counters_ = 0;
  bool uncounted_ = false;
};

class Cubin {
  using Section = ElfFile::Section;

 public:
  explicit Cubin(ElfFile file) : file_(std::move(file)), reader_(file_.reader()) {
    const uint32_t flags = file_.header().e_flags;
    capability_ = static_cast<int>(file_.header().e_ident[EI_ABIVERSION] >= kAbiCapabilityHigh ? flags >> 8 & 0xFF
                                                                                               : flags & 0xFF);
  }

  Result<CubinInfo> read() {
    CubinInfo info;
    info.capability = capability_;
    for (const Section& section : file_.sections()) {
      constexpr std::string_view kText = ".text.";
      if (!section.name.starts_with(kText)) continue;
      CubinKernel kernel;
      kernel.name = section.name.substr(kText.size());
      kernel.code_bytes = static_cast<int64_t>(section.header.sh_size);
      count_instructions(section.header, kernel);
      if (const Section* shared = file_.find(".nv.shared." + kernel.name)) {
        const auto bytes = static_cast<int64_t>(shared->header.sh_size);
        kernel.shared_bytes = capability_ >= 90 ? std::max<int64_t>(0, bytes - kReservedShared) : bytes;
      }
      if (const Section* own = file_.find(".nv.info." + kernel.name)) {
        if (Status s = read_attributes(*own, "", kernel); !s) return s;
      }
      // Registers and stack stand in the section of the whole file, by the kernel's symbol.
      if (const Section* all = file_.find(".nv.info")) {
        if (Status s = read_attributes(*all, kernel.name, kernel); !s) return s;
      }
      if (kernel.registers == 0) return corrupt_cubin(fmt::format("no register count of '{}'", kernel.name));
      info.kernels.push_back(std::move(kernel));
    }
    if (info.kernels.empty()) return corrupt_cubin("no kernel in it");
    return info;
  }

 private:
  void count_instructions(const Elf64_Shdr& code, CubinKernel& kernel) const {
    constexpr uint64_t kInstructionBytes = 16, kOpcodeBits = 0x1FF;
    if (code.sh_type == SHT_NOBITS) return;  // its size is not in the file
    PendingLoads pending;
    for (uint64_t at = 0; at + kInstructionBytes <= code.sh_size; at += kInstructionBytes) {
      const auto word = reader_.at<uint64_t>(code.sh_offset + at),
                 control = reader_.at<uint64_t>(code.sh_offset + at + 8);
      if (!word || !control) return;
      const auto opcode = static_cast<Sass>(*word & kOpcodeBits);
      ++kernel.instructions[static_cast<size_t>(opcode)];
      if (opcode == Sass::kLoad && kernel.count(Sass::kLaneExchange) > 0) ++kernel.late_loads;
      constexpr uint64_t kBankBits = 0x1F, kBankPlace = 54, kTablesBank = 4;
      const bool constant = opcode == Sass::kLoadConstant || opcode == Sass::kLoadUniform;
      if (constant && (*word >> kBankPlace & kBankBits) == kTablesBank) ++kernel.table_loads;
      const bool loads = opcode == Sass::kLoad || opcode == Sass::kAsyncCopy;
      if (loads && kernel.count(Sass::kWaitForKernel) == 0) ++kernel.early_loads;
      if (capability_ == 90 && pending.meets_arrival(*word, *control)) ++kernel.overtaking_arrivals;
    }
  }

  std::string_view symbol_name(uint32_t index) const {
    const Section* symbols = file_.find(".symtab");
    const auto symbol = symbols != nullptr ? file_.symbol(*symbols, index) : std::nullopt;
    return symbol ? symbol->name : std::string_view();
  }

  // `symbol`: whose values are wanted where records carry a symbol; "" = records are of one kernel.
  Status read_attributes(const Section& section, std::string_view symbol, CubinKernel& kernel) const {
    const uint64_t end = section.header.sh_offset + section.header.sh_size;
    for (uint64_t at = section.header.sh_offset; at < end;) {
      const auto format = reader_.at<uint8_t>(at), attribute = reader_.at<uint8_t>(at + 1);
      const auto value = reader_.at<uint16_t>(at + 2);
      if (!format || !attribute || !value || at + 4 > end) return corrupt_cubin("a record of .nv.info is cut short");
      const bool sized = *format == static_cast<uint8_t>(Format::kSized);
      const uint64_t data = at + 4, bytes = sized ? *value : 0;
      if (data + bytes > end) return corrupt_cubin("a record of .nv.info is cut short");
      at = data + bytes;
      const auto word = [&](uint64_t index) { return int64_t{reader_.at<uint32_t>(data + 4 * index).value_or(0)}; };
      switch (static_cast<Attribute>(*attribute)) {
        case Attribute::kParamSize: kernel.arg_bytes = *value; break;
        case Attribute::kMaxThreads:
          if (bytes >= 12) kernel.max_threads = static_cast<int>(word(0) * word(1) * word(2));
          break;
        case Attribute::kRegisters:
        case Attribute::kFrameSize:
        case Attribute::kMinStackSize:
          if (bytes < 8 || symbol_name(static_cast<uint32_t>(word(0))) != symbol) break;
          if (static_cast<Attribute>(*attribute) == Attribute::kRegisters) {
            kernel.registers = static_cast<int>(word(1));
          } else {
            kernel.local_bytes = std::max(kernel.local_bytes, word(1));
          }
          break;
        default: break;
      }
    }
    return {};
  }

  const ElfFile file_;
  const ByteReader reader_;
  int capability_ = 0;
};

}  // namespace

Result<CubinInfo> read_cubin(std::span<const std::byte> image) {
  Result<ElfFile> file = ElfFile::read(image, kMachineCuda);
  if (!file) return corrupt_cubin(file.status().message());
  return Cubin(std::move(*file)).read();
}

}  // namespace tilewright
