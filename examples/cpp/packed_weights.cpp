// SPDX-License-Identifier: MIT
// bf16 weights packed once and used for every batch size; each result is compared with the float64 reference.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <vector>

#include <tilewright/gemm.hpp>

namespace {

using Bytes = std::unique_ptr<void, decltype(&std::free)>;

Bytes allocate(int64_t bytes) {
  return {std::aligned_alloc(64, static_cast<size_t>((bytes + 63) / 64 * 64)), &std::free};
}

// A row-major bf16 matrix of small numbers.
std::vector<uint16_t> numbers(int64_t count, int period) {
  std::vector<uint16_t> values(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) {
    tilewright::store_element(tilewright::DType::kBf16, values.data(), i,
                              static_cast<double>(i % period - period / 2) / 16);
  }
  return values;
}

int fail(const tilewright::Status& status) {
  std::fprintf(stderr, "error: %s\n", status.to_string().c_str());
  return 1;
}

}  // namespace

int main() {
  using namespace tilewright;
  constexpr int64_t kN = 96, kK = 160, kMaxM = 40;
  std::vector<uint16_t> weight = numbers(kN * kK, 29), x = numbers(kMaxM * kK, 19);
  std::vector<float> got(kMaxM * kN), want(kMaxM * kN);
  Context& context = Context::global();

  // A linear layer stores [N, K]; gemm's B is [K, N].
  const TensorView plain = TensorView::contiguous(weight.data(), DType::kBf16, {kN, kK}).transposed();
  Result<int64_t> bytes = gemm_packed_bytes(DType::kBf16, kN, kK);
  if (!bytes) return fail(bytes.status());
  const Bytes memory = allocate(*bytes);
  if (Status status = gemm_pack_weights(context, plain, memory.get(), *bytes); !status) return fail(status);
  Result<TensorView> packed = gemm_packed_view(memory.get(), *bytes);
  if (!packed) return fail(packed.status());

  for (int64_t m : {1, 7, 16, 40}) {
    GemmCall call;
    call.a = TensorView::contiguous(x.data(), DType::kBf16, {m, kK});
    call.b = *packed;
    call.d = TensorView::contiguous(got.data(), DType::kF32, {m, kN});
    if (Status status = gemm(context, call); !status) return fail(status);
    call.b = plain;
    call.d = TensorView::contiguous(want.data(), DType::kF32, {m, kN});
    if (Status status = gemm_reference(call); !status) return fail(status);
    for (int64_t i = 0; i < m * kN; ++i) {
      if (std::fabs(got[i] - want[i]) > 1e-4f) {
        std::fprintf(stderr, "error: M = %d, element %d: %g, expected %g\n", static_cast<int>(m), static_cast<int>(i),
                     double{got[i]}, double{want[i]});
        return 1;
      }
    }
    std::printf("M = %d: right\n", static_cast<int>(m));
  }
  std::printf("ok\n");
  return 0;
}
