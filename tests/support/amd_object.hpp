// SPDX-License-Identifier: MIT
// A small AMD code object with one kernel, written byte by byte: what a compiler would make, and what it never would.
#pragma once

#include <elf.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace tilewright::test {

// MessagePack of a text, a number, a list and a map; items of the latter two are packed already.
inline std::string packed_text(const std::string& text) {
  return "\xD9" + std::string(1, static_cast<char>(text.size())) + text;
}
inline std::string packed_number(int64_t value) {
  std::string bytes = "\xD3";
  for (int shift = 56; shift >= 0; shift -= 8) bytes += static_cast<char>(value >> shift);
  return bytes;
}
inline std::string packed_items(char tag, size_t count, const std::vector<std::string>& items) {
  std::string bytes = {tag, static_cast<char>(count >> 8), static_cast<char>(count)};
  for (const std::string& item : items) bytes += item;
  return bytes;
}
inline std::string packed_list(const std::vector<std::string>& items) {
  return packed_items('\xDC', items.size(), items);
}
inline std::string packed_map(const std::map<std::string, std::string>& fields) {
  std::vector<std::string> items;
  for (const auto& [key, value] : fields) items.push_back(packed_text(key) + value);
  return packed_items('\xDE', fields.size(), items);
}

struct AmdObjectSpec {
  uint8_t format = 3;  // ELF's ABI version: 3 is code object version 5
  uint8_t abi = 64;
  uint16_t machine = 224;
  uint32_t flags = 0x54C;  // gfx942, either setting of xnack and sramecc
  std::string target = "amdgcn-amd-amdhsa--gfx942";
  std::map<std::string, int64_t> numbers = {{".kernarg_segment_size", 40},
                                            {".group_segment_fixed_size", 512},
                                            {".private_segment_fixed_size", 0},
                                            {".vgpr_count", 24},
                                            {".agpr_count", 8},
                                            {".sgpr_count", 18},
                                            {".vgpr_spill_count", 0},
                                            {".sgpr_spill_count", 0},
                                            {".wavefront_size", 64},
                                            {".max_flat_workgroup_size", 256}};
  std::map<std::string, std::string> more = {};  // of the kernel's map, packed
  uint32_t descriptor_lds = 512, descriptor_scratch = 0, descriptor_args = 40;
  std::string name = "tw_entry";
};

inline std::string packed_argument(const std::string& kind, int64_t offset, int64_t bytes) {
  return packed_map(
      {{".value_kind", packed_text(kind)}, {".offset", packed_number(offset)}, {".size", packed_number(bytes)}});
}

inline std::string make_amd_object(const AmdObjectSpec& spec = {}) {
  std::map<std::string, std::string> kernel = {
      {".name", packed_text(spec.name)},
      {".symbol", packed_text("tw_entry.kd")},
      {".args", packed_list({packed_argument("by_value", 0, 32), packed_argument("hidden_block_count_x", 32, 4)})}};
  for (const auto& [key, value] : spec.numbers) kernel[key] = packed_number(value);
  for (const auto& [key, value] : spec.more) kernel[key] = value;
  const std::string metadata =
      packed_map({{"amdhsa.target", packed_text(spec.target)}, {"amdhsa.kernels", packed_list({packed_map(kernel)})}});

  const auto bytes_of = [](const auto& value) {
    return std::string(reinterpret_cast<const char*>(&value), sizeof(value));
  };
  std::string file(sizeof(Elf64_Ehdr) + sizeof(Elf64_Phdr), '\0');
  std::vector<Elf64_Shdr> sections(1);
  const auto add = [&](uint32_t name, uint32_t type, const std::string& content, uint32_t link = 0) {
    file.resize((file.size() + 7) & ~size_t{7});
    Elf64_Shdr section{};
    section.sh_name = name;
    section.sh_type = type;
    section.sh_offset = file.size();
    section.sh_addr = file.size() + 0x1000;
    section.sh_size = content.size();
    section.sh_link = link;
    sections.push_back(section);
    file += content;
    return section;
  };
  const std::string names("\0.note\0.rodata\0.text\0.dynstr\0.dynsym\0.shstrtab\0", 47);
  const Elf64_Nhdr note{7, static_cast<uint32_t>(metadata.size()), 32};
  const Elf64_Shdr notes = add(1, SHT_NOTE, bytes_of(note) + std::string("AMDGPU\0\0", 8) + metadata);
  std::string descriptor(64, '\0');
  descriptor.replace(
      0, 12, bytes_of(spec.descriptor_lds) + bytes_of(spec.descriptor_scratch) + bytes_of(spec.descriptor_args));
  const Elf64_Shdr rodata = add(7, SHT_PROGBITS, descriptor);
  const Elf64_Shdr code = add(15, SHT_PROGBITS, std::string(48, '\x7F'));
  add(21, SHT_STRTAB, std::string("\0tw_entry\0tw_entry.kd\0", 22));
  Elf64_Sym entry{1, STT_FUNC, 0, 3, code.sh_addr, 48}, kd{10, STT_OBJECT, 0, 2, rodata.sh_addr, 64};
  add(29, SHT_DYNSYM, bytes_of(Elf64_Sym{}) + bytes_of(entry) + bytes_of(kd), 4);
  add(37, SHT_STRTAB, names);

  Elf64_Phdr part{};
  part.p_type = PT_NOTE;
  part.p_offset = notes.sh_offset;
  part.p_filesz = notes.sh_size;
  Elf64_Ehdr header{};
  const unsigned char ident[] = {0x7F, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT, spec.abi, spec.format};
  std::copy(std::begin(ident), std::end(ident), header.e_ident);
  header.e_type = ET_DYN;
  header.e_machine = spec.machine;
  header.e_flags = spec.flags;
  header.e_phoff = sizeof(Elf64_Ehdr);
  header.e_phnum = 1;
  header.e_shentsize = sizeof(Elf64_Shdr);
  header.e_shnum = static_cast<uint16_t>(sections.size());
  header.e_shstrndx = static_cast<uint16_t>(sections.size() - 1);
  file.resize((file.size() + 7) & ~size_t{7});
  header.e_shoff = file.size();
  for (const Elf64_Shdr& section : sections) file += bytes_of(section);
  file.replace(0, sizeof(header), bytes_of(header));
  file.replace(sizeof(header), sizeof(part), bytes_of(part));
  return file;
}

}  // namespace tilewright::test
