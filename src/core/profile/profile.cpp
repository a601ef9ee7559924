// SPDX-License-Identifier: MIT
// Who listens, and how ranges reach them.
#include "core/profile/profile.hpp"

#include <fmt/format.h>

#include <deque>
#include <mutex>
#include <vector>

#include "core/environment.hpp"
#include "core/log.hpp"
#include "core/profile/profile_sink.hpp"
#include "tilewright/profile.hpp"

namespace tilewright {

class ProfileSinks {
 public:
  std::vector<ProfileSink*> sinks;
};

namespace profile_detail {
constinit std::atomic<int> listening{-1};  // TILEWRIGHT_PROFILE has not been looked at yet
}

namespace {

class CallbackSink final : public ProfileSink {
 public:
  explicit CallbackSink(const ProfileCallbacks& callbacks) : callbacks_(callbacks) {}
  void push(const char* name, std::string_view) override { callbacks_.push(callbacks_.user, name); }
  void pop() override { callbacks_.pop(callbacks_.user); }

 private:
  ProfileCallbacks callbacks_;
};

struct Tool {
  std::string_view name;
  Result<std::unique_ptr<ProfileSink>> (*make)(const std::string& argument);
};
constexpr Tool kTools[] = {{"nvtx", make_nvtx_sink}, {"roctx", make_roctx_sink}, {"trace", make_trace_sink}};

void ignore(std::string_view text, std::string_view why) {
  log(LogLevel::kWarn, "profile", "TILEWRIGHT_PROFILE: '{}' is ignored: {}", text, why);
}

// "nvtx,trace:/tmp/trace.json"
std::vector<std::unique_ptr<ProfileSink>> sinks_of_environment() {
  std::vector<std::unique_ptr<ProfileSink>> sinks;
  const std::string text = environment("TILEWRIGHT_PROFILE").value_or("off");
  for (std::string_view rest = text; !rest.empty();) {
    const std::string_view item = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(item.size() + 1, rest.size()));
    const std::string_view name = item.substr(0, item.find(':'));
    const std::string argument(item.substr(std::min(name.size() + 1, item.size())));
    if (item.empty() || item == "off") continue;
    const Tool* tool = nullptr;
    for (const Tool& each : kTools) {
      if (each.name == name) tool = &each;
    }
    if (tool == nullptr) {
      ignore(item, "allowed: off, nvtx, roctx, trace, the latter three with an optional :path");
      continue;
    }
    Result<std::unique_ptr<ProfileSink>> sink = tool->make(argument);
    if (sink.ok()) {
      sinks.push_back(std::move(*sink));
    } else {
      ignore(item, sink.status().message());
    }
  }
  return sinks;
}

// Everybody who listens. Lists are never destroyed, only replaced.
class Listeners {
 public:
  static Listeners& get() {
    static auto* const listeners = new Listeners;
    return *listeners;
  }
  const ProfileSinks* current() const { return current_.load(std::memory_order_acquire); }

  void set_callbacks(const ProfileCallbacks& callbacks) {
    const std::lock_guard lock(mutex_);
    ProfileSink* sink = nullptr;
    if (callbacks.push != nullptr) sink = &callback_sinks_.emplace_back(callbacks);
    publish(sink);
  }

 private:
  Listeners() : tools_(sinks_of_environment()) { publish(nullptr); }

  void publish(ProfileSink* callbacks) {
    ProfileSinks& list = lists_.emplace_back();
    for (const auto& tool : tools_) list.sinks.push_back(tool.get());
    if (callbacks != nullptr) list.sinks.push_back(callbacks);
    current_.store(&list, std::memory_order_release);
    profile_detail::listening.store(list.sinks.empty() ? 0 : 1, std::memory_order_relaxed);
  }

  const std::vector<std::unique_ptr<ProfileSink>> tools_;
  std::mutex mutex_;
  std::deque<CallbackSink> callback_sinks_;
  std::deque<ProfileSinks> lists_;
  std::atomic<const ProfileSinks*> current_{nullptr};
};

}  // namespace

namespace profile_detail {

const ProfileSinks* begin(std::string_view op, std::string_view stage, std::string_view detail) {
  const ProfileSinks* list = Listeners::get().current();
  if (list->sinks.empty()) return nullptr;
  char name[128];
  *fmt::format_to_n(name, sizeof(name) - 1, "tilewright:{}:{}", op, stage).out = '\0';
  for (ProfileSink* sink : list->sinks) sink->push(name, detail);
  return list;
}

void end(const ProfileSinks* list) {
  for (auto sink = list->sinks.rbegin(); sink != list->sinks.rend(); ++sink) (*sink)->pop();
}

}  // namespace profile_detail

Status set_profile_callbacks(const ProfileCallbacks& callbacks) {
  if ((callbacks.push == nullptr) != (callbacks.pop == nullptr)) {
    return Status(
        StatusCode::kInvalidArgument,
        fmt::format("profile: argument '{}' is null while the other callback is not; allowed: both or neither",
                    callbacks.push == nullptr ? "push" : "pop"));
  }
  Listeners::get().set_callbacks(callbacks);
  return {};
}

}  // namespace tilewright
