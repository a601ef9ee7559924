// SPDX-License-Identifier: MIT
#include "jit/kernel_headers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>

#include "core/environment.hpp"
#include "jit/compiler.hpp"
#include "jit/system/files.hpp"

namespace tilewright {
namespace {

using HeaderPointer = std::shared_ptr<const KernelHeader>;

HeaderPointer make_header(std::string path, std::string text) {
  auto header = std::make_shared<KernelHeader>();
  header->digest = digest_of(text);
  header->includes = quoted_includes(text);
  header->path = std::move(path);
  header->text = std::move(text);
  return header;
}

// Where headers come from: the library, or a folder. What a build step wrote (tile/generated) is the library's always.
class HeaderSource {
 public:
  explicit HeaderSource(std::optional<std::string> folder) : folder_(std::move(folder)) {}

  // Null when there is none; an error when it is there and cannot be read.
  Result<HeaderPointer> find(const std::string& path) const {
    if (!folder_ || path.starts_with("tile/generated/")) {
      const auto& table = embedded_table();
      const auto it = table.find(path);
      return it == table.end() ? HeaderPointer() : it->second;
    }
    Result<std::string> text = read_file(*folder_ + "/" + path);
    if (text.ok()) return make_header(path, std::move(*text));
    if (text.status().code() == StatusCode::kNotFound) return HeaderPointer();
    return text.status();
  }

  std::string describe() const {
    return folder_ ? fmt::format("TILEWRIGHT_KERNEL_DIR='{}'", *folder_) : "the library's kernel headers";
  }

 private:
  // Scanned and hashed once a process.
  static const std::map<std::string, HeaderPointer, std::less<>>& embedded_table() {
    static const auto* table = [] {
      auto* made = new std::map<std::string, HeaderPointer, std::less<>>;
      for (const EmbeddedHeader& header : embedded_headers()) {
        made->emplace(header.path, make_header(std::string(header.path), std::string(header.text)));
      }
      return made;
    }();
    return *table;
  }

  std::optional<std::string> folder_;
};

// "gemm/../tile/x.hpp" -> "tile/x.hpp"; empty when the path leaves the kernel folder.
std::string normal_path(std::string_view folder, std::string_view name) {
  const std::string path = (std::filesystem::path(folder) / name).lexically_normal().generic_string();
  return path.empty() || path.front() == '/' || path.substr(0, 2) == ".." ? std::string() : path;
}

std::string_view skip_blanks(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t");
  return first == std::string_view::npos ? std::string_view() : text.substr(first);
}

class Closure {
 public:
  explicit Closure(HeaderSource source) : source_(std::move(source)) {}

  Status visit(std::string_view from, std::string_view folder, const std::vector<std::string>& includes) {
    for (const std::string& name : includes) {
      if (Status status = visit_one(from, folder, name); !status) return status;
    }
    return {};
  }

  std::vector<HeaderPointer> take() {
    std::vector<HeaderPointer> headers;
    for (auto& [path, header] : found_) headers.push_back(std::move(header));
    return headers;
  }

 private:
  Status visit_one(std::string_view from, std::string_view folder, const std::string& name) {
    for (const std::string& path : {normal_path(folder, name), normal_path("", name)}) {
      if (path.empty()) continue;
      if (found_.count(path)) return {};
      Result<HeaderPointer> header = source_.find(path);
      if (!header) return header.status();
      if (*header == nullptr) continue;
      const KernelHeader& entry = **header;
      found_.emplace(path, std::move(*header));
      return visit(path, path.substr(0, path.rfind('/') == std::string::npos ? 0 : path.rfind('/')), entry.includes);
    }
    return Status(StatusCode::kNotFound,
                  fmt::format("jit: {} includes \"{}\", which is not among {}", from, name, source_.describe()));
  }

  HeaderSource source_;
  std::map<std::string, HeaderPointer> found_;
};

}  // namespace

std::vector<std::string> quoted_includes(std::string_view text) {
  std::vector<std::string> names;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    std::string_view line = skip_blanks(text.substr(0, end));
    text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
    if (line.empty() || line.front() != '#') continue;
    line = skip_blanks(line.substr(1));
    if (line.substr(0, 7) != "include") continue;
    line = skip_blanks(line.substr(7));
    if (line.empty() || line.front() != '"') continue;
    const std::string name(line.substr(1, line.find('"', 1) - 1));
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  }
  return names;
}

namespace {

Result<std::vector<HeaderPointer>> close_over(const std::vector<std::string>& includes,
                                              std::optional<std::string> folder) {
  Closure closure{HeaderSource(std::move(folder))};
  if (Status status = closure.visit("the instance", "", includes); !status) return status;
  return closure.take();
}

// The carried headers never change, and all instances of a family start from the same ones. Each thread remembers for
// itself: a lock that a background thread holds while the program forks would stay locked in the child.
Result<std::vector<HeaderPointer>> close_over_carried(const std::vector<std::string>& includes) {
  thread_local std::map<std::vector<std::string>, std::vector<HeaderPointer>> known;
  if (const auto it = known.find(includes); it != known.end()) return it->second;
  Result<std::vector<HeaderPointer>> headers = close_over(includes, std::nullopt);
  if (headers.ok()) known.emplace(includes, *headers);
  return headers;
}

}  // namespace

Result<std::vector<HeaderPointer>> find_kernel_headers(std::string_view source) {
  std::optional<std::string> folder = environment("TILEWRIGHT_KERNEL_DIR");
  if (folder && folder->empty()) folder.reset();
  const std::vector<std::string> includes = quoted_includes(source);
  return folder ? close_over(includes, std::move(folder)) : close_over_carried(includes);
}

Result<std::vector<std::pair<std::string, std::string>>> reachable_headers(std::string_view source) {
  Result<std::vector<HeaderPointer>> headers = find_kernel_headers(source);
  if (!headers) return headers.status();
  std::vector<std::pair<std::string, std::string>> texts;
  for (const HeaderPointer& header : *headers) texts.emplace_back(header->path, header->text);
  return texts;
}

}  // namespace tilewright
