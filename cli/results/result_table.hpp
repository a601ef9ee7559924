// SPDX-License-Identifier: MIT
// The table and the report of a tuning run, from records: `tune` and `report` print the same.
#pragma once

#include <string>
#include <vector>

#include "dispatch/context_impl.hpp"
#include "output/document.hpp"
#include "results/layer_record.hpp"
#include "tuning/report/report.hpp"

namespace tilewright::cli {

Table result_table(const ContextImpl& context, const std::vector<LayerRecord>& records);

struct Summary {
  double untuned_gain = 0;  // geometric means; 0 = nothing to compare
  double peer_ratio = 0;
  std::string peer;
  double limit_fraction = 0;
};
Summary summarise(const std::vector<LayerRecord>& records);
// "geometric mean: 1.32x over untuned, 1.18x over PyTorch 2.9.0, 71 % of the measured limit", and its numbers.
void add_summary(const Summary& summary, Document& document);

// How many kernels are in quarantine here, and how to see them.
void add_quarantine_fact(const QuarantineList& list, Document& document);

// Geometric mean of the values above 0; 0 without any.
double geometric_mean(const std::vector<double>& values);

// A record as the tuner's result, without its candidates; the task is empty when the problem is not understood any more.
TuneResult result_of(const ContextImpl& context, const LayerRecord& record);
// What the report shows beyond the tuner's own data: peers, shares of the limit. Rows and records are in the same order.
void add_records(const std::vector<LayerRecord>& records, ReportData& report);

}  // namespace tilewright::cli
