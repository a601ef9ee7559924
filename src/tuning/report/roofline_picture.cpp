// SPDX-License-Identifier: MIT
// The roofline picture.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "tuning/report/svg.hpp"

namespace tilewright::report {
namespace {

constexpr double kWidth = 1040, kHeight = 620;
constexpr double kLeft = 78, kRight = 1016, kTop = 22, kBottom = 560;
constexpr double kLabelWidth = 17, kLabelHeight = 13;

struct Box {
  double x, y, width, height;  // left, top
  bool overlaps(const Box& o) const {
    return x < o.x + o.width && o.x < x + width && y < o.y + o.height && o.y < y + height;
  }
};

struct Point {
  size_t number;
  double x, y;
};

struct RoofLine {
  std::string name;
  double gflops;
};

std::vector<RoofLine> roofs_of(const ReportData& data) {
  std::vector<RoofLine> roofs;
  for (const DeviceLimits::Peak& peak : data.limits.peaks) {
    const bool wanted = data.roof_mmas.empty() ||
                        std::find(data.roof_mmas.begin(), data.roof_mmas.end(), peak.mma) != data.roof_mmas.end();
    if (wanted && peak.gflops_all > 0) roofs.push_back({peak.mma, peak.gflops_all});
  }
  std::sort(roofs.begin(), roofs.end(), [](const RoofLine& a, const RoofLine& b) { return a.gflops > b.gflops; });
  return roofs;
}

double intensity(const ReportRow& row) { return row.bytes > 0 ? row.operations / row.bytes : 0; }
double gflops(double operations, double us) { return us > 0 ? operations / us * 1e-3 : 0; }

// "0.5", "20", "5,000".
std::string tick(double value) { return value >= 1000 ? number(value) : fmt::format("{:g}", value); }

// Powers of ten, and 2 and 5 between them when there are few.
std::string grid(const Axis& x, const Axis& y) {
  std::string svg;
  const auto lines = [&](const Axis& axis, bool vertical) {
    const double decades = std::log10(axis.high / axis.low);
    for (int power = static_cast<int>(std::floor(std::log10(axis.low))); power <= std::log10(axis.high); ++power) {
      for (const double step : {1.0, 2.0, 5.0}) {
        if (step != 1 && decades > 3.5) continue;
        const double value = step * std::pow(10.0, power);
        if (value < axis.low * 0.999 || value > axis.high * 1.001) continue;
        const double at = axis.place(value);
        svg += vertical ? fmt::format(
                              "<line class=grid x1={0:.1f} x2={0:.1f} y1={1} y2={2} />"
                              "<text class=tick x={0:.1f} y={3} text-anchor=middle>{4}</text>",
                              at, kTop, kBottom, kBottom + 18, tick(value))
                        : fmt::format(
                              "<line class=grid x1={1} x2={2} y1={0:.1f} y2={0:.1f} />"
                              "<text class=tick x={3} y={4:.1f} text-anchor=end>{5}</text>",
                              at, kLeft, kRight, kLeft - 8, at + 4, tick(value));
      }
    }
  };
  lines(x, true);
  lines(y, false);
  svg += fmt::format("<text class=axis x={} y={} text-anchor=middle>arithmetic intensity (operations / byte)</text>",
                     (kLeft + kRight) / 2, kHeight - 16);
  svg += fmt::format("<text class=axis transform='translate(18 {}) rotate(-90)' text-anchor=middle>GFLOP/s</text>",
                     (kTop + kBottom) / 2);
  return svg;
}

// The roofs with their names; the names' boxes go to `taken`.
std::string roof_lines(const ReportData& data, const Axis& x, const Axis& y, std::vector<Box>& taken) {
  std::string svg;
  const std::vector<RoofLine> roofs = roofs_of(data);
  const double gbps = data.limits.read_gbps_all;
  double last_label = -100;
  for (const RoofLine& roof : roofs) {
    const double at = y.place(roof.gflops);
    const double start = gbps > 0 ? std::clamp(x.place(roof.gflops / gbps), kLeft, kRight) : kLeft;
    svg += fmt::format("<line class=roof x1={:.1f} x2={} y1={:.1f} y2={:.1f} />", start, kRight, at, at);
    // Names stand above their lines at the right end; lines that are close together share the room below.
    const double text_y = at - 6 - last_label < 14 ? at + 15 : at - 6;
    last_label = text_y;
    const std::string text = fmt::format("{}  {}", roof.name, rate(roof.gflops));
    svg +=
        fmt::format("<text class=roofname x={} y={:.1f} text-anchor=end>{}</text>", kRight - 4, text_y, escape(text));
    taken.push_back(
        {kRight - 8.0 * static_cast<double>(text.size()), text_y - 11, 8.0 * static_cast<double>(text.size()), 14});
  }
  if (gbps <= 0) return svg;
  // The memory roof: from the left edge to the highest peak, or to the edge of the picture.
  const double top = roofs.empty() ? y.high : roofs.front().gflops;
  const double x0 = std::max(x.low, y.low / gbps), x1 = std::min(top / gbps, x.high);
  if (x1 <= x0) return svg;
  svg += fmt::format("<line class=memory x1={:.1f} y1={:.1f} x2={:.1f} y2={:.1f} />", x.place(x0), y.place(gbps * x0),
                     x.place(x1), y.place(gbps * x1));
  const double angle = std::atan2(y.place(gbps * x1) - y.place(gbps * x0), x.place(x1) - x.place(x0)) * 180 / M_PI;
  const double middle = std::sqrt(x0 * x1);
  svg += fmt::format(
      "<text class=memoryname transform='translate({:.1f} {:.1f}) rotate({:.2f})' text-anchor=middle>"
      "{}  {} GB/s</text>",
      x.place(middle) - 6, y.place(gbps * middle) - 8, angle, escape(data.memory_roof), number(gbps));
  return svg;
}

// A place for a point's number: the nearest one around it that overlaps nothing.
Box place_label(const Point& point, const std::vector<Box>& taken) {
  Box best{point.x + 10, point.y - kLabelHeight / 2, kLabelWidth, kLabelHeight};
  for (const double radius : {17.0, 24.0, 32.0, 42.0, 54.0, 68.0, 84.0}) {
    for (const double degrees : {0.0, 180.0, -35.0, 35.0, 145.0, -145.0, -70.0, 70.0, 110.0, -110.0, -90.0, 90.0}) {
      const double angle = degrees * M_PI / 180;
      const Box box{point.x + radius * std::cos(angle) - kLabelWidth / 2,
                    point.y + radius * std::sin(angle) - kLabelHeight / 2, kLabelWidth, kLabelHeight};
      if (box.x < kLeft + 2 || box.x + box.width > kRight - 2 || box.y < kTop + 2 || box.y + box.height > kBottom - 2)
        continue;
      if (std::none_of(taken.begin(), taken.end(), [&box](const Box& o) { return box.overlaps(o); })) return box;
    }
  }
  return best;
}

std::string diamond(double x, double y, const char* css, const std::string& title) {
  return fmt::format("<path class={} d='M{:.1f} {:.1f}l5 5l-5 5l-5 -5z'><title>{}</title></path>", css, x, y - 5,
                     escape(title));
}

std::string circle(double x, double y, double radius, const char* css, const std::string& title) {
  return fmt::format("<circle class={} cx={:.1f} cy={:.1f} r={}><title>{}</title></circle>", css, x, y, radius,
                     escape(title));
}

std::string legend(const ReportData& data) {
  std::string svg = circle(kLeft + 18, kTop + 18, 6, "tuned", "") +
                    fmt::format("<text class=key x={} y={}>tuned</text>", kLeft + 30, kTop + 22) +
                    circle(kLeft + 88, kTop + 18, 5, "untuned", "") +
                    fmt::format("<text class=key x={} y={}>untuned choice</text>", kLeft + 100, kTop + 22);
  if (!data.peer_name.empty()) {
    svg += diamond(kLeft + 212, kTop + 18, "peer", "") +
           fmt::format("<text class=key x={} y={}>{}</text>", kLeft + 224, kTop + 22, escape(data.peer_name));
  }
  return svg;
}

}  // namespace

std::string roofline_picture(const ReportData& data) {
  // The ranges hold every point and the ridge.
  double x_low = 1e300, x_high = 0, y_low = 1e300, y_high = 0;
  for (const ReportRow& row : data.rows) {
    if (row.us <= 0 || intensity(row) <= 0) continue;
    x_low = std::min(x_low, intensity(row)), x_high = std::max(x_high, intensity(row));
    for (const double us : {row.us, row.untuned_us, row.peer_us}) {
      if (us <= 0) continue;
      y_low = std::min(y_low, gflops(row.operations, us)), y_high = std::max(y_high, gflops(row.operations, us));
    }
  }
  if (x_high == 0) return "";
  const std::vector<RoofLine> roofs = roofs_of(data);
  if (!roofs.empty()) {
    y_high = std::max(y_high, roofs.front().gflops);
    if (data.limits.read_gbps_all > 0) x_high = std::max(x_high, roofs.front().gflops / data.limits.read_gbps_all);
  }
  const Axis x{x_low / 2.2, x_high * 3, kLeft, kRight}, y{y_low / 2.5, y_high * 2.2, kBottom, kTop};

  std::string svg = fmt::format(
      "<svg class=picture viewBox='0 0 {} {}' role=img aria-labelledby=roofline-title>"
      "<title id=roofline-title>Roofline: GFLOP/s against arithmetic intensity</title>",
      kWidth, kHeight);
  svg += grid(x, y);
  std::vector<Box> taken = {{kLeft, kTop, 420, 34}};
  svg += roof_lines(data, x, y, taken);

  std::string marks, points, labels;
  std::vector<Point> numbered;
  for (size_t i = 0; i < data.rows.size(); ++i) {
    const ReportRow& row = data.rows[i];
    if (row.us <= 0 || intensity(row) <= 0) continue;
    const double px = x.place(intensity(row)), py = y.place(gflops(row.operations, row.us));
    const auto mark = [&](double us, const std::string& who) {
      return fmt::format("{}. {}: {}, {} ({} µs)", i + 1, row.label, who, rate(gflops(row.operations, us)), number(us));
    };
    for (const bool peer : {false, true}) {
      const double us = peer ? row.peer_us : row.untuned_us;
      if (us <= 0) continue;
      const double other = y.place(gflops(row.operations, us));
      if (std::fabs(other - py) > 7)
        marks += fmt::format("<line class=tie x1={0:.1f} x2={0:.1f} y1={1:.1f} y2={2:.1f} />", px, py, other);
      marks += peer ? diamond(px, other, "peer", mark(us, data.peer_name))
                    : circle(px, other, 4.5, "untuned", mark(us, "untuned choice"));
      taken.push_back({px - 5, other - 5, 10, 10});
    }
    points += circle(px, py, 5, "tuned", mark(row.us, "tuned"));
    taken.push_back({px - 6, py - 6, 12, 12});
    numbered.push_back({i + 1, px, py});
  }
  if (numbered.size() > kMostNumberedPoints) numbered.clear();
  // Numbers last, top to bottom, so that each finds the nearest free place.
  std::sort(numbered.begin(), numbered.end(), [](const Point& a, const Point& b) { return a.y < b.y; });
  for (const Point& point : numbered) {
    const Box box = place_label(point, taken);
    taken.push_back(box);
    const double cx = box.x + box.width / 2, cy = box.y + box.height / 2;
    const double distance = std::hypot(cx - point.x, cy - point.y);
    if (distance > 20) {
      const double from = 6 / distance, to = (distance - 9) / distance;
      labels +=
          fmt::format("<line class=leader x1={:.1f} y1={:.1f} x2={:.1f} y2={:.1f} />", point.x + (cx - point.x) * from,
                      point.y + (cy - point.y) * from, point.x + (cx - point.x) * to, point.y + (cy - point.y) * to);
    }
    labels +=
        fmt::format("<text class=number x={:.1f} y={:.1f} text-anchor=middle>{}</text>", cx, cy + 4, point.number);
  }
  return svg + marks + points + labels + legend(data) + "</svg>";
}

}  // namespace tilewright::report
