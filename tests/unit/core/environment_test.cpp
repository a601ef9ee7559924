// SPDX-License-Identifier: MIT
#include "core/environment.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <set>
#include <sstream>

#include "unit/jit/cache_test_support.hpp"

namespace tilewright {
namespace {

using test::ScopedVariable;

TEST(Environment, UnsetAndEmptyVariablesAreAbsent) {
  const ScopedVariable unset("TILEWRIGHT_CXX", std::nullopt);
  EXPECT_EQ(environment("TILEWRIGHT_CXX"), std::nullopt);
  const ScopedVariable empty("TILEWRIGHT_CXX", "");
  EXPECT_EQ(environment("TILEWRIGHT_CXX"), std::nullopt);
  const ScopedVariable set("TILEWRIGHT_CXX", "g++-12");
  EXPECT_EQ(environment("TILEWRIGHT_CXX"), "g++-12");
}

TEST(Environment, EveryVariableIsDescribedOnceAndOwnOnesHaveThePrefix) {
  std::set<std::string> names;
  for (const auto& variable : environment_variables()) {
    EXPECT_TRUE(std::string_view(variable.name).starts_with("TILEWRIGHT_"));
    EXPECT_TRUE(names.insert(variable.name).second) << variable.name;
  }
  for (const auto& variable : borrowed_environment_variables()) {
    EXPECT_FALSE(std::string_view(variable.name).starts_with("TILEWRIGHT_"));
    EXPECT_TRUE(names.insert(variable.name).second) << variable.name;
  }
  for (const auto table : {environment_variables(), borrowed_environment_variables()}) {
    for (const auto& variable : table) {
      EXPECT_STRNE(variable.values, "");
      EXPECT_STRNE(variable.fallback, "");
      EXPECT_STRNE(variable.meaning, "");
    }
  }
}

TEST(Environment, TheDocumentHasEveryRowOfTheTables) {
  std::ifstream file(TILEWRIGHT_SOURCE_DIR "/docs/environment.md");
  std::ostringstream text;
  text << file.rdbuf();
  for (const auto table : {environment_variables(), borrowed_environment_variables()}) {
    for (const auto& variable : table) {
      std::string values = variable.values;  // a bar would end the cell
      for (size_t at = 0; (at = values.find('|', at)) != std::string::npos; at += 2) values.insert(at, "\\");
      const std::string row = std::string("| `") + variable.name + "` | " + values + " | " + variable.fallback + " | " +
                              variable.meaning + " |";
      EXPECT_NE(text.str().find(row), std::string::npos) << "docs/environment.md lacks the row\n" << row;
    }
  }
}

TEST(Environment, AskingForAVariableOutsideTheTablesAbortsDebugBuilds) {
  EXPECT_DEBUG_DEATH((void)environment("TILEWRIGHT_NO_SUCH_THING"), "outside the tables");
}

TEST(EnvironmentFolders, OwnVariableWinsOverXdgWinsOverHome) {
  const ScopedVariable home("HOME", "/somewhere");
  const ScopedVariable xdg_cache("XDG_CACHE_HOME", std::nullopt), xdg_data("XDG_DATA_HOME", std::nullopt);
  const ScopedVariable cache("TILEWRIGHT_CACHE_DIR", std::nullopt), data("TILEWRIGHT_DATA_DIR", std::nullopt);
  EXPECT_EQ(user_cache_dir(), "/somewhere/.cache/tilewright");
  EXPECT_EQ(user_data_dir(), "/somewhere/.local/share/tilewright");
  {
    const ScopedVariable set_cache("XDG_CACHE_HOME", "/xdg/cache"), set_data("XDG_DATA_HOME", "/xdg/data");
    EXPECT_EQ(user_cache_dir(), "/xdg/cache/tilewright");
    EXPECT_EQ(user_data_dir(), "/xdg/data/tilewright");
    const ScopedVariable own_cache("TILEWRIGHT_CACHE_DIR", "/own/cache"), own_data("TILEWRIGHT_DATA_DIR", "/own/data");
    EXPECT_EQ(user_cache_dir(), "/own/cache");
    EXPECT_EQ(user_data_dir(), "/own/data");
  }
  const ScopedVariable relative("XDG_CACHE_HOME", "relative");
  EXPECT_EQ(user_cache_dir(), "/somewhere/.cache/tilewright");
}

TEST(EnvironmentFolders, WithoutAHomeThereIsNoFolder) {
  const ScopedVariable home("HOME", std::nullopt), xdg("XDG_CACHE_HOME", std::nullopt),
      own("TILEWRIGHT_CACHE_DIR", std::nullopt);
  EXPECT_EQ(user_cache_dir(), "");
}

}  // namespace
}  // namespace tilewright
