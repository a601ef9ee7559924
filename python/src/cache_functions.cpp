// SPDX-License-Identifier: MIT
#include "cache_functions.hpp"

#include "row_arguments.hpp"
#include "tilewright/kv_cache_move.hpp"
#include "tilewright/qk_norm_rope_cache.hpp"

namespace tilewright::python {
namespace {

// What both operators have. Scales that are found are written; those beside a cache of codes are one number unless said.
template <class Call>
void read_caches(RowArguments& arguments, Call& call, nb::handle key_cache, nb::handle value_cache,
                 nb::handle slot_mapping, nb::handle key_layout, nb::handle value_layout, nb::handle scales,
                 nb::handle key_scale, nb::handle value_scale) {
  const char* const op = arguments.op;
  call.key_cache = arguments.optional("key_cache", key_cache, Access::kWrite);
  call.value_cache = arguments.optional("value_cache", value_cache, Access::kWrite);
  call.slot_mapping = arguments.numbers("slot_mapping", slot_mapping);
  call.key_layout = named(op, "key_layout", key_layout, CacheLayout::kNhd);
  call.value_layout = named(op, "value_layout", value_layout, CacheLayout::kNhd);
  call.scales = named(op, "scales", scales, key_scale.is_none() ? CacheScales::kNone : CacheScales::kTensor);
  const Access access = call.scales == CacheScales::kToken ? Access::kWrite : Access::kRead;
  call.key_scale = arguments.optional("key_scale", key_scale, access);
  call.value_scale = arguments.optional("value_scale", value_scale, access);
}

void kv_cache_write_function(nb::handle key, nb::handle value, nb::handle key_cache, nb::handle value_cache,
                             nb::handle slot_mapping, nb::handle key_layout, nb::handle value_layout, nb::handle scales,
                             nb::handle key_scale, nb::handle value_scale, const std::string& recipe, int units,
                             bool programmatic_edge) {
  RowArguments arguments("kv_cache_write", key, units, programmatic_edge, "key");
  KvCacheWriteCall call;
  call.key = arguments.input.view;
  call.value = arguments.optional("value", value);
  read_caches(arguments, call, key_cache, value_cache, slot_mapping, key_layout, value_layout, scales, key_scale,
              value_scale);
  call.recipe = recipe;
  Status status;
  {
    const nb::gil_scoped_release released;
    status = kv_cache_write(Context::global(), call, arguments.exec);
  }
  check(status);
}

void mla_cache_write_function(nb::handle kv_c, nb::handle k_pe, nb::handle cache, nb::handle slot_mapping,
                              nb::handle scale, const std::string& recipe, int units, bool programmatic_edge) {
  RowArguments arguments("mla_cache_write", kv_c, units, programmatic_edge, "kv_c");
  const TensorView rest = arguments.optional("k_pe", k_pe), of_both = arguments.optional("scale", scale);
  const TensorView rows = arguments.optional("cache", cache, Access::kWrite);
  const TensorView slots = arguments.numbers("slot_mapping", slot_mapping);
  Result<KvCacheWriteCall> call = mla_cache_write_call(arguments.input.view, rest, rows, slots, of_both);
  check(call.status());
  call->recipe = recipe;
  Status status;
  {
    const nb::gil_scoped_release released;
    status = kv_cache_write(Context::global(), *call, arguments.exec);
  }
  check(status);
}

nb::object qk_norm_rope_cache_function(nb::handle q, nb::handle k, nb::handle v, nb::handle key_cache,
                                       nb::handle value_cache, nb::handle slot_mapping, bool norm, nb::handle q_weight,
                                       nb::handle k_weight, float eps, bool unit_offset, nb::handle cos, nb::handle sin,
                                       nb::handle positions, bool interleaved, nb::handle sections,
                                       nb::handle section_order, nb::handle key_layout, nb::handle value_layout,
                                       nb::handle scales, nb::handle key_scale, nb::handle value_scale, nb::object out,
                                       nb::handle out_dtype, nb::handle q_scales, nb::handle q_scale,
                                       const std::string& recipe, int units, bool programmatic_edge) {
  constexpr const char* kOp = "qk_norm_rope_cache";
  RowArguments arguments(kOp, q, units, programmatic_edge, "q");
  QkNormRopeCacheCall call;
  call.q = arguments.input.view;
  call.k = arguments.optional("k", k), call.v = arguments.optional("v", v);
  read_caches(arguments, call, key_cache, value_cache, slot_mapping, key_layout, value_layout, scales, key_scale,
              value_scale);
  call.norm = norm, call.eps = eps, call.unit_offset = unit_offset, call.interleaved = interleaved;
  call.q_weight = arguments.optional("q_weight", q_weight), call.k_weight = arguments.optional("k_weight", k_weight);
  call.cos = arguments.optional("cos", cos), call.sin = arguments.optional("sin", sin);
  call.positions = arguments.numbers("positions", positions);
  call.sections = section_pairs(kOp, sections);
  call.section_order = named(kOp, "section_order", section_order, RopeSections::kRuns);
  call.q_scales = named(kOp, "q_scales", q_scales, q_scale.is_none() ? CacheScales::kNone : CacheScales::kTensor);
  call.q_scale =
      arguments.optional("q_scale", q_scale, call.q_scales == CacheScales::kToken ? Access::kWrite : Access::kRead);
  call.recipe = recipe;
  const DType dtype = call.q_scales == CacheScales::kNone ? call.q.dtype : DType::kF8E4M3;
  call.q_out = arguments.result("out", out, output_dtype(kOp, out_dtype, dtype), -1);
  Status status;
  {
    const nb::gil_scoped_release released;
    status = qk_norm_rope_cache(Context::global(), call, arguments.exec);
  }
  check(status);
  return out;
}

void kv_cache_copy_function(nb::handle from, nb::handle to, nb::handle mapping, const std::string& recipe, int units,
                            bool programmatic_edge) {
  RowArguments arguments("kv_cache_copy", from, units, programmatic_edge, "from_");
  KvCacheCopyCall call;
  call.from = arguments.input.view;
  call.to = arguments.optional("to", to, Access::kWrite);
  call.mapping = arguments.numbers("mapping", mapping);
  call.recipe = recipe;
  Status status;
  {
    const nb::gil_scoped_release released;
    status = kv_cache_copy(Context::global(), call, arguments.exec);
  }
  check(status);
}

void kv_cache_gather_function(nb::handle cache, nb::handle block_table, nb::handle cumulative_lengths, nb::handle out,
                              nb::handle layout, nb::handle scales, nb::handle scale, const std::string& recipe,
                              int units, bool programmatic_edge) {
  constexpr const char* kOp = "kv_cache_gather";
  RowArguments arguments(kOp, cache, units, programmatic_edge, "cache");
  KvCacheGatherCall call;
  call.cache = arguments.input.view;
  call.out = arguments.optional("out", out, Access::kWrite);
  call.block_table = arguments.optional("block_table", block_table);
  call.cumulative_lengths = arguments.optional("cumulative_lengths", cumulative_lengths);
  call.layout = named(kOp, "layout", layout, CacheLayout::kNhd);
  call.scales = named(kOp, "scales", scales, scale.is_none() ? CacheScales::kNone : CacheScales::kTensor);
  call.scale = arguments.optional("scale", scale);
  call.recipe = recipe;
  Status status;
  {
    const nb::gil_scoped_release released;
    status = kv_cache_gather(Context::global(), call, arguments.exec);
  }
  check(status);
}

}  // namespace

void bind_cache_operators(nb::module_& module) {
  module.def("kv_cache_write", &kv_cache_write_function, nb::arg("key"), nb::arg("value").none(), nb::arg("key_cache"),
             nb::arg("value_cache").none(), nb::arg("slot_mapping"), nb::kw_only(), nb::arg("key_layout") = "nhd",
             nb::arg("value_layout") = "nhd", nb::arg("scales") = nb::none(), nb::arg("key_scale") = nb::none(),
             nb::arg("value_scale") = nb::none(), nb::arg("recipe") = "", nb::arg("units") = 0,
             nb::arg("programmatic_edge") = false,
             "Writes keys and values [T, H, D] of new tokens to their slots of a paged cache.");
  module.def("mla_cache_write", &mla_cache_write_function, nb::arg("kv_c"), nb::arg("k_pe"), nb::arg("cache"),
             nb::arg("slot_mapping"), nb::kw_only(), nb::arg("scale") = nb::none(), nb::arg("recipe") = "",
             nb::arg("units") = 0, nb::arg("programmatic_edge") = false,
             "Writes kv_c [T, C] and k_pe [T, R] to rows of a paged cache [blocks, block, C + R].");
  module.def(
      "qk_norm_rope_cache", &qk_norm_rope_cache_function, nb::arg("q"), nb::arg("k"), nb::arg("v").none(),
      nb::arg("key_cache"), nb::arg("value_cache").none(), nb::arg("slot_mapping"), nb::kw_only(),
      nb::arg("norm") = true, nb::arg("q_weight") = nb::none(), nb::arg("k_weight") = nb::none(),
      nb::arg("eps") = 1e-6f, nb::arg("unit_offset") = false, nb::arg("cos") = nb::none(), nb::arg("sin") = nb::none(),
      nb::arg("positions") = nb::none(), nb::arg("interleaved") = false, nb::arg("sections") = nb::none(),
      nb::arg("section_order") = nb::none(), nb::arg("key_layout") = "nhd", nb::arg("value_layout") = "nhd",
      nb::arg("scales") = nb::none(), nb::arg("key_scale") = nb::none(), nb::arg("value_scale") = nb::none(),
      nb::arg("out") = nb::none(), nb::arg("out_dtype") = nb::none(), nb::arg("q_scales") = nb::none(),
      nb::arg("q_scale") = nb::none(), nb::arg("recipe") = "", nb::arg("units") = 0,
      nb::arg("programmatic_edge") = false,
      "Heads of q and k normalised and turned by the angle of their token; k and v to a paged cache. Returns q's "
      "output.");
  module.def("kv_cache_copy", &kv_cache_copy_function, nb::arg("from_"), nb::arg("to"), nb::arg("mapping"),
             nb::kw_only(), nb::arg("recipe") = "", nb::arg("units") = 0, nb::arg("programmatic_edge") = false,
             "Copies blocks mapping[:, 0] of a paged cache to blocks mapping[:, 1] of the same one or another.");
  module.def("kv_cache_gather", &kv_cache_gather_function, nb::arg("cache"), nb::arg("block_table"),
             nb::arg("cumulative_lengths"), nb::arg("out"), nb::kw_only(), nb::arg("layout") = "nhd",
             nb::arg("scales") = nb::none(), nb::arg("scale") = nb::none(), nb::arg("recipe") = "",
             nb::arg("units") = 0, nb::arg("programmatic_edge") = false,
             "Writes the tokens of requests, which lie in blocks of a paged cache, to rows one behind the other.");
}

}  // namespace tilewright::python
