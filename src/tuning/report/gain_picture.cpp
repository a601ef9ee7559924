// SPDX-License-Identifier: MIT
// The gain picture: bars of the gain over the untuned choice and the peer on the left, the spread on the right.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "tuning/report/svg.hpp"

namespace tilewright::report {
namespace {

constexpr double kGainWidth = 1040, kLabelEnd = 262, kGainEnd = 780, kSpreadStart = 840, kSpreadEnd = 960;
constexpr double kGainTop = 44, kBar = 11, kPairGap = 3, kGap = 10;
constexpr double kNoisy = 0.03;  // a spread that calls a time into question

std::string shortened(const std::string& text, size_t length) {
  return text.size() <= length ? text : text.substr(0, length - 1) + "…";
}

// A bar from 1.0 to the ratio, with its value behind the end; the line across its end is the 95% interval, where known.
std::string bar(const Axis& axis, double ratio, double y, const char* css, double interval_low = 0,
                double interval_high = 0) {
  const double one = axis.place(1), at = axis.place(std::clamp(ratio, axis.low, axis.high));
  const double left = std::min(one, at), width = std::max(1.5, std::fabs(at - one));
  const bool faster = ratio >= 1;
  std::string interval;
  double beyond = at;  // where the value may stand
  if (interval_low > 0 && interval_high >= interval_low) {
    const double from = axis.place(std::clamp(interval_low, axis.low, axis.high));
    const double to = axis.place(std::clamp(interval_high, axis.low, axis.high));
    interval = fmt::format(
        "<line class=interval x1={:.1f} x2={:.1f} y1={:.1f} y2={:.1f}><title>95% interval {:.2f}× to "
        "{:.2f}×</title></line>",
        from, std::max(to, from + 1), y + kBar / 2, y + kBar / 2, interval_low, interval_high);
    beyond = faster ? std::max(at, to) : std::min(at, from);
  }
  return fmt::format(
             "<rect class={} x={:.1f} y={:.1f} width={:.1f} height={} rx=2 />"
             "<text class=value x={:.1f} y={:.1f} text-anchor={}>{:.2f}×</text>",
             css, left, y, width, kBar, faster ? std::max(beyond, left + width) + 6 : beyond - 6, y + kBar - 2,
             faster ? "start" : "end", ratio) +
         interval;
}

}  // namespace

std::string gain_picture(const ReportData& data) {
  if (data.rows.empty()) return "";
  const bool peers = std::any_of(data.rows.begin(), data.rows.end(), [](const ReportRow& r) { return r.peer_us > 0; });
  const double step = (peers ? 2 * kBar + kPairGap : kBar) + kGap;
  const double bottom = kGainTop + step * static_cast<double>(data.rows.size());
  double low = 1 / 1.1, high = 1.25, spread_high = 2 * kNoisy;
  for (const ReportRow& row : data.rows) {
    for (const double us : {row.untuned_us, row.peer_us}) {
      if (us > 0 && row.us > 0) low = std::min(low, us / row.us), high = std::max(high, us / row.us);
    }
    if (row.peer_us > 0) high = std::max(high, row.peer_high);
    if (row.peer_us > 0 && row.peer_low > 0) low = std::min(low, row.peer_low);
    spread_high = std::max(spread_high, row.spread);
  }
  // Room for the values' texts beyond the ends.
  const double room = std::pow(high / low, 0.14);
  const Axis gain{low < 0.95 ? low / room : low, high * room, kLabelEnd, kGainEnd};
  const Axis spread{0, spread_high, kSpreadStart, kSpreadEnd, false};

  std::string svg = fmt::format(
      "<svg class=picture viewBox='0 0 {} {:.0f}' role=img aria-labelledby=gain-title>"
      "<title id=gain-title>Gain and spread of each row</title>",
      kGainWidth, bottom + 12);
  svg += fmt::format(
      "<rect class=gain x={} y=9 width=12 height={} rx=2 /><text class=key x={} y=19>gain over the untuned "
      "choice</text>",
      kLabelEnd, kBar, kLabelEnd + 18);
  if (peers) {
    svg += fmt::format(
        "<rect class=peerbar x={} y=9 width=12 height={} rx=2 /><text class=key x={} y=19>gain over {}</text>",
        kLabelEnd + 216, kBar, kLabelEnd + 234, escape(data.peer_name));
  }
  svg += fmt::format("<text class=key x={} y=19>spread (IQR / median)</text>", kSpreadStart);
  svg += fmt::format("<line class=axisline x1={0:.1f} x2={0:.1f} y1={1} y2={2:.1f} />", gain.place(1), kGainTop - 12,
                     bottom);
  svg += fmt::format("<line class=axisline x1={0:.1f} x2={0:.1f} y1={1} y2={2:.1f} />", spread.place(0), kGainTop - 12,
                     bottom);
  svg += fmt::format(
      "<line class=limit x1={0:.1f} x2={0:.1f} y1={1} y2={2:.1f}><title>3%: above it a time is in doubt</title></line>",
      spread.place(kNoisy), kGainTop - 12, bottom);

  for (size_t i = 0; i < data.rows.size(); ++i) {
    const ReportRow& row = data.rows[i];
    const double y = kGainTop + step * static_cast<double>(i), middle = y + (step - kGap) / 2;
    svg += fmt::format(
        "<text class=rowname x={} y={:.1f} text-anchor=end>{}</text>"
        "<text class=number x={} y={:.1f} text-anchor=middle>{}</text>",
        kLabelEnd - 34, middle + 4, escape(shortened(row.label, 34)), kLabelEnd - 18, middle + 4, i + 1);
    if (row.us > 0 && row.untuned_us > 0) svg += bar(gain, row.untuned_us / row.us, y, "gain");
    if (row.us > 0 && row.peer_us > 0)
      svg += bar(gain, row.peer_us / row.us, y + kBar + kPairGap, "peerbar", row.peer_low, row.peer_high);
    const double end = spread.place(std::clamp(row.spread, 0.0, spread.high));
    svg += fmt::format(
        "<rect class={} x={} y={:.1f} width={:.1f} height={} rx=2 />"
        "<text class=value x={:.1f} y={:.1f}>{:.1f}%</text>",
        row.spread > kNoisy ? "noisy" : "calm", kSpreadStart, middle - kBar / 2, std::max(1.0, end - kSpreadStart),
        kBar, kSpreadEnd + 14, middle + 4, row.spread * 100);
  }
  return svg + "</svg>";
}

}  // namespace tilewright::report
