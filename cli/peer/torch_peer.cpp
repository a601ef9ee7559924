// SPDX-License-Identifier: MIT
#include "peer/torch_peer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <thread>

#include "command.hpp"
#include "core/environment.hpp"
#include "core/fields.hpp"
#include "ops/gemm/problem/gemm_problem.hpp"
#include "resources.hpp"

namespace tilewright::cli {
namespace {

using Clock = std::chrono::steady_clock;

std::vector<std::string> python_candidates() {
  if (auto named = environment("TILEWRIGHT_PYTHON")) return {*named};
  std::vector<std::string> candidates;
  const std::string venv = source_root().empty() ? "" : source_root() + "/build/venv/bin/python";
  std::error_code error;
  if (!venv.empty() && std::filesystem::exists(venv, error)) candidates.push_back(venv);
  candidates.emplace_back("python3");
  return candidates;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return quantile(values, 0.5);
}

}  // namespace

Result<TorchPython> find_torch() {
  const std::vector<std::string> candidates = python_candidates();
  for (const std::string& python : candidates) {
    LineChild child;
    // A fresh interpreter, asked through the same pipe that the peer uses.
    constexpr const char* kProbe = "import importlib.metadata as m; input(); print(m.version('torch'), flush=True)";
    if (!child.start({python, "-c", kProbe})) continue;
    if (Result<std::string> version = child.ask("", 30); version && !version->empty())
      return TorchPython{python, *version};
  }
  return Status(StatusCode::kNotFound, fmt::format("PyTorch is not installed for {}", join(candidates)));
}

std::string torch_name(const std::string& version) { return "PyTorch " + version.substr(0, version.find('+')); }

Status TorchPeer::start(const TorchPython& python) {
  Result<std::string> script = find_resource("scripts/peer_torch.py");
  if (!script) return script.status();
  if (Status s = child_.start({python.python, *script}); !s) return s;
  constexpr double kImportSeconds = 180;
  Result<std::string> hello = child_.ask("hello", kImportSeconds);
  if (!hello) return Status(hello.status().code(), "PyTorch did not start: " + hello.status().message());
  if (!hello->starts_with("torch ")) {
    child_.stop();
    return Status(StatusCode::kNotFound, "PyTorch did not start: " + *hello);
  }
  return {};
}

Result<double> TorchPeer::burst(const Request& r) {
  constexpr double kBurstSeconds = 120;
  Result<std::string> answer = child_.ask(
      fmt::format("{} {} {} {} {} {} {}", r.m, r.n, r.k, dtype_name(r.dtype), r.threads, r.repetitions, r.rotations),
      kBurstSeconds);
  if (!answer) return Status(answer.status().code(), "PyTorch: " + answer.status().message());
  double us = 0;
  if (!answer->starts_with("us ") || !fields_detail::parse_float(std::string_view(*answer).substr(3), us)) {
    return Status(StatusCode::kDeviceError, "PyTorch: " + *answer);
  }
  return us;
}

Status torch_request(const Operator& op, ProblemRef problem, TorchPeer::Request& request) {
  if (op.name() != "gemm") return Status(StatusCode::kUnsupported, fmt::format("no peer for operator '{}'", op.name()));
  const GemmProblem& p = problem_cast<GemmProblem>(problem);
  const bool plain_epilogue = !p.c.present() && !p.bias.present() && p.step_count == 0 && !p.has_alpha &&
                              p.activation == Activation::kNone && p.gate == GateMode::kNone;
  const bool weight = p.b_packed || (p.stride_b_k == 1 && p.stride_b_n == p.k);
  if (p.batch != 1 || !plain_epilogue || !weight || p.stride_a_k != 1 || p.stride_d_n != 1) {
    return Status(StatusCode::kUnsupported, "torch.nn.functional.linear is another function than this problem's");
  }
  request.m = p.m, request.n = p.n, request.k = p.k, request.dtype = p.a_dtype;
  return {};
}

Result<PeerTimes> measure_pairs(Device& device, const Plan& plan, ProblemInstance& instance, TorchPeer& peer,
                                TorchPeer::Request request, double seconds) {
  constexpr int kMinRounds = 7, kMaxRounds = 101;
  const Clock::time_point start = Clock::now();
  auto elapsed = [&] { return std::chrono::duration<double>(Clock::now() - start).count(); };
  int turn = 0;
  auto call = [&] { return run_plan(device, plan, instance.bindings(turn++ % std::max(1, instance.rotations())), {}); };
  auto burst = [&](int repetitions) -> Result<double> {
    // The call before the first timed one wakes the threads, on both sides.
    if (Status s = call(); !s) return s;
    std::vector<double> us;
    for (int i = 0; i < repetitions; ++i) {
      const Clock::time_point before = Clock::now();
      if (Status s = call(); !s) return s;
      us.push_back(std::chrono::duration<double, std::micro>(Clock::now() - before).count());
    }
    return median(std::move(us));
  };

  // Tensors are made and pages touched outside the time; bursts are as long as keeps the clock's error small.
  request.repetitions = 1;
  Result<double> ours = burst(1);
  if (!ours) return ours.status();
  if (Result<double> first = peer.burst(request); !first) return first.status();
  const double left = std::max(0.1, seconds - elapsed());
  request.repetitions = static_cast<int>(std::clamp(left * 1e6 / (2 * kMinRounds * 2 * *ours), 1.0, 15.0));

  // Threads that spin after a call must be asleep before the other side's turn.
  constexpr auto kRest = std::chrono::milliseconds(3);
  Timing our_timing, peer_timing;
  for (int round = 0; round < kMaxRounds && (round < kMinRounds || elapsed() < seconds); ++round) {
    std::this_thread::sleep_for(kRest);
    Result<double> peer_us = peer.burst(request);
    if (!peer_us) return peer_us.status();
    std::this_thread::sleep_for(kRest);
    ours = burst(request.repetitions);
    if (!ours) return ours.status();
    our_timing.sample_us.push_back(*ours);
    peer_timing.sample_us.push_back(*peer_us);
  }
  std::vector<double> sorted = our_timing.sample_us;
  std::sort(sorted.begin(), sorted.end());
  const double us = quantile(sorted, 0.5);
  const double spread = us > 0 ? (quantile(sorted, 0.75) - quantile(sorted, 0.25)) / us : 0;
  return PeerTimes{us, spread, median(peer_timing.sample_us), paired_ratio(peer_timing, our_timing)};
}

}  // namespace tilewright::cli
