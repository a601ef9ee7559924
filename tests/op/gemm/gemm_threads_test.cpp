// SPDX-License-Identifier: MIT
// One context used by many threads at once, and by a child after a fork. Inputs are small integers, so that every kernel's
// result is the reference, bit for bit.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <barrier>
#include <cstring>
#include <filesystem>
#include <functional>
#include <mutex>
#include <thread>

#include "dispatch/context_impl.hpp"
#include "ops/op_list.hpp"
#include "support/sanitizer.hpp"
#include "tilewright/dtype.hpp"
#include "tilewright/gemm.hpp"

namespace tilewright {
namespace {

constexpr int kThreads = 32;

std::unique_ptr<Context> make_context(const std::string& jit, const std::string& cache_dir = "") {
  ContextOptions options;
  options.jit = jit;
  options.cache_dir = cache_dir;
  options.user_tables = false;
  options.cpu_units = 2;
  Result<std::unique_ptr<Context>> context = Context::create(options);
  EXPECT_TRUE(context.ok()) << context.status().to_string();
  return std::move(*context);
}

// Memory that a view is made of. Values are 0, 1, 2 and for inputs with a sign -1, -2.
class Memory {
 public:
  TensorView tensor(DType dtype, std::initializer_list<int64_t> shape, int salt) {
    TensorView view = TensorView::contiguous(nullptr, dtype, shape);
    const int64_t count = view.numel();
    view.data = room(static_cast<size_t>(count) * static_cast<size_t>(dtype_bits(dtype)) / 8);
    for (int64_t i = 0; i < count; ++i) {
      store_element(dtype, view.data, i, static_cast<double>((i * 7 + i / 11 + salt) % 5 - 2));
    }
    return view;
  }
  void* room(size_t bytes) {
    // 64 bytes more than asked for, to align.
    blocks_.push_back(std::make_unique<unsigned char[]>(bytes + 64));
    unsigned char* data = blocks_.back().get();
    return data + (64 - reinterpret_cast<uintptr_t>(data) % 64) % 64;
  }

 private:
  std::vector<std::unique_ptr<unsigned char[]>> blocks_;
};

// A call, its result by the reference, and for packed weights the plain ones.
struct Work {
  GemmCall call;
  std::vector<unsigned char> want;
  TensorView plain_b;
};

size_t bytes_of(const TensorView& view) {
  return static_cast<size_t>(view.numel()) * static_cast<size_t>(dtype_bits(view.dtype)) / 8;
}

// Packed weights, gates, batches, scales, one row: each takes another path.
std::vector<Work> make_work(Context& context, Memory& memory) {
  std::vector<Work> all;
  const auto add = [&](const GemmCall& call, bool packed) {
    Work work{call, {}, call.b};
    work.want.resize(bytes_of(call.d));
    work.call.d.data = work.want.data();
    EXPECT_TRUE(gemm_reference(work.call).ok());
    if (packed) {
      const int64_t bytes = *gemm_packed_bytes(call.b.dtype, call.b.shape[1], call.b.shape[0]);
      void* out = memory.room(static_cast<size_t>(bytes));
      EXPECT_TRUE(gemm_pack_weights(context, call.b, out, bytes).ok());
      work.call.b = *gemm_packed_view(out, bytes);
    }
    all.push_back(std::move(work));
  };
  const auto call = [&](DType dtype, int64_t m, int64_t n, int64_t k) {
    GemmCall made;
    made.a = memory.tensor(dtype, {m, k}, 1);
    made.b = memory.tensor(dtype, {k, n}, 2);
    made.d = TensorView::contiguous(nullptr, DType::kF32, {m, n});
    return made;
  };
  GemmCall c = call(DType::kF32, 40, 30, 80);
  add(c, false);
  c.activation = Activation::kRelu;
  c.bias = memory.tensor(DType::kF32, {30}, 3);
  add(c, false);
  c = call(DType::kBf16, 17, 50, 64);
  c.d.dtype = DType::kBf16;
  add(c, true);
  c = call(DType::kF16, 1, 257, 33);
  add(c, false);
  c = call(DType::kI8, 5, 64, 96);
  c.scale_a = memory.tensor(DType::kF32, {5, 1}, 4);
  c.scale_b = memory.tensor(DType::kF32, {64}, 5);
  add(c, true);
  c = call(DType::kBf16, 33, 64, 40);
  c.gate = GateMode::kSeparated;
  c.activation = Activation::kRelu;
  c.d = TensorView::contiguous(nullptr, DType::kF32, {33, 32});
  add(c, true);
  c = GemmCall();
  c.a = memory.tensor(DType::kF32, {3, 9, 20}, 1);
  c.b = memory.tensor(DType::kF32, {3, 20, 35}, 2);
  c.d = TensorView::contiguous(nullptr, DType::kF32, {3, 9, 35});
  add(c, false);
  return all;
}

// "" or what is wrong.
std::string run(Context& context, const Work& work, const Exec& exec) {
  std::vector<unsigned char> out(work.want.size(), 0xFF);
  GemmCall call = work.call;
  call.d.data = out.data();
  if (const Status status = gemm(context, call, exec); !status.ok()) return status.to_string();
  return out == work.want ? "" : "another result than the reference";
}

// What is there besides gemm itself, one of them a turn.
std::string run_beside(Context& context, const Work& work, int turn) {
  switch (turn % 6) {
    case 0: return gemm_prepare(context, work.call).to_string();
    case 1: return gemm_query(context, work.call).status().to_string();
    case 2: return gemm_explain(context, work.call).status().to_string();
    case 3: {
      // Every thread packs the weight that the others multiply by.
      if (work.call.b.layout != Layout::kPackedGemmB) return "ok";
      Memory memory;
      const int64_t bytes = *gemm_packed_bytes(work.plain_b.dtype, work.plain_b.shape[1], work.plain_b.shape[0]);
      void* out = memory.room(static_cast<size_t>(bytes));
      const Status status = gemm_pack_weights(context, work.plain_b, out, bytes);
      if (!status.ok()) return status.to_string();
      const TensorView mine = *gemm_packed_view(out, bytes);
      const size_t panels = static_cast<size_t>(bytes) - sizeof(GemmPackedHeader);
      return std::memcmp(mine.data, work.call.b.data, panels) == 0 ? "ok" : "packed otherwise";
    }
    case 4: return context.tables_digest().empty() ? "no digest" : "ok";
    default: return context.counters().empty() ? "no counters" : "ok";
  }
}

// body(thread) on 32 threads that begin together; the first thing that was wrong.
std::string on_threads(const std::function<std::string(int)>& body) {
  std::barrier start(kThreads);
  std::mutex mutex;
  std::string wrong;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      start.arrive_and_wait();
      const std::string mine = body(t);
      const std::lock_guard lock(mutex);
      if (wrong.empty()) wrong = mine;
    });
  }
  for (std::thread& thread : threads) thread.join();
  return wrong;
}

TEST(GemmThreads, ThirtyTwoThreadsUseEveryFunctionOfOneContextAtOnce) {
  const std::unique_ptr<Context> context = make_context("off");
  Memory memory;
  const std::vector<Work> all = make_work(*context, memory);
  const std::function<void(uint32_t, const std::function<void(uint32_t)>&)> backwards =
      [](uint32_t count, const std::function<void(uint32_t)>& body) {
        for (uint32_t i = count; i-- > 0;) body(i);
      };
  const std::string wrong = on_threads([&](int t) -> std::string {
    for (int i = 0; i < 42; ++i) {
      // Every thread begins with the same problem: its first calls race.
      const Work& work = all[static_cast<size_t>(i == 0 ? 0 : t + i) % all.size()];
      Exec exec;
      exec.units = t % 3;
      if (t % 5 == 4) exec.parallel_for = &backwards;
      if (std::string mine = run(*context, work, exec); !mine.empty()) return fmt::format("problem {}: {}", i, mine);
      if (std::string beside = run_beside(*context, work, t + i); beside != "ok") return beside;
      // Tables may be replaced under everybody's feet: every plan is made anew.
      if (t == 0 && i % 10 == 9) context->impl().set_tables(TunedTable());
    }
    return "";
  });
  EXPECT_EQ(wrong, "");
}

TEST(GemmThreads, ACallFromInsideACallLeavesTheOuterOnesPlanAlone) {
  const std::unique_ptr<Context> context = make_context("off");
  Memory memory;
  const std::vector<Work> all = make_work(*context, memory);
  std::string wrong;
  // Every unit of the outer call first runs every other problem, twice: their plans take the places of recent ones.
  const std::function<void(uint32_t, const std::function<void(uint32_t)>&)> busy =
      [&](uint32_t count, const std::function<void(uint32_t)>& body) {
        for (uint32_t i = 0; i < count; ++i) {
          for (size_t j = 0; j < 2 * all.size() && wrong.empty(); ++j)
            wrong = run(*context, all[j % all.size()], Exec());
          context->impl().set_tables(TunedTable());
          body(i);
        }
      };
  Exec exec;
  exec.parallel_for = &busy;
  for (const Work& work : all) {
    ASSERT_EQ(run(*context, work, exec), "");
    ASSERT_EQ(run(*context, work, exec), "") << "a known problem";
    ASSERT_EQ(wrong, "");
  }
}

TEST(GemmThreads, FirstCallsOfOneKernelRaceAndItIsCompiledOnce) {
  if (!host_compiler().available().ok()) GTEST_SKIP() << host_compiler().available().to_string();
  const std::filesystem::path root =
      std::filesystem::temp_directory_path() / fmt::format("tilewright_threads_{}", getpid());
  {
    const std::unique_ptr<Context> context = make_context("on", root.string());
    Memory memory;
    Work work = make_work(*context, memory).front();
    // A kernel that is not always built.
    ContextImpl& impl = context->impl();
    const Operator& op = gemm_operator();
    const auto problem = *op.parse_problem("m=40:n=30:k=80:a=f32:layout=rrr");
    const auto choices = *impl.dispatcher().choices(op, problem, impl.spec(0), *impl.tables(), "", nullptr);
    for (const Choice& choice : choices) {
      if (choice.built || impl.dispatcher().built(op, choice.recipe)) continue;
      work.call.options.recipe = print_recipe(op.families(), choice.recipe);
      break;
    }
    if (work.call.options.recipe.empty()) {
      GTEST_SKIP() << "every kernel for " << impl.spec(0).arch->target << " is always built";
    }
    EXPECT_EQ(on_threads([&](int) { return run(*context, work, {}); }), "") << work.call.options.recipe;
    EXPECT_EQ(snapshot(impl.counters()).compiles, 1u) << work.call.options.recipe;
  }
  std::filesystem::remove_all(root);
}

// Runs `body` in a forked child; its message, or what became of the child.
std::string in_child(const std::function<std::string()>& body) {
  int ends[2];
  if (pipe(ends) != 0) return "no pipe";
  const pid_t child = fork();
  if (child == 0) {
    alarm(60);  // a hang ends the child, and the test says so
    const std::string wrong = body();
    const bool told = wrong.empty() || write(ends[1], wrong.data(), wrong.size()) > 0;
    _exit(wrong.empty() && told ? 0 : 1);
  }
  close(ends[1]);
  std::string wrong;
  char text[512];
  for (ssize_t got; (got = read(ends[0], text, sizeof(text))) > 0;) wrong.append(text, static_cast<size_t>(got));
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  if (WIFSIGNALED(status)) return fmt::format("the child ended by signal {}; {}", WTERMSIG(status), wrong);
  return WEXITSTATUS(status) == 0 ? "" : wrong.empty() ? "the child failed" : wrong;
}

TEST(GemmThreads, AChildForkedAfterUseComputesWithThreadsOfItsOwn) {
  if (test::kThreadSanitizer) GTEST_SKIP() << test::kNoForkReason;
  const std::unique_ptr<Context> context = make_context("off");
  Memory memory;
  const std::vector<Work> all = make_work(*context, memory);
  // The parent's pool has run, and half of the problems have a plan.
  for (size_t i = 0; i < all.size() / 2; ++i) ASSERT_EQ(run(*context, all[i], {}), "") << i;
  const auto every = [&]() -> std::string {
    for (size_t i = 0; i < all.size(); ++i) {
      if (std::string wrong = run(*context, all[i], {}); !wrong.empty()) return fmt::format("problem {}: {}", i, wrong);
      if (std::string wrong = run_beside(*context, all[i], static_cast<int>(i)); wrong != "ok") return wrong;
    }
    return "";
  };
  EXPECT_EQ(in_child(every), "");
  EXPECT_EQ(every(), "") << "the parent, after its child has ended";
  // A child of a child, and a child that uses threads of its own.
  EXPECT_EQ(in_child([&] { return in_child(every); }), "");
  EXPECT_EQ(in_child([&] { return on_threads([&](int) { return every(); }); }), "");
}

}  // namespace
}  // namespace tilewright
