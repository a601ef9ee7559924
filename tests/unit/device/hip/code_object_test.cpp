// SPDX-License-Identifier: MIT
// AMD code objects: what is read from them, which devices they match, and that no bytes lead the reader astray.
#include "device/hip/object/code_object.hpp"

#include <gmock/gmock.h>

#include "device/hip/object/msgpack.hpp"
#include "support/amd_object.hpp"

namespace tilewright {
namespace {

using test::AmdObjectSpec;
using test::make_amd_object;
using test::packed_argument;
using test::packed_list;
using test::packed_number;
using test::packed_text;
using testing::HasSubstr;

std::span<const std::byte> object_bytes(const std::string& text) { return std::as_bytes(std::span(text)); }

Status status_of(const AmdObjectSpec& spec) { return read_amd_object(object_bytes(make_amd_object(spec))).status(); }

void expect_corrupt(const AmdObjectSpec& spec, const std::string& words) {
  const Status status = status_of(spec);
  EXPECT_EQ(status.code(), StatusCode::kCorrupt) << words;
  EXPECT_THAT(status.message(), HasSubstr(words));
}

TEST(AmdCodeObject, TellsTargetAndKernel) {
  const Result<AmdObjectInfo> info = read_amd_object(object_bytes(make_amd_object()));
  ASSERT_TRUE(info.ok()) << info.status().message();
  EXPECT_EQ(info->target, "gfx942");
  EXPECT_EQ(info->xnack, AmdFeature::kAny);
  EXPECT_EQ(info->sramecc, AmdFeature::kAny);
  ASSERT_EQ(info->kernels.size(), 1u);
  const AmdKernel& kernel = info->kernels[0];
  EXPECT_EQ(kernel.name, "tw_entry");
  EXPECT_EQ(kernel.kernarg_bytes, 40);
  EXPECT_EQ(kernel.arg_bytes, 32) << "without what HIP fills in";
  ASSERT_EQ(kernel.args.size(), 2u);
  EXPECT_FALSE(kernel.args[0].hidden());
  EXPECT_TRUE(kernel.args[1].hidden());
  EXPECT_EQ(kernel.args[1].offset, 32);
  EXPECT_EQ(kernel.args[1].bytes, 4);
  EXPECT_EQ(kernel.lds_bytes, 512);
  EXPECT_EQ(kernel.scratch_bytes, 0);
  EXPECT_FALSE(kernel.dynamic_stack);
  EXPECT_EQ(kernel.vgprs, 24);
  EXPECT_EQ(kernel.agprs, 8);
  EXPECT_EQ(kernel.sgprs, 18);
  EXPECT_EQ(kernel.vgpr_spills, 0);
  EXPECT_EQ(kernel.sgpr_spills, 0);
  EXPECT_EQ(kernel.wave_size, 64);
  EXPECT_EQ(kernel.max_threads, 256);
  EXPECT_EQ(kernel.code_bytes, 48);
}

TEST(AmdCodeObject, SpillsScratchAndADynamicStackAreTold) {
  AmdObjectSpec spec;
  spec.numbers[".vgpr_spill_count"] = 7;
  spec.numbers[".sgpr_spill_count"] = 3;
  spec.numbers[".private_segment_fixed_size"] = spec.descriptor_scratch = 96;
  spec.more[".uses_dynamic_stack"] = "\xC3";
  const AmdKernel kernel = read_amd_object(object_bytes(make_amd_object(spec)))->kernels.at(0);
  EXPECT_EQ(kernel.vgpr_spills, 7);
  EXPECT_EQ(kernel.sgpr_spills, 3);
  EXPECT_EQ(kernel.scratch_bytes, 96);
  EXPECT_TRUE(kernel.dynamic_stack);
}

TEST(AmdCodeObject, WhatAKernelMustSayIsAskedFor) {
  for (const char* key : {".kernarg_segment_size", ".group_segment_fixed_size", ".private_segment_fixed_size",
                          ".vgpr_count", ".sgpr_count", ".wavefront_size", ".max_flat_workgroup_size"}) {
    AmdObjectSpec spec;
    spec.numbers.erase(key);
    expect_corrupt(spec, key);
    spec.numbers[key] = -1;
    expect_corrupt(spec, key);
    spec.numbers[key] = int64_t{1} << 40;
    expect_corrupt(spec, key);
  }
  AmdObjectSpec spec;  // RDNA has no accumulation registers
  for (const char* key : {".agpr_count", ".vgpr_spill_count", ".sgpr_spill_count"}) spec.numbers.erase(key);
  EXPECT_TRUE(status_of(spec).ok()) << status_of(spec).message();
  spec.numbers[".wavefront_size"] = 48;
  expect_corrupt(spec, "neither 32 nor 64 lanes");
  spec = {};
  spec.more[".args"] = packed_list({packed_argument("by_value", 32, 16)});
  expect_corrupt(spec, "outside the arguments");
  spec.more[".args"] = packed_text("none");
  expect_corrupt(spec, "no list");
  spec = {};
  spec.more[".name"] = packed_number(1);
  expect_corrupt(spec, "without a name");
}

TEST(AmdCodeObject, FlagsDescriptorAndMetadataMustAgree) {
  AmdObjectSpec spec;
  spec.flags = 0x54F;  // gfx950
  expect_corrupt(spec, "are not those of 'amdgcn-amd-amdhsa--gfx942'");
  spec.flags = 0x74C;  // xnack off, of which the metadata says nothing
  expect_corrupt(spec, "are not those of");
  spec = {};
  spec.target = "amdgcn-amd-amdhsa--gfx906";
  expect_corrupt(spec, "are not those of");
  spec.target = "nvptx64";
  expect_corrupt(spec, "its target is 'nvptx64'");
  for (uint32_t AmdObjectSpec::* const size :
       {&AmdObjectSpec::descriptor_lds, &AmdObjectSpec::descriptor_scratch, &AmdObjectSpec::descriptor_args}) {
    spec = {};
    spec.*size += 16;
    expect_corrupt(spec, "the descriptor of 'tw_entry'");
  }
  spec = {};
  spec.name = "another";
  expect_corrupt(spec, "no code or no descriptor of 'another'");
  spec = {};
  spec.format = 1;
  expect_corrupt(spec, "version 4, 5 or 6");
  spec = {};
  spec.machine = 190;
  expect_corrupt(spec, "not a 64-bit ELF file");
}

TEST(AmdCodeObject, MatchesItsProcessorAndItsSettingsOnly) {
  struct Case {
    uint32_t flags;
    const char* target;
    std::vector<const char*> runs, refused;
  };
  const Case cases[] = {
      {0x54C, "gfx942", {"gfx942", "gfx942:sramecc+:xnack-", "gfx942:xnack+"}, {"gfx940", "gfx94", "gfx950", ""}},
      {0xA3F,
       "gfx90a:sramecc-:xnack-",
       {"gfx90a:sramecc-:xnack-"},
       {"gfx90a", "gfx90a:sramecc+:xnack-", "gfx90a:sramecc-:xnack+"}},
      {0xF3F, "gfx90a:sramecc+:xnack+", {"gfx90a:sramecc+:xnack+"}, {"gfx90a:sramecc+:xnack-", "gfx90a:xnack+"}},
      {0x041, "gfx1100", {"gfx1100"}, {"gfx1101", "gfx1201", "gfx110"}},
      {0x04E, "gfx1201", {"gfx1201"}, {"gfx1200", "gfx942"}},
      {0x54F, "gfx950", {"gfx950:sramecc+:xnack-"}, {"gfx942:sramecc+:xnack-"}}};
  for (const Case& c : cases) {
    AmdObjectSpec spec;
    spec.flags = c.flags;
    spec.target = std::string("amdgcn-amd-amdhsa--") + c.target;
    const std::string object = make_amd_object(spec);
    for (const char* device : c.runs) {
      EXPECT_TRUE(amd_object_matches(object_bytes(object), device).ok())
          << c.target << " on " << device << ": " << amd_object_matches(object_bytes(object), device).message();
    }
    for (const char* device : c.refused) {
      const Status status = amd_object_matches(object_bytes(object), device);
      EXPECT_EQ(status.code(), StatusCode::kUnsupported) << c.target << " on " << device;
      EXPECT_THAT(status.message(), HasSubstr(std::string("the device is ") + device));
    }
  }
  EXPECT_EQ(amd_object_matches(object_bytes("no object"), "gfx942").code(), StatusCode::kCorrupt);
}

TEST(AmdCodeObject, DamagedBytesAreNeverReadBeyondTheirEnd) {
  const std::string object = make_amd_object();
  for (size_t size = 0; size < object.size(); ++size) {
    // Of its own size, so that a sanitizer sees every byte too far.
    const std::vector<char> cut(object.begin(), object.begin() + static_cast<ptrdiff_t>(size));
    EXPECT_EQ(read_amd_object(std::as_bytes(std::span(cut))).status().code(), StatusCode::kCorrupt) << size;
  }
  for (size_t at = 0; at < object.size(); ++at) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string changed = object;
      changed[at] = static_cast<char>(changed[at] ^ 1 << bit);
      (void)read_amd_object(object_bytes(changed));  // whatever it says, it stays inside
    }
    for (const char byte : {'\0', '\xFF', '\x7F', '\x80', '\xDD', '\xDF', '\xDB'}) {
      std::string changed = object;
      changed[at] = byte;
      (void)read_amd_object(object_bytes(changed));
    }
  }
}

TEST(Msgpack, ReadsWhatMetadataUses) {
  const auto number = [](const std::string& text) { return read_msgpack(object_bytes(text))->integer; };
  EXPECT_EQ(number("\x05"), 5);
  EXPECT_EQ(number("\xFF"), -1);
  EXPECT_EQ(number("\xCC\xFF"), 255);
  EXPECT_EQ(number("\xCD\x01\x02"), 0x102);
  EXPECT_EQ(number(std::string("\xCE\x80\0\0\0", 5)), 0x80000000);
  EXPECT_EQ(number(std::string("\xCF\0\0\0\1\0\0\0\0", 9)), int64_t{1} << 32);
  EXPECT_EQ(number("\xD0\x80"), -128);
  EXPECT_EQ(number("\xD1\xFF\xFE"), -2);
  EXPECT_EQ(number("\xD2\xFF\xFF\xFF\xFD"), -3);
  EXPECT_EQ(number(packed_number(-4)), -4);
  EXPECT_EQ(number("\xC3"), 1);
  EXPECT_EQ(read_msgpack(object_bytes("\xC0"))->kind, MsgpackValue::Kind::kNone);
  for (const std::string& text : {std::string("\xA3"
                                              "abc"),
                                  std::string("\xD9\x03"
                                              "abc"),
                                  std::string("\xDA\0\3abc", 6), std::string("\xDB\0\0\0\3abc", 8)}) {
    EXPECT_EQ(read_msgpack(object_bytes(text))->text, "abc");
  }
  for (const std::string& text :
       {std::string("\x92\1\2"), std::string("\xDC\0\2\1\2", 5), std::string("\xDD\0\0\0\2\1\2", 7)}) {
    EXPECT_EQ(read_msgpack(object_bytes(text))->items.size(), 2u);
  }
  for (const std::string& text :
       {std::string("\x81\xA1k\7"), std::string("\xDE\0\1\xA1k\7", 6), std::string("\xDF\0\0\0\1\xA1k\7", 8)}) {
    const Result<MsgpackValue> map = read_msgpack(object_bytes(text));
    ASSERT_NE(map->find("k"), nullptr);
    EXPECT_EQ(map->find("k")->integer, 7);
    EXPECT_EQ(map->find("x"), nullptr);
    EXPECT_EQ(map->find("k")->find("x"), nullptr);
  }
}

TEST(Msgpack, RefusesTheRest) {
  for (const std::string& text : {std::string(), std::string("\xC1"), std::string("\xC4\1x"),
                                  std::string("\xCA\0\0\0\0", 5), std::string("\xCD\1"), std::string("\xD9\4abc"),
                                  std::string("\xDD\xFF\xFF\xFF\xFF"), std::string("\xDF\xFF\xFF\xFF\xFF\1\1"),
                                  std::string("\xCF\xFF\0\0\0\0\0\0\0", 9), std::string(100000, '\x91')}) {
    EXPECT_EQ(read_msgpack(object_bytes(text)).status().code(), StatusCode::kCorrupt);
  }
}

}  // namespace
}  // namespace tilewright
