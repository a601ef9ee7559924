// SPDX-License-Identifier: MIT
#include "jit/system/record.hpp"

#include <fmt/format.h>

#include <charconv>
#include <cstdlib>

namespace tilewright {
namespace {

void escape(std::string_view text, std::string& out) {
  for (const char c : text) {
    switch (c) {
      case '\t': out += "\\t"; break;
      case '\n': out += "\\n"; break;
      case '\r': out += "\\r"; break;
      case '\\': out += "\\\\"; break;
      case '\0': out += "\\0"; break;
      default: out += c;
    }
  }
}

Status unescape(std::string_view text, std::string& out) {
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\') {
      out += text[i];
      continue;
    }
    constexpr std::string_view kLetters = "tnr\\0", kMeanings("\t\n\r\\\0", 5);
    const size_t which = ++i < text.size() ? kLetters.find(text[i]) : std::string_view::npos;
    if (which == std::string_view::npos) return Status(StatusCode::kCorrupt, "record: unknown escape");
    out += kMeanings[which];
  }
  return {};
}

}  // namespace

Record& Record::set(std::string_view name, std::string_view value) {
  for (auto& [known, old] : fields_) {
    if (known == name) {
      old = value;
      return *this;
    }
  }
  fields_.emplace_back(name, value);
  return *this;
}

Record& Record::set(std::string_view name, double value) { return set(name, fmt::format("{}", value)); }
Record& Record::set(std::string_view name, int64_t value) { return set(name, fmt::format("{}", value)); }

bool Record::has(std::string_view name) const {
  for (const auto& [known, value] : fields_) {
    if (known == name) return true;
  }
  return false;
}

std::string_view Record::get(std::string_view name) const {
  for (const auto& [known, value] : fields_) {
    if (known == name) return value;
  }
  return {};
}

double Record::number(std::string_view name) const { return std::strtod(std::string(get(name)).c_str(), nullptr); }

int64_t Record::integer(std::string_view name) const {
  const std::string_view text = get(name);
  int64_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

std::string Record::line() const {
  std::string text;
  escape(verb_, text);
  for (const auto& [name, value] : fields_) {
    text += '\t';
    text += name;
    text += '=';
    escape(value, text);
  }
  return text;
}

Result<Record> Record::parse(std::string_view line) {
  Record record;
  bool first = true;
  while (true) {
    const std::string_view item = line.substr(0, line.find('\t'));
    if (first) {
      if (Status s = unescape(item, record.verb_); !s) return s;
      if (record.verb_.empty()) return Status(StatusCode::kCorrupt, "record: no verb");
    } else {
      const size_t equal = item.find('=');
      if (equal == std::string_view::npos) return Status(StatusCode::kCorrupt, "record: a field without '='");
      std::string value;
      if (Status s = unescape(item.substr(equal + 1), value); !s) return s;
      record.fields_.emplace_back(item.substr(0, equal), std::move(value));
    }
    first = false;
    if (item.size() == line.size()) return record;
    line.remove_prefix(item.size() + 1);
  }
}

}  // namespace tilewright
