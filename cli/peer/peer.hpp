// SPDX-License-Identifier: MIT
// Another library that multiplies matrices, in a child process of its own: its threads, its OpenMP runtime and its
// crashes stay there. One line asks for a burst of calls, one line answers.
#pragma once

#include <string>
#include <vector>

#include "peer/line_child.hpp"
#include "peer/peer_request.hpp"

namespace tilewright::cli {

// A peer that was found: what to start, and what it can do.
struct PeerProgram {
  std::string kind;  // "torch", "openblas", "onednn"
  std::string name;  // "PyTorch 2.9.0", as results name it
  std::vector<std::string> argv;
  std::vector<std::string> dtypes;
  std::vector<std::string> weights = {};  // other dtypes of the weight, beside A of bf16
  bool rows = false;                      // operators on rows too
  bool products = true;                   // products of matrices
};

class Peer {
 public:
  explicit Peer(PeerProgram program) : program_(std::move(program)) {}

  const std::string& kind() const { return program_.kind; }
  const std::string& name() const { return program_.name; }
  // Starts the child when it does not run.
  Status start();
  // Ends the child: its tensors go.
  void stop() { child_.stop(); }
  bool serves(const PeerRequest& request) const;
  // Median time of one call, in us, after one call that is not timed. The first request of a problem makes its tensors.
  Result<double> burst(const PeerRequest& request);

 private:
  PeerProgram program_;
  LineChild child_;
};

}  // namespace tilewright::cli
