// SPDX-License-Identifier: MIT
#include "dispatch/registry/kernel_key.hpp"

#include <fmt/format.h>

namespace tilewright {
namespace {

// op, family, target, signature, config.
constexpr int kParts = 5;

Status split_key(std::string_view text, std::array<std::string_view, kParts>& parts) {
  std::string_view rest = text;
  for (int i = 0; i < kParts; ++i) {
    const size_t slash = rest.find('/');
    if ((slash == std::string_view::npos) != (i == kParts - 1)) {
      return Status(StatusCode::kInvalidArgument,
                    fmt::format("kernel key '{}': expected op/family/target/signature/config", text));
    }
    parts[i] = rest.substr(0, slash);
    if (parts[i].empty()) {
      return Status(StatusCode::kInvalidArgument, fmt::format("kernel key '{}': part {} is empty", text, i + 1));
    }
    if (slash != std::string_view::npos) rest.remove_prefix(slash + 1);
  }
  return {};
}

std::string_view part(std::string_view text, int index) {
  for (int i = 0; i < index; ++i) text.remove_prefix(text.find('/') + 1);
  return text.substr(0, text.find('/'));
}

}  // namespace

std::string_view KernelKey::signature() const { return part(text, 3); }
std::string_view KernelKey::config() const { return part(text, 4); }

KernelKey make_key(std::string_view op, std::string_view family, std::string_view target, std::string_view signature,
                   std::string_view config) {
  KernelKey key{std::string(op),
                std::string(family),
                std::string(target),
                fmt::format("{}/{}/{}/{}/{}", op, family, target, signature, config),
                {}};
  key.digest = digest_of(key.text);
  return key;
}

Result<KernelKey> parse_key(std::string_view text) {
  constexpr std::string_view kAllowed = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.=:/<>";
  if (const size_t bad = text.find_first_not_of(kAllowed); bad != std::string_view::npos) {
    return Status(StatusCode::kInvalidArgument, fmt::format("kernel key has the character 0x{:02x} at position {}",
                                                            static_cast<uint8_t>(text[bad]), bad));
  }
  std::array<std::string_view, kParts> parts;
  if (Status s = split_key(text, parts); !s) return s;
  return make_key(parts[0], parts[1], parts[2], parts[3], parts[4]);
}

}  // namespace tilewright
