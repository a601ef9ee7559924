// SPDX-License-Identifier: MIT
// Files of the code cache: an entry's metadata and binary, and ahead-of-time packs. Damage is told, never believed.
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fuzz/fuzz_target.hpp"
#include "jit/cache/cache_entry.hpp"
#include "jit/cache/cache_root.hpp"
#include "jit/cache/code_pack.hpp"

namespace tilewright::fuzz {
namespace {

constexpr std::string_view kBinary = "the code";

const std::string& entry_folder() {
  static const std::string kFolder = [] {
    const std::string folder = scratch_folder() + "/entry";
    require(make_folders(folder).ok() && write_file(folder + "/kernel.so", kBinary).ok(), "the scratch folder works");
    return folder;
  }();
  return kFolder;
}

void check_entry(const std::string& metadata) {
  require(write_file(entry_folder() + "/metadata", metadata).ok(), "the scratch folder takes files");
  const Result<CacheEntryData> data = read_entry(entry_folder());
  if (!data) {
    // kUnsupported: another version's.
    const StatusCode code = data.status().code();
    require(code == StatusCode::kCorrupt || code == StatusCode::kUnsupported,
            "damage is called damage: " + data.status().to_string());
    return;
  }
  require(data->binary.find('/') == std::string::npos, "a binary lies inside its entry");
  const Result<std::string> binary = read_file(entry_folder() + "/" + data->binary);
  require(binary.ok() && digest_of(*binary).hex() == data->binary_digest, "the binary is what the metadata says");
}

void check_pack(const std::string& text) {
  static const std::string path = scratch_folder() + "/fuzz.twpack";
  require(write_file(path, text).ok() && chmod(path.c_str(), 0644) == 0, "the scratch folder takes files");
  const Result<CodePack> pack = CodePack::open(path, getuid());
  if (!pack) {
    require(!pack.status().message().empty(), "a refusal has a reason");
    return;
  }
  for (const PackEntry& entry : pack->entries()) {
    (void)pack->find(entry.content, entry.target);
    const Result<std::vector<std::byte>> code = pack->read(entry);
    require(!code.ok() || static_cast<int64_t>(code->size()) == entry.bytes, "an entry's code is whole");
  }
}

std::string good_pack() {
  const std::string path = scratch_folder() + "/good.twpack";
  PackedCode one, two;
  one.entry.content = digest_of("a"), one.entry.name = "one kernel", one.entry.target = "x86-64-v3";
  one.entry.entry = "entry_a", one.entry.compiler = "gcc 12", one.code = "code of a";
  two = one;
  two.entry.content = digest_of("b"), two.code = std::string(100, 'b');
  require(write_pack(path, {one, two}).ok(), "a pack can be written");
  return *read_file(path);
}

}  // namespace

std::vector<std::string> cache_entry_seeds() {
  CacheEntryData data;
  data.name = "n", data.digest = "d", data.target = "x86-64", data.entry = "e", data.compiler = "c", data.created = "t";
  data.binary = "kernel.so";
  require(commit_entry(entry_folder(), data).ok(), "an entry can be written");
  const std::string whole = *read_file(entry_folder() + "/metadata");
  // The second is what the digest in the last line covers.
  return {whole, whole.substr(0, whole.rfind("check "))};
}

void run_cache_entry(std::string_view input) {
  check_entry(std::string(input));
  // With the digest that makes it be read.
  check_entry(fmt::format("{}check {}\n", input, digest_of(input).hex()));
}

std::vector<std::string> code_pack_seeds() {
  const std::string whole = good_pack();
  return {whole, whole.substr(128)};
}

void run_code_pack(std::string_view input) {
  check_pack(std::string(input));
  // As an index with code behind it, and a first line that matches: the index ends where the first zero is.
  const std::string_view index = input.substr(0, input.find('\0'));
  std::string line =
      fmt::format("tilewright pack 1 abi {} index {} {}", kKernelAbi, index.size(), digest_of(index).hex());
  line.resize(127, ' ');
  check_pack(fmt::format("{}\n{}", line, input));
}

}  // namespace tilewright::fuzz
