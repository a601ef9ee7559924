// SPDX-License-Identifier: MIT
#include "logit_functions.hpp"

#include "row_arguments.hpp"
#include "tilewright/apply_penalties.hpp"
#include "tilewright/cross_entropy.hpp"
#include "tilewright/moe_routing.hpp"
#include "tilewright/sample.hpp"
#include "tilewright/softmax.hpp"
#include "tilewright/top_k.hpp"

namespace tilewright::python {
namespace {

// Along the last dimension: elements of a row are neighbours.
nb::object softmax_function(nb::handle x, int64_t dim, nb::handle dtype, bool log, float scale, nb::object out,
                            const std::string& recipe, int units, bool programmatic_edge) {
  constexpr const char* kOp = "softmax";
  RowArguments arguments(kOp, x, units, programmatic_edge);
  SoftmaxCall call;
  call.x = arguments.input.view;
  if (dim != -1 && dim != call.x.rank - 1) refuse("{}: argument 'dim' is {}, allowed: -1", kOp, dim);
  call.scale = scale, call.log = log;
  call.recipe = recipe;
  nb::object made = std::move(out);
  call.out = arguments.result("out", made, output_dtype(kOp, dtype, call.x.dtype, "dtype"), -1);
  Status status;
  {
    const nb::gil_scoped_release released;
    status = softmax(Context::global(), call, arguments.exec);
  }
  check(status);
  return made;
}

nb::object cross_entropy_function(nb::handle x, nb::handle target, int64_t ignore_index, float label_smoothing,
                                  float z_loss, float grad_scale, nb::handle factor, bool gradient, nb::object loss,
                                  nb::handle lse, nb::object out, const std::string& recipe, int units,
                                  bool programmatic_edge) {
  constexpr const char* kOp = "cross_entropy";
  RowArguments arguments(kOp, x, units, programmatic_edge);
  CrossEntropyCall call;
  call.x = arguments.input.view;
  if (call.x.rank < 1) refuse("{}: argument 'x' has rank 0, allowed: 1 to {}", kOp, kMaxRank);
  call.target = arguments.indices("target", target);
  call.factor = arguments.optional("factor", factor);
  call.ignore_index = ignore_index, call.grad_scale = grad_scale;
  call.label_smoothing = label_smoothing, call.z_loss = z_loss;
  call.recipe = recipe;

  // Results.
  call.loss = arguments.result("loss", loss, DType::kF32, 0);
  call.lse = arguments.optional("lse", lse, Access::kWrite);
  if (gradient) call.out = arguments.result("out", out, call.x.dtype, -1);
  Status status;
  {
    const nb::gil_scoped_release released;
    status = cross_entropy(Context::global(), call, arguments.exec);
  }
  check(status);
  return nb::make_tuple(loss, out);
}

nb::object moe_routing_function(nb::handle logits, int64_t k, nb::handle bias, nb::handle score, bool renormalise,
                                float scale, int64_t groups, int64_t topk_groups, nb::handle group_score,
                                int64_t first_expert, int64_t local_experts, nb::object out, nb::object ids,
                                const std::string& recipe, int units, bool programmatic_edge) {
  constexpr const char* kOp = "moe_routing";
  RowArguments arguments(kOp, logits, units, programmatic_edge, "logits");
  MoeRoutingCall call;
  call.logits = arguments.input.view;
  if (call.logits.rank != 2) refuse("{}: argument 'logits' has rank {}, allowed: 2", kOp, call.logits.rank);
  if (k < 1 || k > kMostChosen) refuse("{}: argument 'k' is {}, allowed: 1 to {}", kOp, k, kMostChosen);
  call.bias = arguments.optional("bias", bias);
  call.score = named(kOp, "score", score, RouterScore::kSoftmax);
  call.group_score = named(kOp, "group_score", group_score, GroupScore::kTwoLargest);
  call.renormalise = renormalise, call.scale = scale;
  call.groups = groups, call.topk_groups = topk_groups;
  call.first_expert = first_expert, call.local_experts = local_experts;
  call.recipe = recipe;
  call.weights = arguments.result("out", out, DType::kF32, k);
  call.ids = arguments.result("ids", ids, DType::kI32, k);
  Status status;
  {
    const nb::gil_scoped_release released;
    status = moe_routing(Context::global(), call, arguments.exec);
  }
  check(status);
  return nb::make_tuple(out, ids);
}

nb::object sample_function(nb::handle logits, nb::handle seeds, nb::handle temperature, nb::handle top_k,
                           nb::handle top_p, nb::handle min_p, nb::handle offsets, nb::handle joint, bool greedy,
                           nb::object out, nb::handle log_probabilities, const std::string& recipe, int units,
                           bool programmatic_edge) {
  constexpr const char* kOp = "sample";
  RowArguments arguments(kOp, logits, units, programmatic_edge, "logits");
  SampleCall call;
  call.logits = arguments.input.view;
  if (call.logits.rank != 2) refuse("{}: argument 'logits' has rank {}, allowed: 2", kOp, call.logits.rank);
  call.temperature = arguments.optional("temperature", temperature);
  call.top_k = arguments.optional("top_k", top_k);
  call.top_p = arguments.optional("top_p", top_p);
  call.min_p = arguments.optional("min_p", min_p);
  call.seeds = arguments.numbers("seeds", seeds);
  call.offsets = arguments.numbers("offsets", offsets);
  call.joint = named(kOp, "joint", joint, SampleJoint::kOriginalMass);
  call.greedy = greedy, call.recipe = recipe;
  if (out.is_none()) {
    call.ids = arguments.result("out", out, DType::kI32, 0);
  } else {
    call.ids = arguments.numbers("out", out, Access::kWrite);
  }
  call.log_probabilities = arguments.optional("log_probabilities", log_probabilities, Access::kWrite);
  Status status;
  {
    const nb::gil_scoped_release released;
    status = sample(Context::global(), call, arguments.exec);
  }
  check(status);
  return out;
}

nb::object apply_penalties_function(nb::handle logits, nb::handle prompt_tokens, nb::handle output_tokens,
                                    nb::handle repetition, nb::handle presence, nb::handle frequency,
                                    nb::handle prompt_counts, nb::handle output_counts, nb::object out,
                                    const std::string& recipe, int units, bool programmatic_edge) {
  constexpr const char* kOp = "apply_penalties";
  RowArguments arguments(kOp, logits, units, programmatic_edge, "logits");
  ApplyPenaltiesCall call;
  call.logits = arguments.input.view;
  if (call.logits.rank != 2) refuse("{}: argument 'logits' has rank {}, allowed: 2", kOp, call.logits.rank);
  call.prompt_tokens = arguments.indices("prompt_tokens", prompt_tokens);
  call.output_tokens = arguments.indices("output_tokens", output_tokens);
  call.prompt_counts = arguments.optional("prompt_counts", prompt_counts);
  call.output_counts = arguments.optional("output_counts", output_counts);
  call.repetition = arguments.optional("repetition", repetition);
  call.presence = arguments.optional("presence", presence);
  call.frequency = arguments.optional("frequency", frequency);
  call.recipe = recipe;
  call.out = arguments.result("out", out, call.logits.dtype, -1);
  Status status;
  {
    const nb::gil_scoped_release released;
    status = apply_penalties(Context::global(), call, arguments.exec);
  }
  check(status);
  return out;
}

nb::object top_k_function(nb::handle x, int64_t k, nb::handle lengths, nb::object out, nb::object indices,
                          const std::string& recipe, int units, bool programmatic_edge) {
  constexpr const char* kOp = "top_k";
  RowArguments arguments(kOp, x, units, programmatic_edge);
  TopKCall call;
  call.x = arguments.input.view;
  if (call.x.rank != 2) refuse("{}: argument 'x' has rank {}, allowed: 2", kOp, call.x.rank);
  if (k < 1 || k > kMostTopK) refuse("{}: argument 'k' is {}, allowed: 1 to {}", kOp, k, kMostTopK);
  call.lengths = arguments.optional("lengths", lengths);
  call.recipe = recipe;
  call.values = arguments.result("out", out, call.x.dtype, k);
  call.indices = arguments.result("indices", indices, DType::kI32, k);
  Status status;
  {
    const nb::gil_scoped_release released;
    status = top_k(Context::global(), call, arguments.exec);
  }
  check(status);
  return nb::make_tuple(out, indices);
}

}  // namespace

void bind_logit_operators(nb::module_& module) {
  module.def(
      "softmax", &softmax_function, nb::arg("x"), nb::arg("dim") = -1, nb::arg("dtype") = nb::none(), nb::kw_only(),
      nb::arg("log") = false, nb::arg("scale") = 1.0f, nb::arg("out") = nb::none(), nb::arg("recipe") = "",
      nb::arg("units") = 0, nb::arg("programmatic_edge") = false,
      "exp(scale x - max) over the sum of these along the last dimension; with log the logarithm of that. Returns "
      "the output.");
  module.def("cross_entropy", &cross_entropy_function, nb::arg("x"), nb::arg("target"), nb::kw_only(),
             nb::arg("ignore_index") = -100, nb::arg("label_smoothing") = 0.0f, nb::arg("z_loss") = 0.0f,
             nb::arg("grad_scale") = 1.0f, nb::arg("factor") = nb::none(), nb::arg("gradient") = true,
             nb::arg("loss") = nb::none(), nb::arg("lse") = nb::none(), nb::arg("out") = nb::none(),
             nb::arg("recipe") = "", nb::arg("units") = 0, nb::arg("programmatic_edge") = false,
             "The loss of each row of logits x [..., N] with targets [...], and the gradient times grad_scale and "
             "factor, in out where it is given. Returns both; without gradient None for it.");
  module.def("moe_routing", &moe_routing_function, nb::arg("logits"), nb::arg("k"), nb::kw_only(),
             nb::arg("bias") = nb::none(), nb::arg("score") = "softmax", nb::arg("renormalise") = false,
             nb::arg("scale") = 1.0f, nb::arg("groups") = 1, nb::arg("topk_groups") = 1,
             nb::arg("group_score") = "two_largest", nb::arg("first_expert") = 0, nb::arg("local_experts") = 0,
             nb::arg("out") = nb::none(), nb::arg("ids") = nb::none(), nb::arg("recipe") = "", nb::arg("units") = 0,
             nb::arg("programmatic_edge") = false,
             "The k experts of each token by their logits [T, E], and their weights. Returns the weights and the ids.");
  module.def(
      "sample", &sample_function, nb::arg("logits"), nb::arg("seeds") = nb::none(), nb::kw_only(),
      nb::arg("temperature") = nb::none(), nb::arg("top_k") = nb::none(), nb::arg("top_p") = nb::none(),
      nb::arg("min_p") = nb::none(), nb::arg("offsets") = nb::none(), nb::arg("joint") = "original_mass",
      nb::arg("greedy") = false, nb::arg("out") = nb::none(), nb::arg("log_probabilities") = nb::none(),
      nb::arg("recipe") = "", nb::arg("units") = 0, nb::arg("programmatic_edge") = false,
      "The next token of each row of logits [B, V]: drawn from softmax(logits / temperature), cut by top_k, top_p "
      "and min_p, which are tensors [B]; or the most likely one. Returns the ids.");
  module.def("apply_penalties", &apply_penalties_function, nb::arg("logits"), nb::arg("prompt_tokens") = nb::none(),
             nb::arg("output_tokens") = nb::none(), nb::kw_only(), nb::arg("repetition") = nb::none(),
             nb::arg("presence") = nb::none(), nb::arg("frequency") = nb::none(), nb::arg("prompt_counts") = nb::none(),
             nb::arg("output_counts") = nb::none(), nb::arg("out") = nb::none(), nb::arg("recipe") = "",
             nb::arg("units") = 0, nb::arg("programmatic_edge") = false,
             "Logits [B, V] of tokens that prompt or output have, changed by the penalties of their rows. Returns the "
             "output; with out=logits in place.");
  module.def("top_k", &top_k_function, nb::arg("x"), nb::arg("k"), nb::kw_only(), nb::arg("lengths") = nb::none(),
             nb::arg("out") = nb::none(), nb::arg("indices") = nb::none(), nb::arg("recipe") = "", nb::arg("units") = 0,
             nb::arg("programmatic_edge") = false,
             "The k largest elements of each row of x [M, N], in order, and where they stand. Returns both.");
}

}  // namespace tilewright::python
