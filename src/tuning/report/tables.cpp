// SPDX-License-Identifier: MIT
// The report's tables: the rows with what was tried for each, and what was refused.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "tuning/report/svg.hpp"

namespace tilewright::report {
namespace {

constexpr size_t kMaxRejections = 300, kMaxAttempts = 40;

std::string ratio_cell(double other_us, double us) {
  if (other_us <= 0 || us <= 0) return "<td class=n>–</td>";
  const double ratio = other_us / us;
  const char* css = ratio >= 1.02 ? "n good" : ratio <= 0.98 ? "n bad" : "n";
  return fmt::format("<td class='{}'>{:.2f}×</td>", css, ratio);
}

// "out_of_memory" -> "out of memory".
std::string words(std::string outcome) {
  std::replace(outcome.begin(), outcome.end(), '_', ' ');
  return outcome;
}

// What was tried for a row, folded up: times beside the stored one, and why the others have none.
std::string attempts(const ReportRow& row) {
  if (row.attempts.empty() && row.refusals.empty()) return "";
  std::map<std::string, size_t> counts;
  for (const ReportAttempt& attempt : row.attempts) ++counts[words(attempt.outcome)];
  std::string summary;
  for (const auto& [outcome, count] : counts) {
    summary += fmt::format("{}{} {}", summary.empty() ? "" : ", ", count, outcome);
  }
  if (!row.refusals.empty()) {
    summary += fmt::format("{}{} famil{} refused", summary.empty() ? "" : "; ", row.refusals.size(),
                           row.refusals.size() == 1 ? "y" : "ies");
  }
  std::string html = fmt::format("<details><summary>tried: {}</summary><table class=attempts><tbody>", escape(summary));
  for (size_t i = 0; i < std::min(kMaxAttempts, row.attempts.size()); ++i) {
    const ReportAttempt& attempt = row.attempts[i];
    const std::string time = attempt.us > 0 ? number(attempt.us) + " µs" : words(attempt.outcome);
    const std::string beside = attempt.us > 0 && row.us > 0 ? fmt::format("{:.2f}×", attempt.us / row.us) : "";
    html +=
        fmt::format("<tr><td class=n>{}</td><td class=n>{}</td><td><code>{}</code>{}</td></tr>", escape(time), beside,
                    escape(attempt.recipe), attempt.reason.empty() ? "" : "<p>" + escape(attempt.reason) + "</p>");
  }
  if (row.attempts.size() > kMaxAttempts) {
    html += fmt::format("<tr><td></td><td></td><td>{} more</td></tr>", row.attempts.size() - kMaxAttempts);
  }
  for (const std::string& refusal : row.refusals) {
    html += fmt::format("<tr><td class=n>refused</td><td></td><td>{}</td></tr>", escape(refusal));
  }
  return html + "</tbody></table></details>";
}

// One section a list, with the first lines of each.
std::string rejection_section(const char* heading, const char* first_column, const std::vector<ReportRejection>& list) {
  std::string html = fmt::format(
      "<section><h2>{}</h2><div class=scroll><table class=rejections><thead><tr><th>{}<th>outcome<th>candidate and "
      "reason</tr></thead><tbody>",
      heading, first_column);
  for (size_t i = 0; i < std::min(kMaxRejections, list.size()); ++i) {
    const ReportRejection& r = list[i];
    html += fmt::format(
        "<tr><td class=layer>{}</td><td><span class=outcome>{}</span></td><td><code>{}</code><p>{}</p></td></tr>",
        escape(r.label), escape(words(r.outcome)), escape(r.recipe), escape(r.reason));
  }
  html += "</tbody></table></div>";
  if (list.size() > kMaxRejections)
    html += fmt::format("<p>{} more stand in the journal.</p>", list.size() - kMaxRejections);
  return html + "</section>";
}

}  // namespace

std::string row_table(const ReportData& data) {
  const bool peers = !data.peer_name.empty();
  std::string html = "<section><h2>Rows</h2><div class=scroll><table class=rows><thead><tr><th class=n>#<th>layer";
  for (const std::string& name : data.size_names) html += fmt::format("<th class=n>{}", escape(name));
  html += "<th class=n>µs<th class=n>spread<th class=n>GFLOP/s<th class=n>% of limit<th class=n>over untuned";
  if (peers) html += fmt::format("<th class=n>over {}", escape(data.peer_name));
  html += "<th class=n>rel. error</tr></thead><tbody>";
  const size_t columns = 9 + data.size_names.size() + (peers ? 1 : 0) - 1;
  for (size_t i = 0; i < data.rows.size(); ++i) {
    const ReportRow& row = data.rows[i];
    html += fmt::format("<tr><td class=n><span class=badge>{}</span></td><td class=layer>{}</td>", i + 1,
                        escape(row.label));
    for (size_t c = 0; c < data.size_names.size(); ++c) {
      html += c < row.sizes.size() ? fmt::format("<td class=n>{}</td>", row.sizes[c]) : "<td class=n>–</td>";
    }
    html += fmt::format("<td class='n strong'>{}</td><td class='n{}'>{:.1f}%</td><td class=n>{}</td>", number(row.us),
                        row.spread > 0.03 ? " bad" : "", row.spread * 100,
                        row.us > 0 ? number(row.operations / row.us * 1e-3) : "–");
    html += row.limit_fraction > 0
                ? fmt::format("<td class=n><span class=meter><i style='width:{:.0f}%'></i></span>{:.0f}%</td>",
                              std::min(100.0, row.limit_fraction * 100), row.limit_fraction * 100)
                : "<td class=n>–</td>";
    html += ratio_cell(row.untuned_us, row.us);
    if (peers) html += ratio_cell(row.peer_us, row.us);
    html += fmt::format("<td class=n>{:.1e}</td></tr>", row.rel_error);
    const bool same = row.recipe == row.untuned_recipe;
    html += fmt::format("<tr class=recipe><td></td><td colspan={}><code>{}</code>{}{}</td></tr>", columns,
                        escape(row.recipe), same ? " <em>the untuned choice</em>" : "", attempts(row));
  }
  return html + "</tbody></table></div></section>";
}

std::string rejection_tables(const ReportData& data) {
  std::string html;
  if (data.rejections.empty()) {
    html = "<section><h2>Rejected candidates</h2><p>None: every candidate that ran was right.</p></section>";
  } else {
    html = rejection_section("Rejected candidates", "layer", data.rejections);
  }
  if (!data.quarantine.empty()) html += rejection_section("Quarantine", "failed on", data.quarantine);
  return html;
}

}  // namespace tilewright::report
