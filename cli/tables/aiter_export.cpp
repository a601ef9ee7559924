// SPDX-License-Identifier: MIT
#include "tables/aiter_export.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "command.hpp"
#include "core/fields.hpp"
#include "tilewright/dtype.hpp"

namespace tilewright::cli {
namespace {

using Items = std::map<std::string, std::string>;

Items items_of(const std::string& text) {
  Items items;
  for (const std::string& item : split_words(text, ':')) {
    const size_t equal = item.find('=');
    items.emplace(item.substr(0, equal), equal == std::string::npos ? "" : item.substr(equal + 1));
  }
  return items;
}

std::string torch_name(const std::string& dtype) {
  constexpr std::pair<const char*, const char*> kNames[] = {
      {"bf16", "torch.bfloat16"},      {"f16", "torch.float16"},
      {"f32", "torch.float32"},        {"i8", "torch.int8"},
      {"e4m3", "torch.float8_e4m3fn"}, {"e4m3fnuz", "torch.float8_e4m3fnuz"},
      {"e5m2", "torch.float8_e5m2"},   {"e5m2fnuz", "torch.float8_e5m2fnuz"}};
  for (const auto& [name, torch] : kNames) {
    if (dtype == name) return torch;
  }
  return "";
}

enum class Scaled { kNo, kTensor, kTokenAndChannel, kBlocks, kMx };

// What AITER's columns can say of a gemm, or why they cannot.
struct Gemm {
  int64_t m = 0, n = 0, k = 0, batch = 1;
  DType a = DType::kNone, d = DType::kNone;
  bool packed = false, bias = false;
  Scaled scaled = Scaled::kNo;
};

Status not_in_aiter(std::string why) { return Status(StatusCode::kUnsupported, std::move(why)); }

// Scales of groups, which are the core's; of all of K, which are the epilogue's.
Result<Scaled> scaled_of(Items& core, const Items& epilogue) {
  const std::string a = core["scale_a"], b = core["scale_b"];
  if (a.starts_with("f32.1x128") && b.starts_with("f32.128x128")) return Scaled::kBlocks;
  if (a.starts_with("e8m0.1x32") && b.starts_with("e8m0.1x32")) return Scaled::kMx;
  if (!a.empty() || !b.empty()) return not_in_aiter("scales of groups that AITER's tables do not have");
  const auto a_of = epilogue.find("scale_a"), b_of = epilogue.find("scale_b");
  if (a_of == epilogue.end() && b_of == epilogue.end()) return Scaled::kNo;
  if (a_of == epilogue.end() || b_of == epilogue.end()) return not_in_aiter("only one of A and B has a scale");
  if (a_of->second == "f32" && b_of->second == "f32") return Scaled::kTensor;
  if (a_of->second == "f32m" && b_of->second == "f32n") return Scaled::kTokenAndChannel;
  return not_in_aiter("scales that AITER's tables do not have");
}

// Which dtypes AITER's tables have with which scales.
bool is_pair(DType a, Scaled scaled) {
  switch (scaled) {
    case Scaled::kNo: return a == DType::kBf16 || a == DType::kF16 || a == DType::kF32;
    case Scaled::kTensor: return is_f8(a);
    case Scaled::kTokenAndChannel: return is_f8(a) || a == DType::kI8;
    case Scaled::kBlocks: return a == DType::kF8E4M3 || a == DType::kF8E4M3Fnuz;
    case Scaled::kMx: return a == DType::kF8E4M3 || a == DType::kF4E2M1;
  }
  return false;
}

Result<Gemm> gemm_of(const TunedRow& row) {
  if (row.op != "gemm") return not_in_aiter(fmt::format("AITER's tables here are of gemm, not of '{}'", row.op));
  Gemm gemm;
  Items sizes = items_of(row.sizes), core = items_of(row.core), epilogue = items_of(row.epilogue);
  for (auto [name, size] : {std::pair{"m", &gemm.m}, {"n", &gemm.n}, {"k", &gemm.k}, {"batch", &gemm.batch}}) {
    if (Status s = fields_detail::parse_value(sizes[name], *size); !s)
      return not_in_aiter("sizes are not m, n, k, batch");
  }
  const Result<DType> a = parse_dtype(core["a"]), d = parse_dtype(epilogue["d"]);
  if (!a || !d) return not_in_aiter("a dtype that AITER's columns do not name");
  gemm.a = *a, gemm.d = *d;
  if (core["b"] != core["a"]) return not_in_aiter("A and B differ in dtype");
  if (core.contains("programmatic_edge")) return not_in_aiter("AITER's calls have no programmatic edges");
  if (core["layout"] != "rcr" && core["layout"] != "rpr")
    return not_in_aiter("AITER's layout is rcr, plain or shuffled");
  gemm.packed = core["layout"] == "rpr";
  const Result<Scaled> scaled = scaled_of(core, epilogue);
  if (!scaled) return scaled.status();
  gemm.scaled = *scaled;
  for (const auto& [name, value] : epilogue) {
    if (name == "d" || name == "scale_a" || name == "scale_b") continue;
    if (name != "bias" || !value.ends_with("n") || value.ends_with("mn")) {
      return not_in_aiter(fmt::format("AITER's columns have no epilogue '{}'", name));
    }
    gemm.bias = true;
  }
  if (!is_pair(gemm.a, gemm.scaled)) return not_in_aiter("scales and dtype do not go together in AITER's tables");
  if (torch_name(epilogue["d"]).empty()) return not_in_aiter("a dtype that AITER's columns do not name");
  const bool groups = gemm.scaled == Scaled::kBlocks || gemm.scaled == Scaled::kMx;
  if (groups && (gemm.bias || gemm.packed)) return not_in_aiter("AITER's tables of scales of groups have no bias");
  if (gemm.batch > 1 && (gemm.bias || gemm.packed || gemm.scaled == Scaled::kTensor || gemm.scaled == Scaled::kBlocks ||
                         (gemm.scaled == Scaled::kNo && gemm.a != DType::kBf16) ||
                         (gemm.scaled == Scaled::kTokenAndChannel && gemm.a != DType::kI8))) {
    return not_in_aiter("AITER's batched tables are plain bf16 and i8, and mx");
  }
  if (gemm.batch == 1 && gemm.scaled == Scaled::kMx && gemm.a != DType::kF4E2M1) {
    return not_in_aiter("AITER's tables of mxfp8 are batched");
  }
  return gemm;
}

struct Line {
  const char* file;
  const char* header;
  std::string text;
};
Line line_of(const TunedRow& row, const Gemm& g) {
  const double tflops = row.gflops * 1e-3;
  const auto elements = [](int64_t x, int64_t y) { return static_cast<double>(x) * static_cast<double>(y); };
  const double bytes =
      (elements(g.m, g.k) + elements(g.n, g.k)) * dtype_bits(g.a) / 8 + elements(g.m, g.n) * dtype_bits(g.d) / 8;
  const double bw = row.us > 0 ? bytes * static_cast<double>(g.batch) / row.us * 1e-3 : 0;  // GB/s
  const std::string measured =
      fmt::format("{:.4f},{},{:.4f},{:.2f},{:.3g}", row.us, row.recipe, tflops, bw, row.rel_error);
  const std::string device = fmt::format("{},{}", row.target, row.units), dtype = torch_name(dtype_name(g.a));
  const std::string mnk = fmt::format("{},{},{}", g.m, g.n, g.k);
  const auto flag = [](bool value) { return value ? "True" : "False"; };
  if (g.scaled == Scaled::kMx && g.batch > 1) {
    return {g.a == DType::kF4E2M1 ? "mxfp4_tuned_batched_gemm.csv" : "mxfp8_tuned_batched_gemm.csv",
            "gfx,b,m,n,k,libtype,kernelId,splitK,us,kernelName,tflops,bw,errRatio",
            fmt::format("{},{},{},tilewright,-1,0,{}", row.target, g.batch, mnk, measured)};
  }
  if (g.scaled == Scaled::kMx) {
    return {"a4w4_blockscale_tuned_gemm.csv", "gfx,cu_num,M,N,K,kernelId,splitK,us,kernelName,tflops,bw,errRatio",
            fmt::format("{},{},-1,0,{}", device, mnk, measured)};
  }
  if (g.scaled == Scaled::kBlocks) {
    return {"a8w8_blockscale_tuned_gemm.csv",
            "gfx,cu_num,M,N,K,libtype,kernelId,splitK,us,kernelName,tflops,bw,errRatio",
            fmt::format("{},{},tilewright,-1,0,{}", device, mnk, measured)};
  }
  if (g.batch > 1) {
    return {g.a == DType::kI8 ? "a8w8_tuned_batched_gemm.csv" : "bf16_tuned_batched_gemm.csv",
            "gfx,cu_num,B,M,N,K,kernelId,splitK,us,kernelName,tflops,bw,errRatio",
            fmt::format("{},{},{},-1,0,{}", device, g.batch, mnk, measured)};
  }
  if (g.scaled != Scaled::kTokenAndChannel || g.bias) {
    return {
        "bf16_tuned_gemm.csv",
        "gfx,cu_num,M,N,K,bias,dtype,outdtype,scaleAB,bpreshuffle,libtype,solidx,splitK,us,kernelName,err_ratio,tflops,"
        "bw",
        fmt::format("{},{},{},{},{},{},{},tilewright,-1,0,{:.4f},{},{:.3g},{:.4f},{:.2f}", device, mnk, flag(g.bias),
                    dtype, torch_name(dtype_name(g.d)), flag(g.scaled != Scaled::kNo), flag(g.packed), row.us,
                    row.recipe, row.rel_error, tflops, bw)};
  }
  if (g.packed) {
    return {"a8w8_bpreshuffle_tuned_gemm.csv",
            "gfx,cu_num,M,N,K,q_dtype_w,libtype,kernelId,splitK,us,kernelName,tflops,bw,errRatio",
            fmt::format("{},{},{},tilewright,-1,0,{}", device, mnk, dtype, measured)};
  }
  return {"a8w8_tuned_gemm.csv", "gfx,cu_num,M,N,K,q_dtype_w,kernelId,splitK,us,kernelName,tflops,bw,errRatio",
          fmt::format("{},{},{},-1,0,{}", device, mnk, dtype, measured)};
}

}  // namespace

AiterFiles export_aiter(const std::vector<const TunedRow*>& rows) {
  AiterFiles files;
  std::map<std::string, int64_t> reasons;
  for (const TunedRow* row : rows) {
    const Result<Gemm> gemm = gemm_of(*row);
    if (!gemm) {
      ++reasons[gemm.status().message()];
      continue;
    }
    const Line line = line_of(*row, *gemm);
    std::string& text = files.text[line.file];
    if (text.empty()) text = std::string(line.header) + "\n";
    text += line.text + "\n";
    ++files.rows[line.file];
  }
  for (const auto& [reason, count] : reasons) files.skipped.push_back({"tuned rows", count, reason});
  return files;
}

}  // namespace tilewright::cli
