// SPDX-License-Identifier: MIT
// A CSV file with a header line, read whole (RFC 4180 quoting).
#pragma once

#include <string>
#include <vector>

#include "tilewright/status.hpp"

namespace tilewright::cli {

struct CsvFile {
  std::string path;
  std::vector<std::string> columns;
  struct Row {
    int line = 0;
    std::vector<std::string> cells;  // as many as columns
  };
  std::vector<Row> rows;

  // -1 when there is no such column.
  int column(const std::string& name) const;
};

// The error names file and line.
Result<CsvFile> read_csv(const std::string& path);

}  // namespace tilewright::cli
