// SPDX-License-Identifier: MIT
// What the tests of the JIT share: scratch folders, environment variables for a scope, children, and a compiler that
// costs nothing and counts its calls across processes.
#pragma once

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <thread>

#include "jit/code_cache.hpp"
#include "jit/compiler.hpp"
#include "jit/system/files.hpp"

namespace tilewright::test {

// Below the system's temporary folder, reachable for every user, removed at the end.
class ScratchFolder {
 public:
  ScratchFolder() : path_(*make_unique_folder(std::filesystem::temp_directory_path().string(), "tilewright-test-")) {
    chmod(path_.c_str(), 0755);
  }
  ~ScratchFolder() { remove_tree(path_); }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

class ScopedVariable {
 public:
  ScopedVariable(const char* name, const std::optional<std::string>& value) : name_(name) {
    if (const char* old = std::getenv(name)) old_ = old;
    set(value);
  }
  ~ScopedVariable() { set(old_); }
  ScopedVariable(const ScopedVariable&) = delete;
  ScopedVariable& operator=(const ScopedVariable&) = delete;

 private:
  void set(const std::optional<std::string>& value) {
    if (value) {
      setenv(name_, value->c_str(), 1);
    } else {
      unsetenv(name_);
    }
  }
  const char* name_;
  std::optional<std::string> old_;
};

// Forks; the child runs `body` and ends with what it returns (or with 99 after a minute).
inline pid_t start_child(const std::function<int()>& body) {
  const pid_t child = fork();
  if (child == 0) {
    signal(SIGALRM, [](int) { _exit(99); });
    alarm(60);
    _exit(body());
  }
  return child;
}
inline int exit_code_of(pid_t child) {
  int status = 0;
  if (waitpid(child, &status, 0) != child) return -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

// Writes a file as its binary. Each call adds a byte to `calls_file`, so that calls in all processes count.
class FakeCompiler final : public Compiler {
 public:
  explicit FakeCompiler(std::string calls_file, std::string identity = "fake 1")
      : calls_file_(std::move(calls_file)), identity_(std::move(identity)) {}

  std::string_view name() const override { return "fake"; }
  ArtifactKind kind() const override { return ArtifactKind::kHostObject; }
  const std::string& identity() const override { return identity_; }
  Status available() const override { return status; }

  Result<std::string> compile(const CompileRequest& request, const std::string& folder,
                              const std::atomic<bool>* stop) override {
    std::FILE* calls = std::fopen(calls_file_.c_str(), "a");
    std::fputc('x', calls);
    std::fclose(calls);
    if (before_write) before_write();
    for (int waited = 0; waited < milliseconds; ++waited) {
      if (stop != nullptr && *stop) return Status(StatusCode::kCompileDisabled, "stopped");
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    if (!failure.empty()) return Status(StatusCode::kCompileFailed, failure);
    if (Status s = write_file(folder + "/instance.cpp", request.source); !s) return s;
    if (Status s = write_file(folder + "/build.log", "fake\n"); !s) return s;
    if (Status s = write_file(folder + "/instance.so", binary(request)); !s) return s;
    return std::string("instance.so");
  }

  std::string binary(const CompileRequest& request) const {
    return "binary of " + request.source + std::string(binary_bytes, '.');
  }
  int calls() const {
    std::error_code error;
    const auto size = std::filesystem::file_size(calls_file_, error);
    return error ? 0 : static_cast<int>(size);
  }

  Status status;
  std::string failure;
  int milliseconds = 0;
  size_t binary_bytes = 0;
  std::function<void()> before_write;

 private:
  std::string calls_file_;
  std::string identity_;
};

inline CompileRequest make_request(const std::string& source, const std::string& name = "kernel") {
  CompileRequest request;
  request.name = name;
  request.source = source;
  request.entry = "tw_entry";
  request.target = "x86-64";
  return request;
}

// A cache in a scratch folder, a compiler that costs nothing, one request.
class CodeCacheFixture : public testing::Test {
 protected:
  CodeCacheOptions options(JitMode mode = JitMode::kOn) const {
    CodeCacheOptions made;
    made.root = scratch / "root";
    made.mode = mode;
    return made;
  }
  CodeCache open(JitMode mode = JitMode::kOn) { return CodeCache(options(mode), counters); }

  // The artifact's bytes; "" with a failure when there is none.
  std::string bytes(const Result<Artifact>& artifact) {
    EXPECT_TRUE(artifact.ok()) << artifact.status().message();
    if (!artifact.ok()) return "";
    Result<std::string> text = read_file(artifact->path);
    EXPECT_TRUE(text.ok()) << text.status().message();
    return text.ok() ? *text : "";
  }

  ScratchFolder scratch;
  Counters counters;
  FakeCompiler compiler{scratch / "calls"};
  CompileRequest request = make_request("int x;\n", "gemm/my key");
};

}  // namespace tilewright::test
