// SPDX-License-Identifier: MIT
// The HTML report: complete, self-contained, escaped, and whole when parts are missing.
#include "tuning/report/report.hpp"

#include <gtest/gtest.h>

#include <regex>

#include "support/toy_operator.hpp"
#include "tuning/report/svg.hpp"
#include "unit/jit/cache_test_support.hpp"

namespace tilewright {
namespace {

ReportData sample(size_t rows = 12) {
  ReportData data;
  data.title = "Layers <of> a \"model\" & more";
  data.device_name = "CPU";
  data.part = "part";
  data.target = "x86-64-v4";
  data.units = 2;
  data.limits.peaks = {{"fma_avx512", 150, 300}, {"dot_bf16", 300, 600}};
  data.limits.read_gbps_unit = 10;
  data.limits.read_gbps_all = 20;
  data.size_names = {"M", "N", "K"};
  data.peer_name = "PyTorch 2.9";
  for (size_t i = 0; i < rows; ++i) {
    ReportRow row;
    row.label = "layer_" + std::to_string(i);
    row.sizes = {16, 4096, 4096};
    row.us = 1234.5 + static_cast<double>(i);
    row.untuned_us = 1500;
    row.peer_us = 2000;
    row.spread = 0.01;
    row.operations = 5e8;
    row.bytes = 3.3e7;
    row.limit_fraction = 0.7;
    row.rel_error = 1.5e-3;
    row.recipe = "gemm/gemm_cpu/x86-64-v4/dtype=bf16/tile_m=8@block_m=64";
    row.untuned_recipe = "gemm/other";
    data.rows.push_back(row);
  }
  data.rejections = {{"layer_0", "gemm/bad", "timed_out", "no end within the limit <of> 20 s"}};
  data.notes = {"PyTorch is not installed & so on"};
  return data;
}

size_t count(const std::string& text, const std::string& pattern) {
  size_t found = 0;
  for (size_t at = text.find(pattern); at != std::string::npos; at = text.find(pattern, at + 1)) ++found;
  return found;
}

// Every tag that is opened is closed, in order. Void elements and optional end tags aside.
void expect_balanced(const std::string& html) {
  const std::regex tag("<(/?)([a-z0-9]+)([^>]*)>");
  std::vector<std::string> open;
  for (std::sregex_iterator it(html.begin(), html.end(), tag), end; it != end; ++it) {
    const std::string name = (*it)[2], rest = (*it)[3];
    if (name == "meta" || name == "th" || (!rest.empty() && rest.back() == '/')) continue;
    if ((*it)[1].length() == 0) {
      open.push_back(name);
      continue;
    }
    ASSERT_FALSE(open.empty()) << "</" << name << "> closes nothing";
    ASSERT_EQ(open.back(), name);
    open.pop_back();
  }
  EXPECT_TRUE(open.empty()) << "<" << open.back() << "> stays open";
}

TEST(Report, ShowsEveryPart) {
  const std::string html = render_report(sample());
  for (const char* part :
       {"layer_0", "layer_11", "1,236", "PyTorch 2.9", "70%", "1.5e-03", "tile_m=8@block_m=64", "timed out", "dot_bf16",
        "600 GFLOP/s", "20.0 GB/s", "memory (read)", "PyTorch is not installed", "prefers-color-scheme:dark"}) {
    EXPECT_NE(html.find(part), std::string::npos) << part;
  }
  EXPECT_EQ(count(html, "<circle class=tuned"), 13u) << "a point a row, and the legend's";
  EXPECT_EQ(count(html, "<path class=peer"), 13u);
  EXPECT_EQ(count(html, "<rect class=gain "), 13u);
  expect_balanced(html);
}

TEST(Report, TakesNothingFromOutside) {
  const std::string html = render_report(sample());
  for (const char* outside : {"http:", "https:", "src=", "href=", "@import", "url(", "<script", "<link"}) {
    EXPECT_EQ(html.find(outside), std::string::npos) << outside;
  }
}

TEST(Report, TextCannotBecomeMarkup) {
  const std::string html = render_report(sample());
  EXPECT_NE(html.find("Layers &lt;of&gt; a &quot;model&quot; &amp; more"), std::string::npos);
  EXPECT_EQ(html.find("<of>"), std::string::npos);
}

TEST(Report, StaysWholeWhenPartsAreMissing) {
  ReportData data = sample(3);
  data.peer_name.clear();
  data.limits = {};
  data.rejections.clear();
  data.notes.clear();
  for (ReportRow& row : data.rows) row.peer_us = row.limit_fraction = row.untuned_us = 0, row.sizes.clear();
  const std::string html = render_report(data);
  expect_balanced(html);
  EXPECT_EQ(html.find("nan"), std::string::npos);
  EXPECT_EQ(html.find("inf"), std::string::npos);
  EXPECT_EQ(html.find("PyTorch"), std::string::npos);
  expect_balanced(render_report(ReportData()));
  EXPECT_EQ(render_report(ReportData()).find("Roofline"), std::string::npos) << "no picture of nothing";
}

TEST(Report, NumbersOfCloseByPointsDoNotOverlap) {
  const std::string svg = report::roofline_picture(sample(24));
  const std::regex number("<text class=number x=([0-9.]+) y=([0-9.]+)");
  std::vector<std::pair<double, double>> places;
  for (std::sregex_iterator it(svg.begin(), svg.end(), number), end; it != end; ++it) {
    places.emplace_back(std::stod((*it)[1]), std::stod((*it)[2]));
  }
  ASSERT_EQ(places.size(), 24u);
  for (size_t i = 0; i < places.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      const bool apart =
          std::abs(places[i].first - places[j].first) > 16 || std::abs(places[i].second - places[j].second) > 12;
      EXPECT_TRUE(apart) << i << " and " << j;
    }
  }
}

TEST(Report, PointsTooManyToNumberHaveNone) {
  const auto many = static_cast<int>(report::kMostNumberedPoints) + 1;
  EXPECT_EQ(report::roofline_picture(sample(many)).find("class=number"), std::string::npos);
  EXPECT_NE(report::roofline_picture(sample(many)).find("class=tuned"), std::string::npos);
}

TEST(Report, NumbersHaveThreeSignificantDigits) {
  EXPECT_EQ(report::number(0.012345), "0.0123");
  EXPECT_EQ(report::number(1), "1.00");
  EXPECT_EQ(report::number(99.96), "100.0");
  EXPECT_EQ(report::number(1234.4), "1,234");
  EXPECT_EQ(report::number(1234567), "1,234,567");
  EXPECT_EQ(report::number(0), "0");
  EXPECT_EQ(report::rate(999), "999 GFLOP/s");
  EXPECT_EQ(report::rate(2710), "2.71 TFLOP/s");
}

TEST(Report, IsWrittenIntoAFolderThatIsMade) {
  const test::ScratchFolder folder;
  const std::string path = folder / "new/report.html";
  ASSERT_TRUE(write_report(sample(), path).ok());
  EXPECT_EQ(*read_file(path), render_report(sample()));
  EXPECT_FALSE(write_report(sample(), "/proc/none/report.html").ok());
}

TEST(Report, DataComesFromATuningRun) {
  const test::ScratchFolder folder;
  const std::unique_ptr<ContextImpl> context = test::toy_context(folder.path());
  ASSERT_NE(context, nullptr);
  TuneResult good, failed;
  good.task = {&test::toy_operator(), test::toy_problem(4096), "good"};
  good.row.us = 2, good.row.recipe = "winner", good.row.library = "0.1.0";
  good.untuned_us = 3;
  good.candidates = {{"timed", CandidateOutcome::kTimed, "", 0, 2, 0, 0, 0},
                     {"bad", CandidateOutcome::kCrashed, "SIGSEGV", 0, 0, 0, 0, 0}};
  failed.task = {&test::toy_operator(), test::toy_problem(8192), "failed"};
  failed.status = Status(StatusCode::kVerifyFailed, "nothing runs right");
  DeviceLimits limits;
  limits.read_gbps_unit = limits.read_gbps_all = 32.768;
  const TuneResult results[] = {good, failed};
  const ReportData data = report_data(*context, results, limits, 0);
  ASSERT_EQ(data.rows.size(), 1u);
  EXPECT_EQ(data.size_names, std::vector<std::string>{"N"});
  EXPECT_EQ(data.rows[0].sizes, std::vector<int64_t>{4096});
  EXPECT_DOUBLE_EQ(data.rows[0].limit_fraction, 0.5);
  ASSERT_EQ(data.rejections.size(), 1u);
  EXPECT_EQ(data.rejections[0].outcome, "crashed");
  ASSERT_EQ(data.notes.size(), 1u);
  EXPECT_NE(data.notes[0].find("nothing runs right"), std::string::npos);
}

TEST(Report, ARowTellsWhatWasTriedAndWhatRefused) {
  ReportData data = sample();
  ASSERT_FALSE(data.rows.empty());
  ReportRow& row = data.rows[0];
  row.attempts = {{"fast", "timed", row.us, 1, ""},
                  {"slow", "timed", 2 * row.us, 2, ""},
                  {"late", "skipped", 0, 3, "predicted <2> times slower"},
                  {"huge", "out_of_memory", 0, 4, "took 9 GiB"}};
  row.refusals = {"other_family: dtype is bf16, allowed: f32"};
  const std::string html = render_report(data);
  EXPECT_NE(html.find("tried: 1 out of memory, 1 skipped, 2 timed; 1 family refused"), std::string::npos);
  EXPECT_NE(html.find("2.00×"), std::string::npos) << "beside the stored time";
  EXPECT_NE(html.find("predicted &lt;2&gt; times slower"), std::string::npos);
  EXPECT_NE(html.find("other_family: dtype is bf16, allowed: f32"), std::string::npos);
}

TEST(Report, TheQuarantineHasASectionWhenThereIsOne) {
  ReportData data = sample();
  EXPECT_EQ(render_report(data).find("Quarantine"), std::string::npos);
  data.quarantine = {{"gemm m=1", "bad_kernel", "timed_out", "did not end within 20 s"}};
  const std::string html = render_report(data);
  EXPECT_NE(html.find("Quarantine"), std::string::npos);
  EXPECT_NE(html.find("timed out"), std::string::npos);
  EXPECT_NE(html.find("did not end within 20 s"), std::string::npos);
}

TEST(Report, ThePeersIntervalIsDrawnWhereItIsKnown) {
  ReportData data = sample();
  for (ReportRow& row : data.rows) row.peer_us = 0;
  EXPECT_EQ(render_report(data).find("class=interval"), std::string::npos);
  data.rows[0].peer_us = 2 * data.rows[0].us, data.rows[0].peer_low = 1.9, data.rows[0].peer_high = 2.2;
  EXPECT_NE(render_report(data).find("95% interval 1.90× to 2.20×"), std::string::npos);
}

}  // namespace
}  // namespace tilewright
