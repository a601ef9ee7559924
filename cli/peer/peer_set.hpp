// SPDX-License-Identifier: MIT
// --peer: whom to compare with, started when first needed.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "arguments.hpp"
#include "peer/peer.hpp"
#include "tilewright/tensor_view.hpp"

namespace tilewright::cli {

// Which peers `auto` stands for.
enum class PeerScope { kTorch, kAll };

void add_peer_argument(Arguments& arguments, std::string& choice, PeerScope scope);

class PeerSet {
 public:
  // `choice`: "none", "auto" (those that are installed; a line names each that is not), or a peer, which must be there.
  // On a GPU PyTorch alone is one, for operators on rows and where all are asked for; other names are refused, and where PyTorch
  // alone is, any but `auto`, which is nobody.
  static Result<PeerSet> make(const std::string& choice, DeviceId device, PeerScope scope);

  bool empty() const { return peers_.empty(); }
  size_t size() const { return peers_.size(); }
  // Of the first one; "" when nobody is compared with.
  std::string name() const { return peers_.empty() ? "" : peers_.front()->name(); }
  // Those that can run the request, started. One that does not start is dropped with a line on stderr.
  std::vector<Peer*> serving(const PeerRequest& request);

 private:
  std::vector<std::unique_ptr<Peer>> peers_;
};

}  // namespace tilewright::cli
