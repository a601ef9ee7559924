// SPDX-License-Identifier: MIT
#include "peer/native/native_peer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <iostream>

#include "core/fields.hpp"
#include "dispatch/instance/random_data.hpp"
#include "tuning/measure.hpp"

namespace tilewright::cli {
namespace {

using Clock = std::chrono::steady_clock;

// The request's tensors are kept until another one comes.
class Server {
 public:
  explicit Server(NativePeer& peer) : peer_(peer) {}

  Result<double> answer(const PeerRequest& request) {
    if (request.m < 1 || request.n < 1 || request.k < 1 || request.threads < 1 || request.rotations < 1) {
      return Status(StatusCode::kInvalidArgument, "sizes, threads and rotations must be above 0");
    }
    peer_.set_threads(request.threads);
    if (!ready_ || !request.same_tensors(current_)) {
      ready_ = false;
      if (Status s = peer_.prepare(request); !s) return s;
      current_ = request, ready_ = true;
      for (int i = 0; i < request.rotations; ++i) {
        if (Status s = call(); !s) return s;
      }
    }
    if (Status s = call(); !s) return s;
    Timing timing;
    for (int i = 0; i < std::max(1, request.repetitions); ++i) {
      const Clock::time_point before = Clock::now();
      if (Status s = call(); !s) return s;
      timing.sample_us.push_back(std::chrono::duration<double, std::micro>(Clock::now() - before).count());
    }
    summarise(timing);
    return timing.us;
  }

 private:
  Status call() { return peer_.call(turn_++ % current_.rotations); }

  NativePeer& peer_;
  PeerRequest current_;
  bool ready_ = false;
  int turn_ = 0;
};

}  // namespace

Result<PeerBuffer> PeerBuffer::make(int64_t bytes) {
  PeerBuffer buffer;
  Result<void*> data = map_pages(std::max<int64_t>(1, bytes));
  if (!data) return data.status();
  buffer.data_ = *data, buffer.bytes_ = std::max<int64_t>(1, bytes);
  return buffer;
}

Result<PeerBuffer> PeerBuffer::random(DType dtype, int64_t count, uint64_t seed) {
  Result<PeerBuffer> buffer = make(count * dtype_bits(dtype) / 8);
  if (buffer) fill_random(dtype, buffer->data(), count, InputData::kNormal, seed);
  return buffer;
}

void serve_peer(NativePeer& peer) {
  Server server(peer);
  for (std::string line; std::getline(std::cin, line);) {
    std::string answer;
    PeerRequest request;
    if (line == "hello") {
      answer = "peer " + peer.name();
    } else if (Status s = parse_fields(line, request); !s) {
      answer = "error " + s.message();
    } else {
      const Result<double> us = server.answer(request);
      answer = us ? fmt::format("us {:.4f}", *us) : "error " + us.status().message();
    }
    std::replace(answer.begin(), answer.end(), '\n', ' ');
    fmt::print("{}\n", answer);
    std::fflush(stdout);
  }
}

}  // namespace tilewright::cli
