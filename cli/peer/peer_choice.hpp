// SPDX-License-Identifier: MIT
// --peer torch|none|auto: whom to compare with, started when first needed.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "arguments.hpp"
#include "peer/torch_peer.hpp"

namespace tilewright::cli {

void add_peer_argument(Arguments& arguments, std::string& choice);

class PeerChoice {
 public:
  // "torch" without PyTorch is an error; "auto" says in a line that it is absent.
  static Result<PeerChoice> make(const std::string& choice);

  bool wanted() const { return python_.has_value(); }
  // "PyTorch 2.9.0"; "" when nobody is compared with.
  std::string name() const;
  // Null, and a line on stderr, when it does not start.
  TorchPeer* get();

 private:
  std::optional<TorchPython> python_;
  std::unique_ptr<TorchPeer> peer_;
};

}  // namespace tilewright::cli
