// SPDX-License-Identifier: MIT
// The extension module: what tilewright/__init__.py re-exports. Types of everything here stand in tilewright/_core.pyi.
#include <nanobind/nanobind.h>

#include "arch/cpu_nodes.hpp"
#include "backward_functions.hpp"
#include "cache_functions.hpp"
#include "dispatch/context_impl.hpp"
#include "gemm_functions.hpp"
#include "image_functions.hpp"
#include "logit_functions.hpp"
#include "row_functions.hpp"
#include "tensor/buffer.hpp"
#include "weights/packed_weights.hpp"
#include "weights/stored_weights.hpp"

namespace tilewright::python {
namespace {

nb::dict describe(const DeviceSpec& spec) {
  nb::dict device;
  device["name"] = to_string(spec.id);
  device["model"] = spec.name;
  device["target"] = spec.arch == nullptr ? "" : spec.arch->target;
  device["part"] = spec.part;
  device["units"] = spec.units;
  device["clock_ghz"] = spec.clock_ghz;
  return device;
}

nb::list devices() {
  ContextImpl& context = Context::global().impl();
  nb::dict device = describe(context.cpu().spec(0));
  nb::list nodes;
  for (const CpuNode& found : cpu_nodes(allowed_cpus(0))) {
    nb::dict node;
    node["id"] = found.id;
    node["cpus"] = cpu_list_text(found.cpus);
    node["memory_bytes"] = found.memory_bytes;
    nodes.append(node);
  }
  device["nodes"] = nodes;
  nb::list all;
  all.append(device);
  // Those that cannot be opened are left out; a call with their tensors says why.
  for (const DeviceKind kind : {DeviceKind::kCuda, DeviceKind::kHip}) {
    const Result<int> count = device_count(kind);
    for (int i = 0; i < (count ? *count : 0); ++i) {
      const Result<OpenDevice*> opened = context.open_device("devices", {kind, i});
      if (opened) all.append(describe((*opened)->device->spec()));
    }
  }
  return all;
}

nb::dict counters() {
  nb::dict values;
  for (const auto& [name, value] : Context::global().counters()) values[name.c_str()] = value;
  return values;
}

}  // namespace
}  // namespace tilewright::python

NB_MODULE(_core, module) {
  using namespace tilewright::python;  // NOLINT(google-build-using-namespace)
  // Objects that live until the interpreter ends are no leak worth a line on the user's terminal.
  nanobind::set_leak_warnings(false);
  bind_buffer(module);
  bind_packed_weights(module);
  bind_stored_weights(module);
  bind_gemm(module);
  bind_row_operators(module);
  bind_backward_operators(module);
  bind_image_operators(module);
  bind_logit_operators(module);
  bind_cache_operators(module);
  module.def("devices", &devices, "The devices that kernels run on, each as a dict.");
  module.def("counters", &counters, "Calls, plan hits, compiles, fallbacks ... since the process started.");
  module.def(
      "tables_digest", [] { return tilewright::Context::global().tables_digest(); },
      "Digest of all tuned rows in effect: ranks of a job compare it to know that they choose alike.");
  module.def("version", [] { return TILEWRIGHT_VERSION; }, "The library's version.");
}
