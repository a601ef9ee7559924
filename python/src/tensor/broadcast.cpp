// SPDX-License-Identifier: MIT
#include "tensor/broadcast.hpp"

#include <algorithm>

namespace tilewright::python {
namespace {

std::string text_of(std::span<const int64_t> values) { return fmt::format("[{}]", fmt::join(values, ", ")); }

std::span<const int64_t> shape_of(const TensorView& t) { return {t.shape.data(), static_cast<size_t>(t.rank)}; }
std::span<const int64_t> stride_of(const TensorView& t) { return {t.stride.data(), static_cast<size_t>(t.rank)}; }

// `t` with `lead` in front of its last two dimensions; new and size-1 dimensions repeat through stride 0. The last two
// stay as they are: gemm broadcasts them itself.
bool expand(const TensorView& t, std::span<const int64_t> lead, TensorView& out) {
  const int rank = static_cast<int>(lead.size()) + 2;
  if (t.rank > rank) return false;
  out = t;
  out.rank = rank;
  for (int i = 0; i < rank; ++i) {
    const int from = i - (rank - t.rank);
    const bool leading = i < rank - 2;
    const int64_t size = from < 0 ? 1 : t.shape[from];
    if (leading && size != 1 && size != lead[i]) return false;
    out.shape[i] = leading ? lead[i] : size;
    out.stride[i] = size == 1 && (leading || from < 0) ? 0 : t.stride[from];
  }
  return true;
}

// Dimensions [0, count) of `t` as one, when a single stride reaches them all.
bool merge(TensorView& t, int count) {
  int64_t size = 1, stride = t.stride[count - 1];
  bool empty = false, started = false;
  for (int i = count - 1; i >= 0; --i) {
    empty = empty || t.shape[i] == 0;
    if (t.shape[i] == 1) continue;
    if (!started) {
      stride = t.stride[i];
    } else if (!empty && t.stride[i] != stride * size) {
      return false;
    }
    started = true;
    size *= t.shape[i];
  }
  for (int i = 0; i < t.rank - count; ++i) {
    t.shape[i + 1] = t.shape[count + i];
    t.stride[i + 1] = t.stride[count + i];
  }
  t.shape[0] = empty ? 0 : size;
  t.stride[0] = stride;
  t.rank -= count - 1;
  return true;
}

struct Operand {
  const char* name;
  TensorView* view;
};

std::vector<Operand> epilogue_operands(GemmCall& call) {
  static constexpr const char* kStepNames[kMaxSteps] = {"steps[0]", "steps[1]", "steps[2]",
                                                        "steps[3]", "steps[4]", "steps[5]"};
  std::vector<Operand> all = {{"scale_a", &call.scale_a},
                              {"scale_b", &call.scale_b},
                              {"zero_b", &call.zero_b},
                              {"c", &call.c},
                              {"bias", &call.bias}};
  for (size_t i = 0; i < call.steps.size() && i < kMaxSteps; ++i) all.push_back({kStepNames[i], &call.steps[i].tensor});
  std::erase_if(all, [](const Operand& o) { return !o.view->defined(); });
  return all;
}

// Rows of the operand, repeated where it has only one: merging needs their number.
void repeat_rows(TensorView& t, int64_t rows) {
  if (t.shape[t.rank - 2] != 1) return;
  t.shape[t.rank - 2] = rows;
  t.stride[t.rank - 2] = 0;
}

// Whether the operand lies as B does: it has no rows.
bool goes_with_b(const Operand& o, const GemmCall& call) {
  return (o.view == &call.scale_b && call.scale_group_b.k != 0) || o.view == &call.zero_b;
}

// The same without its leading dimensions, which are all 1.
TensorView last_two(const TensorView& t) {
  if (t.layout != Layout::kStrided || t.rank <= 2) return t;
  return TensorView::strided(t.data, t.dtype, {t.shape[t.rank - 2], t.shape[t.rank - 1]},
                             {t.stride[t.rank - 2], t.stride[t.rank - 1]}, t.device);
}

// Leading dimensions and rows of every operand but B as one; false when a stride does not allow it.
bool fold_into_rows(std::span<const int64_t> lead, const std::vector<Operand>& operands, GemmCall& call) {
  const int count = static_cast<int>(lead.size()) + 1;
  const int64_t rows = call.a.shape[call.a.rank - 2];
  if (call.scale_group_a.outer != 1) return false;
  std::vector<TensorView> folded(operands.size());
  for (size_t i = 0; i < operands.size(); ++i) {
    if (goes_with_b(operands[i], call)) {
      const TensorView& t = *operands[i].view;
      if (std::any_of(t.shape.begin(), t.shape.begin() + std::max(t.rank - 2, 0), [](int64_t s) { return s != 1; }))
        return false;
      folded[i] = last_two(t);
      continue;
    }
    if (!expand(*operands[i].view, lead, folded[i])) return false;
    repeat_rows(folded[i], rows);
    if (folded[i].shape[count - 1] != rows || !merge(folded[i], count)) return false;
  }
  for (size_t i = 0; i < operands.size(); ++i) *operands[i].view = folded[i];
  // B's own leading dimensions are all 1.
  call.b = last_two(call.b);
  return true;
}

}  // namespace

Shape broadcast_leading(const char* op, const TensorView& a, const TensorView& b) {
  const int rank = std::max(a.rank, b.rank) - 2;
  Shape lead;
  for (int i = 0; i < rank; ++i) lead.push_back(1);
  for (const TensorView* t : {&a, &b}) {
    const int count = t->rank - 2;
    for (int i = 0; i < count; ++i) {
      int64_t& size = lead.size[static_cast<size_t>(rank - count + i)];
      if (t->shape[i] == 1 || t->shape[i] == size) continue;
      if (size != 1) {
        refuse("{}: arguments 'a' and 'b' have shapes {} and {}: their leading dimensions do not broadcast", op,
               text_of(shape_of(a)), text_of(shape_of(b)));
      }
      size = t->shape[i];
    }
  }
  return lead;
}

void collapse_leading(const char* op, std::span<const int64_t> lead, GemmCall& call) {
  if (lead.empty()) return;
  const bool b_alone = std::all_of(call.b.shape.begin(), call.b.shape.begin() + std::max(call.b.rank - 2, 0),
                                   [](int64_t size) { return size == 1; });
  std::vector<Operand> operands = {{"a", &call.a}, {"out", &call.d}};
  for (const Operand& o : epilogue_operands(call)) operands.push_back(o);
  if (b_alone && fold_into_rows(lead, operands, call)) return;
  if (lead.size() == 1) return;  // gemm's own batch

  if (call.b.layout == Layout::kStrided) {
    operands.push_back({"b", &call.b});
  } else if (!b_alone) {
    refuse(
        "{}: argument 'b' is packed with batch {}, and the other leading dimensions are {}: reshape 'a' to one batch "
        "dimension",
        op, call.b.shape[0], text_of(lead));
  }
  for (const Operand& o : operands) {
    TensorView expanded;
    if (!expand(*o.view, lead, expanded)) {
      refuse("{}: argument '{}' has shape {}, which does not broadcast to leading dimensions {}", op, o.name,
             text_of(shape_of(*o.view)), text_of(lead));
    }
    if (!merge(expanded, static_cast<int>(lead.size()))) {
      refuse(
          "{}: argument '{}' has shape {} and strides {}: its leading dimensions, as {}, are not one dimension in "
          "memory, and tilewright copies no input; make it contiguous first",
          op, o.name, text_of(shape_of(*o.view)), text_of(stride_of(*o.view)), text_of(lead));
    }
    *o.view = expanded;
  }
}

}  // namespace tilewright::python
