// SPDX-License-Identifier: MIT
#include "fuzz/fuzz_target.hpp"

#include <unistd.h>

#include <filesystem>

#include "jit/system/files.hpp"

namespace tilewright::fuzz {

std::span<const Target> targets() {
  static constexpr Target kTargets[] = {
      {"tuned_table", run_tuned_table, tuned_table_seeds},
      {"texts", run_texts, text_seeds},
      {"journal", run_journal, journal_seeds},
      {"cache_entry", run_cache_entry, cache_entry_seeds},
      {"code_pack", run_code_pack, code_pack_seeds},
      {"code_object", run_code_object, code_object_seeds},
  };
  return kTargets;
}

const std::string& scratch_folder() {
  struct Folder {
    std::string path = *make_unique_folder(std::filesystem::temp_directory_path().string(), "tilewright-fuzz-");
    pid_t owner = getpid();
    ~Folder() {
      if (owner == getpid()) remove_tree(path);
    }
  };
  static const Folder folder;
  return folder.path;
}

}  // namespace tilewright::fuzz
