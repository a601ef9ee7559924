// SPDX-License-Identifier: MIT
// tilewright peer-worker: the child that times another library for `tune` and `bench`.
#include "command.hpp"
#include "peer/native/native_peer.hpp"

namespace tilewright::cli {
namespace {

struct PeerWorkerOptions {
  std::string kind, library;
};

Result<ExitCode> run_peer_worker(const PeerWorkerOptions& options) {
  Result<std::unique_ptr<NativePeer>> peer =
      options.kind == "openblas" ? open_openblas(options.library)
      : options.kind == "onednn"
          ? open_onednn(options.library)
          : Result<std::unique_ptr<NativePeer>>(
                Status(StatusCode::kInvalidArgument, "peer '" + options.kind + "', allowed: openblas, onednn"));
  if (!peer) return peer.status();
  serve_peer(**peer);
  return ExitCode::kOk;
}

}  // namespace

void add_peer_worker_command(CLI::App& program, Invocation& invocation) {
  add_command<PeerWorkerOptions>(
      program, invocation,
      {"peer-worker", "Time another library; speaks with its parent over stdin and stdout", "", /*hidden=*/true},
      [](Arguments& arguments, PeerWorkerOptions& options) {
        arguments.positional("kind", options.kind, "openblas or onednn");
        arguments.text("--library", options.library, "FILE", "the shared library");
      },
      run_peer_worker);
}

}  // namespace tilewright::cli
