// SPDX-License-Identifier: MIT
// cross_entropy: the loss of each row of logits, and its gradient in the same pass.
//
// Shapes: x (the logits) and out (the gradient) [..., N]; target, loss and lse [...], the shape of x without its last size. Rows have their
// elements next to each other, outer dimensions any strides that leave at most three apart. Dtypes: x and out f32, f16, bf16, each
// its own; target i32 (of i64 the low words: a stride of 2); loss and lse f32. Arithmetic: f32.
// Sizes: N is exact, the number of rows bucketed. No rows are legal.
// Aliasing: out may be x of the same dtype; else what is written may overlap nothing.
// docs/cross_entropy.md has the contract.
#pragma once

#include <cstdint>
#include <string>

#include "tilewright/context.hpp"

namespace tilewright {

struct CrossEntropyCall {
  TensorView x, target, loss;
  TensorView lse;               // absent, or the logarithm of the sum of exponentials
  TensorView out;               // absent, or the gradient
  TensorView factor;            // absent, or one f32 on x's device: a factor of the gradient
  float grad_scale = 1;         // another
  float label_smoothing = 0;    // this much of the target is spread evenly
  float z_loss = 0;             // times lse^2 is added
  int64_t ignore_index = -100;  // rows with this target have loss and gradient 0
  std::string recipe;           // force this recipe (text form); "" = choose
};

// Runs now (CPU) or enqueues on exec.stream.
TILEWRIGHT_API Status cross_entropy(Context& context, const CrossEntropyCall& call, const Exec& exec = {});
// Chooses, compiles and loads ahead of time. Data pointers may be null.
TILEWRIGHT_API Status cross_entropy_prepare(Context& context, const CrossEntropyCall& call, const Exec& exec = {});
// What would run. Never compiles. Data pointers may be null.
TILEWRIGHT_API Result<QueryResult> cross_entropy_query(Context& context, const CrossEntropyCall& call,
                                                       const Exec& exec = {});
// Every family and candidate with its cost or the reason of its refusal, as text for people.
TILEWRIGHT_API Result<std::string> cross_entropy_explain(Context& context, const CrossEntropyCall& call,
                                                         const Exec& exec = {});

}  // namespace tilewright
