// SPDX-License-Identifier: MIT
#include "call/call_parts.hpp"

#include <algorithm>
#include <chrono>
#include <functional>

namespace tilewright::python {
namespace {

template <class Body>
double round_nanoseconds(Body&& body) {
  constexpr int kCalls = 200;
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < kCalls; ++i) body();
  return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - start).count() / kCalls;
}

}  // namespace

nb::object time_call_parts(const GemmFunction& function, const Signature& signature, const RawCall& call) {
  // The caller's threads run nothing: what is left is everything before the kernel.
  const std::function<void(uint32_t, const std::function<void(uint32_t)>&)> nothing =
      [](uint32_t, const std::function<void(uint32_t)>&) {};
  const auto bind = [&] { GemmArguments(signature, call); };
  const auto parse = [&] {
    ParsedGemm parsed;
    parse_gemm(function, GemmArguments(signature, call), parsed);
  };
  ParsedGemm parsed;
  parse_gemm(function, GemmArguments(signature, call), parsed);
  const auto run = [&] { check(gemm(Context::global(), parsed.call, parsed.exec)); };
  run();
  Exec no_kernel = parsed.exec;
  no_kernel.parallel_for = &nothing;
  const auto before = [&] { check(gemm(Context::global(), parsed.call, no_kernel)); };
  const auto release = [] { const nb::gil_scoped_release released; };

  double bind_ns = 1e30, parse_ns = 1e30, run_ns = 1e30, before_ns = 1e30, release_ns = 1e30;
  for (int round = 0; round < 100; ++round) {
    bind_ns = std::min(bind_ns, round_nanoseconds(bind));
    parse_ns = std::min(parse_ns, round_nanoseconds(parse));
    run_ns = std::min(run_ns, round_nanoseconds(run));
    before_ns = std::min(before_ns, round_nanoseconds(before));
    release_ns = std::min(release_ns, round_nanoseconds(release));
  }
  nb::dict parts;
  parts["bind"] = bind_ns;
  parts["tensors"] = std::max(parse_ns - bind_ns, 0.0);
  parts["gemm"] = before_ns;
  parts["kernel"] = std::max(run_ns - before_ns, 0.0);
  parts["interpreter"] = release_ns;
  return parts;
}

}  // namespace tilewright::python
