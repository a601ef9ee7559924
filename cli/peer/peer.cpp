// SPDX-License-Identifier: MIT
#include "peer/peer.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/fields.hpp"

namespace tilewright::cli {

Status Peer::start() {
  if (child_.running()) return {};
  if (Status s = child_.start(program_.argv); !s) return s;
  constexpr double kStartSeconds = 180;  // importing torch takes long on a busy machine
  Result<std::string> hello = child_.ask("hello", kStartSeconds);
  if (hello && hello->starts_with("peer ")) return {};
  child_.stop();
  return Status(StatusCode::kNotFound,
                fmt::format("{} did not start: {}", name(), hello ? *hello : hello.status().message()));
}

bool Peer::serves(const PeerRequest& request) const {
  const auto has = [](const std::vector<std::string>& list, const std::string& dtype) {
    return std::find(list.begin(), list.end(), dtype) != list.end();
  };
  if (request.rows.empty() ? !program_.products : !program_.rows) return false;
  return has(program_.dtypes, request.dtype) &&
         (request.weight == request.dtype || has(program_.weights, request.weight));
}

Result<double> Peer::burst(const PeerRequest& request) {
  constexpr double kBurstSeconds = 120;
  Result<std::string> answer = child_.ask(print_fields(request), kBurstSeconds);
  if (!answer) return Status(answer.status().code(), fmt::format("{}: {}", name(), answer.status().message()));
  double us = 0;
  if (!answer->starts_with("us ") || !fields_detail::parse_float(std::string_view(*answer).substr(3), us) || us <= 0) {
    return Status(StatusCode::kDeviceError, fmt::format("{}: {}", name(), *answer));
  }
  return us;
}

}  // namespace tilewright::cli
