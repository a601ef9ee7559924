// SPDX-License-Identifier: MIT
// Random problem descriptions, valid and not: each is refused with a reason that leaves D alone, or equals the reference
// and leaves what lies between D's elements alone. TILEWRIGHT_TEST_PROBLEMS sets their number (CI's sanitizer runs do),
// TILEWRIGHT_TEST_FIRST the first one's, so that several processes can share many.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <memory>
#include <random>

#include "core/tensor/tolerance.hpp"
#include "dispatch/context_impl.hpp"
#include "ops/gemm/instance/gemm_reference.hpp"
#include "ops/gemm/problem/gemm_problem.hpp"
#include "ops/op_list.hpp"
#include "support/random_choice.hpp"
#include "tilewright/gemm.hpp"

namespace tilewright {
namespace {

using test::chance, test::from_environment, test::pick, test::Random;

int64_t pick_size(Random& random) {
  const int64_t kinds[] = {0, 1, pick(random, 2, 8), pick(random, 9, 40), pick(random, 41, 130)};
  const double weight = std::uniform_real_distribution<>(0, 1)(random);
  return kinds[weight < 0.02 ? 0 : weight < 0.12 ? 1 : weight < 0.45 ? 2 : weight < 0.85 ? 3 : 4];
}

// A tensor with memory of its own, exactly as large as its strides reach: sanitizers see every step beside it.
struct Tensor {
  std::unique_ptr<uint8_t[]> memory;
  size_t bytes = 0;
  TensorView view;
};

Tensor make_tensor(Random& random, DType dtype, std::vector<int64_t> shape, bool output) {
  Tensor t;
  t.view.dtype = dtype;
  t.view.rank = static_cast<int32_t>(shape.size());
  // Strides: a random order of dimensions, each padded now and then, now and then negative, inputs now and then broadcast.
  std::vector<int> order(shape.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int>(i);
  if (chance(random, 0.4)) std::shuffle(order.begin(), order.end(), random);
  int64_t step = chance(random, 0.15) ? pick(random, 2, 3) : 1, low = 0, high = 0;
  for (size_t i = order.size(); i-- > 0;) {
    const int d = order[i];
    t.view.shape[d] = shape[static_cast<size_t>(d)];
    t.view.stride[d] = step;
    if (!output && chance(random, 0.05)) t.view.stride[d] = 0;
    if (chance(random, 0.05)) t.view.stride[d] = -t.view.stride[d];
    const int64_t reach = std::max<int64_t>(shape[static_cast<size_t>(d)] - 1, 0) * t.view.stride[d];
    (reach < 0 ? low : high) += reach;
    step = step * std::max<int64_t>(shape[static_cast<size_t>(d)], 1) + (chance(random, 0.2) ? pick(random, 1, 5) : 0);
  }
  const int64_t bits = dtype_bits(dtype);
  low -= bits < 8 ? low & 1 : 0;  // an address is that of a whole byte
  t.bytes = static_cast<size_t>(((high - low + 1) * bits + 7) / 8);
  // Now and then at an address that is no multiple of anything: views into buffers and files are like that.
  const int64_t offset = chance(random, 0.2) ? pick(random, 1, 63) : 0;
  t.memory = std::make_unique<uint8_t[]>(t.bytes + static_cast<size_t>(offset));
  uint8_t* const first = t.memory.get() + offset;
  t.view.data = first - low * bits / 8;
  std::normal_distribution<> normal;
  for (int64_t i = 0; i < high - low + 1; ++i) {
    const double value = dtype == DType::kI8     ? static_cast<double>(pick(random, -128, 127))
                         : dtype == DType::kI4   ? static_cast<double>(pick(random, -8, 7))
                         : dtype == DType::kU4   ? static_cast<double>(pick(random, 0, 15))
                         : dtype == DType::kE8M0 ? std::exp2(static_cast<double>(pick(random, -8, 8)))
                                                 : normal(random);
    store_element(dtype, first, i, value);
  }
  t.bytes += static_cast<size_t>(offset);
  if (output) std::memset(t.memory.get(), 0xFF, t.bytes);
  return t;
}

struct RandomCall {
  GemmCall call;
  std::vector<Tensor> tensors;  // keeps the memory
  Tensor d;
  std::vector<uint8_t> packed;  // with room to align
  bool broken = false;          // a defect was planted: must be refused
};

TensorView keep(RandomCall& r, Tensor tensor) {
  r.tensors.push_back(std::move(tensor));
  return r.tensors.back().view;
}

DType pick_float(Random& random) {
  return std::array{DType::kF32, DType::kF16, DType::kBf16}[static_cast<size_t>(pick(random, 0, 2))];
}
Activation pick_activation(Random& random) { return static_cast<Activation>(pick(random, 0, 8)); }

// A tensor that broadcasts to [batch, rows, columns].
TensorView pick_operand(Random& random, RandomCall& r, DType dtype, int64_t batch, int64_t rows, int64_t columns) {
  std::vector<int64_t> shape = {chance(random, 0.5) ? 1 : batch, chance(random, 0.4) ? 1 : rows,
                                chance(random, 0.2) ? 1 : columns};
  if (shape[0] == 1 && chance(random, 0.8)) shape.erase(shape.begin());
  if (shape.size() == 2 && shape[0] == 1 && chance(random, 0.5)) shape.erase(shape.begin());
  return keep(r, make_tensor(random, dtype, shape, false));
}

// Scales of groups, now and then 0 or subnormal.
TensorView pick_block_scale(Random& random, RandomCall& r, const ScaleGroup& group, int64_t batch, int64_t outer,
                            int64_t k, bool of_b) {
  const DType dtype = std::array{DType::kF32, DType::kF16, DType::kBf16, DType::kE8M0,
                                 DType::kF8E4M3}[static_cast<size_t>(pick(random, 0, 4))];
  std::vector<int64_t> shape = {(outer + group.outer - 1) / group.outer, (k + group.k - 1) / group.k};
  if (of_b) std::swap(shape[0], shape[1]);
  if (batch != 1 && chance(random, 0.7)) shape.insert(shape.begin(), chance(random, 0.3) ? 1 : batch);
  Tensor tensor = make_tensor(random, dtype, shape, false);
  if (dtype == DType::kF32 && tensor.view.numel() > 0 && chance(random, 0.2)) {
    store_element(dtype, tensor.view.data, 0, chance(random, 0.5) ? 0 : 1e-41);
  }
  return keep(r, std::move(tensor));
}

ScaleGroup pick_group(Random& random) {
  constexpr int64_t kDepths[] = {16, 32, 64, 128};
  return {chance(random, 0.7) ? 1 : 128, kDepths[pick(random, 0, 3)]};
}

// Zero points of scales of groups, of any strides of their own.
TensorView pick_zero(Random& random, RandomCall& r, int64_t batch, int64_t n, int64_t k) {
  const DType dtype =
      std::array{DType::kI8, DType::kI4, DType::kU4, DType::kF32, DType::kF16, DType::kBf16}[static_cast<size_t>(
          pick(random, 0, 5))];
  const ScaleGroup& group = r.call.scale_group_b;
  std::vector<int64_t> shape = {(k + group.k - 1) / group.k, (n + group.outer - 1) / group.outer};
  if (batch != 1 && chance(random, 0.5)) shape.insert(shape.begin(), chance(random, 0.3) ? 1 : batch);
  return keep(r, make_tensor(random, dtype, shape, false));
}

// What may be multiplied with `a`, most often `a` itself.
DType pick_other(Random& random, DType a) {
  constexpr DType kMixed[] = {DType::kF8E4M3, DType::kF8E5M2, DType::kF4E2M1, DType::kF16, DType::kBf16};
  const auto* const end = std::end(kMixed);
  if (chance(random, dtype_bits(a) == 16 ? 0.5 : 0.8) || std::find(std::begin(kMixed), end, a) == end) return a;
  const bool is_16_bit = dtype_bits(a) == 16;
  if (is_16_bit && chance(random, 0.6)) {
    return std::array{DType::kI8, DType::kI4, DType::kU4}[static_cast<size_t>(pick(random, 0, 2))];
  }
  return kMixed[static_cast<size_t>(pick(random, 0, is_16_bit ? 2 : 4))];
}

RandomCall make_call(Random& random, Context& context) {
  RandomCall r;
  const int64_t m = pick_size(random), k = pick_size(random), batch = chance(random, 0.2) ? pick(random, 0, 3) : 1;
  int64_t n = pick_size(random);
  r.call.gate = chance(random, 0.2) ? static_cast<GateMode>(pick(random, 1, 2)) : GateMode::kNone;
  if (r.call.gate != GateMode::kNone) n += n % 2;
  const int64_t out_n = r.call.gate == GateMode::kNone ? n : n / 2;
  const DType
      dtype = std::array{DType::kF32,    DType::kF16,    DType::kBf16,  DType::kI8,
                         DType::kF8E4M3, DType::kF8E5M2, DType::kF4E2M1}[static_cast<size_t>(pick(random, 0, 6))];
  const DType b_dtype = pick_other(random, dtype);
  auto shape = [&](int64_t rows, int64_t columns, bool batched) {
    return batched ? std::vector<int64_t>{batch, rows, columns} : std::vector<int64_t>{rows, columns};
  };
  const bool batched = batch != 1 || chance(random, 0.1);
  r.call.a = keep(r, make_tensor(random, dtype, shape(m, k, batched && chance(random, 0.8)), false));
  r.call.b = keep(r, make_tensor(random, b_dtype, shape(k, n, batched && chance(random, 0.8)), false));
  if (is_packable(b_dtype) && chance(random, 0.3)) {
    const int64_t bytes = *gemm_packed_bytes(b_dtype, n, k, r.call.b.rank == 3 ? batch : 1);
    r.packed.resize(static_cast<size_t>(bytes) + 64);
    void* out = r.packed.data() + (64 - reinterpret_cast<uintptr_t>(r.packed.data()) % 64) % 64;
    const Status packed = gemm_pack_weights(context, r.call.b, out, bytes);
    EXPECT_TRUE(packed.ok()) << packed.to_string();
    Result<TensorView> view = gemm_packed_view(out, bytes);
    EXPECT_TRUE(view.ok()) << view.status().to_string();
    r.call.b = *view;
  }
  r.d = make_tensor(random, pick_float(random), shape(m, out_n, batched), true);
  r.call.d = r.d.view;
  if (chance(random, 0.3)) r.call.alpha = 0.5f;
  if (chance(random, 0.3)) {
    r.call.beta = chance(random, 0.3) ? 0.0f : 1.5f;
    r.call.c = pick_operand(random, r, pick_float(random), batch, m, n);
  }
  if (chance(random, 0.4)) r.call.bias = pick_operand(random, r, pick_float(random), batch, m, n);
  if (chance(random, 0.3))
    r.call.scale_a =
        keep(r, make_tensor(random, DType::kF32,
                            chance(random, 0.5) ? std::vector<int64_t>{m, 1} : std::vector<int64_t>{}, false));
  if (chance(random, 0.3))
    r.call.scale_b =
        keep(r, make_tensor(random, DType::kF32,
                            chance(random, 0.5) ? std::vector<int64_t>{n} : std::vector<int64_t>{1}, false));
  if (chance(random, 0.2)) {
    r.call.scale_group_a = pick_group(random);
    r.call.scale_a = pick_block_scale(random, r, r.call.scale_group_a, batch, m, k, /*of_b=*/false);
  }
  if (chance(random, is_weight_integer(b_dtype) ? 0.6 : 0.2)) {
    r.call.scale_group_b = pick_group(random);
    r.call.scale_b = pick_block_scale(random, r, r.call.scale_group_b, batch, n, k, /*of_b=*/true);
    if (dtype != b_dtype && is_weight_integer(b_dtype) && chance(random, 0.7)) {
      r.call.zero_b = pick_zero(random, r, batch, n, k);
    }
  }
  if (chance(random, 0.5)) r.call.activation = pick_activation(random);
  r.call.low = -0.5f;
  r.call.high = 0.75f;
  for (int64_t i = chance(random, 0.3) ? pick(random, 1, kMaxSteps) : 0; i > 0; --i) {
    if (chance(random, 0.4)) {
      r.call.steps.push_back(GemmStep::activate(pick_activation(random), -1, 1));
    } else {
      const TensorView t = pick_operand(random, r, pick_float(random), batch, m, out_n);
      r.call.steps.push_back(chance(random, 0.5) ? GemmStep::add(t) : GemmStep::multiply(t));
    }
  }
  r.call.options.deterministic = chance(random, 0.2);
  r.call.options.batch_invariant = chance(random, 0.2);
  r.call.options.allow_tf32 = chance(random, 0.2);
  r.call.options.allow_fast_accum = chance(random, 0.2);
  return r;
}

// One defect that breaks the contract whatever the sizes are.
void plant_defect(Random& random, RandomCall& r) {
  r.broken = true;
  GemmCall& c = r.call;
  switch (pick(random, 0, 14)) {
    case 0: c.a.shape[c.a.rank - 1] += 1; break;
    case 1: c.b.dtype = c.b.dtype == DType::kF32 ? DType::kBf16 : DType::kF32; break;
    case 2: c.d.dtype = DType::kI8; break;
    case 3: c.a.rank = 1; break;
    case 4: c.d.shape[c.d.rank - 2] += 1; break;
    case 5: c.a.shape[c.a.rank - 2] = -1; break;
    case 6: c.activation = static_cast<Activation>(77); break;
    case 7: c.steps.assign(kMaxSteps + 1, GemmStep::activate(Activation::kRelu)); break;
    case 8:
      c.scale_a = c.a;
      c.scale_a.dtype = DType::kF16;
      c.scale_group_a = {};
      break;
    case 9: c.d.device = {DeviceKind::kCuda, 0}; break;
    case 12: c.scale_group_a = {2, 32}; break;
    case 13:
      c.scale_group_b = {1, 32};
      c.scale_b = {};
      break;
    case 14:
      c.scale_group_b = {1, 16};
      c.scale_b = c.d;
      c.scale_b.dtype = DType::kF8E5M2;
      break;
    case 10: c.options.recipe = "gemm/no_such_family/x86-64/a/b"; break;
    default:
      c.a.stride[0] = std::numeric_limits<int64_t>::max() / 2;
      c.a.shape[0] = std::max<int64_t>(c.a.shape[0], 3);
      c.d.shape[c.d.rank - 2] = -7;
      break;
  }
}

// Every byte of D's memory that no element of D lies on still has its poison. A D that may not be written has none.
bool beside_d_untouched(const RandomCall& r, bool written) {
  std::vector<bool> used(r.d.bytes, false);
  const TensorView& d = r.d.view;
  const int64_t size = dtype_bits(d.dtype) / 8;
  for (int64_t i = 0; written && i < d.numel(); ++i) {
    int64_t at = static_cast<uint8_t*>(d.data) - r.d.memory.get(), rest = i;
    for (int k = d.rank; k-- > 0; rest /= d.shape[k]) at += rest % d.shape[k] * d.stride[k] * size;
    for (int64_t byte = 0; byte < size; ++byte) used[static_cast<size_t>(at + byte)] = true;
  }
  for (size_t i = 0; i < r.d.bytes; ++i) {
    if (!used[i] && r.d.memory[i] != 0xFF) return false;
  }
  return true;
}

// Any always-built kernel that takes the problem, instead of the dispatcher's choice.
void force_a_recipe(Random& random, Context& context, RandomCall& r) {
  GemmProblem p;
  GemmBindings bindings;
  if (r.call.d.numel() == 0 || !make_gemm_problem(r.call, true, p, bindings).ok()) return;
  ContextImpl& impl = context.impl();
  const auto choices = impl.dispatcher().choices(gemm_operator(), erase(p), impl.spec(0), TunedTable(), "", nullptr);
  ASSERT_TRUE(choices.ok()) << choices.status().to_string();
  std::vector<const Recipe*> built;
  for (const Choice& choice : *choices) {
    RegistryEntry entry;
    const std::string& key = choice.recipe.steps[0].key.text;
    if (impl.registry().find(key, entry) && entry.builtin != nullptr) built.push_back(&choice.recipe);
  }
  ASSERT_FALSE(built.empty());
  const size_t which = static_cast<size_t>(pick(random, 0, static_cast<int64_t>(built.size()) - 1));
  r.call.options.recipe = print_recipe(gemm_operator().families(), *built[which]);
}

void expect_reference(const RandomCall& r) {
  GemmProblem p;
  GemmBindings bindings;
  ASSERT_TRUE(make_gemm_problem(r.call, true, p, bindings).ok());
  std::vector<int64_t> rows, columns;
  for (int64_t i = 0; i < p.m; ++i) rows.push_back(i);
  for (int64_t i = 0; i < p.out_n(); ++i) columns.push_back(i);
  std::vector<ReferenceElement> block;
  for (int64_t b = 0; b < p.batch; ++b) {
    gemm_reference_block(p, bindings, ArchVendor::kX86, b, rows, columns, block);
    for (size_t i = 0; i < block.size(); ++i) {
      const int64_t row = rows[i / columns.size()], column = columns[i % columns.size()];
      const double got =
          load_element(p.d_dtype, r.call.d.data, b * p.stride_d_batch + row * p.stride_d_m + column * p.stride_d_n);
      ASSERT_LE(error_ratio(got, block[i].value, block[i].allowed, largest_finite(p.d_dtype)), 1)
          << print_gemm_problem(p) << " element [" << b << ", " << row << ", " << column << "]: got " << got
          << ", expected " << block[i].value << ", allowed error " << block[i].allowed;
    }
  }
}

TEST(GemmRandomProblems, EachIsRefusedWithAReasonOrEqualsTheReference) {
  const int count = test::random_problems(test::kGemmProblems);
  const int first = from_environment("TILEWRIGHT_TEST_FIRST", 0);
  ContextOptions options;
  options.jit = "off";
  options.user_tables = false;
  options.cpu_units = 3;
  Result<std::unique_ptr<Context>> context = Context::create(options);
  ASSERT_TRUE(context.ok()) << context.status().to_string();
  int refused = 0;
  for (int i = first; i < first + count; ++i) {
    Random random(static_cast<uint64_t>(i) * 7919 + 17);
    SCOPED_TRACE("seed index " + std::to_string(i));
    RandomCall r = make_call(random, **context);
    // Listing what could run costs more than running it.
    if (chance(random, 0.05)) force_a_recipe(random, **context, r);
    if (chance(random, 0.25)) plant_defect(random, r);
    Exec exec;
    exec.units = static_cast<int>(pick(random, 0, 3));
    const Status status = gemm(**context, r.call, exec);
    if (!status.ok()) {
      ++refused;
      EXPECT_FALSE(status.message().empty());
      EXPECT_TRUE(r.broken) << "a valid problem was refused: " << status.to_string();
      EXPECT_TRUE(beside_d_untouched(r, /*written=*/false)) << "refused, but wrote: " << status.to_string();
    } else {
      ASSERT_FALSE(r.broken && r.call.d.numel() > 0) << "a broken problem was accepted";
      expect_reference(r);
      EXPECT_TRUE(beside_d_untouched(r, /*written=*/true)) << "wrote between or before D's elements";
    }
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(refused, count / 10);
}

}  // namespace
}  // namespace tilewright
