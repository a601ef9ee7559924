// SPDX-License-Identifier: MIT
// Disassembled kernels: what is read from llvm-objdump's text, and which loop is the main one.
#include "jit/amdgcn/inspection/disassembly.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>

namespace tilewright {
namespace {

// The loop of the kernel of tests/compile/amd/code_objects_test.cpp, as clang 22 compiles it for gfx942, with a second
// kernel behind it.
constexpr const char* kRecorded = R"(
object.hsaco:	file format elf64-amdgpu

Disassembly of section .text:

0000000000001600 <tw_entry>:
	s_load_dword s3, s[0:1], 0x18                              // 000000001600: C00200C0 00000018
	v_mov_b32_e32 v7, 0                                        // 000000001618: 7E0E0280
	s_waitcnt lgkmcnt(0)                                       // 000000001620: BF8CC07F
	s_cmp_lt_i32 s3, 1                                         // 000000001624: BF048103
	s_cbranch_scc1 36                                          // 00000000162C: BF850024 <tw_entry+0xc0>
	v_lshlrev_b32_e32 v6, 3, v0                                // 000000001630: 240C0083
	s_mov_b64 s[0:1], 0x800                                    // 000000001660: BE8001FF 00000800
	global_load_dwordx2 v[12:13], v[8:9], off                  // 000000001668: DC548000 0C7F0008
	s_add_i32 s3, s3, -1                                       // 000000001670: 8103C103
	v_lshl_add_u64 v[8:9], v[8:9], 0, s[0:1]                   // 000000001674: D2080008 00010108
	s_cmp_eq_u32 s3, 0                                         // 00000000167C: BF068003
	s_waitcnt vmcnt(0)                                         // 000000001680: BF8C0F70
	ds_write_b64 v6, v[12:13]                                  // 000000001684: D89A0000 00000C06
	s_waitcnt lgkmcnt(0)                                       // 00000000168C: BF8CC07F
	s_barrier                                                  // 000000001690: BF8A0000
	global_load_dwordx2 v[12:13], v[10:11], off                // 000000001694: DC548000 0C7F000A
	ds_read_b64 v[14:15], v1                                   // 00000000169C: D8EC0000 0E000001
	v_lshl_add_u64 v[10:11], v[10:11], 0, s[0:1]               // 0000000016A4: D208000A 0001010A
	s_barrier                                                  // 0000000016AC: BF8A0000
	s_waitcnt vmcnt(0) lgkmcnt(0)                              // 0000000016B0: BF8C0070
	v_mfma_f32_16x16x16_bf16 v[2:5], v[12:13], v[14:15], v[2:5]// 0000000016B4: D3E10002 040A1D0C
	s_cbranch_scc0 65514                                       // 0000000016BC: BF84FFEA <tw_entry+0x68>
	v_cndmask_b32_e64_dpp v2, v2, v3, vcc row_shr:1            // 0000000016D4: 00040702
	s_endpgm                                                   // 000000001740: BF810000
	s_nop 0                                                    // 000000001744: BF800000

0000000000001800 <tw_other>:
	s_endpgm                                                   // 000000001800: BF810000
)";

std::vector<AmdInstruction> parsed(std::string_view text, std::string_view symbol = "tw_entry") {
  Result<std::vector<AmdInstruction>> code = parse_disassembly(text, symbol);
  EXPECT_TRUE(code.ok()) << code.status().message();
  return code ? *code : std::vector<AmdInstruction>();
}

// Instructions at 0, 4, 8 ...; "branch 2" goes to the third.
std::vector<AmdInstruction> code_of(const std::vector<std::string>& words) {
  std::vector<AmdInstruction> code;
  for (const std::string& word : words) {
    AmdInstruction instruction{4 * code.size(), word, "", {}};
    if (word.starts_with("branch ")) {
      instruction.mnemonic = "s_cbranch_scc1";
      instruction.target = 4 * std::stoul(word.substr(7));
    }
    code.push_back(instruction);
  }
  return code;
}

constexpr const char* kMfma = "v_mfma_f32_16x16x16_bf16";

TEST(AmdDisassembly, InstructionsOfOneKernelAreRead) {
  const std::vector<AmdInstruction> code = parsed(kRecorded);
  ASSERT_EQ(code.size(), 24u) << "without what fills up behind the end";
  EXPECT_EQ(code[0].address, 0x1600u);
  EXPECT_EQ(code[0].mnemonic, "s_load_dword");
  EXPECT_EQ(code[0].operands, "s3, s[0:1], 0x18");
  EXPECT_EQ(code[1].mnemonic, "v_mov_b32") << "without the encoding";
  EXPECT_EQ(code[4].target, 0x16C0u);
  EXPECT_EQ(code[14].operands, "");
  EXPECT_EQ(code[20].mnemonic, kMfma);
  EXPECT_EQ(code[20].operands, "v[2:5], v[12:13], v[14:15], v[2:5]");
  EXPECT_EQ(code[21].target, 0x1668u);
  EXPECT_EQ(code[22].mnemonic, "v_cndmask_b32");
  EXPECT_EQ(code[23].mnemonic, "s_endpgm");
  EXPECT_EQ(parsed(kRecorded, "tw_other").size(), 1u);
}

TEST(AmdDisassembly, AKernelThatIsNotThereIsNamed) {
  const Status status = parse_disassembly(kRecorded, "tw_absent").status();
  EXPECT_EQ(status.code(), StatusCode::kNotFound);
  EXPECT_THAT(status.message(), testing::HasSubstr("'tw_absent'"));
  EXPECT_FALSE(parse_disassembly("", "tw_entry").ok());
  EXPECT_FALSE(parse_disassembly("0000 <tw_entry>:\nno instruction\n", "tw_entry").ok());
}

TEST(AmdDisassembly, TheLoopIsFromTheTargetToTheBranch) {
  const std::vector<AmdInstruction> code = parsed(kRecorded);
  const std::optional<AmdLoop> loop = find_main_loop(code);
  ASSERT_TRUE(loop.has_value());
  EXPECT_EQ(*loop, (AmdLoop{7, 22}));
  EXPECT_FALSE(find_main_loop(parsed(kRecorded, "tw_other")).has_value());
}

TEST(AmdDisassembly, TheInnermostLoopWithMatrixInstructionsIsTheMainOne) {
  // Tiles (0 to 9) around steps of K (2 to 7), in which a wave waits for another (3 to 4).
  const auto nested =
      code_of({"s_add_i32", kMfma, "ds_read_b64", "s_sleep", "branch 3", kMfma, kMfma, "branch 2", kMfma, "branch 0"});
  EXPECT_EQ(find_loops(nested), (std::vector<AmdLoop>{{0, 10}, {2, 8}, {3, 5}}));
  EXPECT_EQ(find_main_loop(nested), (AmdLoop{2, 8}));
}

TEST(AmdDisassembly, OfTwoLoopsTheOneWithMoreMatrixInstructionsIsTheMainOne) {
  const auto code = code_of({kMfma, kMfma, "branch 0", kMfma, "s_nop", "s_nop", "s_nop", "branch 3"});
  EXPECT_EQ(find_main_loop(code), (AmdLoop{0, 3}));
}

TEST(AmdDisassembly, BranchesForwardAndSeveralWaysBackLeaveOneLoop) {
  // A tail that most iterations skip (1 to 4), and two branches to the begin.
  const auto code =
      code_of({kMfma, "branch 4", "ds_read_b64", "branch 0", kMfma, "branch 8", "s_nop", "branch 0", "s_endpgm"});
  EXPECT_EQ(find_loops(code), (std::vector<AmdLoop>{{0, 8}}));
  EXPECT_EQ(find_main_loop(code), (AmdLoop{0, 8}));
}

TEST(AmdDisassembly, WithoutMatrixInstructionsTheLargestInnermostLoopIsTheMainOne) {
  const auto code = code_of({"s_nop", "branch 0", "v_fma_f32", "v_fma_f32", "branch 2", "branch 0"});
  EXPECT_EQ(find_main_loop(code), (AmdLoop{2, 5}));
}

}  // namespace
}  // namespace tilewright
