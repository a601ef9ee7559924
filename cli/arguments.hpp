// SPDX-License-Identifier: MIT
// The arguments of one command: a small face over CLI11, so that one file alone pays for its headers and every message
// names argument, value and allowed set.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace CLI {  // NOLINT(readability-identifier-naming): CLI11's own name
class App;
}

namespace tilewright::cli {

class Arguments {
 public:
  explicit Arguments(CLI::App& app) : app_(app) {}

  // Heading in --help of the arguments that follow; "" = the usual one.
  void group(const std::string& heading) { group_ = heading; }
  // `name` as CLI11 takes it: "--json", or "--plain,!--packed".
  void flag(const std::string& name, bool& value, const std::string& help);
  void text(const std::string& name, std::string& value, const std::string& type, const std::string& help);
  // May be given several times; with `commas`, several values a time.
  void texts(const std::string& name, std::vector<std::string>& values, const std::string& type,
             const std::string& help, bool commas = false);
  void choice(const std::string& name, std::string& value, const std::vector<std::string>& allowed,
              const std::string& help);
  void integer(const std::string& name, int64_t& value, int64_t low, int64_t high, const std::string& help);
  void integer(const std::string& name, int& value, int64_t low, int64_t high, const std::string& help);
  void number_above(double low, const std::string& name, double& value, const std::string& help);
  void positional(const std::string& name, std::string& value, const std::string& help);
  void positionals(const std::string& name, std::vector<std::string>& values, const std::string& help);
  // Giving both is an error.
  void exclude(const std::string& one, const std::string& other);

 private:
  CLI::App& app_;
  std::string group_;
};

// --threads, 0 = all.
void add_threads_argument(Arguments& arguments, int& threads);
// --device, "cpu" when it is not given.
void add_device_argument(Arguments& arguments, std::string& device);

}  // namespace tilewright::cli
