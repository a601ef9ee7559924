// SPDX-License-Identifier: MIT
// A code cache's folder on disk: who may use it, where things are in it, how entries are published and removed.
//
//   root/abi1/<first two digits of the digest>/<readable name>-<digest>/   entries
//   root/abi1/building/   builds under way;  root/abi1/aside/   damaged entries;  root/abi1/locks/   advisory locks
//   root/abi1/compilers   identities of the compilers whose entries may be here, one a line
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "core/digest.hpp"
#include "jit/system/files.hpp"
#include "tilewright/status.hpp"

namespace tilewright {

// Part of every digest and of the layout: raised when argument structs or entry conventions change.
inline constexpr int kKernelAbi = 1;

class CacheRoot {
 public:
  enum class Use { kReadWrite, kReadOnly };

  // Loading code means trusting whoever can write it: the folder must belong to this user (kReadOnly: or to root) and
  // nobody else may write to it. kReadWrite creates a missing folder with mode 0700.
  static Result<CacheRoot> open(const std::string& path, Use use);

  const std::string& path() const { return path_; }
  // False on read-only file systems and without permission, also when kReadWrite was asked for.
  bool writable() const { return writable_; }

  std::string entry_folder(std::string_view name, const Digest& digest) const;
  std::vector<std::string> entry_folders() const;
  // Whether an entry's folder, and the one around it, are as trusted as the root; kNotFound when they are not there.
  Status check_entry(const std::string& entry_folder) const;

  // A private folder on the same file system as the entries.
  Result<std::string> make_build_folder() const;
  // Renames a finished build into place. False: another process was first, and the build is still where it was.
  Result<bool> publish(const std::string& build_folder, const std::string& entry_folder) const;
  // Whose entries may be here, the latest first: where there is no compiler, names of entries are made with these.
  std::vector<std::string> compilers() const;
  // Before an entry is published. What cannot be written costs only those who come without a compiler.
  void record_compiler(std::string_view identity) const;
  // Takes an entry out of the way; false when that is not possible.
  bool set_aside(const std::string& entry_folder) const;
  // Removes a folder of this root so that no reader sees half of it.
  void remove(const std::string& folder) const;
  // What was set aside, and builds that nobody can still be working on.
  std::vector<std::string> leftovers() const;
  // Where versions with another kernel ABI keep their entries.
  std::vector<std::string> other_abi_folders() const;

  // An advisory lock, released when it goes, also where a forked child inherited the descriptor.
  class Lock {
   public:
    explicit Lock(ScopedFd file = ScopedFd(), bool timed_out = false) : file_(std::move(file)), timed_out_(timed_out) {}
    ~Lock();
    Lock(Lock&&) = default;
    Lock& operator=(Lock&&) = delete;
    bool held() const { return static_cast<bool>(file_); }
    bool timed_out() const { return timed_out_; }  // somebody held it all the time

   private:
    ScopedFd file_;
    bool timed_out_;
  };

  // Waits at most `seconds` for the lock that covers the digest. Waiting ends early when `stop` says so. The lock only
  // saves work: without one (the wait is over, the file system has no locks) the caller goes on, because publishing is a
  // rename. Lock files stay: deleting one breaks waiters on NFS.
  Lock lock(const Digest& digest, double seconds, const std::function<bool()>& stop) const;

 private:
  CacheRoot(std::string path, bool writable, uid_t other_owner);
  std::string path_;
  std::string abi_folder_;
  bool writable_;
  uid_t other_owner_;  // besides this user
};

}  // namespace tilewright
