// SPDX-License-Identifier: MIT
#include "gemm_call.hpp"

#include "packed_weights.hpp"
#include "tensor/broadcast.hpp"
#include "tensor/buffer.hpp"

namespace tilewright::python {
namespace {

std::string printed(nb::handle object) { return nb::cast<std::string>(nb::repr(object)); }

// The enum value whose name `text` is, or -1.
template <class Enum>
int find_name(std::string_view text) {
  for (int i = 0; i < enum_count(Enum{}); ++i) {
    if (text == enum_names(Enum{})[i]) return i;
  }
  return -1;
}

template <class Enum>
std::string names_of() {
  return fmt::format("'{}'", fmt::join(enum_names(Enum{}), enum_names(Enum{}) + enum_count(Enum{}), "', '"));
}

struct ParsedActivation {
  Activation activation = Activation::kNone;
  float low = 0, high = 0;
};

float bound_of(const char* op, const char* name, nb::handle value) {
  float bound = 0;
  if (!nb::try_cast(value, bound)) refuse("{}: argument '{}': clamp bound {} is no number", op, name, printed(value));
  return bound;
}

// None, a name, or ("clamp", low, high).
ParsedActivation parse_activation(const char* op, const char* name, nb::handle value) {
  if (value.is_none()) return {};
  if (PyUnicode_Check(value.ptr())) {
    const int found = find_name<Activation>(nb::cast<std::string_view>(value));
    if (found >= 0 && static_cast<Activation>(found) != Activation::kClamp) return {static_cast<Activation>(found)};
  } else if (PyTuple_Check(value.ptr()) && nb::len(value) == 3 && PyUnicode_Check(value[0].ptr()) &&
             nb::cast<std::string_view>(nb::object(value[0])) == "clamp") {
    return {Activation::kClamp, bound_of(op, name, nb::object(value[1])), bound_of(op, name, nb::object(value[2]))};
  }
  refuse("{}: argument '{}' is {}, allowed: None, {} as ('clamp', low, high)", op, name, printed(value),
         names_of<Activation>());
}

// An activation, ("add", tensor) or ("mul", tensor).
GemmStep parse_step(const char* op, const char* name, nb::handle value, Access access, Keepers& keepers) {
  if (PyTuple_Check(value.ptr()) && nb::len(value) == 2 && PyUnicode_Check(value[0].ptr())) {
    const auto kind = static_cast<StepKind>(find_name<StepKind>(nb::cast<std::string_view>(nb::object(value[0]))));
    const nb::object tensor = value[1];
    if (kind == StepKind::kAdd) return GemmStep::add(import_tensor(op, name, tensor, access, keepers).view);
    if (kind == StepKind::kMultiply) return GemmStep::multiply(import_tensor(op, name, tensor, access, keepers).view);
    refuse("{}: argument '{}' is {}, allowed: an activation, ('add', tensor), ('mul', tensor)", op, name,
           printed(nb::object(value[0])));
  }
  const ParsedActivation parsed = parse_activation(op, name, value);
  return GemmStep::activate(parsed.activation, parsed.low, parsed.high);
}

GateMode parse_gate(const char* op, nb::handle value) {
  if (value.is_none()) return GateMode::kNone;
  const int found = PyUnicode_Check(value.ptr()) ? find_name<GateMode>(nb::cast<std::string_view>(value)) : -1;
  if (found < 0) refuse("{}: argument 'gate' is {}, allowed: None, {}", op, printed(value), names_of<GateMode>());
  return static_cast<GateMode>(found);
}

// A dtype by tilewright's name ("bf16"), or any framework's own, whose text ends in a common one ("torch.bfloat16").
DType parse_out_dtype(const char* op, nb::handle value, DType a) {
  if (value.is_none()) return a == DType::kI8 ? DType::kF32 : a;
  const auto text = nb::cast<std::string>(nb::module_::import_("tilewright._frameworks").attr("dtype_name")(value));
  constexpr std::pair<std::string_view, DType> kNames[] = {{"float32", DType::kF32}, {"f32", DType::kF32},
                                                           {"float16", DType::kF16}, {"f16", DType::kF16},
                                                           {"bf16", DType::kBf16},   {"bfloat16", DType::kBf16}};
  for (const auto& [name, dtype] : kNames) {
    if (text == name) return dtype;
  }
  refuse("{}: argument 'out_dtype' is {}, allowed: float32, float16, bfloat16 (as text or as the framework's dtype)",
         op, printed(value));
}

// A Python number joins alpha; a tensor stays one.
void parse_scale(const char* op, const char* name, nb::handle value, Access access, float& alpha, TensorView& scale,
                 Keepers& keepers) {
  if (value.is_none()) return;
  float number = 0;
  if (!nb::hasattr(value, "__dlpack__") && nb::try_cast(value, number)) {
    alpha *= number;
  } else {
    scale = import_tensor(op, name, value, access, keepers).view;
  }
}

void import_optional(const char* op, const char* name, nb::handle value, Access access, TensorView& to,
                     Keepers& keepers) {
  if (!value.is_none()) to = import_tensor(op, name, value, access, keepers).view;
}

void parse_steps(const char* op, nb::handle steps, Access access, GemmCall& call, Keepers& keepers) {
  if (steps.is_none() || (PyTuple_Check(steps.ptr()) && nb::len(steps) == 0)) return;
  if (!PyTuple_Check(steps.ptr()) && !PyList_Check(steps.ptr())) {
    refuse("{}: argument 'steps' is {}, allowed: a list or tuple of steps", op, printed(steps));
  }
  const size_t count = nb::len(steps);
  if (count > kMaxSteps) {
    refuse("{}: argument 'steps' has {} entries, allowed: at most {}", op, count, kMaxSteps);
  }
  for (size_t i = 0; i < count; ++i) {
    const std::string name = fmt::format("steps[{}]", i);
    call.steps.push_back(parse_step(op, name.c_str(), nb::object(steps[i]), access, keepers));
  }
}

void check_rank(const char* op, const char* name, const TensorView& t) {
  if (t.rank < 2) refuse("{}: argument '{}' has rank {}, allowed: 2 to {}", op, name, t.rank, kMaxRank);
}

// B as [.., K, N], whichever way it came.
void import_b(const char* op, GemmForm form, nb::handle object, Access access, ParsedGemm& parsed) {
  TensorView& b = parsed.call.b;
  if (const PackedWeights* packed = packed_weights_of(object)) {
    b = packed->view();
    return;
  }
  const char* name = form == GemmForm::kLinear ? "weight" : "b";
  b = import_tensor(op, name, object, access, parsed.keepers).view;
  check_rank(op, name, b);
  if (form == GemmForm::kLinear) {
    if (b.rank != 2) refuse("{}: argument 'weight' has rank {}, allowed: 2 ([N, K])", op, b.rank);
    b = b.transposed();
  }
}

// The result's memory: out's, a new tensor's, or none.
void make_result(const char* op, Purpose purpose, const GemmArguments& arguments, std::span<const int64_t> shape,
                 ParsedGemm& parsed) {
  GemmCall& call = parsed.call;
  const DType dtype = parse_out_dtype(op, arguments.out_dtype, call.a.dtype);
  if (!arguments.out.is_none()) {
    const Access access = purpose == Purpose::kRun ? Access::kWrite : Access::kDescribe;
    call.d = import_tensor(op, "out", arguments.out, access, parsed.keepers).view;
    if (!std::equal(shape.begin(), shape.end(), call.d.shape.begin(), call.d.shape.begin() + call.d.rank)) {
      refuse("{}: argument 'out' has shape [{}], expected [{}]", op,
             fmt::join(call.d.shape.begin(), call.d.shape.begin() + call.d.rank, ", "), fmt::join(shape, ", "));
    }
    if (!arguments.out_dtype.is_none() && call.d.dtype != dtype) {
      refuse("{}: arguments 'out' ({}) and 'out_dtype' ({}) differ", op, dtype_name(call.d.dtype), dtype_name(dtype));
    }
    parsed.result = nb::borrow(arguments.out);
    return;
  }
  // A dtype that gemm refuses needs no memory to be refused.
  const bool possible = dtype == DType::kF32 || dtype == DType::kF16 || dtype == DType::kBf16;
  if (purpose == Purpose::kDescribe || !possible) {
    call.d = TensorView::contiguous(nullptr, dtype, shape, call.a.device);
    return;
  }
  parsed.made_result = true;
  if (parsed.framework == Framework::kJax) {
    parsed.result = nb::cast(Buffer(dtype, shape));
  } else {
    static const nb::handle kEmpty =
        nb::object(nb::module_::import_("tilewright._frameworks").attr("empty")).release();  // never freed
    nb::object sizes = nb::steal(PyTuple_New(static_cast<Py_ssize_t>(shape.size())));
    for (size_t i = 0; i < shape.size(); ++i) {
      PyTuple_SetItem(sizes.ptr(), static_cast<Py_ssize_t>(i), PyLong_FromLongLong(shape[i]));
    }
    parsed.result = kEmpty(static_cast<int>(parsed.framework), arguments.a, sizes, dtype_name(dtype), op);
  }
  call.d = import_tensor(op, "out", parsed.result, Access::kWrite, parsed.keepers).view;
}

}  // namespace

void parse_gemm(const char* op, GemmForm form, Purpose purpose, const GemmArguments& arguments, ParsedGemm& parsed) {
  const Access access = purpose == Purpose::kRun ? Access::kRead : Access::kDescribe;
  GemmCall& call = parsed.call;

  // Tensors.
  const char* a_name = form == GemmForm::kLinear ? "x" : "a";
  const ImportedTensor a = import_tensor(op, a_name, arguments.a, access, parsed.keepers);
  call.a = a.view;
  parsed.framework = a.framework;
  const bool vector = form == GemmForm::kLinear && call.a.rank == 1;
  if (vector) {
    call.a = TensorView::strided(call.a.data, call.a.dtype, {1, call.a.shape[0]}, {0, call.a.stride[0]}, call.a.device);
  }
  check_rank(op, a_name, call.a);
  import_b(op, form, arguments.b, access, parsed);
  import_optional(op, "bias", arguments.bias, access, call.bias, parsed.keepers);

  // Scalars, scales and the epilogue.
  call.alpha = arguments.alpha;
  call.beta = arguments.beta;
  if (call.beta != 0) import_optional(op, "c", arguments.c, access, call.c, parsed.keepers);
  parse_scale(op, "scale_a", arguments.scale_a, access, call.alpha, call.scale_a, parsed.keepers);
  parse_scale(op, "scale_b", arguments.scale_b, access, call.alpha, call.scale_b, parsed.keepers);
  const ParsedActivation activation = parse_activation(op, "activation", arguments.activation);
  call.activation = activation.activation;
  call.low = activation.low;
  call.high = activation.high;
  call.gate = parse_gate(op, arguments.gate);
  parse_steps(op, arguments.steps, access, call, parsed.keepers);
  call.options.deterministic = arguments.deterministic;
  call.options.batch_invariant = arguments.batch_invariant;
  if (!arguments.recipe.is_none()) call.options.recipe = nb::cast<std::string_view>(arguments.recipe);
  if (arguments.units < 0) refuse("{}: argument 'units' is {}, allowed: 0 (all) or more", op, arguments.units);
  parsed.exec.units = arguments.units;

  // Shape of the result: [lead.., M, N or I]; a vector has no M.
  std::vector<int64_t> shape = broadcast_leading(op, call.a, call.b);
  const std::vector<int64_t> lead = shape;
  const int64_t n = call.b.shape[call.b.rank - 1];
  if (!vector) shape.push_back(call.a.shape[call.a.rank - 2]);
  shape.push_back(call.gate == GateMode::kNone ? n : n / 2);
  make_result(op, purpose, arguments, shape, parsed);
  if (vector)
    call.d = TensorView::strided(call.d.data, call.d.dtype, {1, shape[0]}, {0, call.d.stride[0]}, call.d.device);

  collapse_leading(op, lead, call);
}

}  // namespace tilewright::python
