// SPDX-License-Identifier: MIT
// The child's side of a worker: compiles, verifies and times recipes on request, one line in, one line out.
//
//   hello                                                  -> hello   version pid
//   problem  op problem units seeds rotations              -> problem        (rotations = 0: for compiling only)
//   compile  recipe                                        -> compile
//   verify   recipe extent=quick|full                      -> verify  passed worst_ratio rel_error compared failure
//   time     recipes seconds min_samples max_samples mode  -> time    power, samples<i> for each recipe, in microseconds
//
// Anything that fails answers: error code message.
#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <new>
#include <sstream>

#include "core/profile/profile.hpp"
#include "jit/system/files.hpp"
#include "jit/system/record.hpp"
#include "tuning/measure.hpp"
#include "tuning/tuner.hpp"
#include "tuning/verify.hpp"

namespace tilewright {
namespace {

class WorkerSession {
 public:
  explicit WorkerSession(ContextImpl& context) : context_(context) {}

  Result<Record> answer(const Record& request) {
    if (request.verb() == "hello") {
      return Record("hello").set("version", TILEWRIGHT_VERSION).set("pid", int64_t{getpid()});
    }
    if (request.verb() == "problem") return set_problem(request);
    if (op_ == nullptr) return Status(StatusCode::kInvalidArgument, "worker: no problem was set");
    if (request.verb() == "compile") return compile(request);
    if (verifier_ == nullptr)
      return Status(StatusCode::kInvalidArgument, "worker: the problem was set for compiling only");
    if (request.verb() == "verify") return verify(request);
    if (request.verb() == "time") return time(request);
    return Status(StatusCode::kInvalidArgument, fmt::format("worker: unknown request '{}'", request.verb()));
  }

 private:
  Result<Record> set_problem(const Record& request) {
    verifier_.reset();  // gives its memory back first
    op_ = context_.find_op(request.get("op"));
    if (op_ == nullptr)
      return Status(StatusCode::kNotFound, fmt::format("worker: no operator '{}'", request.get("op")));
    Result<std::vector<std::byte>> problem = op_->parse_problem(request.get("problem"));
    if (!problem) {
      op_ = nullptr;
      return problem.status();
    }
    problem_ = std::move(*problem);
    units_ = static_cast<int>(request.integer("units"));
    const int rotations = static_cast<int>(request.integer("rotations"));
    if (rotations > 0) {
      Result<std::unique_ptr<Verifier>> verifier =
          Verifier::create(context_, *op_, problem_, units_, static_cast<int>(request.integer("seeds")), rotations);
      if (!verifier) return verifier.status();
      verifier_ = std::move(*verifier);
    }
    return Record("problem");
  }

  Result<Recipe> recipe(std::string_view text) const { return parse_recipe(op_->families(), text); }

  Result<Record> compile(const Record& request) {
    Result<Recipe> parsed = recipe(request.get("recipe"));
    if (!parsed) return parsed.status();
    // A worker that only compiles may be without the device.
    if (!runs_on(parsed->steps.front().key.target, context_.device().spec().arch->target)) return compile_only(*parsed);
    // Loading belongs to it: code that crashes while it is loaded does so here.
    Result<std::shared_ptr<const Plan>> plan =
        verifier_ != nullptr ? verifier_->plan(*parsed)
                             : context_.dispatcher().bind(*op_, problem_, context_.spec(units_), *parsed,
                                                          ChoiceSource::kForced, /*allow_compile=*/true);
    if (!plan) return plan.status();
    return Record("compile");
  }

  Result<Record> compile_only(const Recipe& recipe) {
    for (const RecipeStep& step : recipe.steps) {
      const KernelFamily* family = find_family(op_->families(), step.key.family);
      Result<CompileRequest> made = family->source(step.key);
      if (!made) return made.status();
      made->op = op_->name();
      const Result<Artifact> artifact =
          context_.cache().get(*made, compiler_for(made->target, context_.device().spec().emulated));
      if (!artifact) return artifact.status();
    }
    return Record("compile");
  }

  Result<Record> verify(const Record& request) {
    Result<Recipe> parsed = recipe(request.get("recipe"));
    if (!parsed) return parsed.status();
    const ProfileRange range(op_->name(), "verify", request.get("recipe"));
    Result<VerifyReport> report =
        request.get("extent") == "full" ? verifier_->verify_problem(*parsed) : verifier_->verify_quickly(*parsed);
    if (!report) return report.status();
    return Record("verify")
        .set("passed", int64_t{report->passed})
        .set("worst_ratio", report->worst_ratio)
        .set("rel_error", report->rel_error)
        .set("compared", report->compared)
        .set("failure", report->failure);
  }

  Result<Record> time(const Record& request) {
    std::vector<std::shared_ptr<const Plan>> plans;
    std::istringstream recipes{std::string(request.get("recipes"))};
    for (std::string text; recipes >> text;) {
      Result<Recipe> parsed = recipe(text);
      if (!parsed) return parsed.status();
      Result<std::shared_ptr<const Plan>> plan = verifier_->plan(*parsed);
      if (!plan) return plan.status();
      plans.push_back(std::move(*plan));
    }
    MeasureOptions options;
    options.seconds = request.number("seconds");
    options.min_samples = static_cast<int>(request.integer("min_samples"));
    options.max_samples = static_cast<int>(request.integer("max_samples"));
    const auto mode = static_cast<TimeMode>(request.integer("mode"));
    if (mode == TimeMode::kRested) options = rested_bursts(options.seconds);
    if (mode == TimeMode::kSustained) options = sustained_calls(options.seconds);
    const ProfileRange range(op_->name(), "measure", request.get("recipes"));
    Result<std::vector<Timing>> timings = measure_plans(context_.device(), plans, verifier_->instance(), options);
    if (!timings) return timings.status();
    Record record("time");
    record.set("power", context_.device().power_state());
    for (size_t i = 0; i < timings->size(); ++i) {
      std::string samples;
      for (const double us : (*timings)[i].sample_us) samples += fmt::format("{:.6g} ", us);
      record.set(fmt::format("samples{}", i), samples);
    }
    return record;
  }

  ContextImpl& context_;
  const Operator* op_ = nullptr;
  std::vector<std::byte> problem_;
  int units_ = 0;
  std::unique_ptr<Verifier> verifier_;
};

bool write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(fd, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    text.remove_prefix(static_cast<size_t>(written));
  }
  return true;
}

}  // namespace

int tune_worker(ContextImpl& context, int in, int out) {
  // Dies with its supervisor, leaves no core files, and is the first to go when the system runs out of memory.
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  const rlimit no_core{0, 0};
  ::setrlimit(RLIMIT_CORE, &no_core);
  std::ofstream("/proc/self/oom_score_adj") << 1000;
  ::signal(SIGPIPE, SIG_IGN);
  // A kernel or compiler that prints must not write between the answers.
  const ScopedFd answers(::fcntl(out, F_DUPFD_CLOEXEC, 3)), requests(::fcntl(in, F_DUPFD_CLOEXEC, 3));
  if (!answers || !requests) return 1;
  if (out == STDOUT_FILENO) ::dup2(STDERR_FILENO, STDOUT_FILENO);
  if (in == STDIN_FILENO) {
    const ScopedFd nothing(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    ::dup2(nothing.get(), STDIN_FILENO);
  }

  WorkerSession session(context);
  std::string received;
  char buffer[1 << 14];
  while (true) {
    const ssize_t got = ::read(requests.get(), buffer, sizeof(buffer));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return got == 0 ? 0 : 1;
    received.append(buffer, static_cast<size_t>(got));
    for (size_t end; (end = received.find('\n')) != std::string::npos; received.erase(0, end + 1)) {
      Result<Record> request = Record::parse(std::string_view(received).substr(0, end));
      Result<Record> answer = request ? session.answer(*request) : Result<Record>(request.status());
      // A fault of a kernel stays with the process: nothing that comes after it can be believed.
      if (const Status fault = context.device().synchronize(); !fault) {
        fmt::print(stderr, "{}\n", fault.message());
        return 1;
      }
      const Record reply = answer ? std::move(*answer)
                                  : Record("error")
                                        .set("code", static_cast<int64_t>(answer.status().code()))
                                        .set("message", answer.status().message());
      if (!write_all(answers.get(), reply.line() + '\n')) return 1;
    }
  }
}

}  // namespace tilewright
