// SPDX-License-Identifier: MIT
// What a bench measured as an HTML report with a roofline.
#pragma once

#include "results/bench/bench_table.hpp"
#include "tuning/report/report.hpp"
#include "tuning/report/roofline.hpp"

namespace tilewright::cli {

ReportData bench_report(const DeviceSpec& spec, const DeviceLimits& limits, const std::vector<BenchRow>& rows,
                        const std::vector<SkippedProblem>& skipped);

}  // namespace tilewright::cli
