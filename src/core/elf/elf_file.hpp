// SPDX-License-Identifier: MIT
// A 64-bit ELF file in memory. Every access is checked against its end: the bytes may be anything.
#pragma once

#include <elf.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "tilewright/status.hpp"

namespace tilewright {

// A part of a file; where what is asked for does not lie inside, there is no answer.
class ByteReader {
 public:
  explicit ByteReader(std::span<const std::byte> image) : image_(image) {}

  template <class T>
  std::optional<T> at(uint64_t offset) const {
    if (offset > image_.size() || image_.size() - offset < sizeof(T)) return std::nullopt;
    T value;
    std::memcpy(&value, image_.data() + offset, sizeof(T));
    return value;
  }
  std::optional<std::span<const std::byte>> bytes(uint64_t offset, uint64_t size) const {
    if (offset > image_.size() || image_.size() - offset < size) return std::nullopt;
    return image_.subspan(offset, size);
  }
  // A text that ends with a zero inside [offset, end).
  std::string_view text(uint64_t offset, uint64_t end) const {
    if (offset >= end || end > image_.size()) return {};
    const char* const begin = reinterpret_cast<const char*>(image_.data()) + offset;
    return {begin, strnlen(begin, end - offset)};
  }

 private:
  std::span<const std::byte> image_;
};

// Views into the bytes that it was read from.
class ElfFile {
 public:
  struct Section {
    Elf64_Shdr header;
    std::string_view name;
  };
  struct Symbol {
    Elf64_Sym entry;
    std::string_view name;
  };

  // The error says what is wrong; the caller says with what. Sections lie inside the file, but for SHT_NOBITS.
  static Result<ElfFile> read(std::span<const std::byte> image, uint16_t machine);

  const Elf64_Ehdr& header() const { return header_; }
  const ByteReader& reader() const { return reader_; }
  const std::vector<Section>& sections() const { return sections_; }
  const Section* find(std::string_view name) const;
  std::string_view string_in(const Elf64_Shdr& table, uint64_t offset) const {
    return reader_.text(table.sh_offset + offset, table.sh_offset + table.sh_size);
  }
  // Of a table of symbols; none past its end.
  std::optional<Symbol> symbol(const Section& table, uint64_t index) const;
  std::optional<Symbol> find_symbol(const Section& table, std::string_view name) const;
  // The descriptors of the notes of one owner and type.
  std::vector<std::span<const std::byte>> notes(std::string_view owner, uint32_t type) const;

 private:
  explicit ElfFile(std::span<const std::byte> image) : reader_(image) {}

  ByteReader reader_;
  Elf64_Ehdr header_{};
  std::vector<Section> sections_;
};

}  // namespace tilewright
