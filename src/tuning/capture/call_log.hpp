// SPDX-License-Identifier: MIT
// Shapes from a running program: the call lines of TILEWRIGHT_LOG=info, counted.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tilewright {

struct CapturedCall {
  std::string op, problem;  // the problem's text form
  int64_t calls = 0;
  double total_us = 0;  // time that the calls took together
  std::string source;   // how the last one was chosen: tuned, bucket, cost, generic
};

struct CallLog {
  std::vector<CapturedCall> calls;  // those that took most time together first
  int64_t lines = 0;                // call lines read
  int64_t damaged = 0;              // call lines that could not be read
};

// Lines that are no call ("tilewright info call: gemm,m=1:...,tuned,RECIPE,12.34") are passed over, whatever stands
// around them: a program's own output may be mixed in.
CallLog parse_call_log(std::string_view text);

}  // namespace tilewright
