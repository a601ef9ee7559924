// SPDX-License-Identifier: MIT
#include "problems/model_layers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "command.hpp"
#include "core/fields.hpp"
#include "problems/csv_file.hpp"
#include "resources.hpp"

namespace tilewright::cli {
namespace {

struct LayerRow {
  std::string model, layer, dtype, scheme;
  int64_t n = 0, k = 0, batch = 1;
  int tensor_parallel = 1;
};

Status refuse_model(std::string message) { return Status(StatusCode::kInvalidArgument, std::move(message)); }

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

// The number after `name` in notes like "tp=1; batch=128 heads: ...", or `otherwise`.
int64_t noted_number(const std::string& notes, std::string_view name, int64_t otherwise) {
  const size_t at = notes.find(std::string(name) + "=");
  if (at == std::string::npos) return otherwise;
  const char* const first = notes.data() + at + name.size() + 1;
  const char* last = first;
  while (last != notes.data() + notes.size() && *last >= '0' && *last <= '9') ++last;
  int64_t value = 0;
  if (!fields_detail::parse_integer({first, static_cast<size_t>(last - first)}, 1, 1 << 20, value)) return otherwise;
  return value;
}

Result<std::vector<LayerRow>> read_layers(const std::string& path) {
  Result<CsvFile> file = read_csv(path);
  if (!file) return file.status();
  for (const char* name : {"model", "layer", "op", "N", "K", "dtype", "scheme", "notes"}) {
    if (file->column(name) < 0) {
      return refuse_model(fmt::format(
          "{}:1: column '{}' is missing; columns: model, layer, op, N, K, dtype, scheme, notes", path, name));
    }
  }
  std::vector<LayerRow> layers;
  for (const CsvFile::Row& row : file->rows) {
    auto cell = [&](const char* name) -> const std::string& { return row.cells[file->column(name)]; };
    LayerRow layer{cell("model"), cell("layer"), cell("dtype"), cell("scheme")};
    if (const std::string& op = cell("op"); op != "gemm" && op != "batched_gemm") {
      return refuse_model(fmt::format("{}:{}: op '{}', allowed: gemm, batched_gemm", path, row.line, op));
    }
    for (auto [name, size] : {std::pair{"N", &layer.n}, {"K", &layer.k}}) {
      if (Status s = fields_detail::parse_integer(cell(name), 1, int64_t{1} << 40, *size); !s) {
        return refuse_model(fmt::format("{}:{}: column '{}': {}", path, row.line, name, s.message()));
      }
    }
    layer.tensor_parallel = static_cast<int>(noted_number(cell("notes"), "tp", 1));
    if (cell("op") == "batched_gemm") layer.batch = noted_number(cell("notes"), "batch", 1);
    layers.push_back(std::move(layer));
  }
  return layers;
}

// A model's rows in every table; a file's name stands for all of its rows.
Result<std::vector<LayerRow>> find_model(const std::string& model) {
  std::set<std::string> known;
  std::vector<LayerRow> found;
  for (const std::string& path : model_files()) {
    Result<std::vector<LayerRow>> layers = read_layers(path);
    if (!layers) return layers.status();
    const bool own_file = lower(std::filesystem::path(path).stem().string()) == lower(model);
    for (LayerRow& layer : *layers) {
      known.insert(lower(layer.model));
      if (own_file || lower(layer.model) == lower(model)) found.push_back(std::move(layer));
    }
  }
  if (!found.empty()) return found;
  return Status(StatusCode::kNotFound, fmt::format("--model '{}' is unknown; known: {}", model,
                                                   known.empty() ? "none (no models/*.csv beside the program)"
                                                                 : fmt::format("{}", fmt::join(known, ", "))));
}

std::string layer_text(const LayerRow& layer, int64_t tokens, const std::string& dtype, bool packed) {
  const bool is_f8 = dtype == "e4m3" || dtype == "e5m2";
  std::string text = fmt::format("m={}:n={}:k={}", tokens, layer.n, layer.k);
  if (layer.batch != 1) text += fmt::format(":batch={}", layer.batch);
  text += ":a=" + dtype;
  if (packed && !is_f8) text += ":packed=1";
  // Quantised layers scale each token and each output channel.
  if (dtype == "i8" || is_f8) text += ":scale_a=f32:scale_b=f32";
  return text;
}

}  // namespace

Result<std::vector<int64_t>> parse_tokens(const std::string& text) {
  std::vector<int64_t> tokens;
  for (const std::string& word : split_words(text, ',')) {
    int64_t value = 0;
    if (Status s = fields_detail::parse_integer(word, 1, int64_t{1} << 31, value); !s) {
      return refuse_model(
          fmt::format("--tokens '{}': {}; allowed: numbers above 0, divided by commas", text, s.message()));
    }
    tokens.push_back(value);
  }
  if (tokens.empty())
    return refuse_model(fmt::format("--tokens '{}': allowed: numbers above 0, divided by commas", text));
  return tokens;
}

void add_model_arguments(Arguments& arguments, ModelArguments& a) {
  arguments.group("Problems");
  arguments.texts("--model", a.models, "NAME", "a model of models/*.csv, e.g. llama-3.1-8b");
  arguments.texts("--shapes", a.shapes, "FILE", "a CSV file with the columns of models/*.csv");
  arguments.texts("--layer", a.layers, "NAME", "only these layers (repeat, or divide by commas)", /*commas=*/true);
  arguments.text("--tokens", a.tokens, "LIST", "token counts (1,16,128)");
  arguments.choice("--dtype", a.dtype, {"f32", "f16", "bf16", "i8", "e4m3", "e5m2"},
                   "run the layers with this dtype instead of their own");
  arguments.integer("--tp", a.tensor_parallel, 1, 1024, "tensor-parallel degree (1)");
  arguments.flag("--plain,!--packed", a.plain, "weights as stored [N, K]; --packed (the default): packed once");
  arguments.flag("--with-lm-head", a.with_lm_head, "include lm_head");
  arguments.group("");
}

Result<std::vector<NamedProblem>> model_problems(const ModelArguments& arguments, std::vector<std::string>& notes) {
  const Result<std::vector<int64_t>> tokens = parse_tokens(arguments.tokens);
  if (!tokens) return tokens.status();
  std::vector<LayerRow> rows;
  for (const std::string& model : arguments.models) {
    Result<std::vector<LayerRow>> layers = find_model(model);
    if (!layers) return layers.status();
    rows.insert(rows.end(), layers->begin(), layers->end());
  }
  for (const std::string& path : arguments.shapes) {
    Result<std::vector<LayerRow>> layers = read_layers(path);
    if (!layers) return layers.status();
    rows.insert(rows.end(), layers->begin(), layers->end());
  }

  std::set<std::string> names;
  std::set<int> degrees;
  std::set<std::string> seen;
  std::vector<NamedProblem> problems;
  int quantised = 0;
  for (const LayerRow& row : rows) {
    names.insert(row.layer);
    degrees.insert(row.tensor_parallel);
    if (row.tensor_parallel != arguments.tensor_parallel) continue;
    const auto& wanted = arguments.layers;
    const bool named = std::find(wanted.begin(), wanted.end(), row.layer) != wanted.end();
    if (!wanted.empty() && !named) continue;
    if (row.layer == "lm_head" && !named && !arguments.with_lm_head) continue;
    if (row.scheme != "none") {
      ++quantised;
      continue;
    }
    for (const int64_t m : *tokens) {
      const std::string text =
          layer_text(row, m, arguments.dtype.empty() ? row.dtype : arguments.dtype, !arguments.plain);
      if (!seen.insert(row.layer + " " + text).second) continue;
      Result<NamedProblem> problem = parse_problem_text(text);
      if (!problem) {
        return Status(problem.status().code(), fmt::format("layer '{}': {}", row.layer, problem.status().message()));
      }
      problem->layer = row.layer;
      problems.push_back(std::move(*problem));
    }
  }
  for (const std::string& layer : arguments.layers) {
    if (!names.contains(layer)) {
      return Status(StatusCode::kNotFound,
                    fmt::format("--layer '{}' is unknown; known: {}", layer, fmt::join(names, ", ")));
    }
  }
  if (problems.empty() && !degrees.contains(arguments.tensor_parallel)) {
    return Status(StatusCode::kNotFound,
                  fmt::format("--tp {} has no layers; known: {}", arguments.tensor_parallel, fmt::join(degrees, ", ")));
  }
  // Models are told by name, and a quantised row has its plain twin; a file was given for its rows.
  if (quantised > 0 && !arguments.shapes.empty()) {
    notes.push_back(fmt::format("{} row{} of quantised layers left out", quantised, quantised == 1 ? "" : "s"));
  }
  if (problems.empty()) return Status(StatusCode::kNotFound, "no layer is left to run");
  return problems;
}

}  // namespace tilewright::cli
