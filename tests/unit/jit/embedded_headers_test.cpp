// SPDX-License-Identifier: MIT
// The kernel headers in the library are those of the source tree, byte for byte, whatever bytes they are.
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "jit/compiler.hpp"
#include "jit/system/process.hpp"
#include "unit/jit/cache_test_support.hpp"

namespace tilewright {
namespace {

namespace fs = std::filesystem;
using test::ScratchFolder;

const std::string kSource = TILEWRIGHT_SOURCE_DIR;

TEST(EmbeddedHeaders, EqualTheSourceTree) {
  std::vector<std::string> paths;
  for (const auto& entry : fs::recursive_directory_iterator(kSource + "/kernels")) {
    const std::string extension = entry.path().extension();
    if (extension == ".hpp" || extension == ".cuh") {
      paths.push_back(fs::relative(entry.path(), kSource + "/kernels").generic_string());
    }
  }
  std::sort(paths.begin(), paths.end());
  // What a build step wrote is not in the tree.
  std::vector<EmbeddedHeader> carried(embedded_headers().begin(), embedded_headers().end());
  std::erase_if(carried, [](const EmbeddedHeader& header) { return header.path.starts_with("tile/generated/"); });
  EXPECT_EQ(embedded_headers().size(), carried.size() + 2);
  ASSERT_EQ(carried.size(), paths.size());
  for (size_t i = 0; i < paths.size(); ++i) {
    EXPECT_EQ(carried[i].path, paths[i]);
    EXPECT_EQ(carried[i].text, *read_file(kSource + "/kernels/" + paths[i])) << paths[i];
  }
}

TEST(EmbeddedHeaders, EachIncludeOfACarriedHeaderIsCarriedToo) {
  for (const EmbeddedHeader& header : embedded_headers()) {
    if (header.path.substr(header.path.size() - 4) == ".cuh") continue;  // may ask for the vendor's headers
    const auto headers = reachable_headers(header.text);
    EXPECT_TRUE(headers.ok()) << header.path << ": " << headers.status().message();
  }
}

class EmbedScriptTest : public testing::Test {
 protected:
  Result<ProcessResult> run(std::vector<std::string> argv) {
    argv.insert(argv.begin(), {"/usr/bin/env"});
    ProcessOptions options;
    options.argv = std::move(argv);
    return run_process(options);
  }
  void SetUp() override {
    Result<ProcessResult> python = run({"python3", "--version"});
    if (!python.ok() || !python->ok()) GTEST_SKIP() << "no python3 on PATH";
  }
  void embed(const std::string& output) {
    Result<ProcessResult> script =
        run({"python3", kSource + "/scripts/generate/embed_files.py", "headers", scratch / "kernels", output});
    ASSERT_TRUE(script.ok() && script->ok()) << script->output;
  }
  ScratchFolder scratch;
};

TEST_F(EmbedScriptTest, BytesThatLiteralsDoNotLikeSurvive) {
  if (!run({"c++", "--version"})->ok()) GTEST_SKIP() << "no c++ on PATH";
  std::string every;
  for (int i = 0; i < 256; ++i) every += static_cast<char>(i);
  const std::pair<std::string, std::string> files[] = {
      {"a/bytes.hpp", every + every + "1"},  // an escape before a digit
      {"a/quotes.hpp", "R\"tw(\")tw\" ?\?= ?\?/ \\\n\\\" %s \"\"\n"},
      {"b/crlf.cuh", "one\r\ntwo\rthree\n\nno newline at the end"},
      {"b/empty.hpp", ""},
      {"b/long.hpp", std::string(200000, 'x') + "\n"},
  };
  for (const auto& [path, text] : files) {
    const std::string full = scratch / ("kernels/" + path);
    ASSERT_TRUE(make_folders(full.substr(0, full.rfind('/'))).ok());
    ASSERT_TRUE(write_file(full, text).ok());
  }
  ASSERT_TRUE(write_file(scratch / "kernels/readme.md", "not a header").ok());
  embed(scratch / "one.cpp");
  embed(scratch / "two.cpp");
  EXPECT_EQ(*read_file(scratch / "one.cpp"), *read_file(scratch / "two.cpp"));

  // Compile what was generated, and look at it from outside.
  ASSERT_TRUE(write_file(scratch / "probe.cpp",
                         "#include \"one.cpp\"\n"
                         "extern \"C\" __attribute__((visibility(\"default\"))) const tilewright::EmbeddedHeader* "
                         "tw_headers(unsigned long* count) {\n"
                         "  *count = tilewright::embedded_headers().size();\n"
                         "  return tilewright::embedded_headers().data();\n"
                         "}\n")
                  .ok());
  Result<ProcessResult> compiled =
      run({"c++", "-std=c++20", "-fPIC", "-shared", "-fvisibility=hidden", "-I", kSource + "/src", "-I",
           kSource + "/include", "-I", kSource + "/kernels", "-o", scratch / "probe.so", scratch / "probe.cpp"});
  ASSERT_TRUE(compiled.ok() && compiled->ok()) << compiled->output;
  void* object = dlopen((scratch / "probe.so").c_str(), RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(object, nullptr) << dlerror();
  const auto headers = reinterpret_cast<const EmbeddedHeader* (*)(unsigned long*)>(dlsym(object, "tw_headers"));
  ASSERT_NE(headers, nullptr);
  unsigned long count = 0;
  const EmbeddedHeader* carried = headers(&count);
  ASSERT_EQ(count, std::size(files));
  for (size_t i = 0; i < count; ++i) {
    EXPECT_EQ(carried[i].path, files[i].first);
    EXPECT_TRUE(carried[i].text == files[i].second) << files[i].first;
  }
  dlclose(object);
}

TEST_F(EmbedScriptTest, AFolderWithoutHeadersGivesAnEmptyList) {
  ASSERT_TRUE(make_folders(scratch / "kernels").ok());
  embed(scratch / "one.cpp");
  EXPECT_NE(read_file(scratch / "one.cpp")->find("return {};"), std::string::npos);
}

TEST_F(EmbedScriptTest, AMissingFolderIsAnError) {
  Result<ProcessResult> script = run(
      {"python3", kSource + "/scripts/generate/embed_files.py", "headers", scratch / "missing", scratch / "one.cpp"});
  ASSERT_TRUE(script.ok());
  EXPECT_NE(script->exit_code, 0);
  EXPECT_NE(script->output.find("missing"), std::string::npos);
}

}  // namespace
}  // namespace tilewright
