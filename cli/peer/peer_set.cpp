// SPDX-License-Identifier: MIT
#include "peer/peer_set.hpp"

#include <fmt/format.h>

#include "command.hpp"
#include "core/environment.hpp"
#include "peer/find_peers.hpp"

namespace tilewright::cli {
namespace {

struct KnownPeer {
  const char* kind;
  Result<PeerProgram> (*find)();
};
constexpr KnownPeer kPeers[] = {{"torch", find_torch}, {"openblas", find_openblas}, {"onednn", find_onednn}};

}  // namespace

void add_peer_argument(Arguments& arguments, std::string& choice, PeerScope scope) {
  std::vector<std::string> allowed;
  for (const KnownPeer& peer : kPeers) allowed.emplace_back(peer.kind);
  allowed.insert(allowed.end(), {"none", "auto"});
  arguments.choice("--peer", choice, allowed,
                   scope == PeerScope::kAll ? "compare with one library, none, or auto (all that are installed)"
                                            : "compare with one library, none, or auto (PyTorch when it is installed)");
}

Result<PeerSet> PeerSet::make(const std::string& choice, DeviceId device, PeerScope scope) {
  PeerSet set;
  const bool cpu = device.kind == DeviceKind::kCpu, gpu = !cpu && device.kind != DeviceKind::kEmulated;
  if (choice == "none") return set;
  if (!cpu) {
    const bool torch = gpu && scope == PeerScope::kAll;
    if (choice != "auto" && !(torch && choice == "torch")) {
      return Status(StatusCode::kUnsupported, fmt::format("argument '--peer' is '{}', allowed on {}: {}none, auto",
                                                          choice, to_string(device), torch ? "torch, " : ""));
    }
    Result<PeerProgram> program = torch ? find_torch_on_gpu(device.index) : Status(StatusCode::kNotFound, "");
    if (program) set.peers_.push_back(std::make_unique<Peer>(std::move(*program)));
    if (!program && choice != "auto") return program.status();
    return set;
  }
  if (const auto target = environment("TILEWRIGHT_CPU_TARGET")) hold_peers_to_target(*target);
  for (const KnownPeer& known : kPeers) {
    const bool wanted = choice == "auto" ? scope == PeerScope::kAll || known.find == find_torch : choice == known.kind;
    if (!wanted) continue;
    Result<PeerProgram> program = known.find();
    if (program) {
      set.peers_.push_back(std::make_unique<Peer>(std::move(*program)));
    } else if (choice != "auto") {
      return Status(StatusCode::kUnsupported, fmt::format("--peer {}: {}", choice, program.status().message()));
    } else {
      note(program.status().message() + ": no comparison with it");
    }
  }
  return set;
}

std::vector<Peer*> PeerSet::serving(const PeerRequest& request) {
  std::vector<Peer*> serving;
  for (size_t i = 0; i < peers_.size();) {
    Peer& peer = *peers_[i];
    if (!peer.serves(request)) {
      peer.stop();
    } else if (Status s = peer.start(); s.ok()) {
      serving.push_back(&peer);
    } else {
      note(s.message() + ": no comparison with it");
      peers_.erase(peers_.begin() + static_cast<ptrdiff_t>(i));
      continue;
    }
    ++i;
  }
  return serving;
}

}  // namespace tilewright::cli
