// SPDX-License-Identifier: MIT
// Who hears of ranges. Sinks are made once and never destroyed: a range may be open on any thread while they change.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "tilewright/status.hpp"

namespace tilewright {

class ProfileSink {
 public:
  virtual ~ProfileSink() = default;
  virtual void push(const char* name, std::string_view detail) = 0;
  virtual void pop() = 0;
};

// nvtxRangePushA and nvtxRangePop: of `library` when it is named; else of the tool that NVTX_INJECTION64_PATH names, as
// programs compiled with NVTX 3 do; else of libnvToolsExt.so.1.
Result<std::unique_ptr<ProfileSink>> make_nvtx_sink(const std::string& library);
// roctxRangePushA and roctxRangePop of `library`, else of what the process has loaded, else of AMD's libraries.
Result<std::unique_ptr<ProfileSink>> make_roctx_sink(const std::string& library);
// A file of Chrome's trace format; "" = tilewright-trace.<process id>.json in the current folder.
Result<std::unique_ptr<ProfileSink>> make_trace_sink(const std::string& path);

}  // namespace tilewright
