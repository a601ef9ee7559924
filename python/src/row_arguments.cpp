// SPDX-License-Identifier: MIT
#include "row_arguments.hpp"

#include <nanobind/stl/vector.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "call/current_stream.hpp"
#include "call/openmp_threads.hpp"
#include "dispatch/context_impl.hpp"

namespace tilewright::python {

std::string printed_value(nb::handle value) { return nb::cast<std::string>(nb::str(value)); }

RowArguments::RowArguments(const char* name, nb::handle tensor, int units, bool programmatic_edge, const char* argument)
    : op(name), x(tensor) {
  input = import_tensor(op, argument, x, Access::kRead, scope);
  if (input.framework == Framework::kJax) {
    refuse("{}: argument '{}' is a JAX array, allowed: tensors of PyTorch, NumPy and CuPy", op, argument);
  }
  if (input.view.rank < 1) refuse("{}: argument '{}' has rank 0, allowed: 1 to {}", op, argument, kMaxRank);
  exec.units = units, exec.programmatic_edge = programmatic_edge;
  if (input.view.device.kind != DeviceKind::kCpu) {
    exec.stream = current_stream(traits_of(x), input.view.device);
  } else if (input.framework == Framework::kTorch) {
    const OpenMp openmp = torch_openmp();
    exec.parallel_for = openmp.parallel_for;
    static const int kAll = Context::global().impl().cpu().device->spec().units;
    if (exec.units == 0 && openmp.threads > 0 && openmp.threads < kAll) exec.units = openmp.threads;
  }
}

TensorView RowArguments::optional(const char* name, nb::handle value, Access access) {
  return value.is_none() ? TensorView() : import_tensor(op, name, value, access, scope).view;
}

std::array<int64_t, kRopeAxes> section_pairs(const char* op, nb::handle value) {
  std::array<int64_t, kRopeAxes> pairs{};
  if (value.is_none()) return pairs;
  std::vector<int64_t> given;
  if (!nb::try_cast(value, given) || given.size() > pairs.size()) {
    refuse("{}: argument 'sections' is {}, allowed: up to {} numbers of pairs", op, printed_value(value), kRopeAxes);
  }
  std::copy(given.begin(), given.end(), pairs.begin());
  return pairs;
}

TensorView RowArguments::indices(const char* name, nb::handle value) {
  if (value.is_none()) return {};
  static constinit PythonFunction low_words(kFrameworks, "low_words");
  const nb::object given = low_words.get()(static_cast<int>(input.framework), value);
  return optional(name, given);
}

TensorView RowArguments::numbers(const char* name, nb::handle value, Access access) {
  if (value.is_none()) return {};
  static constinit PythonFunction words(kFrameworks, "words");
  const nb::object given = words.get()(static_cast<int>(input.framework), value);
  return optional(name, given, access);
}

TensorView RowArguments::made(const char* name, nb::object& given, DType dtype, const nb::list& shape) {
  if (!given.is_none()) return import_tensor(op, name, given, Access::kWrite, scope).view;
  static constinit PythonFunction empty(kFrameworks, "empty");
  given = empty.get()(static_cast<int>(input.framework), x, nb::tuple(shape), dtype_name(dtype), op);
  return import_made(op, name, given, Access::kWrite, scope).view;
}

TensorView RowArguments::made(const char* name, nb::object& given, ResultDtype dtype, const nb::list& shape) {
  const bool checked = !given.is_none() && dtype.keyword != nullptr;
  const TensorView view = made(name, given, dtype.dtype, shape);
  if (checked && view.dtype != dtype.dtype) {
    refuse("{}: arguments '{}' ({}) and '{}' ({}) differ", op, name, dtype_name(view.dtype), dtype.keyword,
           dtype_name(dtype.dtype));
  }
  return view;
}

TensorView RowArguments::result(const char* name, nb::object& given, ResultDtype dtype, int64_t last) {
  nb::list shape;
  const auto rank = static_cast<size_t>(input.view.rank);
  for (size_t i = 0; i + 1 < rank; ++i) shape.append(input.view.shape[i]);
  if (last != 0) shape.append(last < 0 ? input.view.shape[rank - 1] : last);
  return made(name, given, dtype, shape);
}

TensorView RowArguments::number(const char* name, nb::object& given) {
  nb::list one;
  one.append(1);
  return made(name, given, DType::kF32, one);
}

TensorView RowArguments::gradient(const char* name, nb::object& given, DType dtype, int64_t size) {
  bool wanted = true;
  if (given.is_none() || nb::try_cast(given, wanted, false)) {
    wanted = wanted && !given.is_none();
    given = nb::none();
    if (!wanted) return {};
  }
  nb::list shape;
  shape.append(size);
  return made(name, given, dtype, shape);
}

TensorView RowArguments::scale(nb::object& given, Quantisation quant, nb::handle scale_dtype, int64_t& group,
                               int64_t n) {
  if (quant == Quantisation::kNone) return optional("scale", given);
  const ResultDtype dtype = output_dtype(op, scale_dtype, DType::kF32, "scale_dtype");
  const bool single = quant == Quantisation::kTensor || quant == Quantisation::kDynamic;
  if (single && dtype.dtype != DType::kF32) {
    refuse("{}: argument 'scale_dtype' is {}, allowed of one scale for the tensor: f32", op, dtype_name(dtype.dtype));
  }
  if (quant == Quantisation::kTensor) return optional("scale", given);
  if (group == 0 && quant == Quantisation::kGroup) group = usual_row_group(dtype.dtype);
  if (quant == Quantisation::kDynamic) return number("scale", given);
  if (quant == Quantisation::kBlock) {
    nb::list shape;
    const auto rank = static_cast<size_t>(input.view.rank);
    for (size_t i = 0; i + 1 < rank; ++i) {
      const int64_t size = input.view.shape[i];
      shape.append(i + 2 == rank ? scale_blocks(size) : size);
    }
    shape.append(scale_blocks(n));
    return made("scale", given, dtype, shape);
  }
  const bool grouped = quant == Quantisation::kGroup && group > 0;
  return result("scale", given, dtype, grouped ? std::max<int64_t>((n + group - 1) / group, 0) : 1);
}

float default_eps(std::string_view op, DType x) {
  if (!op.starts_with("rms_norm")) return 1e-5f;
  return x == DType::kF16 ? 0x1p-10f : x == DType::kBf16 ? 0x1p-7f : std::numeric_limits<float>::epsilon();
}

ResultDtype output_dtype(const char* op, nb::handle value, DType otherwise, const char* keyword) {
  if (value.is_none()) return otherwise;
  static constinit PythonFunction name_of(kFrameworks, "short_dtype_name");
  return {value_of(parse_dtype(nb::cast<std::string>(name_of.get()(value, op)))), keyword};
}

}  // namespace tilewright::python
