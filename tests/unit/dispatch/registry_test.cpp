// SPDX-License-Identifier: MIT
#include "dispatch/registry/registry.hpp"

#include <gtest/gtest.h>

namespace tilewright {
namespace {

RegistryEntry entry(const char* config, Priority priority = Priority::kNormal,
                    Verification verification = Verification::kNone) {
  return {.key = make_key("op", "family", "x86-64", "s", config), .priority = priority, .verification = verification};
}
std::string text(const char* config) { return entry(config).key.text; }

TEST(Registry, HigherPriorityWinsAndATieKeepsTheFirst) {
  Registry registry;
  RegistryEntry first = entry("a");
  first.note = "first";
  registry.add(first);
  RegistryEntry second = entry("a");
  second.note = "second";
  registry.add(second);
  RegistryEntry found;
  ASSERT_TRUE(registry.find(text("a"), found));
  EXPECT_EQ(found.note, "first");
  registry.add(entry("a", Priority::kHigh));
  EXPECT_EQ(registry.priority(text("a")), Priority::kHigh);
  registry.add(entry("a", Priority::kLow));
  EXPECT_EQ(registry.priority(text("a")), Priority::kHigh);
}

TEST(Registry, AQuarantineSurvivesEveryAddAndMergeButNotSet) {
  Registry registry, other;
  registry.add(entry("a", Priority::kDisabled));
  registry.add(entry("a", Priority::kHigh, Verification::kDevice));
  other.add(entry("a", Priority::kHigh));
  EXPECT_EQ(registry.merge(other), 0);
  EXPECT_EQ(registry.priority(text("a")), Priority::kDisabled);
  EXPECT_EQ(other.merge(registry), 1);
  EXPECT_EQ(other.priority(text("a")), Priority::kDisabled);
  registry.set(entry("a"));
  EXPECT_EQ(registry.priority(text("a")), Priority::kNormal);
}

TEST(Registry, EqualPriorityPrefersTheHigherVerification) {
  Registry registry;
  registry.add(entry("a", Priority::kNormal, Verification::kStatic));
  registry.add(entry("a", Priority::kNormal, Verification::kDevice));
  registry.add(entry("a", Priority::kNormal, Verification::kEmulatedSource));
  RegistryEntry found;
  ASSERT_TRUE(registry.find(text("a"), found));
  EXPECT_EQ(found.verification, Verification::kDevice);
}

TEST(Registry, ABuiltinAddressSurvivesReplacement) {
  Registry registry;
  RegistryEntry builtin = entry("a");
  builtin.builtin = &registry;
  registry.add(builtin);
  registry.add(entry("a", Priority::kHigh));
  registry.set(entry("a", Priority::kLow));
  RegistryEntry found;
  ASSERT_TRUE(registry.find(text("a"), found));
  EXPECT_EQ(found.builtin, &registry);
  EXPECT_EQ(found.priority, Priority::kLow);
}

TEST(Registry, FilterReturnsWhatThePredicateTakesInKeyOrder) {
  Registry registry;
  for (const char* config : {"c", "a", "b"}) registry.add(entry(config));
  registry.add(entry("d", Priority::kLow));
  const auto found = registry.filter([](const RegistryEntry& e) { return e.priority == Priority::kNormal; });
  ASSERT_EQ(found.size(), 3u);
  EXPECT_EQ(found[0].key.config(), "a");
  EXPECT_EQ(found[2].key.config(), "c");
}

TEST(Registry, JsonRoundTripKeepsPrioritiesAndVerification) {
  Registry registry;
  RegistryEntry bad = entry("a", Priority::kDisabled, Verification::kDevice);
  bad.note = "quote \" and \\ backslash";
  registry.add(bad);
  registry.add(entry("b", Priority::kHigh));
  Registry copy;
  ASSERT_TRUE(copy.from_json(registry.to_json()).ok());
  EXPECT_EQ(copy.to_json(), registry.to_json());
  RegistryEntry found;
  ASSERT_TRUE(copy.find(text("a"), found));
  EXPECT_EQ(found.note, bad.note);
}

TEST(Registry, MalformedJsonChangesNothing) {
  Registry registry;
  for (const char* json : {"", "{", "[]", "{\"tilewright_registry\": 2, \"entries\": []}",
                           "{\"tilewright_registry\": 1}", "{\"tilewright_registry\": 1, \"entries\": [1]}",
                           "{\"tilewright_registry\": 1, \"entries\": [{\"key\": \"o/f/t/s/c\", \"priority\": "
                           "\"high\", \"verification\": \"none\"}, {\"key\": \"bad\"}]}",
                           "{\"tilewright_registry\": 1, \"entries\": [{\"key\": \"o/f/t/s/c\", \"priority\": "
                           "\"urgent\", \"verification\": \"none\"}]}"}) {
    const Status status = registry.from_json(json);
    EXPECT_FALSE(status.ok()) << json;
    EXPECT_EQ(registry.size(), 0u) << json;
  }
}

}  // namespace
}  // namespace tilewright
