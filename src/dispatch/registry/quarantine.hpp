// SPDX-License-Identifier: MIT
// Kernels that crashed, hung, ate memory or were wrong here: the tuner remembers them for this target, part and compiler.
// Until their sources change they are neither tried again nor chosen for a call.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "dispatch/operator.hpp"
#include "dispatch/registry/family.hpp"
#include "jit/system/record_file.hpp"

namespace tilewright {

class ContextImpl;

struct QuarantineEntry {
  std::string op, recipe;       // a recipe of one or more kernels; each is disabled
  std::string problem;          // on which it failed
  std::string outcome, reason;  // "crashed", the supervisor's words
  std::string digest;           // of its sources then
  std::string date;
};

// Digest (16 digits) of the sources of one kernel: what its instance includes. "" when the key has no source.
std::string kernel_digest(const KernelFamily& family, const KernelKey& key);

// <user data>/tuning/<target>.quarantine; "" without a home directory.
std::string quarantine_path(std::string_view target);

class QuarantineList {
 public:
  // `device`: whose kernels they are; null = the one that the context has selected.
  QuarantineList(std::string path, ContextImpl& context, FileAccess access = FileAccess::kAppend,
                 const DeviceSpec* device = nullptr);

  const Status& problem() const { return file_.problem(); }
  // Of this environment, with kernels whose sources are as they were; oldest first.
  const std::vector<QuarantineEntry>& entries() const { return entries_; }
  // Disables every entry's kernels in the context's registry.
  void apply() const;
  // Remembers the entry's recipe and disables it now; digest and date are filled in.
  void add(QuarantineEntry entry);
  // Lifts the quarantine of a recipe; false when it is not on the list.
  bool forget(std::string_view op, std::string_view recipe);

 private:
  void read(const Record& record);
  void disable(const QuarantineEntry& entry) const;
  std::string digest_of_recipe(const Operator& op, const Recipe& recipe) const;

  ContextImpl& context_;
  const DeviceSpec device_;
  const std::vector<std::string>& environments() const;

  // This one; without a compiler, those of the compilers that filled the code cache. Asked for with the first record,
  // because the compiler has to be run.
  mutable std::vector<std::string> environments_;
  std::vector<QuarantineEntry> entries_;
  RecordFile file_;
};

}  // namespace tilewright
