// SPDX-License-Identifier: MIT
#include "tuning/capture/call_log.hpp"

#include <algorithm>
#include <map>

#include "core/fields.hpp"

namespace tilewright {
namespace {

constexpr std::string_view kMark = "tilewright info call: ";

bool is_name(std::string_view text) {
  return !text.empty() && text.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") ==
                              std::string_view::npos;
}

// op, problem, source, recipe, us; no cell holds a comma.
bool parse_call(std::string_view line, CapturedCall& call) {
  std::string_view cells[5];
  for (size_t i = 0; i < 5; ++i) {
    const size_t comma = line.find(',');
    if ((comma == std::string_view::npos) != (i == 4)) return false;
    cells[i] = line.substr(0, comma);
    line.remove_prefix(std::min(line.size(), cells[i].size() + 1));
  }
  double us = 0;
  if (!is_name(cells[0]) || cells[1].empty() || !is_name(cells[2])) return false;
  if (!fields_detail::parse_float(cells[4], us) || !(us >= 0)) return false;
  call.op = cells[0], call.problem = cells[1], call.source = cells[2], call.total_us = us;
  return true;
}

}  // namespace

CallLog parse_call_log(std::string_view text) {
  CallLog log;
  std::map<std::pair<std::string, std::string>, CapturedCall> calls;
  while (!text.empty()) {
    std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    const size_t at = line.find(kMark);
    if (at == std::string_view::npos) continue;
    line.remove_prefix(at + kMark.size());
    if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    CapturedCall call;
    ++log.lines;
    if (!parse_call(line, call)) {
      ++log.damaged;
      continue;
    }
    CapturedCall& known = calls[{call.op, call.problem}];
    call.calls = known.calls + 1, call.total_us += known.total_us;
    known = std::move(call);
  }
  for (auto& [key, call] : calls) log.calls.push_back(std::move(call));
  std::stable_sort(log.calls.begin(), log.calls.end(),
                   [](const CapturedCall& x, const CapturedCall& y) { return x.total_us > y.total_us; });
  return log;
}

}  // namespace tilewright
