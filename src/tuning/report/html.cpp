// SPDX-License-Identifier: MIT
// The report as one HTML page.
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "jit/system/files.hpp"
#include "tuning/report/svg.hpp"

namespace tilewright {
namespace report {
namespace {

double geomean(const std::vector<double>& values) {
  double sum = 0;
  for (const double v : values) sum += std::log(v);
  return values.empty() ? 0 : std::exp(sum / static_cast<double>(values.size()));
}

std::string card(const std::string& value, const std::string& text) {
  return fmt::format("<div class=card><b>{}</b><span>{}</span></div>", escape(value), escape(text));
}

std::string cards(const ReportData& data) {
  std::vector<double> untuned, peer, limit;
  for (const ReportRow& row : data.rows) {
    if (row.us <= 0) continue;
    if (row.untuned_us > 0) untuned.push_back(row.untuned_us / row.us);
    if (row.peer_us > 0) peer.push_back(row.peer_us / row.us);
    if (row.limit_fraction > 0) limit.push_back(row.limit_fraction);
  }
  std::string html = "<section class=cards>";
  html += card(std::to_string(data.rows.size()), data.rows.size() == 1 ? "row tuned" : "rows tuned");
  if (!untuned.empty()) html += card(fmt::format("{:.2f}×", geomean(untuned)), "over the untuned choice, geomean");
  if (!peer.empty())
    html += card(fmt::format("{:.2f}×", geomean(peer)), fmt::format("over {}, geomean", data.peer_name));
  if (!limit.empty()) html += card(fmt::format("{:.0f}%", geomean(limit) * 100), "of the measured limit, geomean");
  size_t timed = 0;
  for (const ReportRow& row : data.rows) {
    timed += static_cast<size_t>(std::count_if(row.attempts.begin(), row.attempts.end(),
                                               [](const ReportAttempt& attempt) { return attempt.us > 0; }));
  }
  if (timed > 0) html += card(std::to_string(timed), "candidates verified and timed");
  html += card(std::to_string(data.rejections.size()),
               data.rejections.size() == 1 ? "candidate rejected" : "candidates rejected");
  return html + "</section>";
}

std::string device_block(const ReportData& data) {
  std::string html = "<section><h2>Device</h2><div class=device><dl>";
  const auto line = [&html](const std::string& name, const std::string& value) {
    if (!value.empty()) html += fmt::format("<dt>{}</dt><dd>{}</dd>", escape(name), escape(value));
  };
  line("name", data.device_name);
  line("part", data.part);
  line("target", data.target);
  line("units in use", data.units > 0 ? std::to_string(data.units) : "");
  for (const auto& [name, value] : data.facts) line(name, value);
  html += "</dl>";
  const DeviceLimits& limits = data.limits;
  const bool measured = !limits.peaks.empty() || limits.read_gbps_all > 0;
  if (!measured) return html + "</div></section>";
  html += fmt::format(
      "<table class=limits><thead><tr><th>measured limit<th class=n>one unit<th class=n>{}</tr></thead><tbody>",
      data.units > 0 ? fmt::format("{} unit{}", data.units, data.units == 1 ? "" : "s") : "all units");
  const auto row = [&html](const std::string& name, const std::string& one, const std::string& all) {
    html += fmt::format("<tr><td>{}</td><td class=n>{}</td><td class=n>{}</td></tr>", escape(name), escape(one),
                        escape(all));
  };
  const auto or_dash = [](double value, const std::string& text) { return value > 0 ? text : "–"; };
  for (const DeviceLimits::Peak& peak : limits.peaks) {
    row(peak.mma, or_dash(peak.gflops_unit, rate(peak.gflops_unit)), or_dash(peak.gflops_all, rate(peak.gflops_all)));
  }
  if (limits.read_gbps_all > 0) {
    row("memory, read", or_dash(limits.read_gbps_unit, number(limits.read_gbps_unit) + " GB/s"),
        number(limits.read_gbps_all) + " GB/s");
  }
  if (limits.copy_gbps_all > 0) row("memory, copy", "–", number(limits.copy_gbps_all) + " GB/s");
  if (limits.launch_us > 0) row("empty launch", "–", number(limits.launch_us) + " µs");
  return html + "</tbody></table></div></section>";
}

std::string notes(const ReportData& data) {
  std::string html = "<section><h2>Notes</h2><ul>";
  for (const std::string& note : data.notes) html += fmt::format("<li>{}</li>", escape(note));
  html +=
      "<li>Times are medians of interleaved samples with cold operands; spread is the interquartile range over the "
      "median. <b>% of limit</b> is the least time that the measured peak of the fastest instruction for the dtype and "
      "the measured read bandwidth allow, over the measured time.</li>"
      "<li>Every row was verified against a float64 reference on several seeds and on tail sizes, with poisoned "
      "outputs "
      "and guard zones; <b>rel. error</b> is the largest ‖error‖ / ‖reference‖.</li>";
  return html + "</ul></section>";
}

}  // namespace
}  // namespace report

std::string render_report(const ReportData& data) {
  using namespace report;
  std::string html = fmt::format(
      "<!doctype html>\n<html lang=en><head><meta charset=utf-8><meta name=viewport content='width=device-width, "
      "initial-scale=1'>"
      "<meta name=color-scheme content='light dark'><title>{}</title>\n<style>{}</style></head>\n<body><main>"
      "<header><h1>{}</h1><p>{}</p></header>\n",
      escape(data.title), style_sheet(), escape(data.title), escape(data.subtitle));
  html += cards(data) + "\n";
  if (const std::string picture = roofline_picture(data); !picture.empty()) {
    html +=
        fmt::format("<section><h2>Roofline</h2><p class=lead>{}</p>",
                    data.rows.size() > kMostNumberedPoints
                        ? "One point a row; under the pointer it tells its number in the table, its name and its times."
                        : "One numbered point a row; the numbers are those of the table.") +
        picture + "</section>\n";
  }
  if (const std::string picture = gain_picture(data); !picture.empty()) {
    html += "<section><h2>Gain and spread</h2>" + picture + "</section>\n";
  }
  html += row_table(data) + "\n" + device_block(data) + "\n" + rejection_tables(data) + "\n" + notes(data) + "\n";
  return html + "</main></body></html>\n";
}

Status write_report(const ReportData& data, const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash != std::string::npos && slash > 0) {
    if (Status s = make_folders(path.substr(0, slash)); !s) return s;
  }
  const std::string temporary = fmt::format("{}.{}.tmp", path, ::getpid());
  if (Status s = write_file(temporary, render_report(data)); !s) return s;
  ::chmod(temporary.c_str(), 0644);  // reports are passed on
  if (std::rename(temporary.c_str(), path.c_str()) != 0) {
    std::remove(temporary.c_str());
    return Status(StatusCode::kIoError, fmt::format("report: cannot write {}", path));
  }
  return {};
}

}  // namespace tilewright
