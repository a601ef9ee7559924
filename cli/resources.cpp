// SPDX-License-Identifier: MIT
#include "resources.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

namespace tilewright::cli {
namespace {

namespace fs = std::filesystem;

bool file_exists(const fs::path& path) {
  std::error_code error;
  return fs::exists(path, error);
}

// bin/tilewright -> share/tilewright.
fs::path share_folder() {
  const std::string program = program_path();
  return program.empty() ? fs::path() : fs::path(program).parent_path().parent_path() / "share" / "tilewright";
}

}  // namespace

std::string program_path() {
  std::error_code error;
  const fs::path path = fs::read_symlink("/proc/self/exe", error);
  return error ? "" : path.string();
}

std::string source_root() {
  // build/bin/tilewright, build/<preset>/bin/tilewright, or a build folder elsewhere inside the tree.
  constexpr int kLevels = 5;
  fs::path folder = fs::path(program_path()).parent_path();
  for (int level = 0; level < kLevels && folder.has_relative_path(); ++level) {
    if (file_exists(folder / "scripts" / "peer_torch.py") && file_exists(folder / "models")) return folder.string();
    folder = folder.parent_path();
  }
  return "";
}

Result<std::string> find_resource(const std::string& name) {
  constexpr std::string_view kScripts = "scripts/";
  const std::string installed = name.starts_with(kScripts) ? name.substr(kScripts.size()) : name;
  std::vector<fs::path> places;
  if (!share_folder().empty()) places.push_back(share_folder() / installed);
  if (const std::string root = source_root(); !root.empty()) places.push_back(fs::path(root) / name);
  std::string looked;
  for (const fs::path& place : places) {
    if (file_exists(place)) return place.string();
    looked += (looked.empty() ? "" : ", ") + place.string();
  }
  return Status(StatusCode::kNotFound, fmt::format("'{}' is missing; looked for {}", name, looked));
}

std::vector<std::string> model_files() {
  const Result<std::string> folder = find_resource("models");
  std::vector<std::string> files;
  if (!folder) return files;
  std::error_code error;
  for (fs::directory_iterator it(*folder, error), end; !error && it != end; it.increment(error)) {
    if (it->path().extension() == ".csv") files.push_back(it->path().string());
  }
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace tilewright::cli
