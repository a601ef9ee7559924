// SPDX-License-Identifier: MIT
// Row operators on every emulated AMD GPU, through dispatch: rows in registers and read again, every quantiser, tails.
// Their source tells targets by the width of a wave alone, so the problems of a test take turns: its first runs on every
// target, each other one on one target with waves of 64 lanes and one with waves of 32.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "device/emu/emu_device.hpp"
#include "dispatch/context_impl.hpp"
#include "dispatch/problem_instance.hpp"
#include "ops/op_list.hpp"
#include "support/sanitizer.hpp"

namespace tilewright {
namespace {

class SlowAmdRowOperators : public testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    if (test::kThreadSanitizer) GTEST_SKIP() << "ThreadSanitizer cannot follow fibers";
    ContextOptions options;
    options.user_tables = false;
    context_ = std::move(*Context::create(options));
    const Status selected = context_->impl().select_device({DeviceKind::kEmulated, GetParam()});
    if (!selected) GTEST_SKIP() << selected.message();
  }

  void check(const Operator& op, const std::string& text, const std::string& family = "",
             InputData data = InputData::kNormal) {
    if (!has_turn(op, text)) return;
    ContextImpl& impl = context_->impl();
    const Result<std::vector<std::byte>> problem = op.parse_problem(text);
    ASSERT_TRUE(problem.ok()) << problem.status().to_string();
    auto instance = op.instantiate(*problem, impl.device(), {});
    ASSERT_TRUE(instance.ok()) << instance.status().to_string();
    (*instance)->fill(3, data);
    (*instance)->poison();
    std::string recipe;
    if (!family.empty()) {
      const KernelFamily* found = find_family(op.families(), family);
      ASSERT_NE(found, nullptr);
      recipe = found->candidates(*problem, impl.spec(0)).front().step.key.text;
    }
    const Status status = impl.run(op, *problem, (*instance)->bindings(), {}, recipe);
    ASSERT_TRUE(status.ok()) << text << ": " << status.to_string();
    const VerifyReport report = (*instance)->verify();
    EXPECT_TRUE(report.passed) << text << ": " << report.failure;
  }

  void check_norm(const Operator& op) {
    // 96 threads of 768 elements: a wave of 64 lanes has parts of two rows.
    for (const char* rows : {"m=3:n=2048", "m=2:n=2047", "m=4x3:n=1500:sx=0.15000.1502:so=0.1500.6000", "m=5:n=768"}) {
      check(op, std::string(rows) + ":x=bf16:weight=bf16:residual=bf16");
    }
    for (const char* text : {"m=19:n=100:x=f16:weight=f32:bias=f16:unit_offset=1", "m=2:n=16500:x=f32:weight=f32",
                             "m=3:n=2048:x=bf16:weight=bf16:residual=bf16:unaligned=1",
                             "m=3:n=1000:x=bf16:out=e4m3:quant=group", "m=3:n=300:x=bf16:out=i8:quant=row:smooth=f32",
                             "m=2:n=330:x=bf16:out=e2m1:quant=group:scale=e8m0:weight=bf16",
                             "m=2:n=330:x=bf16:out=e2m1:quant=group:scale=e4m3:tensor_scale=given"}) {
      check(op, text);
    }
  }
  void check_generic_norm(const Operator& op) {
    for (const char* text :
         {"m=5:n=77:x=f32:residual=bf16:weight=f16:round_before_weight=1",
          "m=2:n=2100:x=f16:out=bf16:residual=f16:residual_out=0", "m=3:n=300:x=bf16:out=e5m2:quant=tensor",
          "m=3:n=300:x=bf16:out=e4m3fnuz:quant=group:group=64",
          "m=3:n=301:x=f32:out=e2m1:quant=group:scale=e8m0:rounding=up", "m=3:n=129:x=f32:out=i8:quant=row"}) {
      check(op, text, fmt::format("{}_generic_gpu", op.name()));
    }
  }

 private:
  // Whether this target runs the problem; a problem that comes again, with other data, has the turn that it had.
  bool has_turn(const Operator& op, const std::string& text) {
    if (op.name() != last_operator_) problems_ = 0;
    if (op.name() != last_operator_ || text != last_problem_) ++problems_;
    last_operator_ = op.name();
    last_problem_ = text;
    const bool wide = GetParam() < kWideTargets;
    const int peers = wide ? kWideTargets : kTargets - kWideTargets;
    return problems_ == 1 || problems_ % peers == GetParam() % peers;
  }

  static constexpr int kTargets = static_cast<int>(std::size(kEmulatedTargets));
  static constexpr int kWideTargets = 3;  // those of CDNA come first
  std::unique_ptr<Context> context_;
  std::string last_operator_, last_problem_;
  int problems_ = 0;
};

// Sizes share kernels: each is compiled once.
TEST_P(SlowAmdRowOperators, NormsMatchTheReferenceWithoutAFault) {
  for (const Operator* op : {&rms_norm_operator(), &layer_norm_operator()}) check_norm(*op);
}

TEST_P(SlowAmdRowOperators, TheKernelTypedAtRunTimeServesEveryType) {
  for (const Operator* op : {&rms_norm_operator(), &layer_norm_operator()}) check_generic_norm(*op);
}

TEST_P(SlowAmdRowOperators, ActAndMulMatchesTheReferenceWithoutAFault) {
  const Operator& op = act_and_mul_operator();
  for (const char* text :
       {"m=3:n=2048:x=bf16:gate=separated:activation=silu", "m=2:n=2047:x=bf16:gate=interleaved:activation=gelu",
        "m=4x3:n=1500:x=bf16:gate=separated:activation=gelu_tanh:sx=0.30000.3002:so=0.1500.6000",
        "m=19:n=100:x=f16:activation=relu:squared=1", "m=2:n=16500:x=f32:gate=separated:activation=tanh",
        "m=3:n=1000:x=bf16:out=e4m3:quant=group:gate=separated:activation=silu",
        "m=2:n=330:x=bf16:out=e2m1:quant=group:scale=e8m0:gate=interleaved:activation=silu"}) {
    check(op, text);
  }
  for (const char* text : {"m=5:n=77:x=f32:out=f16:gate=separated:activation=sigmoid",
                           "m=3:n=301:x=f16:out=i8:quant=row:gate=interleaved:activation=hardswish"}) {
    check(op, text, "act_and_mul_generic_gpu");
  }
}

TEST_P(SlowAmdRowOperators, GradientsOfNormsMatchTheReferenceWithoutAFault) {
  for (const Operator* op : {&rms_norm_backward_operator(), &layer_norm_backward_operator()}) {
    for (const char* text :
         {"m=9:n=2048:x=bf16:residual=bf16:weight=bf16:dweight=bf16:dbias=f32:dresidual=1",
          "m=7:n=768:x=bf16:residual=bf16:weight=bf16:dweight=bf16:dbias=f32",
          "m=5:n=2047:x=bf16:residual=bf16:weight=f32:dweight=f32",
          "m=70:n=100:x=f16:residual=f16:weight=f16:dbias=f16:unit_offset=1",
          "m=4x3:n=300:x=f32:residual=f32:weight=f32:dweight=f32:dresidual=1:sx=0.15000.1502:so=0.1500.6000",
          "m=3:n=9000:x=bf16:residual=bf16:weight=bf16:dweight=bf16:dbias=bf16", "m=4:n=2048:x=f32:residual=f32"}) {
      check(*op, text);
    }
    check(*op, "m=5:n=2100:x=f32:residual=bf16:weight=f16:dweight=bf16:dbias=f32:dresidual=1:out=f16",
          fmt::format("{}_generic_gpu", op->name()));
  }
}

TEST_P(SlowAmdRowOperators, TheGradientOfActAndMulMatchesTheReferenceWithoutAFault) {
  const Operator& op = act_and_mul_backward_operator();
  for (const char* text :
       {"m=3:n=2048:x=bf16:residual=bf16:gate=separated:activation=silu",
        "m=2:n=2047:x=bf16:residual=bf16:gate=interleaved:activation=gelu",
        "m=3:n=512:x=bf16:residual=bf16:gate=interleaved:activation=silu",
        "m=4x3:n=1500:x=bf16:residual=bf16:gate=separated:activation=gelu_tanh:sx=0.30000.3002:so=0.3000.12000",
        "m=19:n=100:x=f16:residual=f16:activation=relu:squared=1",
        "m=2:n=16500:x=f32:residual=f32:gate=separated:activation=tanh"}) {
    check(op, text);
  }
  for (const char* text : {"m=5:n=77:x=f32:residual=f16:out=f16:gate=separated:activation=sigmoid",
                           "m=3:n=301:x=f16:residual=f32:gate=interleaved:activation=hardswish:squared=1"}) {
    check(op, text, "act_and_mul_backward_generic_gpu");
  }
}

TEST_P(SlowAmdRowOperators, GatedRmsNormMatchesTheReferenceWithoutAFault) {
  const Operator& op = gated_rms_norm_operator();
  for (const char* text : {"m=12:n=512:x=bf16:residual=bf16:weight=bf16:weight_groups=4",
                           "m=3:n=2047:x=bf16:residual=bf16:weight=f32:gate_first=1",
                           "m=2:n=17000:x=f32:residual=f32:weight=f32:gate_first=1",
                           "m=4:n=512:x=bf16:residual=bf16:weight=bf16:out=e4m3:quant=group:weight_groups=2"}) {
    check(op, text);
  }
  check(op, "m=5:n=77:x=f16:residual=bf16:weight=f32:weight_groups=3", "gated_rms_norm_generic_gpu");
}

TEST_P(SlowAmdRowOperators, ElementwiseMatchesTheReferenceWithoutAFault) {
  const Operator& op = elementwise_operator();
  for (const char* text : {"m=5:n=512:x=bf16:out=f32", "m=5:n=512:x=bf16:out=e4m3",
                           "m=4x3:n=256:x=bf16:residual=bf16:arithmetic=add:sr=0.256.0",
                           "m=9:n=77:x=f32:residual=f16:arithmetic=mul:out=bf16",
                           "m=9:n=512:x=bf16:residual=bf16:arithmetic=mul:single=1"}) {
    check(op, text);
  }
  check(op, "m=5:n=77:x=f16:out=i8:residual=f32:arithmetic=add", "elementwise_generic_gpu");
}

TEST_P(SlowAmdRowOperators, RopeMatchesTheReferenceWithoutAFault) {
  const Operator& op = rope_operator();
  for (const char* text :
       {"m=2x3x5:n=128:x=bf16:residual=bf16:heads=4", "m=1x4x3:n=80:x=bf16:dims=64:interleaved=1:positions=1",
        "m=1x7x2:n=128:x=bf16:residual=bf16:heads=1:interleaved=1:inverse=1:table=bf16", "m=2x2x2:n=66:x=f32:dims=34",
        "m=2x3x5:n=128:x=bf16:residual=bf16:heads=4:sections=16.24.24",
        "m=1x5x4:n=128:x=bf16:residual=bf16:heads=2:sections=24.20.20:order=interleaved",
        "m=1x5x4:n=128:x=f16:sections=32.16.16:order=parts:inverse=1",
        "m=1x4x3:n=66:x=f32:sections=11.11.11:order=parts",
        "m=1x19x4:n=128:x=bf16:residual=bf16:heads=2:sequences=3:offsets=1"}) {
    check(op, text);
  }
  check(op, "m=1x5x3:n=70:x=f16:sections=9.9.9.8:order=interleaved:interleaved=1", "rope_generic_gpu");
  check(op, "m=2x3x5:n=70:x=f16:residual=f16:heads=2:dims=50:positions=1", "rope_generic_gpu");
}

TEST_P(SlowAmdRowOperators, TransposeKeepsEveryBitWithoutAFault) {
  const Operator& op = transpose_operator();
  for (const char* text :
       {"b=2:m=40:n=72:x=bf16", "m=64:n=64:x=f16", "b=3x2:m=36:n=8:x=f32:so=0.36.108.216", "m=144:n=80:x=i8"}) {
    check(op, text);
  }
  check(op, "b=2:m=33:n=70:x=bf16", "transpose_generic_gpu");
  check(op, "m=5:n=37:x=f32:unaligned=1", "transpose_generic_gpu");
}

TEST_P(SlowAmdRowOperators, GroupNormMatchesTheReferenceWithoutAFault) {
  const Operator& op = group_norm_operator();
  for (const char* text :
       {"n=2:c=80:s=304:g=8:x=bf16:weight=bf16:bias=f32:activation=silu:channels_last=1",
        "n=2:c=12:s=2600:g=4:x=bf16:weight=bf16:bias=bf16:activation=silu",
        "n=1:c=70:s=40:g=14:x=f32:weight=f32:channels_last=1", "n=2:c=6:s=77:g=2:x=f16:in_place=1"}) {
    check(op, text);
  }
  check(op, "n=2:c=9:s=33:g=3:x=f16:weight=f32:bias=bf16:channels_last=1", "group_norm_generic_gpu");
  check(op, "n=1:c=4:s=300:g=2:x=f32:activation=silu:unaligned=1", "group_norm_generic_gpu");

  const Operator& gradient = group_norm_backward_operator();
  for (const char* text :
       {"n=2:c=80:s=304:g=8:x=bf16:weight=bf16:bias=f32:activation=silu:channels_last=1:dweight=f32:dbias=f32",
        "n=2:c=12:s=2600:g=4:x=bf16:weight=bf16:bias=bf16:activation=silu:dweight=bf16:dbias=f32"}) {
    check(gradient, text);
  }
  for (const char* text : {"n=2:c=9:s=33:g=3:x=f16:weight=f32:bias=bf16:channels_last=1:dweight=f16",
                           "n=1:c=4:s=300:g=2:x=f32:activation=silu:dbias=f32:in_place=2"}) {
    check(gradient, text, "group_norm_backward_generic_gpu");
  }
}

TEST_P(SlowAmdRowOperators, ApplyPenaltiesMatchesTheReferenceWithoutAFault) {
  const Operator& op = apply_penalties_operator();
  for (const char* text : {"b=3:v=9000:x=f32:prompt=40:output=300:repetition=1:presence=1:frequency=1:in_place=1",
                           "b=2:v=1003:x=bf16:output=30:output_counts=1:prompt_counts=1:frequency=1:repetition=1",
                           "b=2:v=9003:x=f16:output_counts=1:prompt_counts=1:frequency=1:repetition=1:in_place=1"}) {
    check(op, text);
  }
  check(op, "b=2:v=77:x=f16:prompt=5:output=9:repetition=1:presence=1", "apply_penalties_generic_gpu");
}

TEST_P(SlowAmdRowOperators, KvCacheWriteMatchesTheReferenceWithoutAFault) {
  const Operator& op = kv_cache_write_operator();
  for (const char* text :
       {"t=37:k=4:n=64:x=bf16", "t=21:k=4:n=64:x=bf16:cache=e4m3:scales=token:klayout=key_packed:vlayout=value_packed",
        "t=9:k=3:n=512:v=1:nv=64:x=f16:vlayout=value_transposed:wide_slots=1",
        "t=5:k=1:n=2048:x=f32:cache=i8:scales=token"}) {
    check(op, text);
  }
  for (const char* text : {"t=20:k=2:n=77:nv=33:x=f16:cache=e5m2fnuz:block=3", "t=11:k=3:n=40:x=f32:klayout=hnd"}) {
    check(op, text, "kv_cache_write_generic_gpu");
  }
}

TEST_P(SlowAmdRowOperators, MovesFromAPagedCacheMatchTheReferenceWithoutAFault) {
  for (const char* text :
       {"t=19:k=3:n=64:block=4:x=bf16", "t=5:n=4096:x=e4m3:wide=1", "t=700:k=2:n=8:x=bf16:layout=hnd"})
    check(kv_cache_copy_operator(), text);
  check(kv_cache_copy_operator(), "t=9:k=2:n=33:block=3:x=f16:layout=value_transposed", "kv_cache_copy_generic_gpu");
  for (const char* text :
       {"t=50:b=4:k=3:n=64:x=bf16:block=8:layout=key_packed", "t=50:b=4:k=3:n=64:x=e4m3:out=bf16:block=8",
        "t=50:b=6:k=2:n=72:x=e5m2fnuz:out=f32:scales=token:layout=hnd"}) {
    check(kv_cache_gather_operator(), text);
  }
  check(kv_cache_gather_operator(), "t=20:b=2:k=2:n=70:x=i8:out=f16:scales=token:layout=value_transposed",
        "kv_cache_gather_generic_gpu");
}

TEST_P(SlowAmdRowOperators, QkNormRopeCacheMatchesTheReferenceWithoutAFault) {
  const Operator& op = qk_norm_rope_cache_operator();
  for (const char* text :
       {"t=37:q=8:k=4:n=64:x=bf16:weight=bf16:table=f32:positions=1",
        "t=9:q=4:k=1:n=128:x=bf16:table=bf16:interleaved=1",
        "t=19:q=4:k=2:n=128:x=bf16:weight=f32:table=bf16:dims=64:interleaved=1:cache=e4m3:scales=token:qo=e4m3",
        "t=6:q=2:k=2:n=1024:x=f16:norm=1:cache=i8:scales=head:klayout=hnd",
        "t=9:q=4:k=2:n=128:x=bf16:weight=bf16:table=f32:sections=16.24.24:wide_positions=1",
        "t=9:q=4:k=2:n=128:x=bf16:weight=bf16:table=bf16:sections=24.20.20:order=interleaved"}) {
    check(op, text);
  }
  check(op, "t=9:q=3:k=1:n=77:x=f16:table=f32:dims=50:sections=9.8.8:order=interleaved",
        "qk_norm_rope_cache_generic_gpu");
  check(op, "t=9:q=3:k=1:n=77:x=f16:weight=f32:table=f32:dims=50:qo=i8:q_scales=token:positions=1:wide_positions=1",
        "qk_norm_rope_cache_generic_gpu");
}

TEST_P(SlowAmdRowOperators, QuantizeHasTheReferencesCodes) {
  for (const char* text : {"m=37:n=1000:x=bf16:out=e4m3:quant=dynamic", "m=3:n=300:x=bf16:out=i8:quant=row:smooth=f32",
                           "m=3:n=330:x=bf16:out=e2m1:quant=group:scale=e8m0:rounding=up",
                           "m=4:n=256:x=f32:out=e4m3:quant=group:ss=0.0.1.4", "m=150:n=264:x=bf16:out=e4m3:quant=block",
                           "m=16:n=256:x=bf16:out=e4m3:quant=block", "m=19:n=264:x=f16:out=i8:quant=block",
                           "m=5:n=1000:x=bf16:out=e2m1:quant=group:scale=e4m3:tensor_scale=found",
                           "m=2x129:n=131:x=f32:out=e2m1:quant=block:scale=e8m0:smooth=f32",
                           "m=19:n=384:x=bf16:out=e4m3:quant=row:hadamard=128",
                           "m=3:n=352:x=bf16:out=e2m1:quant=group:scale=e8m0:hadamard=32:state_words=2",
                           "m=130:n=160:x=bf16:out=i8:quant=block:hadamard=16:state_words=2",
                           "m=7:n=301:x=f32:out=e5m2fnuz:quant=dynamic:state_words=2"}) {
    check(quantize_operator(), text);
  }
  for (const char* text :
       {"m=19:n=301:x=f16:out=e5m2fnuz:quant=dynamic", "m=3:n=300:x=bf16:out=e5m2:quant=tensor",
        "m=130:n=133:x=f16:out=i8:quant=block", "m=3:n=77:x=f32:out=e2m1:quant=group:scale=e4m3:tensor_scale=found",
        "m=3:n=320:x=bf16:out=e4m3:quant=group:hadamard=64:state_words=2",
        "m=129:n=128:x=bf16:out=e4m3:quant=block:hadamard=128"}) {
    check(quantize_operator(), text, "quantize_generic_gpu");
  }
}

TEST_P(SlowAmdRowOperators, DequantizeHasTheReferencesBits) {
  for (const char* text :
       {"m=37:n=1000:x=e4m3:out=bf16:quant=tensor", "m=3:n=4096:x=e4m3:out=bf16:quant=group", "m=3:n=301:x=i8:out=f32",
        "m=3:n=330:x=e2m1:out=f16:quant=group:scale=e8m0", "m=4:n=256:x=e5m2:out=f32:quant=group:ss=0.0.1.4",
        "m=2:n=40000:x=e4m3fnuz:quant=group:group=32", "m=3:n=2048:x=e4m3:out=bf16:quant=group:unaligned=1",
        "m=2x130:n=264:x=e4m3:out=bf16:quant=block",
        "m=3:n=336:x=e2m1:out=bf16:quant=group:scale=e4m3:tensor_scale=given"}) {
    check(dequantize_operator(), text);
  }
  for (const char* text :
       {"m=19:n=301:x=e5m2fnuz:out=f16", "m=3:n=301:x=e2m1:quant=group:group=64", "m=130:n=133:x=i8:quant=block"}) {
    check(dequantize_operator(), text, "dequantize_generic_gpu");
  }
}

TEST_P(SlowAmdRowOperators, SoftmaxMatchesTheReferenceWithoutAFault) {
  for (const char* text :
       {"m=3:n=2048:x=bf16", "m=2:n=2047:x=bf16:log=1", "m=4x3:n=1500:x=bf16:sx=0.15000.1502:so=0.1500.6000",
        "m=19:n=100:x=f16:out=f32", "m=2:n=16500:x=f32", "m=2:n=16392:x=f32:log=1", "m=3:n=40000:x=bf16"}) {
    check(softmax_operator(), text);
  }
  for (const char* text : {"m=5:n=77:x=f32:out=f16", "m=3:n=2100:x=f16:out=bf16:log=1"}) {
    check(softmax_operator(), text, "softmax_generic_gpu");
  }
}

TEST_P(SlowAmdRowOperators, CrossEntropyMatchesTheReferenceWithoutAFault) {
  for (const char* text :
       {"m=9:n=2048:x=bf16", "m=9:n=2047:x=bf16:lse=1:gradient=0", "m=4x3:n=1500:x=bf16:sx=0.15000.1502:starget=0.6.2",
        "m=19:n=100:x=f16:out=f32", "m=2:n=16500:x=f32:factor=1", "m=9:n=40000:x=bf16"}) {
    check(cross_entropy_operator(), text);
  }
  for (const char* text : {"m=9:n=77:x=f32:out=f16", "m=9:n=4200:x=f16:gradient=0:lse=1"}) {
    check(cross_entropy_operator(), text, "cross_entropy_generic_gpu");
  }
}

// Ties in every token where logits are integers; more chosen of a lane than it keeps.
TEST_P(SlowAmdRowOperators, MoeRoutingChoosesAsTheReferenceWithoutAFault) {
  for (const char* text :
       {"t=33:e=256:k=8:x=bf16", "t=9:e=256:k=8:x=bf16:renormalise=1:sx=257", "t=40:e=8:k=8:x=bf16:renormalise=1",
        "t=5:e=60:k=32:x=f32:bias=f32", "t=5:e=256:k=8:x=f16:score=sqrt_softplus:first=3:local=100",
        "t=9:e=256:k=8:x=bf16:score=sigmoid:bias=f32:groups=8:topk_groups=4:renormalise=1",
        "t=3:e=1020:k=20:x=f32:groups=3:topk_groups=2:group_score=largest"}) {
    for (const InputData data : {InputData::kNormal, InputData::kIntegers})
      check(moe_routing_operator(), text, "", data);
  }
  check(moe_routing_operator(), "t=5:e=96:k=9:x=f16:bias=bf16:groups=4:topk_groups=3", "moe_routing_generic_gpu");
}

// Two chunks; every option; a cut among more tokens than a list holds.
TEST_P(SlowAmdRowOperators, SampleChoosesAsTheReferenceWithoutAFault) {
  for (const char* text :
       {"b=2:v=9001:x=bf16:temperature=1:log_probabilities=1", "b=3:v=8200:x=f32:greedy=1:sx=8201",
        "b=5:v=300:x=f16:top_k=1:top_p=1:min_p=1:temperature=1:offsets=2:ids=2", "b=3:v=9000:x=f32:top_p=1",
        "b=6:v=9001:x=f32:temperature=1:top_k=1", "b=3:v=9000:x=bf16:top_k=1:top_p=1:joint=top_k_first:seeds=1"}) {
    for (const InputData data : {InputData::kNormal, InputData::kIntegers}) check(sample_operator(), text, "", data);
  }
  check(sample_operator(), "b=4:v=700:x=f16:temperature=1:top_k=1:top_p=1", "sample_generic_gpu");
}

TEST_P(SlowAmdRowOperators, TopKChoosesAsTheReferenceWithoutAFault) {
  for (const char* text : {"m=2:n=9001:k=50:x=f32", "m=3:n=300:k=2048:x=bf16:lengths=1",
                           "m=2:n=8200:k=1:x=f16:values=0", "m=3:n=17000:k=700:x=f32:lengths=1"}) {
    for (const InputData data : {InputData::kNormal, InputData::kIntegers}) check(top_k_operator(), text, "", data);
  }
  check(top_k_operator(), "m=3:n=8500:k=100:x=f16:lengths=1", "top_k_generic_gpu");
}

// Two suites, which run side by side.
const auto kTargetName = [](const testing::TestParamInfo<int>& info) { return kEmulatedTargets[info.param]; };
INSTANTIATE_TEST_SUITE_P(Cdna, SlowAmdRowOperators, testing::Range(0, 3), kTargetName);
INSTANTIATE_TEST_SUITE_P(Rdna, SlowAmdRowOperators, testing::Range(3, 5), kTargetName);

}  // namespace
}  // namespace tilewright
