// SPDX-License-Identifier: MIT
#include "gemm_call.hpp"

#include <utility>

#include "call/current_stream.hpp"
#include "call/epilogue_arguments.hpp"
#include "call/openmp_threads.hpp"
#include "call/result.hpp"
#include "dispatch/context_impl.hpp"
#include "tensor/broadcast.hpp"
#include "weights/packed_weights.hpp"

namespace tilewright::python {
namespace {

void check_rank(const char* op, const char* name, const TensorView& t, int lowest = 2) {
  if (t.rank < lowest) {
    refuse("{}: argument '{}' has rank {}, allowed: {} to {}", op, name, t.rank, lowest, kMaxRank);
  }
}

void import_optional(const char* op, const char* name, const GemmArguments& arguments, Parameter parameter,
                     Access access, TensorView& to, ImportScope& scope) {
  if (arguments.given(parameter)) to = import_tensor(op, name, arguments[parameter], access, scope).view;
}

// A as [.., M, K]; true when it came as a vector.
bool import_a(const GemmFunction& function, const GemmArguments& arguments, Access access, ImportedTensor& imported,
              ParsedGemm& parsed) {
  const bool linear = function.form == GemmForm::kLinear;
  const char* const name = linear ? "x" : "a";
  TensorView& a = parsed.call.a;
  imported = import_tensor(function.name, name, arguments[kA], access, parsed.scope);
  a = imported.view;
  parsed.framework = imported.framework;
  const bool vector = linear && a.rank == 1;
  check_rank(function.name, name, a, linear ? 1 : 2);
  if (vector) a = TensorView::strided(a.data, a.dtype, {1, a.shape[0]}, {0, a.stride[0]}, a.device);
  return vector;
}

int64_t size_argument(const char* op, const char* name, nb::handle value, int64_t fallback) {
  int64_t size = fallback;
  if (!value.is_none() && !nb::try_cast(value, size)) {
    refuse("{}: argument '{}' is {}, allowed: an integer", op, name, printed(value));
  }
  return size;
}

// What a torch operator calls packed weights: bytes, and the sizes that its schema knows them by.
TensorView import_packed_bytes(const char* op, const GemmArguments& arguments, const TensorView& a,
                               ImportScope& scope) {
  const int64_t n = size_argument(op, "n", arguments[kColumns], -1);
  const int64_t batch = size_argument(op, "batch", arguments[kBatch], 1);
  const DType named = parse_nibbles(op, arguments[kBDtype]);
  // NVIDIA GPUs pack 4 bits; elsewhere A's.
  const bool cuda = a.device.kind == DeviceKind::kCuda;
  const DType dtype = !cuda ? a.dtype : named != DType::kNone ? named : DType::kF4E2M1;
  const TensorView b = packed_bytes_view(op, "packed", arguments[kB], {dtype, n, a.shape[a.rank - 1], batch}, scope);
  const int64_t true_batch = b.rank == 3 ? b.shape[0] : 1;
  if (b.shape[b.rank - 1] != n || true_batch != batch) {
    refuse("{}: arguments 'n' and 'batch' are {} and {}, and 'packed' holds weights with n = {}, batch = {}", op, n,
           batch, b.shape[b.rank - 1], true_batch);
  }
  if (named != DType::kNone && b.dtype != named) {
    refuse("{}: argument 'b_dtype' is {}, and 'packed' holds weights of {}", op, dtype_name(named),
           dtype_name(b.dtype));
  }
  return b;
}

// On a GPU the framework's current stream; on the CPU tensors of PyTorch run on its threads.
void choose_execution(const char* op, const GemmArguments& arguments, ParsedGemm& parsed) {
  Exec& exec = parsed.exec;
  exec.units = parse_units(op, arguments[kUnits]);
  exec.programmatic_edge = parse_bool(op, "programmatic_edge", arguments[kProgrammaticEdge]);
  const DeviceId device = parsed.call.a.device;
  if (device.kind != DeviceKind::kCpu) {
    exec.stream = current_stream(traits_of(arguments[kA]), device);
    return;
  }
  if (parsed.framework != Framework::kTorch) return;
  const OpenMp openmp = torch_openmp();
  exec.parallel_for = openmp.parallel_for;
  // As many as all is 0: one plan, whichever way it was asked for.
  static const int kAll = Context::global().impl().cpu().device->spec().units;
  if (exec.units == 0 && openmp.threads > 0 && openmp.threads < kAll) exec.units = openmp.threads;
}

// B as [.., K, N], whichever way it came.
void import_b(const GemmFunction& function, const GemmArguments& arguments, Access access, ParsedGemm& parsed) {
  TensorView& b = parsed.call.b;
  const TensorView& a = parsed.call.a;
  if (function.weight == WeightForm::kPackedBytes) {
    b = import_packed_bytes(function.name, arguments, a, parsed.scope);
    return;
  }
  if (const PackedWeights* packed = packed_weights_of(arguments[kB])) {
    b = packed->view();
    return;
  }
  const bool linear = function.form == GemmForm::kLinear;
  const char* const name = linear ? "weight" : "b";
  const int64_t depth = linear ? -1 : a.shape[a.rank - 1];
  b = import_weight(function.name, name, arguments[kB], arguments[kBDtype], access, parsed.scope, depth).view;
  check_rank(function.name, name, b);
  if (!linear) return;
  if (b.rank != 2) refuse("{}: argument 'weight' has rank {}, allowed: 2 ([N, K])", function.name, b.rank);
  if (b.shape[1] != a.shape[a.rank - 1]) {
    refuse("{}: argument 'weight' has shape [{}, {}]: its last size must be {}, the last of 'x'", function.name,
           b.shape[0], b.shape[1], a.shape[a.rank - 1]);
  }
  b = b.transposed();
}

// Scales of groups lie as what they scale: those of linear's weight [N, K] as [N / outer, K / k], a vector's as a vector.
void parse_groups(const GemmFunction& function, const GemmArguments& arguments, bool vector, GemmCall& call) {
  if (arguments.given(kScaleGroupA)) {
    call.scale_group_a = parse_scale_group(function.name, "scale_group_a", arguments[kScaleGroupA]);
    const TensorView s = call.scale_a;
    if (vector && s.defined() && s.rank == 1) {
      call.scale_a = TensorView::strided(s.data, s.dtype, {1, s.shape[0]}, {0, s.stride[0]}, s.device);
    }
  }
  if (arguments.given(kScaleGroupB)) {
    call.scale_group_b = parse_scale_group(function.name, "scale_group_b", arguments[kScaleGroupB]);
    if (function.form == GemmForm::kLinear && call.scale_group_b.k != 0 && call.scale_b.rank == 2) {
      call.scale_b = call.scale_b.transposed();
    }
  }
}

// Zero points lie as the scales of groups do; bytes of them hold two of B's own type.
void parse_zero(const GemmFunction& function, const GemmArguments& arguments, Access access, ParsedGemm& parsed) {
  if (!arguments.given(kZeroB)) return;
  GemmCall& call = parsed.call;
  const bool turned = function.form == GemmForm::kLinear;
  const ScaleGroup& group = call.scale_group_b;
  NibbleShape shape;
  if (dtype_bits(call.b.dtype) == 4 && group.k > 0 && group.outer > 0) {
    const auto groups = [](int64_t size, int64_t each) { return (size + each - 1) / each; };
    shape = {call.b.dtype, groups(call.b.shape[call.b.rank - 2], group.k),
             groups(call.b.shape[call.b.rank - 1], group.outer)};
    if (turned) std::swap(shape.rows, shape.columns);
  }
  call.zero_b = import_nibbles(function.name, "zero_b", arguments[kZeroB], access, parsed.scope, shape).view;
  if (turned && call.zero_b.rank == 2) call.zero_b = call.zero_b.transposed();
}

}  // namespace

bool parse_all_but_result(const GemmFunction& function, const GemmArguments& arguments, ImportedTensor& a,
                          ParsedGemm& parsed) {
  const char* const op = function.name;
  const Access access = function.purpose == Purpose::kDescribe ? Access::kDescribe : Access::kRead;
  parsed.scope.autograd_decided = function.purpose == Purpose::kOperator;
  GemmCall& call = parsed.call;

  // Tensors.
  const bool vector = import_a(function, arguments, access, a, parsed);
  import_b(function, arguments, access, parsed);
  import_optional(op, "bias", arguments, kBias, access, call.bias, parsed.scope);

  // Scalars, scales and the epilogue.
  if (arguments.given(kAlpha)) call.alpha = parse_number(op, "alpha", arguments[kAlpha], 1);
  call.beta = arguments.given(kC) ? 1.0f : 0.0f;
  if (arguments.given(kBeta)) call.beta = parse_number(op, "beta", arguments[kBeta], call.beta);
  if (call.beta != 0) import_optional(op, "c", arguments, kC, access, call.c, parsed.scope);
  if (arguments.given(kScaleA)) {
    parse_scale(op, "scale_a", arguments[kScaleA], access, call.alpha, call.scale_a, parsed.scope);
  }
  if (arguments.given(kScaleB)) {
    parse_scale(op, "scale_b", arguments[kScaleB], access, call.alpha, call.scale_b, parsed.scope);
  }
  parse_groups(function, arguments, vector, call);
  parse_zero(function, arguments, access, parsed);
  if (arguments.given(kActivation)) {
    const ParsedActivation activation = parse_activation(op, "activation", arguments[kActivation]);
    call.activation = activation.activation;
    call.low = activation.low;
    call.high = activation.high;
  }
  call.gate = parse_gate(op, arguments[kGate]);
  if (arguments.given(kSteps) || arguments.given(kStepTensors)) {
    parse_steps(op, arguments[kSteps], arguments[kStepTensors], access, call.steps, parsed.scope);
  }
  call.options.deterministic = parse_bool(op, "deterministic", arguments[kDeterministic]);
  call.options.batch_invariant = parse_bool(op, "batch_invariant", arguments[kBatchInvariant]);
  call.options.allow_tf32 = parse_bool(op, "allow_tf32", arguments[kAllowTf32]);
  call.options.allow_fast_accum = parse_bool(op, "allow_fast_accum", arguments[kAllowFastAccum]);
  if (arguments.given(kRecipe)) {
    std::string_view recipe;
    if (!nb::try_cast(arguments[kRecipe], recipe)) {
      refuse("{}: argument 'recipe' is {}, allowed: text, as query().recipe has it", op, printed(arguments[kRecipe]));
    }
    call.options.recipe = recipe;
  }
  choose_execution(op, arguments, parsed);
  return vector;
}

void parse_gemm(const GemmFunction& function, const GemmArguments& arguments, ParsedGemm& parsed) {
  const char* const op = function.name;
  GemmCall& call = parsed.call;
  ImportedTensor a;
  const bool vector = parse_all_but_result(function, arguments, a, parsed);

  // Shape of the result: [lead.., M, N or I]; a vector has no M.
  const Shape lead = broadcast_leading(op, call.a, call.b);
  Shape shape = lead;
  const int64_t n = call.b.shape[call.b.rank - 1];
  if (!vector) shape.push_back(call.a.shape[call.a.rank - 2]);
  shape.push_back(call.gate == GateMode::kNone ? n : n / 2);
  make_result(function, arguments, a, shape, parsed);
  if (vector)
    call.d = TensorView::strided(call.d.data, call.d.dtype, {1, shape.size[0]}, {0, call.d.stride[0]}, call.d.device);

  collapse_leading(op, lead.span(), call);
}

}  // namespace tilewright::python
