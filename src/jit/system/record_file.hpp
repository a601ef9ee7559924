// SPDX-License-Identifier: MIT
// A file of checksummed lines that is only appended to: each line is on the disk when append() returns, a damaged line
// costs only itself.
#pragma once

#include <functional>
#include <string>

#include "jit/system/files.hpp"
#include "jit/system/record.hpp"

namespace tilewright {

// Who only looks makes no file and no folder.
enum class FileAccess { kRead, kAppend };

class RecordFile {
 public:
  // Hands every whole line of an existing file to `read`, then opens it for appending, if wanted.
  RecordFile(std::string path, FileAccess access, const std::function<void(const Record&)>& read);

  // Why lines are not kept; appending then does nothing.
  const Status& problem() const { return problem_; }
  const std::string& path() const { return path_; }
  // One write, so that lines of several processes do not mix.
  void append(const Record& record);

 private:
  std::string path_;
  Status problem_;
  ScopedFd file_;
  bool torn_ = false;  // the file ends in the middle of a line
};

}  // namespace tilewright
