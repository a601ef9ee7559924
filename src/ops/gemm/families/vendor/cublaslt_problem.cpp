// SPDX-License-Identifier: MIT
#include "ops/gemm/families/vendor/cublaslt_problem.hpp"

#include <fmt/format.h>

#include <array>
#include <limits>

namespace tilewright {
namespace {

using cuda::LtCompute;
using cuda::LtMatrix;
using cuda::LtProblem;
using cuda::LtScale;
using cuda::LtType;

template <class... Args>
Status refuse_for_cublaslt(fmt::format_string<Args...> format, Args&&... args) {
  return Status(StatusCode::kUnsupported, fmt::format(format, std::forward<Args>(args)...));
}

// What is multiplied into what. Types that are not here are refused.
struct Product {
  DType input, d, bias;  // A and B; D and C; the bias
  LtCompute compute;
  bool scales;  // A and B may have some
};
constexpr Product kProducts[] = {
    {DType::kBf16, DType::kBf16, DType::kBf16, LtCompute::kF32, false},
    {DType::kBf16, DType::kF32, DType::kF32, LtCompute::kF32, false},
    {DType::kF16, DType::kF16, DType::kF16, LtCompute::kF32, false},
    {DType::kF16, DType::kF32, DType::kF32, LtCompute::kF32, false},
    {DType::kF32, DType::kF32, DType::kF32, LtCompute::kF32, false},
    {DType::kI8, DType::kI32, DType::kNone, LtCompute::kI32, false},
    {DType::kF8E4M3, DType::kBf16, DType::kBf16, LtCompute::kF32, true},
    {DType::kF8E4M3, DType::kF16, DType::kF16, LtCompute::kF32, true},
    {DType::kF8E4M3, DType::kF32, DType::kBf16, LtCompute::kF32, true},
};

LtType lt_type(DType dtype) {
  switch (dtype) {
    case DType::kF16: return LtType::kF16;
    case DType::kBf16: return LtType::kBf16;
    case DType::kI8: return LtType::kI8;
    case DType::kI32: return LtType::kI32;
    case DType::kF8E4M3: return LtType::kE4M3;
    default: return LtType::kF32;
  }
}

// A matrix of rows x columns by its strides, in elements. A size of 1 has no stride.
struct Strided {
  int64_t rows, columns, stride_row, stride_column, stride_batch;
  DType dtype;
  int shortfall;  // as in GemmProblem
};

struct Placed {
  LtMatrix matrix;
  bool transposed;  // its rows lie as the library's columns
};

// Columns or rows whose elements are neighbours; of both, those that have more than one element.
Result<Placed> place(const char* name, const Strided& s, bool transposable) {
  const auto leading = [](int64_t stride, int64_t lines, int64_t length) { return lines == 1 ? length : stride; };
  const auto fits = [&](bool transposed, bool single) {
    const int64_t length = transposed ? s.columns : s.rows, lines = transposed ? s.rows : s.columns;
    const int64_t step = transposed ? s.stride_column : s.stride_row,
                  stride = transposed ? s.stride_row : s.stride_column;
    return (length == 1) == single && (single || step == 1) && leading(stride, lines, length) >= length;
  };
  for (const bool single : {false, true}) {
    for (const bool transposed : {true, false}) {
      if ((transposed && !transposable) || !fits(transposed, single)) continue;
      const int64_t length = transposed ? s.columns : s.rows, lines = transposed ? s.rows : s.columns;
      constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
      if (length > kMost || lines > kMost)
        return refuse_for_cublaslt("{} has {} x {} elements, allowed: below 2^31 each", name, s.rows, s.columns);
      return Placed{
          {lt_type(s.dtype), length, lines, leading(transposed ? s.stride_row : s.stride_column, lines, length),
           s.stride_batch, 16u >> s.shortfall},
          transposed};
    }
  }
  return refuse_for_cublaslt(
      "{} of {} x {} has strides {} and {}, allowed: one of 1, the other no less than what it steps over", name, s.rows,
      s.columns, s.stride_row, s.stride_column);
}

// Row by row of the library's D: along `across` it must not vary.
struct Along {
  int64_t length, step, across;
};

Status read_bias(const GemmProblem& p, const Product& product, bool swapped, LtProblem& lt) {
  if (!p.bias.present()) return {};
  const Along along =
      swapped ? Along{p.n, p.bias.stride_n, p.bias.stride_m} : Along{p.m, p.bias.stride_m, p.bias.stride_n};
  if (along.across != 0 || (along.length > 1 && along.step != 1)) {
    return refuse_for_cublaslt("bias has strides {}.{}.{}, allowed: one element for each {} of D, next to each other",
                               p.bias.stride_batch, p.bias.stride_m, p.bias.stride_n, swapped ? "column" : "row");
  }
  if (p.bias.dtype != product.bias) {
    return refuse_for_cublaslt("bias is {}, allowed with D of {}: {}", dtype_name(p.bias.dtype), dtype_name(p.d_dtype),
                               dtype_name(product.bias));
  }
  lt.has_bias = true;
  lt.bias_type = lt_type(p.bias.dtype);
  lt.bias_batch_stride = p.bias.stride_batch;
  lt.bias_alignment = 16u >> p.bias.shortfall;
  return {};
}

// One value, or one for each of `length` rows of A or columns of B.
Status read_scale(const char* name, const ScaleProblem& o, int64_t length, LtScale& scale) {
  if (!o.present()) return {};
  const int64_t step = o.stride_outer;
  if (o.stride_batch != 0 || (length > 1 && step > 1)) {
    return refuse_for_cublaslt("{} has strides {}.{}, allowed: one value, or values next to each other, of no batch",
                               name, o.stride_batch, step);
  }
  scale = length > 1 && step == 1 ? LtScale::kVector : LtScale::kScalar;
  return {};
}

// One for each row or column, or for 128 of them, and 128 of K, in the library's order.
Status read_group_scale(const char* name, const ScaleProblem& s, int64_t length, int64_t k, LtScale& scale) {
  const ScaleCounts counts = scale_counts(s, length, k);
  const int64_t lines = s.outer == 1 ? counts.k : counts.outer, each = s.outer == 1 ? counts.outer : counts.k;
  const int64_t along = s.outer == 1 ? s.stride_outer : s.stride_k, step = s.outer == 1 ? s.stride_k : s.stride_outer;
  if (s.dtype != DType::kF32 || s.k != 128) {
    return refuse_for_cublaslt("{} is {}, allowed: f32.1x128, f32.128x128", name, scale_mode_text(s));
  }
  if ((each > 1 && along != 1) || (lines > 1 && step != (each + 3) / 4 * 4) || s.shortfall > 0 ||
      (s.outer == 1 && length % 4 != 0)) {
    return refuse_for_cublaslt(
        "{} of {} x {} has strides {}.{}, allowed: {} next to each other, and each {} of them in a multiple of four",
        name, counts.outer, counts.k, s.stride_outer, s.stride_k, s.outer == 1 ? "rows" : "groups along K",
        s.outer == 1 ? "group" : "row");
  }
  scale = s.outer == 1 ? LtScale::kRows128 : LtScale::kBlocks128;
  return {};
}

Status read_group_scales(const GemmProblem& p, bool swapped, LtProblem& lt) {
  LtScale a = LtScale::kNone, b = LtScale::kNone;
  if (!p.scale_a.blocked() || !p.scale_b.blocked()) {
    return refuse_for_cublaslt("only one of A and B has scales of groups, allowed: both");
  }
  if (p.k % 128 != 0 || p.batch != 1) {
    return refuse_for_cublaslt("scales of groups with K = {} and batch = {}, allowed: a multiple of 128, and 1", p.k,
                               p.batch);
  }
  if (Status s = read_group_scale("scale_a", p.scale_a, p.m, p.k, a); !s) return s;
  if (Status s = read_group_scale("scale_b", p.scale_b, p.n, p.k, b); !s) return s;
  if (a == LtScale::kBlocks128 && b == a) {
    return refuse_for_cublaslt("A and B have scales of 128 x 128, allowed: one of them");
  }
  lt.fast_accumulation = false;  // what is summed apart is not for the library to say
  lt.scale_a = swapped ? b : a, lt.scale_b = swapped ? a : b;
  return {};
}

Status read_scales(const GemmProblem& p, const Product& product, bool swapped, LtProblem& lt) {
  if (!p.scale_a.present() && !p.scale_b.present()) return {};
  if (product.scales && p.has_block_scales()) return read_group_scales(p, swapped, lt);
  if (!product.scales) return refuse_for_cublaslt("scales of {} are not expressible", dtype_name(p.a_dtype));
  LtScale a = LtScale::kNone, b = LtScale::kNone;
  if (Status s = read_scale("scale_a", p.scale_a, p.m, a); !s) return s;
  if (Status s = read_scale("scale_b", p.scale_b, p.n, b); !s) return s;
  // Both are values or both are vectors; a single row's or column's is either.
  if (b == LtScale::kVector && a == LtScale::kScalar && p.m == 1) a = LtScale::kVector;
  if (a == LtScale::kVector && b == LtScale::kScalar && p.n == 1) b = LtScale::kVector;
  if (a != b && (a == LtScale::kVector || b == LtScale::kVector)) {
    return refuse_for_cublaslt("only one of scale_a and scale_b is a vector, allowed: both or none");
  }
  lt.scale_a = swapped ? b : a, lt.scale_b = swapped ? a : b;
  return {};
}

Status read_epilogue(const GemmProblem& p, LtProblem& lt) {
  if (p.gate != GateMode::kNone) return refuse_for_cublaslt("no epilogue has a gate");
  if (p.step_count > 0) return refuse_for_cublaslt("no epilogue has steps");
  switch (p.activation) {
    case Activation::kNone: break;
    case Activation::kRelu: lt.activation = cuda::kLtEpilogueRelu; break;
    case Activation::kGeluTanh: lt.activation = cuda::kLtEpilogueGelu; break;
    default:
      return refuse_for_cublaslt("no epilogue has the activation {}, allowed: relu, gelu_tanh",
                                 kActivationNames[static_cast<int>(p.activation)]);
  }
  if (lt.compute == LtCompute::kI32 && (p.has_alpha || p.c.present() || p.bias.present() || lt.activation != 0)) {
    return refuse_for_cublaslt("i32 sums are stored as they are: no alpha, C, bias or activation");
  }
  return {};
}

}  // namespace

Result<CublasLtProblem> cublaslt_problem(const GemmProblem& p, int units) {
  CublasLtProblem made;
  LtProblem& lt = made.lt;
  if (!p.has_block_scales()) {
    if (Status s = check_plain_product(p); !s) return s;
  }
  const Product* product = nullptr;
  for (const Product& known : kProducts) {
    if (known.input == p.a_dtype && p.b_dtype == p.a_dtype && known.d == p.d_dtype) product = &known;
  }
  if (product == nullptr) {
    return refuse_for_cublaslt("no product of {} and {} into {}", dtype_name(p.a_dtype), dtype_name(p.b_dtype),
                               dtype_name(p.d_dtype));
  }
  lt.compute = p.allow_tf32 ? LtCompute::kTf32 : product->compute;
  lt.fast_accumulation = p.allow_fast_accum != 0;
  if (p.batch > std::numeric_limits<int32_t>::max())
    return refuse_for_cublaslt("batch = {}, allowed: below 2^31", p.batch);
  lt.batch = p.batch;
  lt.units = units;
  if (Status s = read_epilogue(p, lt); !s) return s;

  // D by rows, which is the transposed D by columns; else D by columns.
  const Strided by_rows{p.n, p.m, p.stride_d_n, p.stride_d_m, p.stride_d_batch, p.d_dtype, p.shortfall_d};
  const Strided by_columns{p.m, p.n, p.stride_d_m, p.stride_d_n, p.stride_d_batch, p.d_dtype, p.shortfall_d};
  Result<Placed> d = place("D", by_rows, false);
  made.swapped = d.ok();
  if (!d) d = place("D", by_columns, false);
  if (!d) return d.status();
  lt.d = d->matrix;

  // op(A) is [rows of the library's D, K], op(B) [K, columns].
  const Strided a{p.m, p.k, p.stride_a_m, p.stride_a_k, p.stride_a_batch, p.a_dtype, p.shortfall_a};
  const Strided b{p.n, p.k, p.stride_b_n, p.stride_b_k, p.stride_b_batch, p.b_dtype, p.shortfall_b};
  const Result<Placed> first = place(made.swapped ? "B" : "A", made.swapped ? b : a, true),
                       second = place(made.swapped ? "A" : "B", made.swapped ? a : b, true);
  if (!first) return first.status();
  if (!second) return second.status();
  lt.a = first->matrix, lt.transpose_a = first->transposed;
  lt.b = second->matrix, lt.transpose_b = !second->transposed;  // [K, columns] is its transpose

  if (p.c.present()) {
    if (p.c.dtype != p.d_dtype)
      return refuse_for_cublaslt("C is {} and D is {}, allowed: one dtype", dtype_name(p.c.dtype),
                                 dtype_name(p.d_dtype));
    const bool varies =
        (p.m == 1 || p.c.stride_m != 0) && (p.n == 1 || p.c.stride_n != 0) && (p.batch == 1 || p.c.stride_batch != 0);
    if (!varies) return refuse_for_cublaslt("C is broadcast, allowed: [batch, M, N]");
    const Strided rows{p.n, p.m, p.c.stride_n, p.c.stride_m, p.c.stride_batch, p.c.dtype, p.c.shortfall};
    const Strided columns{p.m, p.n, p.c.stride_m, p.c.stride_n, p.c.stride_batch, p.c.dtype, p.c.shortfall};
    const Result<Placed> c = place("C", made.swapped ? rows : columns, false);
    if (!c) return c.status();
    lt.c = c->matrix;
    lt.has_c = true;
  }
  if (Status s = read_bias(p, *product, made.swapped, lt); !s) return s;
  if (Status s = read_scales(p, *product, made.swapped, lt); !s) return s;

  // Sums stay in f32 until the end: a split K meets in D's type only where that is f32, and one part after another in any order
  // only where the caller takes that.
  lt.reductions = cuda::kLtReduceCompute;
  if (p.d_dtype == DType::kF32) lt.reductions |= cuda::kLtReduceOutput | (p.deterministic ? 0 : cuda::kLtReduceInPlace);
  return made;
}

}  // namespace tilewright
