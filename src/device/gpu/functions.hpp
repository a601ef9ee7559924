// SPDX-License-Identifier: MIT
// What CUDA's driver and HIP do alike, under names of their own: one table for what follows from it. Signatures and values are
// the same in both libraries ("CUDA Driver API reference", "HIP Runtime API reference").
#pragma once

#include <dlfcn.h>

#include <cstddef>

namespace tilewright::gpu {

using Code = int;  // CUresult, hipError_t
inline constexpr Code kSuccess = 0;
using Stream = void*;
using Event = void*;
using Graph = void*;
using GraphExec = void*;

enum class CaptureStatus : int { kNone = 0, kActive = 1, kInvalidated = 2 };
enum class CaptureMode : int { kGlobal = 0, kThreadLocal = 1, kRelaxed = 2 };
inline constexpr unsigned kStreamNonBlocking = 1;
inline constexpr unsigned kEventDefault = 0;

// CUDA's name, then HIP's.
struct Functions {
  // Memory.
  Code (*allocate)(void** data, size_t bytes);                               // cuMemAlloc, hipMalloc
  Code (*free)(void* data);                                                  // cuMemFree, hipFree
  Code (*memory_info)(size_t* free_bytes, size_t* total_bytes);              // cuMemGetInfo, hipMemGetInfo
  Code (*copy_from_host)(void* to, const void* from, size_t bytes);          // cuMemcpyHtoD, hipMemcpyHtoD
  Code (*copy_to_host)(void* to, const void* from, size_t bytes);            // cuMemcpyDtoH, hipMemcpyDtoH
  Code (*copy)(void* to, const void* from, size_t bytes, Stream stream);     // cuMemcpyDtoDAsync, hipMemcpyDtoDAsync
  Code (*fill)(void* to, unsigned char value, size_t bytes, Stream stream);  // cuMemsetD8Async, hipMemsetD8Async
  Code (*synchronize)();  // the current device: cuCtxSynchronize, hipDeviceSynchronize
  // Streams.
  Code (*create_stream)(Stream* stream, unsigned flags);         // cuStreamCreate, hipStreamCreateWithFlags
  Code (*destroy_stream)(Stream stream);                         // cuStreamDestroy, hipStreamDestroy
  Code (*synchronize_stream)(Stream stream);                     // cuStreamSynchronize, hipStreamSynchronize
  Code (*stream_id)(Stream stream, unsigned long long* id);      // cuStreamGetId, hipStreamGetId
  Code (*capture_status)(Stream stream, CaptureStatus* status);  // cuStreamIsCapturing, hipStreamIsCapturing
  Code (*exchange_capture_mode)(CaptureMode* mode);              // (cu, hip)ThreadExchangeStreamCaptureMode
  Code (*begin_capture)(Stream stream, CaptureMode mode);        // cuStreamBeginCapture, hipStreamBeginCapture
  Code (*end_capture)(Stream stream, Graph* graph);              // cuStreamEndCapture, hipStreamEndCapture
  // Events.
  Code (*create_event)(Event* event, unsigned flags);            // cuEventCreate, hipEventCreateWithFlags
  Code (*destroy_event)(Event event);                            // cuEventDestroy, hipEventDestroy
  Code (*record_event)(Event event, Stream stream);              // cuEventRecord, hipEventRecord
  Code (*synchronize_event)(Event event);                        // cuEventSynchronize, hipEventSynchronize
  Code (*elapsed)(float* milliseconds, Event start, Event end);  // cuEventElapsedTime, hipEventElapsedTime
  // Graphs.
  Code (*instantiate)(GraphExec* exec, Graph graph, unsigned long long flags);  // (cu, hip)GraphInstantiateWithFlags
  Code (*launch_graph)(GraphExec exec, Stream stream);                          // cuGraphLaunch, hipGraphLaunch
  Code (*destroy_graph_exec)(GraphExec exec);  // cuGraphExecDestroy, hipGraphExecDestroy
  Code (*destroy_graph)(Graph graph);          // cuGraphDestroy, hipGraphDestroy
};

// Finds functions of a library by name and remembers the first that is missing.
class Symbols {
 public:
  explicit Symbols(void* library) : library_(library) {}

  template <class Function>
  void find(Function*& function, const char* name) {
    find_optional(function, name);
    if (function == nullptr && missing_ == nullptr) missing_ = name;
  }
  template <class Function>
  void find_optional(Function*& function, const char* name) {
    function = reinterpret_cast<Function*>(dlsym(library_, name));
  }
  const char* missing() const { return missing_; }

 private:
  void* library_;
  const char* missing_ = nullptr;
};

}  // namespace tilewright::gpu
