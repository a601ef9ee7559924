// SPDX-License-Identifier: MIT
// The instructions of a kernel for AMD GPUs as llvm-objdump prints them, and the loop in which it spends its time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tilewright/status.hpp"

namespace tilewright {

struct AmdInstruction {
  uint64_t address = 0;
  std::string mnemonic;            // "v_mfma_f32_32x32x8_bf16"; without the encoding's suffix (_e32, _e64, _dpp, _sdwa)
  std::string operands;            // "v[2:5], v[12:13], v[14:15], v[2:5]", with modifiers
  std::optional<uint64_t> target;  // of a branch
};

// MFMA of either density, WMMA of either density.
bool is_matrix(std::string_view mnemonic);

// The instructions of one symbol in the output of `llvm-objdump -d`; kNotFound when it is not there.
Result<std::vector<AmdInstruction>> parse_disassembly(std::string_view text, std::string_view symbol);

// Runs llvm-objdump (its path) on a code object.
Result<std::vector<AmdInstruction>> disassemble(const std::string& objdump, std::span<const std::byte> object,
                                                const std::string& symbol);

// Instructions [begin, end), the last one a branch to the first.
struct AmdLoop {
  size_t begin = 0, end = 0;
  bool operator==(const AmdLoop&) const = default;
};

// Every loop: from the target of backward branches to the last of them. Branches forward inside, as of a tail that is
// skipped, leave the region whole.
std::vector<AmdLoop> find_loops(std::span<const AmdInstruction> code);

// Of the loops that hold matrix instructions and no smaller loop which does so, the one with the most. Without matrix
// instructions the innermost loop with the most instructions; without loops nothing.
std::optional<AmdLoop> find_main_loop(std::span<const AmdInstruction> code);

}  // namespace tilewright
