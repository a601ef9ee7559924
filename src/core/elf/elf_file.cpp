// SPDX-License-Identifier: MIT
#include "core/elf/elf_file.hpp"

namespace tilewright {
namespace {

Status corrupt(const char* why) { return Status(StatusCode::kCorrupt, why); }

}  // namespace

Result<ElfFile> ElfFile::read(std::span<const std::byte> image, uint16_t machine) {
  ElfFile file(image);
  const auto header = file.reader_.at<Elf64_Ehdr>(0);
  if (!header || std::memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 || header->e_ident[EI_CLASS] != ELFCLASS64 ||
      header->e_ident[EI_DATA] != ELFDATA2LSB || header->e_machine != machine ||
      header->e_shentsize != sizeof(Elf64_Shdr)) {
    return corrupt("not a 64-bit ELF file for this kind of device");
  }
  file.header_ = *header;
  for (uint64_t i = 0; i < header->e_shnum; ++i) {
    const auto section = file.reader_.at<Elf64_Shdr>(header->e_shoff + i * sizeof(Elf64_Shdr));
    if (!section) return corrupt("cut short: a section header lies outside");
    if (section->sh_type != SHT_NOBITS && !file.reader_.bytes(section->sh_offset, section->sh_size)) {
      return corrupt("cut short: a section lies outside");
    }
    file.sections_.push_back({*section, {}});
  }
  if (header->e_shstrndx >= file.sections_.size()) return corrupt("no section names");
  const Elf64_Shdr names = file.sections_[header->e_shstrndx].header;
  for (Section& section : file.sections_) section.name = file.string_in(names, section.header.sh_name);
  return file;
}

const ElfFile::Section* ElfFile::find(std::string_view name) const {
  for (const Section& section : sections_) {
    if (section.name == name) return &section;
  }
  return nullptr;
}

std::optional<ElfFile::Symbol> ElfFile::symbol(const Section& table, uint64_t index) const {
  if (table.header.sh_link >= sections_.size() || index >= table.header.sh_size / sizeof(Elf64_Sym))
    return std::nullopt;
  const auto entry = reader_.at<Elf64_Sym>(table.header.sh_offset + index * sizeof(Elf64_Sym));
  if (!entry) return std::nullopt;
  return Symbol{*entry, string_in(sections_[table.header.sh_link].header, entry->st_name)};
}

std::optional<ElfFile::Symbol> ElfFile::find_symbol(const Section& table, std::string_view name) const {
  for (uint64_t i = 0;; ++i) {
    const std::optional<Symbol> found = symbol(table, i);
    if (!found || found->name == name) return found;
  }
}

std::vector<std::span<const std::byte>> ElfFile::notes(std::string_view owner, uint32_t type) const {
  std::vector<std::span<const std::byte>> found;
  for (uint64_t i = 0; i < header_.e_phnum; ++i) {
    const auto part = reader_.at<Elf64_Phdr>(header_.e_phoff + i * sizeof(Elf64_Phdr));
    if (!part) break;
    const auto bytes = part->p_type == PT_NOTE ? reader_.bytes(part->p_offset, part->p_filesz) : std::nullopt;
    if (!bytes) continue;
    const auto padded = [](uint64_t size) { return (size + 3) & ~uint64_t{3}; };
    const ByteReader inside(*bytes);
    for (uint64_t at = 0;;) {
      const auto note = inside.at<Elf64_Nhdr>(at);
      if (!note) break;
      const uint64_t name = at + sizeof(Elf64_Nhdr), content = name + padded(note->n_namesz);
      const auto descriptor = inside.bytes(content, note->n_descsz);
      if (!descriptor) break;
      if (note->n_type == type && inside.text(name, name + note->n_namesz) == owner) found.push_back(*descriptor);
      at = content + padded(note->n_descsz);
    }
  }
  return found;
}

}  // namespace tilewright
