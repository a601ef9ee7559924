// SPDX-License-Identifier: MIT
// kv_cache_copy and kv_cache_gather: what dispatch, tools and tuner need to know of them, their public functions.
#include "tilewright/kv_cache_move.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "dispatch/context_impl.hpp"
#include "ops/kv_cache_move/families/move_families.hpp"
#include "ops/kv_cache_move/instance/move_instance.hpp"
#include "ops/op_list.hpp"

namespace tilewright {
namespace {

constexpr CacheMoveOp kCacheCopy{
    .name = "kv_cache_copy", .pairs = true, .from = "from", .to = "to", .index = "mapping"};
constexpr CacheMoveOp kCacheGather{
    .name = "kv_cache_gather", .pairs = false, .from = "cache", .to = "out", .index = "block_table"};

std::vector<std::byte> move_problem_bytes(const CacheMoveProblem& problem) {
  const ProblemRef ref = erase(problem);
  return {ref.begin(), ref.end()};
}

class CacheMoveOperator final : public Operator {
 public:
  explicit CacheMoveOperator(const CacheMoveOp& op) : op_(op) {
    owned_.push_back(make_move_cpu_family(op));
    owned_.push_back(make_move_gpu_family(op));
    owned_.push_back(make_move_generic_family(op));
    owned_.push_back(make_move_generic_gpu_family(op));
    for (const auto& family : owned_) families_.push_back(family.get());
  }

  std::string_view name() const override { return op_.name; }
  std::span<const KernelFamily* const> families() const override { return families_; }
  ProblemSignature signature(ProblemRef ref) const override {
    const auto& p = problem_cast<CacheMoveProblem>(ref);
    ProblemSignature s;
    s.core = fmt::format("x={}:out={}:scales={}", dtype_name(p.in), dtype_name(p.out),
                         kCacheScalesNames[static_cast<int>(p.scales)]);
    s.epilogue = "none";
    s.sizes = fmt::format("t={}:k={}:n={}", p.items, p.heads, p.n);
    s.bucket = fmt::format("t<={}:k={}:n={}", std::bit_ceil(static_cast<uint64_t>(std::max<int64_t>(p.items, 1))),
                           p.heads, p.n);
    return s;
  }
  std::string problem_text(ProblemRef ref) const override {
    return print_move_problem(op_, problem_cast<CacheMoveProblem>(ref));
  }
  Result<std::vector<std::byte>> parse_problem(std::string_view text) const override {
    const Result<CacheMoveProblem> problem = parse_move_problem(op_, text);
    if (!problem) return problem.status();
    return move_problem_bytes(*problem);
  }
  double operations(ProblemRef ref) const override {
    const auto& p = problem_cast<CacheMoveProblem>(ref);
    return static_cast<double>(p.items) * static_cast<double>(p.heads * p.n * (op_.pairs ? p.block_size : 1));
  }
  double bytes_moved(ProblemRef ref) const override { return move_bytes(op_, problem_cast<CacheMoveProblem>(ref)); }
  std::string dtype_text(ProblemRef ref) const override {
    const auto& p = problem_cast<CacheMoveProblem>(ref);
    const std::string in = dtype_name(p.in);
    return p.in == p.out ? in : in + ">" + dtype_name(p.out);
  }
  Result<std::unique_ptr<ProblemInstance>> instantiate(ProblemRef ref, Device& device,
                                                       const InstanceOptions& options) const override {
    return make_move_instance(op_, problem_cast<CacheMoveProblem>(ref), device, options);
  }
  // One of them and a few, of a few requests, with the rows as they are.
  std::vector<std::vector<std::byte>> tail_problems(ProblemRef ref) const override {
    std::vector<std::vector<std::byte>> tails;
    for (const int64_t items : {1, 17, 40}) {
      CacheMoveProblem p = problem_cast<CacheMoveProblem>(ref);
      p.items = items, p.from_blocks = items + 1, p.to_blocks = op_.pairs ? items + 3 : items;
      if (!op_.pairs) p.requests = items / 8 + 1, p.columns = items / std::max<int64_t>(p.block_size, 1) + 2;
      set_move_strides(op_, p, CacheLayout::kNhd);
      tails.push_back(move_problem_bytes(p));
    }
    return tails;
  }

 private:
  const CacheMoveOp& op_;
  std::vector<std::unique_ptr<KernelFamily>> owned_;
  std::vector<const KernelFamily*> families_;
};

// One call on its way.
struct MovePreparation {
  const Operator& op;
  CacheMoveProblem problem{};
  CacheMovePointers pointers{};
  OpenDevice* on = nullptr;
};
Status begin_move(Context& context, const KvCacheCopyCall& call, bool addresses, MovePreparation& to) {
  if (Status s = make_copy_problem(kCacheCopy, call, addresses, to.problem, to.pointers); !s) return s;
  const Result<OpenDevice*> on = context.impl().open_device(kCacheCopy.name, call.from.device);
  if (on) to.on = *on;
  return on.status();
}
Status begin_move(Context& context, const KvCacheGatherCall& call, bool addresses, MovePreparation& to) {
  if (Status s = make_gather_problem(kCacheGather, call, addresses, to.problem, to.pointers); !s) return s;
  const Result<OpenDevice*> on = context.impl().open_device(kCacheGather.name, call.cache.device);
  if (on) to.on = *on;
  return on.status();
}

template <class Call>
Status run_move(const Operator& op, Context& context, const Call& call, const Exec& exec) {
  MovePreparation made{op};
  if (Status s = begin_move(context, call, /*addresses=*/true, made); !s) return s;
  if (made.problem.empty()) return {};
  return context.impl().run(op, erase(made.problem), {made.pointers, {}}, exec, call.recipe, made.on);
}
template <class Call>
Status prepare_move(const Operator& op, Context& context, const Call& call, const Exec& exec) {
  MovePreparation made{op};
  if (Status s = begin_move(context, call, /*addresses=*/false, made); !s) return s;
  if (made.problem.empty()) return {};
  return context.impl()
      .plan(op, erase(made.problem), exec.units, call.recipe, /*allow_compile=*/true, /*on_new_problem=*/nullptr,
            made.on)
      .status();
}
template <class Call>
Result<QueryResult> query_move(const Operator& op, Context& context, const Call& call, const Exec& exec) {
  MovePreparation made{op};
  if (Status s = begin_move(context, call, /*addresses=*/false, made); !s) return s;
  return context.impl().query(op, erase(made.problem), exec.units, call.recipe, made.on);
}
template <class Call>
Result<std::string> explain_move(const Operator& op, Context& context, const Call& call, const Exec& exec) {
  MovePreparation made{op};
  if (Status s = begin_move(context, call, /*addresses=*/false, made); !s) return s;
  return context.impl().explain(op, erase(made.problem), exec.units, call.recipe, made.on);
}

}  // namespace

const Operator& kv_cache_copy_operator() {
  static const CacheMoveOperator kOperator(kCacheCopy);
  return kOperator;
}
const Operator& kv_cache_gather_operator() {
  static const CacheMoveOperator kOperator(kCacheGather);
  return kOperator;
}

Status kv_cache_copy(Context& context, const KvCacheCopyCall& call, const Exec& exec) {
  return run_move(kv_cache_copy_operator(), context, call, exec);
}
Status kv_cache_gather(Context& context, const KvCacheGatherCall& call, const Exec& exec) {
  return run_move(kv_cache_gather_operator(), context, call, exec);
}
Status kv_cache_copy_prepare(Context& context, const KvCacheCopyCall& call, const Exec& exec) {
  return prepare_move(kv_cache_copy_operator(), context, call, exec);
}
Status kv_cache_gather_prepare(Context& context, const KvCacheGatherCall& call, const Exec& exec) {
  return prepare_move(kv_cache_gather_operator(), context, call, exec);
}
Result<QueryResult> kv_cache_copy_query(Context& context, const KvCacheCopyCall& call, const Exec& exec) {
  return query_move(kv_cache_copy_operator(), context, call, exec);
}
Result<QueryResult> kv_cache_gather_query(Context& context, const KvCacheGatherCall& call, const Exec& exec) {
  return query_move(kv_cache_gather_operator(), context, call, exec);
}
Result<std::string> kv_cache_copy_explain(Context& context, const KvCacheCopyCall& call, const Exec& exec) {
  return explain_move(kv_cache_copy_operator(), context, call, exec);
}
Result<std::string> kv_cache_gather_explain(Context& context, const KvCacheGatherCall& call, const Exec& exec) {
  return explain_move(kv_cache_gather_operator(), context, call, exec);
}

}  // namespace tilewright
