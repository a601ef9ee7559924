// SPDX-License-Identifier: MIT
// Kernel keys, recipes, problems and pipe records as text. What parses is also asked about: sizes at the ends of their
// range must be refused in words.
#include <memory>

#include "dispatch/context_impl.hpp"
#include "fuzz/fuzz_target.hpp"
#include "jit/system/record.hpp"
#include "ops/gemm/problem/gemm_problem.hpp"
#include "ops/op_list.hpp"

namespace tilewright::fuzz {
namespace {

ContextImpl& context() {
  static const std::unique_ptr<Context> kContext = [] {
    ContextOptions options;
    options.jit = "off";
    options.user_tables = false;
    options.cpu_units = 2;
    return std::move(*Context::create(options));
  }();
  return kContext->impl();
}

void run_problem(std::string_view text) {
  const Operator& op = gemm_operator();
  const Result<GemmProblem> problem = parse_gemm_problem(text);
  if (!problem) {
    require(!problem.status().message().empty(), "a refusal has a reason");
    return;
  }
  const std::string printed = print_gemm_problem(*problem);
  const Result<GemmProblem> again = parse_gemm_problem(printed);
  require(again.ok() && print_gemm_problem(*again) == printed, "a problem prints and parses to itself: " + printed);
  const ProblemRef ref = erase(*problem);
  const Result<QueryResult> query = context().query(op, ref, 0, "");
  require(!query.ok() || !query->recipe.empty(), "an answer names a recipe");
  (void)context().explain(op, ref, 0, "");
  (void)op.operations(ref);
  (void)op.bytes_moved(ref);
  (void)op.signature(ref);
}

void run_recipe(std::string_view text) {
  static const std::vector<std::byte> problem = *gemm_operator().parse_problem("m=5:n=40:k=70:a=f32");
  const Result<Recipe> recipe = parse_recipe(gemm_operator().families(), text);
  (void)context().query(gemm_operator(), problem, 0, text);
  if (!recipe) return;
  const std::string printed = print_recipe(gemm_operator().families(), *recipe);
  const Result<Recipe> again = parse_recipe(gemm_operator().families(), printed);
  require(again.ok() && *again == *recipe, "a recipe prints and parses to itself: " + printed);
}

}  // namespace

std::vector<std::string> text_seeds() {
  std::vector<std::string> seeds = {
      "gemm/gemm_cpu/x86-64-v4-amx/dtype=bf16/mma=amx_bf16:tile_m=32:tile_n=32:prefetch=0",
      "m=16:n=4096:k=4096:a=bf16:packed=1:bias=bf16:act=gelu",
      "m=9:n=33:k=40:sa=0.-40.1:sb=0.1.-40:sd=0.-33.1:batch=2:gate=separated:act=clamp",
      "m=3:n=40:k=300:a=bf16:b=u4:scale_b=f16.1x128:zero_b=u4.0.1.40:align=16.2.16.16.16.16.1.4",
      "m=9223372036854775807:n=4611686018427387904:k=2:a=i8:scale_a=f32:scale_b=f32",
      "verify\tproblem=a\\tb\tunits=3\tseconds=1e300"};
  const std::vector<std::byte> problem = *gemm_operator().parse_problem("m=5:n=40:k=70:a=f32");
  const auto choices =
      context().dispatcher().choices(gemm_operator(), problem, context().spec(0), TunedTable(), "", nullptr);
  for (const Choice& choice : *choices) seeds.push_back(print_recipe(gemm_operator().families(), choice.recipe));
  return seeds;
}

void run_texts(std::string_view input) {
  if (const Result<KernelKey> key = parse_key(input); key.ok()) {
    const Result<KernelKey> again = parse_key(key->text);
    require(again.ok() && *again == *key && key->text == input, "a key prints and parses to itself");
    require(!key->op.empty() && !key->family.empty() && !key->target.empty(), "a key names its parts");
  }
  if (const Result<Record> record = Record::parse(input); record.ok()) {
    const Result<Record> again = Record::parse(record->line());
    require(again.ok() && again->line() == record->line(), "a record prints and parses to itself");
  }
  run_recipe(input);
  run_problem(input);
}

}  // namespace tilewright::fuzz
