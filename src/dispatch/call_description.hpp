// SPDX-License-Identifier: MIT
// An operator's calls and the arguments of its kernels in words: what `tilewright export` tells programs that launch a plan
// without tilewright (docs/export.md).
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "tilewright/dtype.hpp"

namespace tilewright {

// One scalar of an argument struct, with its place.
struct ArgField {
  enum class Kind : uint8_t { kBool, kInteger, kFloat, kEnum, kPointer, kTensorMap };
  std::string name;  // "gemm.epilogue.steps[0].operand.data"
  Kind kind = Kind::kInteger;
  uint32_t offset = 0, bytes = 0;
  bool is_signed = false;              // integers and enums
  const char* const* names = nullptr;  // enums: of its values
  int name_count = 0;
};

// Every field; between and behind them there is padding, which is zero.
struct ArgStruct {
  std::string name;  // "GemmSm90Args"
  uint32_t bytes = 0, alignment = 0;
  std::vector<ArgField> fields;
};

// A tensor of a call. Strides are in elements, 0 where it does not vary.
struct CallBuffer {
  uint16_t slot = 0;  // of CallBindings::pointers
  std::string name;   // "a"
  std::string meaning;
  bool output = false;
  DType dtype = DType::kNone;
  std::array<int64_t, 3> shape{}, strides{};  // batch, rows, columns
  int64_t bytes = 0;                          // from the first element to behind the last
  int alignment = 16;
};

// A number of a call, float.
struct CallScalar {
  uint16_t slot = 0;  // of CallBindings::scalars
  std::string name;   // "alpha"
  std::string meaning;
};

struct CallDescription {
  std::string meaning;  // the formula
  std::vector<CallBuffer> buffers;
  std::vector<CallScalar> scalars;
};

}  // namespace tilewright
