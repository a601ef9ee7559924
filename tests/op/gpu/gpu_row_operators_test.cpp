// SPDX-License-Identifier: MIT
// Operators that move bytes on a GPU, from their problems' text through dispatch: kernels chosen for a problem and those typed at run
// time give right results, also when a captured graph runs them again on other data.
#include "dispatch/context_impl.hpp"
#include "dispatch/problem_instance.hpp"
#include "op/gpu/gpu_test.hpp"
#include "ops/op_list.hpp"

namespace tilewright {
namespace {

// "<operator> <problem>", as `tilewright verify --problem` takes it. Rows that are whole pieces, and that are not, short ones, and
// such as no block keeps in registers.
constexpr const char* kProblems[] = {
    "rms_norm m=37:n=4096:x=bf16:residual=bf16:weight=bf16",
    "rms_norm m=3x5:n=1001:x=f16:weight=f32:bias=f16:unit_offset=1",
    "rms_norm m=3:n=40000:x=bf16:weight=bf16:out=i8:quant=row",
    "rms_norm m=9:n=7168:x=bf16:residual=bf16:weight=bf16:out=e4m3:quant=group",
    "layer_norm m=21:n=8192:x=bf16:weight=bf16:bias=bf16",
    "layer_norm m=21:n=7168:x=bf16:weight=bf16:bias=bf16",
    "softmax m=300:n=5120:x=f32",
    "layer_norm m=2:n=100001:x=f32:weight=f32:bias=f32",
    "rms_norm_backward m=700:n=4096:x=bf16:residual=bf16:weight=bf16:dweight=bf16:dresidual=1",
    "layer_norm_backward m=900:n=7168:x=bf16:residual=bf16:weight=bf16:dweight=bf16:dbias=bf16",
    "layer_norm_backward m=1500:n=768:x=f16:residual=f16:weight=f16:dweight=f32:dbias=f32:dresidual=1",
    "rms_norm_backward m=9:n=20000:x=f32:residual=f32:weight=f32:dweight=f32:unit_offset=1",
    "layer_norm_backward m=900:n=1001:x=f16:residual=f16:weight=f32:dweight=f32:dbias=f32",
    "layer_norm_backward m=3000:n=72:x=f32:residual=f32:weight=f32:dweight=f32:dbias=f32:dresidual=1",
    "act_and_mul_backward m=33:n=4096:x=bf16:residual=bf16:gate=separated:activation=silu",
    "act_and_mul_backward m=9:n=1501:x=f32:residual=f32:gate=interleaved:activation=gelu",
    "gated_rms_norm m=12:n=512:x=bf16:residual=bf16:weight=bf16:weight_groups=4",
    "act_and_mul m=33:n=4096:x=bf16:gate=separated:activation=silu",
    "act_and_mul m=33:n=14336:x=bf16:gate=separated:activation=silu",
    "act_and_mul m=9:n=1501:x=f32:gate=interleaved:activation=gelu",
    "elementwise m=4x3:n=512:x=bf16:residual=bf16:arithmetic=add:sr=0.512.0",
    "elementwise m=300:n=520:x=bf16:out=e4m3",
    "rope m=2x30x5:n=128:x=bf16:residual=bf16:heads=4:positions=1",
    "rope m=2x30x6:n=128:x=bf16:residual=bf16:heads=4:sections=16.24.24",
    "rope m=1x30x6:n=128:x=bf16:residual=bf16:heads=4:sections=24.20.20:order=interleaved:interleaved=1",
    "rope m=1x30x5:n=96:x=f32:sections=16.20.12:order=parts",
    "rope m=1x77x6:n=128:x=bf16:residual=bf16:heads=4:sequences=5:offsets=1",
    "group_norm n=2:c=80:s=4104:g=8:x=bf16:weight=bf16:bias=f32:activation=silu",
    "group_norm n=2:c=320:s=1024:g=32:x=bf16:weight=bf16:bias=bf16:activation=silu:channels_last=1",
    "group_norm n=3:c=7:s=77:g=7:x=f32:weight=f32:in_place=1",
    "group_norm n=2:c=66:s=33:g=22:x=f16:channels_last=1",
    "group_norm_backward n=2:c=80:s=4104:g=8:x=bf16:weight=bf16:bias=f32:activation=silu:dweight=f32:dbias=f32",
    "group_norm_backward n=2:c=320:s=1024:g=32:x=bf16:weight=bf16:dweight=bf16:dbias=bf16:channels_last=1",
    "group_norm_backward n=3:c=7:s=77:g=7:x=f32:in_place=2",
    "transpose b=3:m=200:n=144:x=bf16",
    "transpose m=1000:n=36:x=f32",
    "transpose b=2:m=144:n=400:x=i8",
    "transpose m=77:n=131:x=f16",
    "apply_penalties b=5:v=128256:x=f32:prompt=700:output=300:repetition=1:presence=1:frequency=1:in_place=1",
    "apply_penalties b=3:v=9001:x=bf16:output=90:output_counts=1:repetition=1:frequency=1",
    "apply_penalties b=3:v=40001:x=f32:prompt_counts=1:output_counts=1:presence=1:in_place=1",
    "quantize m=64:n=4096:x=bf16:out=e4m3:quant=group",
    "quantize m=33:n=3000:x=f32:out=i8:quant=dynamic",
    "quantize m=9:n=1001:x=f16:out=e2m1:quant=group:scale=e8m0",
    "quantize m=2x300:n=1032:x=bf16:out=e4m3:quant=block",
    "quantize m=33:n=1001:x=f32:out=i8:quant=block:smooth=f32",
    "quantize m=129:n=4096:x=bf16:out=e4m3:quant=group:hadamard=128",
    "quantize m=33:n=14336:x=bf16:out=i8:quant=row:hadamard=64",
    "quantize m=65:n=4096:x=bf16:out=e2m1:quant=group:scale=e4m3:tensor_scale=found:hadamard=16:state_words=2",
    "quantize m=2x300:n=1024:x=bf16:out=e4m3:quant=block:hadamard=32:state_words=2",
    "quantize m=33:n=3001:x=f32:out=e5m2:quant=dynamic:state_words=2",
    "quantize m=65:n=4096:x=bf16:out=e2m1:quant=group:scale=e4m3:tensor_scale=found",
    "rms_norm m=9:n=7168:x=bf16:weight=bf16:out=e2m1:quant=group:scale=e4m3:tensor_scale=given",
    "dequantize m=33:n=4096:x=e4m3:out=bf16:quant=group",
    "dequantize m=300:n=1032:x=e4m3:out=bf16:quant=block",
    "dequantize m=33:n=4096:x=e2m1:out=bf16:quant=group:scale=e4m3:tensor_scale=given",
    "softmax m=300:n=4096:x=bf16",
    "softmax m=3:n=128256:x=bf16:out=f32",
    "softmax m=2:n=20001:x=f32:log=1",
    "softmax m=1:n=300000:x=f16",
    "cross_entropy m=17:n=32000:x=bf16:lse=1:factor=1",
    "cross_entropy m=3:n=151936:x=f32",
    "moe_routing t=300:e=256:k=8:x=bf16",
    "moe_routing t=77:e=256:k=8:x=f32:score=sigmoid:bias=f32:groups=8:topk_groups=4:renormalise=1",
    "sample b=7:v=128256:x=f32:temperature=1:top_p=1",
    "sample b=3:v=50000:x=bf16:temperature=1:top_k=1:top_p=1:min_p=1:log_probabilities=1",
    "sample b=2:v=262144:x=f32:top_p=1",  // more at the cut than a block gathers
    "sample b=5:v=32000:x=f32:top_k=1:top_p=1:joint=top_k_first",
    "sample b=9:v=9001:x=f16:greedy=1",
    "sample b=40:v=70000:x=bf16:temperature=1:top_k=1",  // more chunks than blocks run at a time
    "top_k m=5:n=128256:k=64:x=f32",
    "top_k m=3:n=40001:k=2048:x=bf16:lengths=1",
    "top_k m=7:n=300:k=300:x=f32",
    "top_k m=9:n=150001:k=2048:x=f32:lengths=1",
    "top_k m=300:n=40000:k=900:x=bf16",
    "top_k m=9:n=40000:k=1:x=bf16",
    "top_k m=9:n=40000:k=128:x=f32:lengths=1",
    "top_k m=70:n=256:k=8:x=f16:lengths=1",
    "top_k m=3:n=262145:k=20:x=f32",  // more chunks than lists of few best are made for
    "kv_cache_write t=37:k=8:n=128:x=bf16:wide_slots=1",
    "kv_cache_write t=21:k=4:n=64:x=bf16:cache=e4m3:scales=token:klayout=key_packed:vlayout=value_packed",
    "qk_norm_rope_cache t=19:q=8:k=4:n=128:x=bf16:weight=bf16:table=f32:positions=1",
    "qk_norm_rope_cache t=19:q=8:k=4:n=128:x=bf16:weight=bf16:table=f32:sections=24.20.20:order=interleaved",
    "kv_cache_copy t=19:k=3:n=64:block=4:x=bf16",
    "kv_cache_copy t=700:k=2:n=8:x=bf16:layout=hnd",
    "kv_cache_gather t=50:b=4:k=3:n=64:x=e4m3:out=bf16:block=8",
};

class GpuRowOperators : public test::GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (device == nullptr) return;
    ContextOptions options;
    options.user_tables = false;
    context_ = std::move(*Context::create(options));
    const Status selected = context_->impl().select_device({DeviceKind::kCuda, 0});
    ASSERT_TRUE(selected.ok()) << selected.message();
  }
  ContextImpl& impl() { return context_->impl(); }

  struct Asked {
    const Operator* op;
    std::vector<std::byte> problem;
    std::unique_ptr<ProblemInstance> instance;
  };
  Asked ask(const std::string& line) {
    const size_t space = line.find(' ');
    for (const Operator* op : all_operators()) {
      if (op->name() != line.substr(0, space)) continue;
      const Result<std::vector<std::byte>> problem = op->parse_problem(line.substr(space + 1));
      EXPECT_TRUE(problem.ok()) << problem.status().message();
      if (!problem) return {};
      auto instance = op->instantiate(*problem, impl().device(), {});
      EXPECT_TRUE(instance.ok()) << instance.status().message();
      return {op, *problem, instance ? std::move(*instance) : nullptr};
    }
    ADD_FAILURE() << "no such operator: " << line;
    return {};
  }
  void expect_right(ProblemInstance& instance) {
    ASSERT_TRUE(impl().device().synchronize().ok());
    const VerifyReport report = instance.verify();
    EXPECT_TRUE(report.passed) << report.failure;
  }

 private:
  std::unique_ptr<Context> context_;
};

TEST_F(GpuRowOperators, EachIsRightAndSoIsItsGraphOnOtherData) {
  const test::GpuStream stream(0);
  for (const char* line : kProblems) {
    SCOPED_TRACE(line);
    Asked asked = ask(line);
    ASSERT_NE(asked.instance, nullptr);
    ProblemInstance& instance = *asked.instance;
    instance.fill(1, InputData::kNormal);
    instance.poison();
    const Status run = impl().run(*asked.op, asked.problem, instance.bindings(), {}, "");
    ASSERT_TRUE(run.ok()) << run.message();
    expect_right(instance);

    test::GpuGraph graph(stream);
    const Status launched = impl().run(*asked.op, asked.problem, instance.bindings(), {.stream = stream.get()}, "");
    ASSERT_TRUE(launched.ok()) << launched.message();
    const Status captured = graph.end();
    ASSERT_TRUE(captured.ok()) << captured.message();
    for (const uint64_t seed : {2, 3}) {
      SCOPED_TRACE(seed);
      instance.fill(seed, InputData::kNormal);
      instance.poison();
      ASSERT_TRUE(graph.replay());
      expect_right(instance);
    }
  }
}

TEST_F(GpuRowOperators, KernelsTypedAtRunTimeAreRight) {
  for (const char* line : kProblems) {
    SCOPED_TRACE(line);
    Asked asked = ask(line);
    ASSERT_NE(asked.instance, nullptr);
    const KernelFamily* const family =
        find_family(asked.op->families(), std::string(asked.op->name()) + "_generic_gpu");
    ASSERT_NE(family, nullptr);
    const RecipeStep step = family->candidates(asked.problem, device->spec()).front().step;
    asked.instance->fill(4, InputData::kNormal);
    asked.instance->poison();
    const Status run = impl().run(*asked.op, asked.problem, asked.instance->bindings(), {}, step.key.text);
    ASSERT_TRUE(run.ok()) << run.message();
    expect_right(*asked.instance);
  }
}

}  // namespace
}  // namespace tilewright
