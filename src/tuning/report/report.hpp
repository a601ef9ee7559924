// SPDX-License-Identifier: MIT
// The report of a tuning run: one HTML file without anything from outside, with a roofline picture. Plain data in, so
// that tools may add what they measured elsewhere (peers).
#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "device/device.hpp"
#include "dispatch/registry/quarantine.hpp"
#include "tuning/tuner.hpp"

namespace tilewright {

// A candidate of a row that ran, or why it did not.
struct ReportAttempt {
  std::string recipe;
  std::string outcome;  // "timed", "skipped", "crashed" ...
  double us = 0;        // 0 = not timed
  double predicted_us = 0;
  std::string reason;
};

struct ReportRow {
  std::string label;           // "attn_qkv, 16 tokens"
  std::vector<int64_t> sizes;  // one for each of ReportData::size_names
  double us = 0, spread = 0;
  double untuned_us = 0;
  double peer_us = 0;                  // 0 = the peer was not measured
  double peer_low = 0, peer_high = 0;  // 95% interval of peer time / own time; 0 = not known
  double operations = 0, bytes = 0;
  double limit_fraction = 0;  // share of the roof at this arithmetic intensity; 0 = limits unknown
  double rel_error = 0;
  int samples = 0;
  std::string recipe, untuned_recipe;
  bool resumed = false;
  std::vector<ReportAttempt> attempts;  // fastest first, then those without a time
  std::vector<std::string> refusals;    // "family: reason"
};

struct ReportRejection {
  std::string label, recipe;
  std::string outcome;  // "rejected", "crashed" ...
  std::string reason;
};

struct ReportData {
  std::string title, subtitle;
  std::string device_name, part, target;
  int units = 0;
  DeviceLimits limits;  // `_all` for the units in use; empty peaks: no roofs are drawn
  std::string memory_roof = "memory (read)";
  std::vector<std::string> roof_mmas;                      // which peaks are drawn; empty = all
  std::vector<std::pair<std::string, std::string>> facts;  // further lines of the device block: "compiler", "date"
  std::vector<std::string> size_names;                     // {"M", "N", "K"}
  std::string peer_name;                                   // "PyTorch 2.9"; "" = no peer
  std::vector<ReportRow> rows;
  std::vector<ReportRejection> rejections;
  std::vector<ReportRejection> quarantine;  // kernels that are not tried again; label: on which problem
  std::vector<std::string> notes;           // what is missing and why
};

// Rows, rejections and the device block from a tuning run; the caller adds title, peers and facts. Tasks without a row
// become notes.
ReportData report_data(ContextImpl& context, std::span<const TuneResult> results, const DeviceLimits& limits,
                       int units);

void add_quarantine(const QuarantineList& list, ReportData& data);

std::string render_report(const ReportData& data);
// Renders and replaces `path` atomically; makes its folder.
Status write_report(const ReportData& data, const std::string& path);

}  // namespace tilewright
