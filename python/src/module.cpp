// SPDX-License-Identifier: MIT
// The extension module: what tilewright/__init__.py re-exports. Types of everything here stand in tilewright/_core.pyi.
#include <nanobind/nanobind.h>

#include "dispatch/context_impl.hpp"
#include "gemm_call.hpp"
#include "packed_weights.hpp"
#include "tensor/buffer.hpp"

namespace tilewright::python {
namespace {

nb::object run_gemm(const char* op, GemmForm form, const GemmArguments& arguments) {
  ParsedGemm parsed;
  parse_gemm(op, form, Purpose::kRun, arguments, parsed);
  Status status;
  {
    const nb::gil_scoped_release released;
    status = gemm(Context::global(), parsed.call, parsed.exec);
  }
  check(status);
  if (parsed.made_result && parsed.framework == Framework::kJax) {
    return nb::module_::import_("tilewright._frameworks").attr("to_jax")(parsed.result);
  }
  return std::move(parsed.result);
}

void prepare(const GemmArguments& arguments) {
  ParsedGemm parsed;
  parse_gemm("prepare", GemmForm::kGemm, Purpose::kDescribe, arguments, parsed);
  Status status;
  {
    const nb::gil_scoped_release released;
    status = gemm_prepare(Context::global(), parsed.call, parsed.exec);
  }
  check(status);
}

QueryResult query(const GemmArguments& arguments) {
  ParsedGemm parsed;
  parse_gemm("query", GemmForm::kGemm, Purpose::kDescribe, arguments, parsed);
  return value_of(gemm_query(Context::global(), parsed.call, parsed.exec));
}

std::string explain(const GemmArguments& arguments) {
  ParsedGemm parsed;
  parse_gemm("explain", GemmForm::kGemm, Purpose::kDescribe, arguments, parsed);
  return value_of(gemm_explain(Context::global(), parsed.call, parsed.exec));
}

// One list of keyword arguments for gemm, linear, prepare, query and explain. `b_name` is "b" or "weight"; linear also
// takes bias and activation by position.
template <bool kPositionalBias, class Run>
void def_gemm(nb::module_& module, const char* name, const char* a_name, const char* b_name, Run run, const char* doc) {
  auto call = [run](nb::handle a, nb::handle b, nb::handle bias, nb::handle activation, nb::handle out,
                    nb::handle out_dtype, float alpha, float beta, nb::handle c, nb::handle scale_a, nb::handle scale_b,
                    nb::handle gate, nb::handle steps, bool deterministic, bool batch_invariant, nb::handle recipe,
                    int units) {
    return run(GemmArguments{a, b, bias, activation, out, out_dtype, alpha, beta, c, scale_a, scale_b, gate, steps,
                             deterministic, batch_invariant, recipe, units});
  };
  auto def = [&](auto... first) {
    module.def(name, call, nb::arg(a_name).none(), nb::arg(b_name).none(), first..., nb::arg("out") = nb::none(),
               nb::arg("out_dtype") = nb::none(), nb::arg("alpha") = 1.0f, nb::arg("beta") = 0.0f,
               nb::arg("c") = nb::none(), nb::arg("scale_a") = nb::none(), nb::arg("scale_b") = nb::none(),
               nb::arg("gate") = nb::none(), nb::arg("steps") = nb::tuple(), nb::arg("deterministic") = false,
               nb::arg("batch_invariant") = false, nb::arg("recipe") = nb::none(), nb::arg("units") = 0, doc);
  };
  if constexpr (kPositionalBias) {
    def(nb::arg("bias") = nb::none(), nb::arg("activation") = nb::none(), nb::kw_only());
  } else {
    def(nb::kw_only(), nb::arg("bias") = nb::none(), nb::arg("activation") = nb::none());
  }
}

nb::list devices() {
  const DeviceSpec spec = Context::global().impl().spec(0);
  nb::dict device;
  device["name"] = to_string(spec.id);
  device["model"] = spec.name;
  device["target"] = spec.arch->target;
  device["part"] = spec.part;
  device["units"] = spec.units;
  device["clock_ghz"] = spec.clock_ghz;
  nb::list all;
  all.append(device);
  return all;
}

nb::dict counters() {
  nb::dict values;
  for (const auto& [name, value] : Context::global().counters()) values[name.c_str()] = value;
  return values;
}

void bind_gemm(nb::module_& module) {
  def_gemm<false>(
      module, "gemm", "a", "b",
      [](const GemmArguments& arguments) { return run_gemm("gemm", GemmForm::kGemm, arguments); },
      "D = steps(gate(activation(alpha * scale_a * scale_b * a @ b + beta * c + bias))); returns D, or out.");
  def_gemm<true>(
      module, "linear", "x", "weight",
      [](const GemmArguments& arguments) { return run_gemm("linear", GemmForm::kLinear, arguments); },
      "activation(x @ weight.T + bias), with weight [N, K] as torch.nn.Linear has it, or packed.");
  def_gemm<false>(module, "prepare", "a", "b", &prepare,
                  "Chooses, compiles and loads what gemm() of the same arguments will run. Values are not read.");
  def_gemm<false>(module, "query", "a", "b", &query, "What gemm() of the same arguments would run. Never compiles.");
  def_gemm<false>(module, "explain", "a", "b", &explain,
                  "Every kernel family and candidate with its predicted cost, or why it was refused, as text.");
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

}  // namespace
}  // namespace tilewright::python

NB_MODULE(_core, module) {
  using namespace tilewright::python;  // NOLINT(google-build-using-namespace)
  // Objects that live until the interpreter ends are no leak worth a line on the user's terminal.
  nanobind::set_leak_warnings(false);
  bind_buffer(module);
  bind_packed_weights(module);
  bind_gemm(module);
  module.def("devices", &devices, "The devices that kernels run on, each as a dict.");
  module.def("counters", &counters, "Calls, plan hits, compiles, fallbacks ... since the process started.");
  module.def(
      "tables_digest", [] { return tilewright::Context::global().tables_digest(); },
      "Digest of all tuned rows in effect: ranks of a job compare it to know that they choose alike.");
  module.def("version", [] { return TILEWRIGHT_VERSION; }, "The library's version.");
}
