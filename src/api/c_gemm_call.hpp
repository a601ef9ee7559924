// SPDX-License-Identifier: MIT
// What the functions of every GEMM in the C ABI read and write.
#pragma once

#include <functional>

#include "api/c_structs.hpp"
#include "tilewright/gemm.hpp"

namespace tilewright::c_abi {

// An absent tensor stays undefined. Without `addresses` a NULL data pointer is fine.
Status read_tensor(const char* name, const TwDLTensor* from, bool addresses, TensorView& to);
Status read_call(const char* function, const tilewright_gemm_call* from, bool addresses, GemmCall& call);

// Packed weights on a device, by what is said of them; where nothing is, by their header, on the CPU.
Result<TensorView> read_packed(const tilewright_packed_info* info, DeviceId device, const void* packed,
                               int64_t packed_bytes);

// An Exec, and the C++ form of the caller's parallel-for, which it points to.
struct ReadExec {
  Exec exec;
  std::function<void(uint32_t, const std::function<void(uint32_t)>&)> parallel_for;
};
Status read_exec(const tilewright_exec* from, ReadExec& to);

Status write_query(const char* function, const Result<QueryResult>& found, tilewright_query_result* result);
Status write_explained(const char* function, const Result<std::string>& text, char* buffer, size_t* size);

// Reads both structs, the call's by `read(function, given, addresses, call)`, then runs `body(context, call, exec)`.
template <class TheCall, class Given, class Read, class Body>
tilewright_status with_call(Read&& read, const char* function, bool addresses, tilewright_context* context,
                            const Given* given, const tilewright_exec* given_exec, Body&& body) {
  return guarded([&]() -> Status {
    TheCall call;
    ReadExec exec;
    if (Status s = read(function, given, addresses, call); !s) return s;
    if (Status s = read_exec(given_exec, exec); !s) return s;
    return body(context_of(context), call, exec.exec);
  });
}

}  // namespace tilewright::c_abi
