// SPDX-License-Identifier: MIT
#include "peer/peer_choice.hpp"

#include <fmt/format.h>

#include "command.hpp"

namespace tilewright::cli {

void add_peer_argument(Arguments& arguments, std::string& choice) {
  arguments.choice("--peer", choice, {"torch", "none", "auto"},
                   "compare with PyTorch: torch, none, or auto (when it is installed)");
}

Result<PeerChoice> PeerChoice::make(const std::string& choice) {
  PeerChoice peer;
  if (choice == "none") return peer;
  Result<TorchPython> python = find_torch();
  if (python) {
    peer.python_ = std::move(*python);
  } else if (choice == "torch") {
    return Status(StatusCode::kUnsupported, fmt::format("--peer torch: {}", python.status().message()));
  } else {
    note(python.status().message() + ": no comparison with it");
  }
  return peer;
}

std::string PeerChoice::name() const { return python_ ? torch_name(python_->version) : ""; }

TorchPeer* PeerChoice::get() {
  if (!python_) return nullptr;
  if (!peer_) {
    peer_ = std::make_unique<TorchPeer>();
    if (Status s = peer_->start(*python_); !s) {
      note(s.message() + ": no comparison with it");
      python_.reset();
      peer_.reset();
      return nullptr;
    }
  }
  return peer_.get();
}

}  // namespace tilewright::cli
