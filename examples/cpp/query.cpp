// SPDX-License-Identifier: MIT
// Before a model serves: prepare the problems it will meet, ask what would run, and why.
#include <cstdio>

#include <tilewright/gemm.hpp>

int main() {
  using namespace tilewright;
  Context& context = Context::global();
  for (int64_t tokens : {1, 16, 128}) {
    // Addresses are not needed to choose, compile and load.
    GemmCall call;
    call.a = TensorView::contiguous(nullptr, DType::kBf16, {tokens, 512});
    call.b = TensorView::contiguous(nullptr, DType::kBf16, {256, 512}).transposed();
    call.d = TensorView::contiguous(nullptr, DType::kBf16, {tokens, 256});
    call.activation = Activation::kSilu;
    if (Status status = gemm_prepare(context, call); !status) {
      std::fprintf(stderr, "error: %s\n", status.to_string().c_str());
      return 1;
    }
    Result<QueryResult> query = gemm_query(context, call);
    Result<std::string> why = gemm_explain(context, call);
    if (!query || !why || query->recipe.empty()) {
      std::fprintf(stderr, "error: %s\n", (query ? why.status() : query.status()).to_string().c_str());
      return 1;
    }
    std::printf("M = %d: %s (%s), workspace %lld bytes\n", static_cast<int>(tokens), query->recipe.c_str(),
                query->source.c_str(), static_cast<long long>(query->workspace_bytes));
    if (tokens == 16) std::printf("\n%s\n", why->c_str());
  }
  std::printf("ok\n");
  return 0;
}
