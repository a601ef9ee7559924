// SPDX-License-Identifier: MIT
// A gemm problem as one line of text and back: what logs, journals, tuned tables and the command line speak.
//
//   m=16:n=4096:k=4096:a=bf16:layout=rcr:packed=1:bias=bf16:act=gelu:steps=add.bf16+act.relu
//
// packed is 1, or fragments for what an NVIDIA GPU packed.
// Defaults: batch=1, b=a, d=a (bf16 for i8), layout=rcr, strides contiguous. An operand is dtype or dtype.sb.sm.sn
// (strides along batch, M, N); scales of groups are dtype.OUTERxK or dtype.OUTERxK.sb.so.sk, e8m0.1x32; zero_b is dtype or dtype.sb.so.sk. align = bytes to which the pointers of A, B and D, then C and the bias, then scales of groups, then zero points, are aligned, below 16; sa, sb, sd give strides as outer.row.column: sa = batch.m.k, sb = batch.k.n, sd = batch.m.n.
#include <fmt/format.h>

#include <bit>
#include <charconv>
#include <map>

#include "core/fields.hpp"
#include "ops/gemm/problem/gemm_aliasing.hpp"
#include "ops/gemm/problem/gemm_problem.hpp"
#include "ops/gemm/problem/gemm_scales.hpp"

namespace tilewright {
namespace {

Status refuse_text(std::string message) {
  return Status(StatusCode::kInvalidArgument, "gemm problem text: " + std::move(message));
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (true) {
    const size_t at = text.find(separator);
    parts.push_back(text.substr(0, at));
    if (at == std::string_view::npos) return parts;
    text.remove_prefix(at + 1);
  }
}

constexpr std::string_view kFragmentsText = "fragments";  // packed=fragments: as NVIDIA GPUs pack

struct Strides {
  int64_t batch, row, column;
};
Strides contiguous(int64_t rows, int64_t columns, bool row_major) {
  return row_major ? Strides{rows * columns, columns, 1} : Strides{rows * columns, 1, rows};
}

// The strides that a layout's letters mean for this problem's sizes.
void set_layout(GemmProblem& p, bool a_row, bool b_row, bool d_row) {
  const Strides a = contiguous(p.m, p.k, a_row), b = contiguous(p.k, p.n, b_row), d = contiguous(p.m, p.out_n(), d_row);
  const bool batched = p.batch != 1;
  p.stride_a_batch = batched ? a.batch : 0, p.stride_a_m = a.row, p.stride_a_k = a.column;
  p.stride_b_batch = batched ? b.batch : 0, p.stride_b_k = b.row, p.stride_b_n = b.column;
  p.stride_d_batch = batched ? d.batch : 0, p.stride_d_m = d.row, p.stride_d_n = d.column;
  if (p.b_packed) {
    p.stride_b_batch = batched ? packed_entry_bytes(p) : 0;
    p.stride_b_k = p.stride_b_n = 0;
  }
}

enum class OperandDefault { kFull, kBias, kStep };

void default_operand(const GemmProblem& p, OperandDefault kind, OperandProblem& o) {
  const int64_t columns = kind == OperandDefault::kStep ? p.out_n() : p.n;
  if (kind == OperandDefault::kBias) o.stride_n = p.n == 1 ? 0 : 1;
  if (kind == OperandDefault::kFull || kind == OperandDefault::kStep) {
    o.stride_batch = p.batch == 1 ? 0 : p.m * columns;
    o.stride_m = p.m == 1 ? 0 : columns;
    o.stride_n = columns == 1 ? 0 : 1;
  }
}

std::string print_operand(const GemmProblem& p, OperandDefault kind, const OperandProblem& o) {
  OperandProblem usual;
  default_operand(p, kind, usual);
  if (usual.stride_batch == o.stride_batch && usual.stride_m == o.stride_m && usual.stride_n == o.stride_n) {
    return dtype_name(o.dtype);
  }
  return fmt::format("{}.{}.{}.{}", dtype_name(o.dtype), o.stride_batch, o.stride_m, o.stride_n);
}

Status parse_number(std::string_view text, int64_t& out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  if (error != std::errc() || end != text.data() + text.size()) {
    return refuse_text(fmt::format("'{}' is not a 64-bit integer", text));
  }
  return {};
}

Status parse_operand(const GemmProblem& p, OperandDefault kind, std::span<const std::string_view> parts,
                     OperandProblem& o) {
  if (parts.size() != 1 && parts.size() != 4) return refuse_text("an operand is dtype or dtype.sb.sm.sn");
  Result<DType> dtype = parse_dtype(parts[0]);
  if (!dtype) return dtype.status();
  if (*dtype != DType::kF32 && *dtype != DType::kF16 && *dtype != DType::kBf16) {
    return refuse_text(fmt::format("operand dtype '{}', allowed: f32, f16, bf16", parts[0]));
  }
  o.dtype = *dtype;
  if (parts.size() == 1) {
    default_operand(p, kind, o);
    return {};
  }
  int64_t* strides[] = {&o.stride_batch, &o.stride_m, &o.stride_n};
  for (int i = 0; i < 3; ++i) {
    if (Status s = parse_number(parts[i + 1], *strides[i]); !s) return s;
  }
  return {};
}

template <class Enum>
Status parse_name(std::string_view text, Enum& out) {
  return fields_detail::parse_value(text, out);
}

Status parse_steps(std::string_view text, GemmProblem& p) {
  for (std::string_view item : split(text, '+')) {
    if (p.step_count == kMaxSteps) return refuse_text(fmt::format("more than {} steps", kMaxSteps));
    StepProblem& step = p.steps[p.step_count++];
    std::vector<std::string_view> parts = split(item, '.');
    if (Status s = parse_name(parts[0], step.kind); !s) return s;
    if (step.kind == StepKind::kNone || parts.size() < 2)
      return refuse_text("a step is act.NAME, add.OPERAND or mul.OPERAND");
    if (step.kind == StepKind::kActivation) {
      if (parts.size() != 2) return refuse_text("a step is act.NAME, add.OPERAND or mul.OPERAND");
      if (Status s = parse_name(parts[1], step.activation); !s) return s;
    } else if (Status s = parse_operand(p, OperandDefault::kStep, std::span(parts).subspan(1), step.operand); !s) {
      return s;
    }
  }
  return {};
}

// "16.2.16", "16.2.16.4.16", "16.16.16.16.16.1.4": a pointer's alignment, A, B, D, and C and bias, and scales of groups,
// and zero points.
Status parse_align(std::string_view text, GemmProblem& p) {
  const std::vector<std::string_view> parts = split(text, '.');
  if (parts.size() != 3 && parts.size() != 5 && parts.size() != 7 && parts.size() != 8) {
    return refuse_text("'align' needs three, five, seven or eight numbers of bytes");
  }
  uint8_t* fields[] = {&p.shortfall_a,    &p.shortfall_b,       &p.shortfall_d,       &p.c.shortfall,
                       &p.bias.shortfall, &p.scale_a.shortfall, &p.scale_b.shortfall, &p.zero_b.shortfall};
  for (size_t i = 0; i < parts.size(); ++i) {
    int64_t bytes = 0;
    if (Status s = parse_number(parts[i], bytes); !s) return s;
    if (bytes < 1 || bytes > 16 || (bytes & (bytes - 1)) != 0) {
      return refuse_text(fmt::format("'align' has {}, allowed: 1, 2, 4, 8, 16", bytes));
    }
    *fields[i] = static_cast<uint8_t>(4 - std::countr_zero(static_cast<uint64_t>(bytes)));
  }
  if ((p.c.shortfall != 0 && !p.c.present()) || (p.bias.shortfall != 0 && !p.bias.present())) {
    return refuse_text("'align' tells of C or bias, which is absent");
  }
  if ((p.scale_a.shortfall != 0 && !p.scale_a.blocked()) || (p.scale_b.shortfall != 0 && !p.scale_b.blocked())) {
    return refuse_text("'align' tells of scales of groups, which are absent");
  }
  if (p.zero_b.shortfall != 0 && !p.zero_b.present()) {
    return refuse_text("'align' tells of zero points, which are absent");
  }
  return {};
}

using Items = std::map<std::string_view, std::string_view>;

Status parse_sizes(const Items& items, GemmProblem& p) {
  for (auto [name, field] : {std::pair{"m", &p.m}, {"n", &p.n}, {"k", &p.k}, {"batch", &p.batch}}) {
    const auto it = items.find(name);
    if (it == items.end()) {
      if (field == &p.batch) continue;
      return refuse_text(fmt::format("'{}' is missing", name));
    }
    if (Status s = parse_number(it->second, *field); !s) return s;
    if (*field < 0 || *field > (int64_t{1} << 48))
      return refuse_text(fmt::format("'{}' = {} is out of range", name, *field));
  }
  return {};
}

Status parse_dtypes(const Items& items, GemmProblem& p) {
  p.a_dtype = DType::kBf16;
  if (items.count("a")) {
    Result<DType> dtype = parse_dtype(items.at("a"));
    if (!dtype) return dtype.status();
    p.a_dtype = *dtype;
  }
  p.b_dtype = p.a_dtype;
  p.d_dtype = usual_d_dtype(p.a_dtype);
  for (auto [name, field] : {std::pair{"b", &p.b_dtype}, {"d", &p.d_dtype}}) {
    if (!items.count(name)) continue;
    Result<DType> dtype = parse_dtype(items.at(name));
    if (!dtype) return dtype.status();
    *field = *dtype;
  }
  return {};
}

Status parse_strides(const Items& items, GemmProblem& p) {
  struct Target {
    const char* name;
    int64_t *batch, *row, *column;
  };
  for (const Target& t : {Target{"sa", &p.stride_a_batch, &p.stride_a_m, &p.stride_a_k},
                          Target{"sb", &p.stride_b_batch, &p.stride_b_k, &p.stride_b_n},
                          Target{"sd", &p.stride_d_batch, &p.stride_d_m, &p.stride_d_n}}) {
    if (!items.count(t.name)) continue;
    const std::vector<std::string_view> parts = split(items.at(t.name), '.');
    if (parts.size() != 3) return refuse_text(fmt::format("'{}' needs three strides", t.name));
    int64_t* fields[] = {t.batch, t.row, t.column};
    for (int i = 0; i < 3; ++i) {
      if (Status s = parse_number(parts[i], *fields[i]); !s) return s;
    }
  }
  return {};
}

Status parse_epilogue(const Items& items, GemmProblem& p) {
  for (auto [name, side, scale] : {std::tuple{"scale_a", ScaleSide::kA, &p.scale_a},
                                   {"scale_b", ScaleSide::kB, &p.scale_b},
                                   {"zero_b", ScaleSide::kZeroB, &p.zero_b}}) {
    if (!items.count(name)) continue;
    if (Status s = parse_scale(p, side, split(items.at(name), '.'), *scale); !s) return s;
  }
  struct Target {
    const char* name;
    OperandDefault kind;
    OperandProblem* operand;
  };
  for (const Target& t : {Target{"c", OperandDefault::kFull, &p.c}, Target{"bias", OperandDefault::kBias, &p.bias}}) {
    if (!items.count(t.name)) continue;
    const std::vector<std::string_view> parts = split(items.at(t.name), '.');
    if (Status s = parse_operand(p, t.kind, parts, *t.operand); !s) return s;
  }
  if (items.count("act")) {
    if (Status s = parse_name(items.at("act"), p.activation); !s) return s;
  }
  if (items.count("steps")) {
    if (Status s = parse_steps(items.at("steps"), p); !s) return s;
  }
  if (items.count("align")) {
    if (Status s = parse_align(items.at("align"), p); !s) return s;
  }
  for (auto [name, field] : {std::pair{"alpha", &p.has_alpha},
                             {"deterministic", &p.deterministic},
                             {"batch_invariant", &p.batch_invariant},
                             {"allow_tf32", &p.allow_tf32},
                             {"allow_fast_accum", &p.allow_fast_accum},
                             {"programmatic_edge", &p.programmatic_edge}}) {
    if (!items.count(name)) continue;
    bool value = false;
    if (Status s = fields_detail::parse_value(items.at(name), value); !s) return s;
    *field = value;
  }
  return {};
}

constexpr std::string_view kKnownNames[] = {"m",
                                            "n",
                                            "k",
                                            "batch",
                                            "a",
                                            "b",
                                            "d",
                                            "layout",
                                            "packed",
                                            "gate",
                                            "sa",
                                            "sb",
                                            "sd",
                                            "act",
                                            "steps",
                                            "alpha",
                                            "scale_a",
                                            "scale_b",
                                            "zero_b",
                                            "bias",
                                            "c",
                                            "deterministic",
                                            "batch_invariant",
                                            "align",
                                            "allow_tf32",
                                            "allow_fast_accum",
                                            "programmatic_edge"};

}  // namespace

std::string print_gemm_problem(const GemmProblem& p) {
  std::string text = fmt::format("m={}:n={}:k={}", p.m, p.n, p.k);
  auto add = [&text](std::string_view name, std::string_view value) { text += fmt::format(":{}={}", name, value); };
  if (p.batch != 1) add("batch", std::to_string(p.batch));
  add("a", dtype_name(p.a_dtype));
  if (p.b_dtype != p.a_dtype) add("b", dtype_name(p.b_dtype));
  if (p.d_dtype != usual_d_dtype(p.a_dtype)) add("d", dtype_name(p.d_dtype));
  if (p.gate != GateMode::kNone) add("gate", enum_names(GateMode{})[static_cast<int>(p.gate)]);

  // The layout whose contiguous strides come closest; the differences follow as sa, sb, sd.
  const bool a_row = p.stride_a_k == 1 || p.stride_a_m != 1, d_row = p.stride_d_n == 1 || p.stride_d_m != 1;
  const bool b_row = !p.b_packed && p.stride_b_n == 1 && p.stride_b_k != 1;
  GemmProblem usual = p;
  set_layout(usual, a_row, b_row, d_row);
  add("layout", fmt::format("{}{}{}", a_row ? 'r' : 'c', b_row ? 'r' : 'c', d_row ? 'r' : 'c'));
  if (p.b_packed) add("packed", p.b_packed == kPackedFragments ? kFragmentsText : "1");
  auto strides = [&](const char* name, Strides have, Strides want) {
    if (have.batch != want.batch || have.row != want.row || have.column != want.column) {
      add(name, fmt::format("{}.{}.{}", have.batch, have.row, have.column));
    }
  };
  strides("sa", {p.stride_a_batch, p.stride_a_m, p.stride_a_k},
          {usual.stride_a_batch, usual.stride_a_m, usual.stride_a_k});
  strides("sb", {p.stride_b_batch, p.stride_b_k, p.stride_b_n},
          {usual.stride_b_batch, usual.stride_b_k, usual.stride_b_n});
  strides("sd", {p.stride_d_batch, p.stride_d_m, p.stride_d_n},
          {usual.stride_d_batch, usual.stride_d_m, usual.stride_d_n});

  if (p.has_alpha) add("alpha", "1");
  if (p.scale_a.present()) add("scale_a", print_scale(p, ScaleSide::kA, p.scale_a));
  if (p.scale_b.present()) add("scale_b", print_scale(p, ScaleSide::kB, p.scale_b));
  if (p.zero_b.present()) add("zero_b", print_scale(p, ScaleSide::kZeroB, p.zero_b));
  if (p.c.present()) add("c", print_operand(p, OperandDefault::kFull, p.c));
  if (p.bias.present()) add("bias", print_operand(p, OperandDefault::kBias, p.bias));
  if (p.activation != Activation::kNone) add("act", kActivationNames[static_cast<int>(p.activation)]);
  std::string steps;
  for (int i = 0; i < p.step_count; ++i) {
    const StepProblem& step = p.steps[i];
    if (i > 0) steps += '+';
    steps += kStepKindNames[static_cast<int>(step.kind)];
    steps += '.';
    steps += step.kind == StepKind::kActivation ? std::string(kActivationNames[static_cast<int>(step.activation)])
                                                : print_operand(p, OperandDefault::kStep, step.operand);
  }
  if (!steps.empty()) add("steps", steps);
  const bool zeros = p.zero_b.shortfall != 0;
  const bool scales = zeros || (p.scale_a.shortfall | p.scale_b.shortfall) != 0;
  const bool operands = scales || (p.c.shortfall | p.bias.shortfall) != 0;
  if (operands || (p.shortfall_a | p.shortfall_b | p.shortfall_d) != 0) {
    std::string align = fmt::format("{}.{}.{}", 16 >> p.shortfall_a, 16 >> p.shortfall_b, 16 >> p.shortfall_d);
    if (operands) align += fmt::format(".{}.{}", 16 >> p.c.shortfall, 16 >> p.bias.shortfall);
    if (scales) align += fmt::format(".{}.{}", 16 >> p.scale_a.shortfall, 16 >> p.scale_b.shortfall);
    if (zeros) align += fmt::format(".{}", 16 >> p.zero_b.shortfall);
    add("align", align);
  }
  if (p.deterministic) add("deterministic", "1");
  if (p.batch_invariant) add("batch_invariant", "1");
  if (p.allow_tf32) add("allow_tf32", "1");
  if (p.allow_fast_accum) add("allow_fast_accum", "1");
  if (p.programmatic_edge) add("programmatic_edge", "1");
  return text;
}

Result<GemmProblem> parse_gemm_problem(std::string_view text) {
  Items items;
  for (std::string_view item : split(text, ':')) {
    const size_t equal = item.find('=');
    const std::string_view name = item.substr(0, equal);
    if (equal == std::string_view::npos ||
        std::find(std::begin(kKnownNames), std::end(kKnownNames), name) == std::end(kKnownNames)) {
      return refuse_text(fmt::format("unknown item '{}', allowed: {}", item, fmt::join(kKnownNames, ", ")));
    }
    if (!items.emplace(name, item.substr(equal + 1)).second) return refuse_text(fmt::format("'{}' stands twice", name));
  }
  GemmProblem p;
  if (Status s = parse_sizes(items, p); !s) return s;
  if (Status s = parse_dtypes(items, p); !s) return s;
  if (items.count("gate")) {
    if (Status s = parse_name(items.at("gate"), p.gate); !s) return s;
  }
  if (items.count("packed")) {
    bool packed = false;
    if (items.at("packed") == kFragmentsText) {
      p.b_packed = kPackedFragments;
    } else if (Status s = fields_detail::parse_value(items.at("packed"), packed); !s) {
      return s;
    } else {
      p.b_packed = packed;
    }
  }
  const std::string_view layout = items.count("layout") ? items.at("layout") : "rcr";
  if (layout.size() != 3 || layout.find_first_not_of("rc") != std::string_view::npos) {
    return refuse_text(
        fmt::format("layout '{}', allowed: three letters r or c for A, B, D (rcr, rrr, crr, ccr ...)", layout));
  }
  // Sizes are bounded so that contiguous strides cannot overflow.
  if (Status s = check_gemm_extents(p); !s) return s;
  set_layout(p, layout[0] == 'r', layout[1] == 'r', layout[2] == 'r');
  if (Status s = parse_strides(items, p); !s) return s;
  if (Status s = parse_epilogue(items, p); !s) return s;
  if (Status s = validate_gemm_problem(p); !s) return s;
  return p;
}

GemmProblem resize_gemm_problem(const GemmProblem& from, int64_t m, int64_t n, int64_t k) {
  GemmProblem p = from;
  p.m = m, p.n = n, p.k = k;
  set_layout(p, from.stride_a_k == 1 || from.stride_a_m != 1, from.stride_b_n == 1 && from.stride_b_k != 1,
             from.stride_d_n == 1 || from.stride_d_m != 1);
  // What broadcast stays broadcast; the rest is contiguous again.
  auto resize = [&p](const OperandProblem& was, OperandProblem& o, int64_t columns) {
    o.stride_n = was.stride_n == 0 ? 0 : 1;
    o.stride_m = was.stride_m == 0 ? 0 : (o.stride_n == 0 ? 1 : columns);
    o.stride_batch = was.stride_batch == 0 ? 0 : (o.stride_n == 0 ? 1 : columns) * (o.stride_m == 0 ? 1 : p.m);
  };
  resize_scale(from, p, ScaleSide::kA, from.scale_a, p.scale_a);
  resize_scale(from, p, ScaleSide::kB, from.scale_b, p.scale_b);
  if (p.zero_b.present()) resize_scale(from, p, ScaleSide::kZeroB, from.zero_b, p.zero_b);
  resize(from.c, p.c, p.n);
  resize(from.bias, p.bias, p.n);
  for (int i = 0; i < p.step_count; ++i) resize(from.steps[i].operand, p.steps[i].operand, p.out_n());
  return p;
}

}  // namespace tilewright
