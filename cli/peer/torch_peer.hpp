// SPDX-License-Identifier: MIT
// PyTorch as a peer: a Python child that times torch.nn.functional.linear, in bursts that interleave with ours.
#pragma once

#include <string>
#include <vector>

#include "device/device.hpp"
#include "dispatch/operator.hpp"
#include "peer/line_child.hpp"
#include "tuning/measure.hpp"

namespace tilewright::cli {

// A Python that has torch.
struct TorchPython {
  std::string python;   // the program
  std::string version;  // torch's, "2.9.0+cpu"
};
// Tries $TILEWRIGHT_PYTHON alone when it is set, else build/venv/bin/python of the source tree, then python3. Reads the
// version from the package's metadata: torch is not imported. The error says what was tried.
Result<TorchPython> find_torch();
// "2.9.0+cpu" -> "PyTorch 2.9.0".
std::string torch_name(const std::string& version);

class TorchPeer {
 public:
  // Imports torch, which takes seconds.
  Status start(const TorchPython& python);
  bool running() const { return child_.running(); }

  struct Request {
    int64_t m = 0, n = 0, k = 0;
    DType dtype = DType::kNone;
    int threads = 1;
    int rotations = 1;  // copies of the weight
    int repetitions = 1;
  };
  // Median time of one call, in us. The first request of a problem makes its tensors.
  Result<double> burst(const Request& request);

 private:
  LineChild child_;
};

// Whether torch has the function of this problem: a plain or packed weight [N, K], no batch, no epilogue but scales of i8.
Status torch_request(const Operator& op, ProblemRef problem, TorchPeer::Request& request);

struct PeerTimes {
  double us = 0, spread = 0;  // ours, in this run
  double peer_us = 0;         // the peer's
  PairedRatio ratio;          // peer / ours: above 1, tilewright is faster
};
// Bursts of ours and the peer's in turn, for about `seconds`.
Result<PeerTimes> measure_pairs(Device& device, const Plan& plan, ProblemInstance& instance, TorchPeer& peer,
                                TorchPeer::Request request, double seconds);

}  // namespace tilewright::cli
