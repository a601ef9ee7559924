// SPDX-License-Identifier: MIT
#include "gemm_functions.hpp"

#include <functional>

#include "call/call_parts.hpp"
#include "call/result.hpp"
#include "dispatch/context_impl.hpp"
#include "gemm_call.hpp"
#include "grouped_call.hpp"
#include "python_function.hpp"

namespace tilewright::python {
namespace {

// A product of at most this many multiplications takes a few microseconds: less than the interpreter lock may cost when
// another thread takes it meanwhile.
constexpr double kHeldMultiplications = 65536;

// Lets other threads of the interpreter run, from now() until it goes.
class InterpreterRelease {
 public:
  InterpreterRelease() = default;
  ~InterpreterRelease() {
    if (state_ != nullptr) PyEval_RestoreThread(state_);
  }
  InterpreterRelease(const InterpreterRelease&) = delete;
  InterpreterRelease& operator=(const InterpreterRelease&) = delete;
  void now() {
    if (state_ == nullptr) state_ = PyEval_SaveThread();
  }

 private:
  PyThreadState* state_ = nullptr;
};

double multiplications(const GemmCall& call) {
  const TensorView &a = call.a, &b = call.b;
  double count = static_cast<double>(b.shape[b.rank - 1]);
  for (int i = 0; i < a.rank; ++i) count *= static_cast<double>(a.shape[i]);
  if (a.rank == 2 && b.rank == 3) count *= static_cast<double>(b.shape[0]);
  return count;
}

// JAX's own streams wait for no other: what it takes over must be there.
Status wait_for_result(const ParsedGemm& parsed) {
  const DeviceId device = parsed.call.d.device;
  const Result<OpenDevice*> on = Context::global().impl().open_device("gemm", device);
  return on ? (*on)->device->synchronize() : on.status();
}

nb::object run(const GemmFunction& function, const GemmArguments& arguments) {
  ParsedGemm parsed;
  parse_gemm(function, arguments, parsed);
  Status status;
  const bool jax_gpu = parsed.framework == Framework::kJax && parsed.call.d.device.kind != DeviceKind::kCpu;
  {
    InterpreterRelease release;
    if (multiplications(parsed.call) > kHeldMultiplications) release.now();
    // A problem that was not seen before may take a compile.
    const std::function<void()> on_new_problem = [&release] { release.now(); };
    parsed.exec.on_new_problem = &on_new_problem;
    status = gemm(Context::global(), parsed.call, parsed.exec);
    if (jax_gpu && status.ok()) {
      release.now();
      status = wait_for_result(parsed);
    }
  }
  check_product(status);
  if (parsed.made_result && parsed.framework == Framework::kJax && !jax_gpu) {
    static constinit PythonFunction to_jax(kFrameworks, "to_jax");
    return to_jax.get()(parsed.result);
  }
  return std::move(parsed.result);
}

nb::object prepare(const GemmFunction& function, const GemmArguments& arguments) {
  ParsedGemm parsed;
  parse_gemm(function, arguments, parsed);
  Status status;
  {
    const nb::gil_scoped_release released;
    status = gemm_prepare(Context::global(), parsed.call, parsed.exec);
  }
  check_product(status);
  return nb::none();
}

nb::object query(const GemmFunction& function, const GemmArguments& arguments) {
  ParsedGemm parsed;
  parse_gemm(function, arguments, parsed);
  Result<QueryResult> found = gemm_query(Context::global(), parsed.call, parsed.exec);
  check_product(found.status());
  return nb::cast(value_of(std::move(found)));
}

nb::object explain(const GemmFunction& function, const GemmArguments& arguments) {
  ParsedGemm parsed;
  parse_gemm(function, arguments, parsed);
  Result<std::string> text = gemm_explain(Context::global(), parsed.call, parsed.exec);
  check_product(text.status());
  return nb::cast(value_of(std::move(text)));
}

// Names and defaults, in the order of Parameter. The first two names are each function's own.
struct ParameterText {
  const char* name;
  const char* value;
};
constexpr ParameterText kTexts[] = {{nullptr, nullptr},
                                    {nullptr, nullptr},
                                    {"bias", "None"},
                                    {"activation", "None"},
                                    {"out", "None"},
                                    {"out_dtype", "None"},
                                    {"alpha", "1.0"},
                                    {"beta", "None"},
                                    {"c", "None"},
                                    {"scale_a", "None"},
                                    {"scale_b", "None"},
                                    {"scale_group_a", "None"},
                                    {"scale_group_b", "None"},
                                    {"zero_b", "None"},
                                    {"b_dtype", "None"},
                                    {"gate", "None"},
                                    {"steps", "()"},
                                    {"deterministic", "False"},
                                    {"batch_invariant", "False"},
                                    {"allow_tf32", "False"},
                                    {"allow_fast_accum", "False"},
                                    {"recipe", "None"},
                                    {"units", "0"},
                                    {"programmatic_edge", "False"},
                                    {"step_tensors", "None"},
                                    {"n", nullptr},
                                    {"batch", "1"},
                                    {"mode", "'contiguous'"},
                                    {"sizes", "None"},
                                    {"offsets", "None"},
                                    {"alignment", "1"},
                                    {"gather", "None"},
                                    {"scatter", "None"},
                                    {"status", "None"},
                                    {"expected_rows", "0"}};
static_assert(std::size(kTexts) == kParameters);

// One function of the module.
struct Entry {
  const char* name;  // in Python
  GemmFunction function;
  const char *a, *b;                                             // names of the first two parameters
  nb::object (*run)(const GemmFunction&, const GemmArguments&);  // null: the call's parts are timed
  const char* doc;
};

constexpr GemmFunction kGemmRun = {"gemm"};
constexpr GemmFunction kLinearRun = {"linear", GemmForm::kLinear};
constexpr GemmFunction kGroupedRun = {"grouped_gemm", GemmForm::kGrouped};
constexpr GemmFunction kPrepare = {"prepare", GemmForm::kGemm, Purpose::kDescribe};
constexpr GemmFunction kQuery = {"query", GemmForm::kGemm, Purpose::kDescribe};
constexpr GemmFunction kExplain = {"explain", GemmForm::kGemm, Purpose::kDescribe};
constexpr GemmFunction kGemmOp = {"gemm", GemmForm::kGemm, Purpose::kOperator};
constexpr GemmFunction kLinearOp = {"linear", GemmForm::kLinear, Purpose::kOperator};
constexpr GemmFunction kGemmPackedOp = {"gemm_packed", GemmForm::kGemm, Purpose::kOperator, WeightForm::kPackedBytes};
constexpr GemmFunction kLinearPackedOp = {"linear_packed", GemmForm::kLinear, Purpose::kOperator,
                                          WeightForm::kPackedBytes};

constexpr Entry kEntries[] = {
    {"gemm", kGemmRun, "a", "b", &run,
     "D = steps(gate(activation(alpha * scale_a * scale_b * a @ b + beta * c + bias))); returns D, or out."},
    {"linear", kLinearRun, "x", "weight", &run,
     "activation(x @ weight.T + bias), with weight [N, K] as torch.nn.Linear has it, or packed."},
    {"grouped_gemm", kGroupedRun, "a", "b", &run_grouped,
     "A GEMM of each group of rows, with matrices b of their own; sizes and offsets stay on the device."},
    {"prepare", kPrepare, "a", "b", &prepare,
     "Chooses, compiles and loads what gemm() of the same arguments will run. Values are not read."},
    {"query", kQuery, "a", "b", &query, "What gemm() of the same arguments would run. Never compiles."},
    {"explain", kExplain, "a", "b", &explain,
     "Every kernel family and candidate with its predicted cost, or why it was refused, as text."},
    {"op_gemm", kGemmOp, "a", "b", &run, "torch.ops.tilewright.gemm, of tensors on the CPU or a CUDA device."},
    {"op_linear", kLinearOp, "x", "weight", &run,
     "torch.ops.tilewright.linear, of tensors on the CPU or a CUDA device."},
    {"op_gemm_packed", kGemmPackedOp, "a", "packed", &run,
     "torch.ops.tilewright.gemm_packed, of tensors on the CPU or a CUDA device."},
    {"op_linear_packed", kLinearPackedOp, "x", "packed", &run,
     "torch.ops.tilewright.linear_packed, of tensors on the CPU or a CUDA device."},
    {"call_parts", kGemmRun, "a", "b", nullptr, "Nanoseconds by part of gemm() with these arguments."},
};
constexpr size_t kEntryCount = std::size(kEntries);

// What the function takes, in the order of its signature.
struct Parameters {
  std::vector<ParameterName> all;
  int required = 2;
  int positional = 2;
};

Parameters parameters_of(const Entry& entry) {
  Parameters found;
  found.all = {{entry.a, kA}, {entry.b, kB}};
  const bool packed = entry.function.weight == WeightForm::kPackedBytes;
  if (packed) {
    found.all.push_back({kTexts[kColumns].name, kColumns});
    found.required = ++found.positional;
  }
  if (entry.function.form == GemmForm::kLinear) found.positional += 2;  // bias, activation
  for (int i = kMode; entry.function.form == GemmForm::kGrouped && i < kParameters; ++i) {
    found.all.push_back({kTexts[i].name, i});
  }
  const int end = entry.function.purpose == Purpose::kOperator ? kColumns : kStepTensors;
  for (int i = kBias; i < end; ++i) found.all.push_back({kTexts[i].name, i});
  if (packed) found.all.push_back({kTexts[kBatch].name, kBatch});
  return found;
}

Signature signature_of(const Entry& entry) {
  const Parameters parameters = parameters_of(entry);
  return {entry.name, parameters.all, parameters.required, parameters.positional};
}

// "gemm(a, b, *, bias=None ...": what inspect.signature reads.
std::string doc_of(const Entry& entry) {
  const Parameters parameters = parameters_of(entry);
  std::string text;
  for (size_t i = 0; i < parameters.all.size(); ++i) {
    const auto& [name, slot] = parameters.all[i];
    text += i == 0 ? "" : i == static_cast<size_t>(parameters.positional) ? ", *, " : ", ";
    text += name;
    if (i >= static_cast<size_t>(parameters.required)) text += fmt::format("={}", kTexts[slot].value);
  }
  return fmt::format("{}({})\n--\n\n{}", entry.name, text, entry.doc);
}

template <size_t kIndex>
PyObject* call(PyObject*, PyObject* const* arguments, Py_ssize_t positional, PyObject* keywords) {
  return guarded([&] {
    constexpr const Entry& kEntry = kEntries[kIndex];
    static const Signature kSignature = signature_of(kEntry);
    const RawCall raw = {arguments, positional, keywords};
    if constexpr (kEntry.run == nullptr)
      return time_call_parts(kEntry.function, kSignature, raw);
    else
      return kEntry.run(kEntry.function, GemmArguments(kSignature, raw));
  });
}

template <size_t... kIndex>
void add_functions(nb::module_& module, std::index_sequence<kIndex...>) {
  static std::string docs[] = {doc_of(kEntries[kIndex])...};
  static PyMethodDef methods[] = {
      {kEntries[kIndex].name, reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(&call<kIndex>)),
       METH_FASTCALL | METH_KEYWORDS, docs[kIndex].c_str()}...,
      {}};
  if (PyModule_AddFunctions(module.ptr(), methods) != 0) throw nb::python_error();
}

}  // namespace

void bind_gemm(nb::module_& module) {
  add_functions(module, std::make_index_sequence<kEntryCount>());
  nb::class_<QueryResult>(module, "QueryResult", nb::is_final(), "What would run, and why.")
      .def_ro("source", &QueryResult::source, "'forced', 'tuned', 'bucket', 'cost' or 'generic'.")
      .def_ro("recipe", &QueryResult::recipe, "Kernel keys and knobs.")
      .def_ro("workspace_bytes", &QueryResult::workspace_bytes)
      .def_ro("built", &QueryResult::built, "No compile is needed.")
      .def_ro("fallback", &QueryResult::fallback, "A better recipe exists but is not built and may not be compiled.")
      .def_ro("predicted_us", &QueryResult::predicted_us, "0 where nobody predicted.")
      .def("__repr__", [](const QueryResult& self) {
        return fmt::format("QueryResult(source='{}', recipe='{}', workspace_bytes={}, built={}, fallback={})",
                           self.source, self.recipe, self.workspace_bytes, self.built ? "True" : "False",
                           self.fallback ? "True" : "False");
      });
}

}  // namespace tilewright::python
