// SPDX-License-Identifier: MIT
#include "problems/captured/aiter_shapes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "core/fields.hpp"
#include "ops/gemm/problem/gemm_problem.hpp"

namespace tilewright::cli {
namespace {

Status refuse(std::string message) { return Status(StatusCode::kInvalidArgument, std::move(message)); }

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

enum class Variant {
  kUnknown,
  kBf16,           // M,N,K,bias,dtype,outdtype,scaleAB[,bpreshuffle]
  kA8w8,           // M,N,K,q_dtype_w
  kBatched,        // B,M,N,K; bf16 or a8w8
  kBatchedMx,      // b,m,n,k
  kMnk,            // M,N,K: blockscale or a4w4
  kMoe,            // token,model_dim,inter_dim,expert,...
  kGatedDelta,     // dtype,K,V,BT,H,...
  kLegacyA8w8Asm,  // M,N,K,bias,outdtype
};

// Columns by name, whatever their case; AITER has M and m.
class Row {
 public:
  Row(const CsvFile& file, const CsvFile::Row* row) : file_(file), row_(row) {
    for (size_t i = 0; i < file.columns.size(); ++i) columns_.emplace(lower(file.columns[i]), i);
    name_ = lower(std::filesystem::path(file.path).filename().string());
  }
  bool has(const char* column) const { return columns_.contains(column); }
  bool named(const char* word) const { return name_.find(word) != std::string::npos; }
  std::string text(const char* column) const {
    const auto it = columns_.find(column);
    return it == columns_.end() || row_ == nullptr ? "" : row_->cells[it->second];
  }
  bool flag(const char* column) const {
    const std::string value = lower(text(column));
    return value == "true" || value == "1";
  }
  Result<int64_t> size(const char* column) const {
    int64_t value = 0;
    if (Status s = fields_detail::parse_integer(text(column), 1, int64_t{1} << 40, value); !s) {
      return refuse(fmt::format("column '{}': {}", column, s.message()));
    }
    return value;
  }
  Variant variant() const {
    if (has("model_dim") && has("inter_dim") && has("expert")) return Variant::kMoe;
    if (has("bt") && has("v") && has("h")) return Variant::kGatedDelta;
    if (!has("m") || !has("n") || !has("k")) return Variant::kUnknown;
    if (has("scaleab")) return Variant::kBf16;
    if (has("q_dtype_w")) return Variant::kA8w8;
    if (has("b")) return file_.column("b") >= 0 ? Variant::kBatchedMx : Variant::kBatched;
    if (has("bias") && has("outdtype")) return Variant::kLegacyA8w8Asm;
    return Variant::kMnk;
  }

 private:
  const CsvFile& file_;
  const CsvFile::Row* row_;
  std::string name_;
  std::map<std::string, size_t> columns_;
};

// "torch.bfloat16" -> "bf16".
Result<std::string> dtype_of(const std::string& torch) {
  constexpr std::pair<const char*, const char*> kNames[] = {
      {"torch.bfloat16", "bf16"},      {"torch.float16", "f16"},
      {"torch.float32", "f32"},        {"torch.int8", "i8"},
      {"torch.float8_e4m3fn", "e4m3"}, {"torch.float8_e4m3fnuz", "e4m3fnuz"},
      {"torch.float8_e5m2", "e5m2"},   {"torch.float8_e5m2fnuz", "e5m2fnuz"}};
  for (const auto& [name, dtype] : kNames) {
    if (torch == name) return std::string(dtype);
  }
  return Status(StatusCode::kUnsupported, fmt::format("dtype '{}' is not known", torch));
}

Status unserved(const char* what) {
  return Status(StatusCode::kUnsupported, fmt::format("no operator serves {} yet", what));
}

// Scales as AITER has them: of tokens and output channels (a8w8), of the tensor (scaleAB), of 1 x 128 and 128 x 128
// (blockscale), of 32 (mx).
constexpr const char* kScales = ":scale_a=f32:scale_b=f32";
constexpr const char* kTensorScales = ":scale_a=f32.0.0.0:scale_b=f32.0.0.0";
constexpr const char* kBlockScales = ":scale_a=f32.1x128:scale_b=f32.128x128";
constexpr const char* kMxScales = ":scale_a=e8m0.1x32:scale_b=e8m0.1x32";

// Tables whose columns name no dtype: the flavour of the GPU's 8-bit floats.
const char* f8_of(const Row& row) { return row.text("gfx") == "gfx942" ? "e4m3fnuz" : "e4m3"; }

Result<std::string> text_of(const Row& row) {
  const Variant variant = row.variant();
  switch (variant) {
    case Variant::kUnknown: return refuse("these are no columns of AITER's");
    case Variant::kMoe: return unserved("fused mixture of experts");
    case Variant::kGatedDelta: return unserved("the gated delta rule");
    default: break;
  }
  Result<int64_t> m = row.size("m"), n = row.size("n"), k = row.size("k");
  for (const Result<int64_t>* size : {&m, &n, &k}) {
    if (!*size) return size->status();
  }
  std::string text = fmt::format("m={}:n={}:k={}", *m, *n, *k);
  if (variant == Variant::kMnk) {
    if (row.named("a4w4")) return text + ":a=e2m1" + kMxScales;
    if (row.named("bpreshuffle")) return unserved("blockscale gemm with shuffled weights");
    return text + fmt::format(":a={}{}", f8_of(row), kBlockScales);
  }
  if (variant == Variant::kLegacyA8w8Asm) {
    text += fmt::format(":a=i8{}", kScales);
    if (row.flag("bias")) text += ":bias=f32";
    return text;
  }
  if (variant == Variant::kBatched || variant == Variant::kBatchedMx) {
    const Result<int64_t> batch = row.size("b");
    if (!batch) return batch.status();
    if (variant == Variant::kBatchedMx) {
      return text + fmt::format(":batch={}:a={}{}", *batch, row.named("fp4") || row.named("a4w4") ? "e2m1" : "e4m3",
                                kMxScales);
    }
    return text + fmt::format(":batch={}{}", *batch, row.named("a8w8") ? fmt::format(":a=i8{}", kScales) : ":a=bf16");
  }
  const bool packed = row.flag("bpreshuffle") || (variant == Variant::kA8w8 && row.named("bpreshuffle"));
  const std::string packing = packed ? ":packed=1" : "";
  const Result<std::string> dtype = dtype_of(row.text(variant == Variant::kA8w8 ? "q_dtype_w" : "dtype"));
  if (!dtype) return dtype.status();
  const bool quantised = variant == Variant::kA8w8 || row.flag("scaleab");
  // Its weights are for GPUs, which take those of 4 bits plain.
  const DType weight = *parse_dtype(*dtype);
  if (packed && (!is_packable(weight) || dtype_bits(weight) < 8)) {
    return unserved(fmt::format("{} gemm with shuffled weights", *dtype).c_str());
  }
  text += fmt::format(":a={}", *dtype);
  if (variant == Variant::kBf16) {
    const Result<std::string> out = dtype_of(row.text("outdtype"));
    if (!out) return out.status();
    if (*out != dtype_name(usual_d_dtype(*parse_dtype(*dtype)))) text += ":d=" + *out;
  }
  text += packing;
  if (quantised) text += variant == Variant::kBf16 && *dtype != "i8" ? kTensorScales : kScales;
  // AITER's bias has the output's dtype.
  if (row.flag("bias")) text += ":bias=" + (row.has("outdtype") ? *dtype_of(row.text("outdtype")) : "f32");
  return text;
}

}  // namespace

Status aiter_problems(const std::string& path, std::vector<NamedProblem>& problems,
                      std::vector<SkippedShapes>& skipped) {
  Result<CsvFile> file = read_csv(path);
  if (!file) return file.status();
  if (Row(*file, nullptr).variant() == Variant::kUnknown) {
    return refuse(
        fmt::format("{}:1: no columns of an AITER shape file; known: M,N,K with q_dtype_w, with bias,dtype,"
                    "outdtype,scaleAB, with B, or alone; token,model_dim,inter_dim,expert,...",
                    path));
  }
  std::map<std::string, int64_t> reasons;
  for (const CsvFile::Row& row : file->rows) {
    const Result<std::string> text = text_of(Row(*file, &row));
    Result<NamedProblem> problem = text ? parse_problem_text(*text) : Result<NamedProblem>(text.status());
    if (problem) {
      problem->layer = std::filesystem::path(path).stem().string();
      problems.push_back(std::move(*problem));
    } else if (problem.status().code() == StatusCode::kUnsupported) {
      ++reasons[problem.status().message()];
    } else {
      return refuse(fmt::format("{}:{}: {}", path, row.line, problem.status().message()));
    }
  }
  for (const auto& [reason, rows] : reasons) skipped.push_back({path, rows, reason});
  return {};
}

}  // namespace tilewright::cli
