// SPDX-License-Identifier: MIT
// Whose code this process runs: files and folders that only this user, or somebody whose code it runs anyway, can write.
#pragma once

#include <sys/stat.h>

#include <initializer_list>
#include <string>

#include "tilewright/status.hpp"

namespace tilewright {

// kUnsupported when `info` belongs to nobody of this user and `owners`, or group or others may write to it. The message
// is "<what> '<path>' is not used: <why>".
Status check_trusted(const char* what, const std::string& path, const struct stat& info,
                     std::initializer_list<uid_t> owners);

}  // namespace tilewright
