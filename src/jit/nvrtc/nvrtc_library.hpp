// SPDX-License-Identifier: MIT
// NVRTC, opened when it is first asked for. Declarations follow the NVRTC reference, version 12.0 and later.
#pragma once

#include <string>
#include <vector>

#include "tilewright/status.hpp"

namespace tilewright::nvrtc {

enum class NvrtcResult : int { kSuccess = 0, kCompilation = 6, kCancelled = 12 };
struct ProgramHandle;
using Program = ProgramHandle*;

struct Library {
  NvrtcResult (*nvrtcVersion)(int* major, int* minor);
  const char* (*nvrtcGetErrorString)(NvrtcResult result);
  NvrtcResult (*nvrtcCreateProgram)(Program* program, const char* source, const char* name, int header_count,
                                    const char* const* headers, const char* const* include_names);
  NvrtcResult (*nvrtcDestroyProgram)(Program* program);
  NvrtcResult (*nvrtcCompileProgram)(Program program, int option_count, const char* const* options);
  NvrtcResult (*nvrtcGetCUBINSize)(Program program, size_t* bytes);
  NvrtcResult (*nvrtcGetCUBIN)(Program program, char* cubin);
  NvrtcResult (*nvrtcGetProgramLogSize)(Program program, size_t* bytes);
  NvrtcResult (*nvrtcGetProgramLog)(Program program, char* log);
  // Optional (12.8): asked now and then during a compile; 1 ends it.
  NvrtcResult (*nvrtcSetFlowCallback)(Program program, int (*callback)(void* payload, void* reserved), void* payload);

  int major = 0, minor = 0;
  std::string name;  // what it was opened by
};

// The first of `names` that opens; the error lists them all with their reasons.
Result<Library> open_library(const std::vector<std::string>& names);
// Where NVRTC may be: $TILEWRIGHT_NVRTC alone; else the dynamic linker's, those beside the library in a Python
// environment (pip packages nvidia-cuda-nvrtc), and a toolkit's.
std::vector<std::string> library_names();

}  // namespace tilewright::nvrtc
