// SPDX-License-Identifier: MIT
// The text of a row problem, as `tilewright verify --problem` takes it and tables and logs have it.
#include "ops/row/problem/row_backward.hpp"
#include "ops/row/problem/row_loss.hpp"
#include "ops/row/problem/row_rotation.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "core/fields.hpp"

namespace tilewright {
namespace {

template <class... Args>
Status refuse_row_text(const RowOp& op, fmt::format_string<Args...> format, Args&&... args) {
  return Status(StatusCode::kInvalidArgument,
                fmt::format("{}: {}", op.name, fmt::format(format, std::forward<Args>(args)...)));
}

constexpr std::string_view kStrideNames[] = {"sx", "sr", "sro", "so", "ss", "starget", "sloss", "slse", "sdr"};

// "4.2.1"
Status parse_numbers(std::string_view text, char separator, std::span<int64_t> to, size_t& count) {
  count = 0;
  while (true) {
    const size_t end = text.find(separator);
    if (count == to.size()) return Status(StatusCode::kInvalidArgument, "too many numbers");
    const Status s = fields_detail::parse_integer(text.substr(0, end), -kMaxReach, kMaxReach, to[count++]);
    if (!s || end == std::string_view::npos) return s;
    text.remove_prefix(end + 1);
  }
}

}  // namespace

std::string print_row_problem(const RowProblem& p) {
  const bool one = p.size[0] == 1 && p.size[1] == 1;
  std::string text =
      fmt::format("m={}:n={}:x={}", one ? fmt::format("{}", p.size[2]) : fmt::format("{}", fmt::join(p.size, "x")), p.n,
                  dtype_name(p.x.dtype));
  const auto add = [&text](const char* name, DType dtype) {
    if (dtype != DType::kNone) text += fmt::format(":{}={}", name, dtype_name(dtype));
  };
  add("residual", p.residual.dtype);
  if (p.residual.present() && !p.residual_out.present() && !p.backward) text += ":residual_out=0";
  add("weight", p.weight), add("bias", p.bias), add("smooth", p.smooth), add("out", p.out.dtype);
  if (p.gate != GateMode::kNone) text += fmt::format(":gate={}", kGateModeNames[static_cast<int>(p.gate)]);
  if (p.activation != Activation::kNone) {
    text += fmt::format(":activation={}", kActivationNames[static_cast<int>(p.activation)]);
  }
  if (p.squared) text += ":squared=1";
  if (p.log) text += ":log=1";
  if (p.weight_groups != 1) text += fmt::format(":weight_groups={}", p.weight_groups);
  if (p.gate_first) text += ":gate_first=1";
  if (p.arithmetic != Arithmetic::kNone) {
    text += fmt::format(":arithmetic={}", kArithmeticNames[static_cast<int>(p.arithmetic)]);
  }
  if (p.single) text += ":single=1";
  if (p.unit_offset) text += ":unit_offset=1";
  if (p.round_before_weight) text += ":round_before_weight=1";
  if (p.unaligned) text += ":unaligned=1";
  if (p.programmatic_edge) text += ":programmatic_edge=1";
  if (p.quant != Quantisation::kNone) {
    text += fmt::format(":quant={}:scale={}", kQuantisationNames[static_cast<int>(p.quant)], dtype_name(p.scale.dtype));
  }
  if (p.quant == Quantisation::kGroup) text += fmt::format(":group={}", p.group);
  if (p.rounding != ScaleRounding::kDown) {
    text += fmt::format(":rounding={}", kScaleRoundingNames[static_cast<int>(p.rounding)]);
  }
  if (p.tensor_scale != TensorScale::kNone) {
    text += fmt::format(":tensor_scale={}", kTensorScaleNames[static_cast<int>(p.tensor_scale)]);
  }
  if (p.hadamard != 0) text += fmt::format(":hadamard={}", p.hadamard);
  if (p.state_words != 0) text += fmt::format(":state_words={}", p.state_words);
  if (p.rotates()) text += print_rotation(p);
  if (p.has_loss()) text += print_loss(p);
  if (p.backward) text += print_backward(p);
  RowProblem plain = p;
  set_contiguous(plain);
  const std::pair<const RowTensorProblem*, const RowTensorProblem*> tensors[] = {
      {&p.x, &plain.x},
      {&p.residual, &plain.residual},
      {&p.residual_out, &plain.residual_out},
      {&p.out, &plain.out},
      {nullptr, nullptr},
      {&p.loss.target, &plain.loss.target},
      {&p.loss.loss, &plain.loss.loss},
      {&p.loss.lse, &plain.loss.lse},
      {&p.gradients.added, &plain.gradients.added}};
  for (size_t i = 0; i < std::size(tensors); ++i) {
    if (tensors[i].first == nullptr) continue;
    if (tensors[i].first->stride != tensors[i].second->stride) {
      text += fmt::format(":{}={}", kStrideNames[i], fmt::join(tensors[i].first->stride, "."));
    }
  }
  if (p.scale.stride != plain.scale.stride || p.stride_group != plain.stride_group) {
    text += fmt::format(":ss={}.{}", fmt::join(p.scale.stride, "."), p.stride_group);
  }
  return text;
}

Result<RowProblem> parse_row_problem(const RowOp& op, std::string_view text) {
  const std::string_view all = text;
  RowProblem p;
  bool residual_out = op.second == nullptr, gradient = true, has_m = false, has_n = false;
  std::array<std::string_view, std::size(kStrideNames)> strides;
  p.scale.dtype = DType::kF32;
  p.backward = op.backward;
  if (op.rotates) p.rotation = unset_rotation();
  if (op.loses) add_loss(p);
  while (!text.empty()) {
    const std::string_view item = text.substr(0, text.find(':'));
    text.remove_prefix(std::min(item.size() + 1, text.size()));
    const size_t equal = item.find('=');
    const std::string_view name = item.substr(0, equal),
                           value = equal == std::string_view::npos ? "" : item.substr(equal + 1);
    Status s;
    if (name == "m") {
      std::array<int64_t, kRowDims> size{};
      size_t count = 0;
      s = parse_numbers(value, 'x', size, count);
      p.size = {1, 1, 1};
      std::copy_n(size.begin(), count, p.size.end() - static_cast<ptrdiff_t>(count));
      has_m = true;
    } else if (name == "n") {
      s = fields_detail::parse_value(value, p.n), has_n = true;
    } else if (const auto* stride = std::ranges::find(kStrideNames, name); stride != std::end(kStrideNames)) {
      strides[static_cast<size_t>(stride - kStrideNames)] = value;
    } else {
      const std::pair<std::string_view, DType*> dtypes[] = {
          {"x", &p.x.dtype},     {"residual", &p.residual.dtype}, {"weight", &p.weight},    {"bias", &p.bias},
          {"smooth", &p.smooth}, {"out", &p.out.dtype},           {"scale", &p.scale.dtype}};
      const auto* dtype = std::ranges::find(dtypes, name, &std::pair<std::string_view, DType*>::first);
      bool flag = false;
      if (dtype != std::end(dtypes)) {
        s = fields_detail::parse_value(value, *dtype->second);
      } else if (name == "quant") {
        s = fields_detail::parse_value(value, p.quant);
      } else if (name == "gate") {
        s = fields_detail::parse_value(value, p.gate);
      } else if (name == "activation") {
        s = fields_detail::parse_value(value, p.activation);
      } else if (name == "squared") {
        s = fields_detail::parse_value(value, flag), p.squared = flag;
      } else if (name == "weight_groups") {
        s = fields_detail::parse_value(value, p.weight_groups);
      } else if (name == "gate_first") {
        s = fields_detail::parse_value(value, flag), p.gate_first = flag;
      } else if (name == "arithmetic") {
        s = fields_detail::parse_value(value, p.arithmetic);
      } else if (name == "single") {
        s = fields_detail::parse_value(value, flag), p.single = flag;
      } else if (name == "log") {
        s = fields_detail::parse_value(value, flag), p.log = flag;
      } else if (name == "rounding") {
        s = fields_detail::parse_value(value, p.rounding);
      } else if (name == "tensor_scale") {
        s = fields_detail::parse_value(value, p.tensor_scale);
      } else if (name == "hadamard") {
        s = fields_detail::parse_value(value, p.hadamard);
      } else if (name == "state_words") {
        s = fields_detail::parse_value(value, p.state_words);
      } else if (name == "group") {
        s = fields_detail::parse_value(value, p.group);
      } else if (name == "residual_out") {
        s = fields_detail::parse_value(value, residual_out);
      } else if (name == "gradient" && op.loses) {
        s = fields_detail::parse_value(value, gradient);
      } else if (name == "unit_offset") {
        s = fields_detail::parse_value(value, flag), p.unit_offset = flag;
      } else if (name == "round_before_weight") {
        s = fields_detail::parse_value(value, flag), p.round_before_weight = flag;
      } else if (name == "unaligned") {
        s = fields_detail::parse_value(value, flag), p.unaligned = flag;
      } else if (name == "programmatic_edge") {
        s = fields_detail::parse_value(value, flag), p.programmatic_edge = flag;
      } else if (!(op.rotates && parse_rotation(name, value, p, s)) && !(op.loses && parse_loss(name, value, p, s)) &&
                 !(op.norm_backward() && parse_backward(name, value, p, s))) {
        s = Status(StatusCode::kInvalidArgument, fmt::format("'{}' is none of its fields", name));
      }
    }
    if (!s) return refuse_row_text(op, "problem '{}': {}: {}", all, item, s.message());
  }
  if (!has_m || !has_n || !p.x.present()) return refuse_row_text(op, "problem '{}': expected m=..:n=..:x=..", all);
  if (p.residual.present() && residual_out) p.residual_out.dtype = p.residual.dtype;
  if (!p.out.present() && gradient)
    p.out.dtype = op.quantises ? DType::kF8E4M3 : op.dequantises ? DType::kF32 : p.x.dtype;
  if (p.gradients.added.present()) p.gradients.added.dtype = p.out.dtype;
  if (p.quant == Quantisation::kNone && (op.quantises || op.dequantises)) p.quant = Quantisation::kRow;
  if (p.quant == Quantisation::kNone) p.scale.dtype = DType::kNone;
  if (p.quant == Quantisation::kGroup && p.group == 0) p.group = usual_row_group(p.scale.dtype);
  if (p.quant == Quantisation::kBlock && p.group == 0) p.group = kScaleBlock;
  if (has_groups(p.quant) && p.group < 1) return refuse_row_text(op, "problem '{}': group is {}", all, p.group);
  if (std::ranges::any_of(p.size, [](int64_t size) { return size == 0; })) p.size = {1, 1, 0};
  if (op.rotates) complete_rotation(p);
  set_contiguous(p);
  RowTensorProblem* const tensors[] = {&p.x,         &p.residual, &p.residual_out,   &p.out, &p.scale, &p.loss.target,
                                       &p.loss.loss, &p.loss.lse, &p.gradients.added};
  for (size_t i = 0; i < strides.size(); ++i) {
    if (strides[i].empty()) continue;
    std::array<int64_t, kRowDims + 1> numbers{};
    size_t count = 0;
    const bool scale = tensors[i] == &p.scale;
    const Status s = parse_numbers(strides[i], '.', numbers, count);
    if (!s || count != (scale ? 4u : 3u)) {
      return refuse_row_text(op, "problem '{}': {} is '{}', expected {} numbers", all, kStrideNames[i], strides[i],
                             scale ? 4 : 3);
    }
    for (size_t d = 0; d < kRowDims; ++d) tensors[i]->stride[d] = p.tensor_size(*tensors[i])[d] > 1 ? numbers[d] : 0;
    if (scale) p.stride_group = p.groups() > 1 ? numbers[3] : 0;
  }
  if (Status s = validate_row_problem(op, p); !s) return s;
  return p;
}

}  // namespace tilewright
