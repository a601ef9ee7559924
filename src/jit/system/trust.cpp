// SPDX-License-Identifier: MIT
#include "jit/system/trust.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

namespace tilewright {

Status check_trusted(const char* what, const std::string& path, const struct stat& info,
                     std::initializer_list<uid_t> owners) {
  auto refuse = [&](std::string_view why) {
    return Status(StatusCode::kUnsupported, fmt::format("{} '{}' is not used: {}", what, path, why));
  };
  const uid_t user = geteuid();
  if (info.st_uid != user && std::find(owners.begin(), owners.end(), info.st_uid) == owners.end()) {
    return refuse(fmt::format("it belongs to user {}, this process is user {}; code from it would be run as this user",
                              info.st_uid, user));
  }
  if ((info.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
    return refuse(
        fmt::format("others may write to it (mode {:o}); code from it would be run as this user; allowed: no "
                    "write permission for group and others (chmod go-w)",
                    static_cast<unsigned>(info.st_mode & 07777)));
  }
  return {};
}

}  // namespace tilewright
