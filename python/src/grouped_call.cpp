// SPDX-License-Identifier: MIT
#include "grouped_call.hpp"

#include <algorithm>

#include "call/epilogue_arguments.hpp"
#include "call/result.hpp"
#include "tilewright/grouped_gemm.hpp"

namespace tilewright::python {
namespace {

GroupMode parse_mode(const char* op, nb::handle value) {
  if (value.is_none()) return GroupMode::kContiguous;
  std::string_view text;
  if (nb::try_cast(value, text)) {
    for (int i = 0; i < enum_count(GroupMode{}); ++i) {
      if (text == kGroupModeNames[i]) return static_cast<GroupMode>(i);
    }
  }
  refuse("{}: argument 'mode' is {}, allowed: 'contiguous', 'masked', 'ragged_k'", op, printed(value));
}

int64_t parse_count(const char* op, const char* name, nb::handle value, int64_t fallback) {
  int64_t count = fallback;
  if (!value.is_none() && !nb::try_cast(value, count)) {
    refuse("{}: argument '{}' is {}, allowed: an integer", op, name, printed(value));
  }
  return count;
}

void check_grouped_rank(const char* op, const char* name, const TensorView& t, int rank, GroupMode mode) {
  if (t.rank == rank) return;
  refuse("{}: argument '{}' has rank {}, allowed in mode {}: {}", op, name, t.rank,
         kGroupModeNames[static_cast<int>(mode)], rank);
}

// What D is, where no index names its rows.
Shape result_shape(const char* op, const GroupedGemmCall& call) {
  const TensorView &a = call.gemm.a, &b = call.gemm.b;
  const bool masked = call.mode == GroupMode::kMasked, ragged = call.mode == GroupMode::kRaggedK;
  check_grouped_rank(op, "a", a, masked ? 3 : 2, call.mode);
  // One packed matrix has no batch.
  if (b.layout == Layout::kStrided) check_grouped_rank(op, "b", b, ragged ? 2 : 3, call.mode);
  const int64_t n = b.shape[static_cast<size_t>(b.rank - 1)], columns = call.gemm.gate == GateMode::kNone ? n : n / 2;
  Shape shape;
  if (masked) shape.push_back(a.shape[0]);
  if (ragged) {
    // As many groups as there are numbers; offsets alone do not tell whether the first is 0.
    const TensorView& numbers = call.sizes.defined() ? call.sizes : call.offsets;
    if (!call.sizes.defined())
      refuse("{}: argument 'out' is missing: without 'sizes' nothing tells how many groups there are", op);
    shape.push_back(numbers.rank == 1 ? numbers.shape[0] : 0);
  }
  const bool gathered = call.gather.defined() && call.gather.rank == 1;
  shape.push_back(gathered ? call.gather.shape[0] : a.shape[static_cast<size_t>(a.rank - 2)]);
  shape.push_back(columns);
  return shape;
}

}  // namespace

nb::object run_grouped(const GemmFunction& function, const GemmArguments& arguments) {
  const char* const op = function.name;
  ParsedGemm parsed;
  ImportedTensor a;
  parse_all_but_result(function, arguments, a, parsed);
  if (parsed.framework == Framework::kJax) {
    refuse("{}: argument 'a' is a JAX array, allowed: tensors of PyTorch, NumPy and CuPy", op);
  }
  GroupedGemmCall call;
  call.mode = parse_mode(op, arguments[kMode]);
  call.alignment = parse_count(op, "alignment", arguments[kAlignment], 1);
  call.expected_rows = parse_count(op, "expected_rows", arguments[kExpectedRows], 0);
  const struct {
    const char* name;
    Parameter parameter;
    Access access;
    TensorView* to;
  } tensors[] = {{"sizes", kSizes, Access::kRead, &call.sizes},
                 {"offsets", kOffsets, Access::kRead, &call.offsets},
                 {"gather", kGather, Access::kRead, &call.gather},
                 {"scatter", kScatter, Access::kRead, &call.scatter},
                 {"status", kStatus, Access::kWrite, &call.status}};
  for (const auto& t : tensors) {
    if (arguments.given(t.parameter))
      *t.to = import_tensor(op, t.name, arguments[t.parameter], t.access, parsed.scope).view;
  }
  call.gemm = parsed.call;
  if (arguments.given(kOut)) {
    // Its own shape is what is checked: rows that an index names may be any number.
    parsed.call.d = import_tensor(op, "out", arguments[kOut], Access::kWrite, parsed.scope).view;
    if (arguments.given(kOutDtype))
      refuse("{}: arguments 'out' and 'out_dtype' are both given, allowed: one of them", op);
    parsed.result = nb::borrow(arguments[kOut]);
  } else {
    if (call.scatter.defined()) refuse("{}: argument 'out' is missing: 'scatter' names its rows", op);
    make_result(function, arguments, a, result_shape(op, call), parsed);
  }
  call.gemm.d = parsed.call.d;
  Status status;
  {
    const nb::gil_scoped_release released;
    status = grouped_gemm(Context::global(), call, parsed.exec);
  }
  check_product(status);
  return std::move(parsed.result);
}

}  // namespace tilewright::python
