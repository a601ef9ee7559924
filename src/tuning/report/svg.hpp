// SPDX-License-Identifier: MIT
// What the report's pictures share: escaping, number texts, axes, and the pictures themselves.
#pragma once

#include <string>
#include <string_view>

#include "tuning/report/report.hpp"

namespace tilewright::report {

// &, <, > and quotes as entities.
std::string escape(std::string_view text);
// Three significant digits, thousands separated: "0.123", "12.3", "1,230".
std::string number(double value);
// "1.23 TFLOP/s", "456 GFLOP/s".
std::string rate(double gflops);

// A linear or logarithmic axis: a value's place between two pixels.
struct Axis {
  double low, high;  // values
  double from, to;   // pixels
  bool logarithmic = true;
  double place(double value) const;
};

// More points than this have no numbers: those would hide them.
inline constexpr size_t kMostNumberedPoints = 60;
// Log-log: arithmetic intensity against GFLOP/s, the memory roof, one roof for each instruction, one numbered point a row,
// untuned choices and peers lighter. "" when no row has a time.
std::string roofline_picture(const ReportData& data);
// Bars: gain over the untuned choice and the peer, and the spread of each row. "" when there are no rows.
std::string gain_picture(const ReportData& data);

// The rows with what was tried for each; the rejected candidates and the quarantine.
std::string row_table(const ReportData& data);
std::string rejection_tables(const ReportData& data);

// The style sheet, light and dark.
std::string_view style_sheet();

}  // namespace tilewright::report
