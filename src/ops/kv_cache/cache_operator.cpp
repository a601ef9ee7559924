// SPDX-License-Identifier: MIT
#include "ops/kv_cache/cache_operator.hpp"

#include "ops/kv_cache/instance/cache_instance.hpp"

namespace tilewright {
namespace {

std::vector<std::byte> cache_problem_bytes(const CacheProblem& problem) {
  const ProblemRef ref = erase(problem);
  return {ref.begin(), ref.end()};
}

}  // namespace

CacheOperator::CacheOperator(const CacheOp& op) : op_(op) {
  owned_.push_back(make_cache_cpu_family(op));
  owned_.push_back(make_cache_gpu_family(op));
  owned_.push_back(make_cache_generic_family(op));
  owned_.push_back(make_cache_generic_gpu_family(op));
  for (const auto& family : owned_) families_.push_back(family.get());
}

Result<std::vector<std::byte>> CacheOperator::parse_problem(std::string_view text) const {
  const Result<CacheProblem> problem = parse_cache_problem(op_, text);
  if (!problem) return problem.status();
  return cache_problem_bytes(*problem);
}

// A square and its sum, two products, a turn.
double CacheOperator::operations(ProblemRef ref) const {
  const auto& p = problem_cast<CacheProblem>(ref);
  double elements = 0;
  for (const CacheHeadsProblem& h : p.heads) elements += static_cast<double>(p.tokens * h.heads * h.n);
  return elements * (1 + (p.norm ? 4 : 0) + (p.turns() ? 3 : 0));
}

std::string CacheOperator::dtype_text(ProblemRef ref) const {
  const auto& p = problem_cast<CacheProblem>(ref);
  const std::string x = dtype_name(p.x);
  return p.cache == p.x ? x : x + ">" + dtype_name(p.cache);
}

Result<std::unique_ptr<ProblemInstance>> CacheOperator::instantiate(ProblemRef ref, Device& device,
                                                                    const InstanceOptions& options) const {
  return make_cache_instance(op_, problem_cast<CacheProblem>(ref), device, options);
}

// One token and more, blocks of one and of many; caches of every layout with the heads as they are.
std::vector<std::vector<std::byte>> CacheOperator::tail_problems(ProblemRef ref) const {
  std::vector<std::vector<std::byte>> tails;
  const auto& given = problem_cast<CacheProblem>(ref);
  for (const auto& [tokens, block, layout] : {std::tuple{int64_t{1}, int64_t{1}, CacheLayout::kNhd},
                                              {17, 16, CacheLayout::kHnd},
                                              {33, 8, CacheLayout::kValueTransposed}}) {
    CacheProblem p = given;
    p.tokens = tokens, p.block_size = block, p.blocks = tokens / block + 2;
    for (int tensor = 0; tensor < kCacheTensors; ++tensor) {
      CacheHeadsProblem& h = p.heads[static_cast<size_t>(tensor)];
      if (!h.present()) continue;
      const bool queries = tensor == kCacheQueries;
      h.stride_token = h.heads * h.n, h.stride_head = h.n;
      h.out = paged_contiguous(queries ? CacheLayout::kNhd : layout, h.heads, h.n, p.block_size_of(tensor), 1);
      if (p.scales_of(tensor) == CacheScales::kToken) {
        h.scale_head = 1, h.scale_position = queries ? 0 : h.heads, h.scale_block = h.heads * p.block_size_of(tensor);
      }
    }
    p.stride_slot = p.wide_slots ? 2 : 1;
    if (p.positions) p.stride_position = p.wide_positions ? 2 : 1;
    if (p.axes() > 1) p.stride_axis = p.tokens * p.stride_position;
    tails.push_back(cache_problem_bytes(p));
  }
  return tails;
}

namespace {

struct CachePreparation {
  CacheProblem problem;
  CacheBindings bindings;
  OpenDevice* on = nullptr;
};
Status begin_cache_call(const CacheOp& op, Context& context, const CacheCall& call, bool addresses, const Exec& exec,
                        CachePreparation& to) {
  if (Status s = make_cache_problem(op, call, addresses, to.problem, to.bindings); !s) return s;
  to.problem.programmatic_edge = has_programmatic_edge(exec, call.slot_mapping.device);
  const Result<OpenDevice*> on = context.impl().open_device(op.name, call.slot_mapping.device);
  if (on) to.on = *on;
  return on.status();
}

}  // namespace

Status CacheFunctions::run(Context& context, const CacheCall& call, const std::string& recipe, const Exec& exec) const {
  CachePreparation made;
  if (Status s = begin_cache_call(cache, context, call, /*addresses=*/true, exec, made); !s) return s;
  if (made.problem.empty()) return {};
  return context.impl().run(op, erase(made.problem), {made.bindings.pointers, made.bindings.scalars}, exec, recipe,
                            made.on);
}

Status CacheFunctions::prepare(Context& context, const CacheCall& call, const std::string& recipe,
                               const Exec& exec) const {
  CachePreparation made;
  if (Status s = begin_cache_call(cache, context, call, /*addresses=*/false, exec, made); !s) return s;
  if (made.problem.empty()) return {};
  const Result<std::shared_ptr<const Plan>> plan =
      context.impl().plan(op, erase(made.problem), exec.units, recipe, /*allow_compile=*/true,
                          /*on_new_problem=*/nullptr, made.on);
  return plan.status();
}

Result<QueryResult> CacheFunctions::query(Context& context, const CacheCall& call, const std::string& recipe,
                                          const Exec& exec) const {
  CachePreparation made;
  if (Status s = begin_cache_call(cache, context, call, /*addresses=*/false, exec, made); !s) return s;
  return context.impl().query(op, erase(made.problem), exec.units, recipe, made.on);
}

Result<std::string> CacheFunctions::explain(Context& context, const CacheCall& call, const std::string& recipe,
                                            const Exec& exec) const {
  CachePreparation made;
  if (Status s = begin_cache_call(cache, context, call, /*addresses=*/false, exec, made); !s) return s;
  return context.impl().explain(op, erase(made.problem), exec.units, recipe, made.on);
}

}  // namespace tilewright
