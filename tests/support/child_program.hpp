// SPDX-License-Identifier: MIT
// A test program that a test starts again as its own child: `<program> <name>` runs the function instead of the tests.
#pragma once

#include <map>
#include <string>

namespace tilewright::test {

using ChildMain = int (*)();

inline std::map<std::string, ChildMain>& child_programs() {
  static std::map<std::string, ChildMain> programs;
  return programs;
}

// A namespace-scope object of this type makes the function known.
struct ChildProgram {
  ChildProgram(const char* name, ChildMain run) { child_programs()[name] = run; }
};

}  // namespace tilewright::test
