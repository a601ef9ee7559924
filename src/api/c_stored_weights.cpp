// SPDX-License-Identifier: MIT
// Weights of checkpoints and other libraries through the C ABI.
#include <initializer_list>

#include "api/c_structs.hpp"
#include "tilewright/stored_weights.hpp"

namespace tilewright::c_abi {
namespace {

struct NamedTensor {
  const TwDLTensor* from;
  TensorView* to;
};
Status read_tensors(std::initializer_list<NamedTensor> tensors) {
  for (const NamedTensor& tensor : tensors) {
    if (tensor.from == nullptr) continue;
    Result<TensorView> view = from_dlpack(*tensor.from);
    if (!view) return view.status();
    *tensor.to = *view;
  }
  return {};
}

struct WeightCall {
  StoredWeights stored;
  PlainWeights plain;
};
Result<WeightCall> read_weights(const char* function, const tilewright_stored_weights* stored,
                                const tilewright_plain_weights* plain) {
  if (stored == nullptr) return missing(function, "stored");
  if (plain == nullptr) return missing(function, "plain");
  tilewright_stored_weights from = tilewright_stored_weights_defaults();
  if (Status s = read_struct<32>("tilewright_stored_weights", stored, from); !s) return s;
  tilewright_plain_weights to = tilewright_plain_weights_defaults();
  if (Status s = read_struct<32>("tilewright_plain_weights", plain, to); !s) return s;
  if (from.weight == nullptr) return missing(function, "stored->weight");
  if (to.b == nullptr) return missing(function, "plain->b");
  if (from.format < 0 || from.format > TILEWRIGHT_WEIGHTS_AITER_SCALES) {
    return Status(StatusCode::kInvalidArgument,
                  fmt::format("{}: argument 'format' is {}, allowed: 0 to {}", function, from.format,
                              static_cast<int>(TILEWRIGHT_WEIGHTS_AITER_SCALES)));
  }
  WeightCall call;
  call.stored.format = static_cast<WeightFormat>(from.format);
  if (Status s = read_tensors({{from.weight, &call.stored.weight},
                               {from.zeros, &call.stored.zeros},
                               {from.group_index, &call.stored.group_index},
                               {to.b, &call.plain.b},
                               {to.zero_b, &call.plain.zero_b},
                               {to.order, &call.plain.order}});
      !s) {
    return s;
  }
  return call;
}

}  // namespace
}  // namespace tilewright::c_abi

using namespace tilewright;         // NOLINT(google-build-using-namespace)
using namespace tilewright::c_abi;  // NOLINT(google-build-using-namespace)

tilewright_status tilewright_import_weights(tilewright_context* context, const tilewright_stored_weights* stored,
                                            const tilewright_plain_weights* plain) {
  return guarded([&]() -> Status {
    const Result<WeightCall> call = read_weights("tilewright_import_weights", stored, plain);
    if (!call) return call.status();
    return import_weights(context_of(context), call->stored, call->plain);
  });
}

tilewright_status tilewright_export_weights(tilewright_context* context, const tilewright_plain_weights* plain,
                                            const tilewright_stored_weights* stored) {
  return guarded([&]() -> Status {
    const Result<WeightCall> call = read_weights("tilewright_export_weights", stored, plain);
    if (!call) return call.status();
    return export_weights(context_of(context), call->plain, call->stored);
  });
}
