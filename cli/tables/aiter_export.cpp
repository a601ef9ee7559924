// SPDX-License-Identifier: MIT
#include "tables/aiter_export.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "command.hpp"
#include "core/fields.hpp"

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
      {"bf16", "torch.bfloat16"}, {"f16", "torch.float16"}, {"f32", "torch.float32"}, {"i8", "torch.int8"}};
  for (const auto& [name, torch] : kNames) {
    if (dtype == name) return torch;
  }
  return "";
}

// What AITER's columns can say of a gemm, or why they cannot.
struct Gemm {
  int64_t m = 0, n = 0, k = 0, batch = 1;
  std::string a, d;
  bool packed = false, bias = false, scaled = false;
};
Result<Gemm> gemm_of(const TunedRow& row) {
  const auto refuse = [](std::string why) { return Status(StatusCode::kUnsupported, std::move(why)); };
  if (row.op != "gemm") return refuse(fmt::format("AITER's tables here are of gemm, not of '{}'", row.op));
  Gemm gemm;
  Items sizes = items_of(row.sizes), core = items_of(row.core), epilogue = items_of(row.epilogue);
  for (auto [name, size] : {std::pair{"m", &gemm.m}, {"n", &gemm.n}, {"k", &gemm.k}, {"batch", &gemm.batch}}) {
    if (Status s = fields_detail::parse_value(sizes[name], *size); !s) return refuse("sizes are not m, n, k, batch");
  }
  gemm.a = core["a"], gemm.d = epilogue["d"];
  if (core["b"] != gemm.a) return refuse("A and B differ in dtype");
  if (core.contains("programmatic_edge")) return refuse("AITER's calls have no programmatic edges");
  if (core["layout"] != "rcr" && core["layout"] != "rpr") return refuse("AITER's layout is rcr, plain or shuffled");
  gemm.packed = core["layout"] == "rpr";
  for (const auto& [name, value] : epilogue) {
    if (name == "d") continue;
    if (name == "bias" && value.ends_with("n") && !value.ends_with("mn")) {
      gemm.bias = true;
    } else if ((name == "scale_a" && value == "f32m") || (name == "scale_b" && value == "f32n")) {
      gemm.scaled = true;
    } else {
      return refuse(fmt::format("AITER's columns have no epilogue '{}'", name));
    }
  }
  if (torch_name(gemm.a).empty() || torch_name(gemm.d).empty())
    return refuse("a dtype that AITER's columns do not name");
  if (gemm.scaled != (gemm.a == "i8"))
    return refuse("scales and dtype go together in AITER: i8 has them, others do not");
  if (gemm.batch > 1 && (gemm.bias || gemm.packed || (gemm.a != "bf16" && gemm.a != "i8"))) {
    return refuse("AITER's batched tables are plain bf16 and i8");
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
  const double bytes =
      (static_cast<double>(g.m) * static_cast<double>(g.k) + static_cast<double>(g.n) * static_cast<double>(g.k)) *
          (g.a == "f32"  ? 4
           : g.a == "i8" ? 1
                         : 2) +
      static_cast<double>(g.m) * static_cast<double>(g.n) * (g.d == "f32" ? 4 : 2);
  const double bw = row.us > 0 ? bytes * static_cast<double>(g.batch) / row.us * 1e-3 : 0;  // GB/s
  const std::string measured =
      fmt::format("{:.4f},{},{:.4f},{:.2f},{:.3g}", row.us, row.recipe, tflops, bw, row.rel_error);
  const std::string device = fmt::format("{},{}", row.target, row.units);
  const auto flag = [](bool value) { return value ? "True" : "False"; };
  if (g.batch > 1) {
    return {g.a == "i8" ? "a8w8_tuned_batched_gemm.csv" : "bf16_tuned_batched_gemm.csv",
            "gfx,cu_num,B,M,N,K,kernelId,splitK,us,kernelName,tflops,bw,errRatio",
            fmt::format("{},{},{},{},{},-1,0,{}", device, g.batch, g.m, g.n, g.k, measured)};
  }
  if (g.a != "i8" || g.bias) {
    return {
        "bf16_tuned_gemm.csv",
        "gfx,cu_num,M,N,K,bias,dtype,outdtype,scaleAB,bpreshuffle,libtype,solidx,splitK,us,kernelName,err_ratio,tflops,"
        "bw",
        fmt::format("{},{},{},{},{},{},{},{},{},tilewright,-1,0,{:.4f},{},{:.3g},{:.4f},{:.2f}", device, g.m, g.n, g.k,
                    flag(g.bias), torch_name(g.a), torch_name(g.d), flag(g.scaled), flag(g.packed), row.us, row.recipe,
                    row.rel_error, tflops, bw)};
  }
  if (g.packed) {
    return {"a8w8_bpreshuffle_tuned_gemm.csv",
            "gfx,cu_num,M,N,K,q_dtype_w,libtype,kernelId,splitK,us,kernelName,tflops,bw,errRatio",
            fmt::format("{},{},{},{},torch.int8,tilewright,-1,0,{}", device, g.m, g.n, g.k, measured)};
  }
  return {"a8w8_tuned_gemm.csv", "gfx,cu_num,M,N,K,q_dtype_w,kernelId,splitK,us,kernelName,tflops,bw,errRatio",
          fmt::format("{},{},{},{},torch.int8,-1,0,{}", device, g.m, g.n, g.k, measured)};
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
