// SPDX-License-Identifier: MIT
// What share of one core's limit each gemm kernel reaches: of the measured peak of its instruction (gemm_cpu), of the
// measured read bandwidth (gemv_cpu). The limit is probed between the kernel's runs, so that a clock or a neighbour that
// changes hits both. Best of several short bursts; the spread is median over best.
//
//   gemm_kernel_peak [--filter=TEXT] [--shape=M,N,K] [--blocks=M,N,K] [--threads=N] [--seconds=S]
//   gemm_kernel_peak --fma-limits      how much of what f32 loses on AVX-512 its loop loses, and what the rest of a product
//   gemm_kernel_peak --amx-limits      how fast the loop of the AMX kernels is by where its operands come from
#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "amx_limits.hpp"
#include "arch/arch_spec.hpp"
#include "core/fields.hpp"
#include "device/cpu/limits/memory_probes.hpp"
#include "device/cpu/limits/peak_probes.hpp"
#include "device/cpu/pages.hpp"
#include "fma_limits.hpp"
#include "gemm/cpu/gemv_cpu_blocking.hpp"
#include "gemm_kernel_peak_rows.hpp"

namespace tilewright {
namespace {

struct Options {
  std::string filter;
  int64_t m = 0, n = 0, k = 0, block_m = 0, block_n = 0, block_k = 0;
  int threads = 1;
  double seconds = 2;  // a row
};

double wall() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

// One thread: its own processor time, so that a neighbour who takes the core away does not count. More: wall time.
bool use_wall = false;
double now() {
  if (use_wall) return wall();
  timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

// Memory as the library allocates it: large pages where the system has them.
struct Unmap {
  int64_t bytes;
  void operator()(char* p) const { unmap_pages(p, bytes); }
};
using Memory = std::unique_ptr<char, Unmap>;
Memory allocate(int64_t bytes) {
  Result<void*> pages = map_pages(bytes);
  if (!pages.ok()) std::exit(1);
  std::memset(*pages, 0, static_cast<size_t>(bytes));
  return Memory(static_cast<char*>(*pages), Unmap{bytes});
}

// Small values that never overflow, in any dtype.
void fill(DType dtype, char* data, int64_t count) {
  unsigned state = 12345;
  for (int64_t i = 0; i < count; ++i) {
    state = state * 1664525u + 1013904223u;
    const int v = static_cast<int>(state >> 24) - 128;
    switch (dtype) {
      case DType::kI8: data[i] = static_cast<char>(v); break;
      case DType::kF32: {
        const float x = static_cast<float>(v) / 128;
        std::memcpy(data + i * 4, &x, 4);
        break;
      }
      default: {
        const unsigned short code =
            dtype == DType::kBf16 ? 0x3C00 | (state >> 16 & 0x80FF) : 0x2C00 | (state >> 16 & 0x83FF);
        std::memcpy(data + i * 2, &code, 2);
      }
    }
  }
}

// `threads` pinned threads that run a body together.
class Team {
 public:
  explicit Team(int threads) : threads_(threads) {
    cpu_set_t set;
    sched_getaffinity(0, sizeof(set), &set);
    for (int i = 0; i < CPU_SETSIZE; ++i) {
      if (CPU_ISSET(i, &set)) cpus_.push_back(i);
    }
    std::reverse(cpus_.begin(), cpus_.end());
    for (int i = 1; i < threads_; ++i) workers_.emplace_back([this, i] { work(i); });
    pin(0);
  }
  ~Team() {
    stop_ = true;
    ++round_;
    for (std::thread& t : workers_) t.join();
  }
  template <class Body>
  void run(Body body) {
    body_ = body;
    done_ = 1;
    ++round_;
    body(0);
    while (done_.load() < threads_) __builtin_ia32_pause();
  }

 private:
  void pin(int i) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpus_[static_cast<size_t>(i) % cpus_.size()], &set);
    pthread_setaffinity_np(pthread_self(), sizeof(set), &set);
  }
  void work(int i) {
    pin(i);
    for (int seen = 0;;) {
      while (round_.load() == seen) __builtin_ia32_pause();
      ++seen;
      if (stop_) return;
      body_(i);
      ++done_;
    }
  }
  int threads_;
  std::vector<int> cpus_;
  std::vector<std::thread> workers_;
  std::function<void(int)> body_;
  std::atomic<int> round_{0}, done_{0};
  std::atomic<bool> stop_{false};
};

struct Shape {
  int64_t m, n, k;
};

class Case {
 public:
  Case(const PeakTable& table, const PeakRow& row, bool packed, Shape shape, const Options& options)
      : row_(row), threads_(options.threads) {
    const DType dtype = row.gemv ? row.vector.dtype : row.gemm.dtype;
    const int64_t size = dtype_bits(dtype) / 8;
    a_ = allocate(shape.m * shape.k * size);
    d_ = allocate(shape.m * shape.n * 4);
    fill(dtype, a_.get(), shape.m * shape.k);
    const int64_t packed_bytes = packed_batch_bytes(dtype, shape.n, shape.k);
    // Bandwidth is measured on weights that no cache holds.
    copies_ = row.gemv || shape.m <= 128 ? static_cast<int>(std::clamp<int64_t>((1ll << 30) / packed_bytes, 1, 64)) : 1;
    Memory plain = allocate(shape.n * shape.k * size);
    fill(dtype, plain.get(), shape.n * shape.k);
    for (int i = 0; i < copies_; ++i) {
      if (packed) {
        b_.push_back(allocate(packed_bytes));
        const GemmPackArgs pack = {shape.n,         shape.k,      1,    plain.get(), 0, 1, shape.k,
                                   b_.back().get(), packed_bytes, dtype};
        table.pack(&pack, 0, 1);
      } else {
        b_.push_back(allocate(shape.n * shape.k * size));
        std::memcpy(b_.back().get(), plain.get(), static_cast<size_t>(shape.n * shape.k * size));
      }
    }
    args_.m = shape.m, args_.n = shape.n, args_.k = shape.k, args_.batch = 1;
    args_.a = a_.get(), args_.stride_a_m = shape.k, args_.stride_a_k = 1;
    args_.stride_b_k = 1, args_.stride_b_n = shape.k;
    args_.a_dtype = args_.b_dtype = dtype;
    args_.b_packed = packed;
    args_.block_m = options.block_m, args_.block_n = options.block_n, args_.block_k = options.block_k;
    args_.epilogue.alpha = 1;
    args_.epilogue.d = d_.get();
    args_.epilogue.stride_d_m = shape.n, args_.epilogue.stride_d_n = 1;
    args_.epilogue.d_dtype = dtype == DType::kI8 ? DType::kBf16 : dtype;
    const GemmCpuSizes sizes = gemm_cpu_sizes(args_);
    workspace_ = allocate(64 + (row.gemv ? gemv_cpu_workspace_bytes(row.vector, sizes, threads_)
                                         : gemm_cpu_workspace_bytes(row.gemm, sizes, threads_)));
    args_.workspace = workspace_.get();
    bytes_ = static_cast<double>(packed ? packed_bytes : shape.n * shape.k * size);
    flops_ = 2.0 * static_cast<double>(shape.m) * static_cast<double>(shape.n) * static_cast<double>(shape.k);
  }
  double run(Team& team) {
    args_.b = b_[static_cast<size_t>(next_++ % copies_)].get();
    const double start = now();
    team.run([this](int unit) { row_.entry(&args_, static_cast<unsigned>(unit), static_cast<unsigned>(threads_)); });
    return now() - start;
  }
  double flops() const { return flops_; }
  double bytes() const { return bytes_; }

 private:
  const PeakRow& row_;
  int threads_, copies_ = 1, next_ = 0;
  Memory a_, d_, workspace_;
  std::vector<Memory> b_;
  GemmArgs args_{};
  double flops_ = 0, bytes_ = 0;
};

struct Best {
  std::vector<double> times;
  double best() const { return *std::min_element(times.begin(), times.end()); }
  double spread() const {
    std::vector<double> sorted = times;
    std::sort(sorted.begin(), sorted.end());
    return sorted[sorted.size() / 2] / sorted.front() - 1;
  }
};

// Seconds for one round of the limit probe, spread over the team.
class Limit {
 public:
  Limit(const std::string& mma, bool bandwidth, Team& team, int threads) : team_(team), threads_(threads) {
    if (bandwidth) {
      DeviceSpec spec;
      spec.arch = find_arch(cpu_info().target);
      for (const ArchSpec* arch = spec.arch; arch != nullptr; arch = find_arch(arch->base))
        spec.targets.push_back(arch);
      memory_ = &memory_probe(spec);
      buffer_ = allocate(kReadBytes);
      return;
    }
    for (const PeakProbe& probe : peak_probes()) {
      if (probe.mma == mma) probe_ = &probe;
    }
  }
  // Operations or bytes a second.
  double measure() {
    const double start = now();
    if (memory_ != nullptr) {
      const int64_t part = 64 << 20;
      const int64_t at = offset_;
      offset_ = (offset_ + part * threads_) % kReadBytes;
      team_.run([&](int i) { memory_->read(buffer_.get() + (at + i * part) % kReadBytes, part, {4, true}); });
      return static_cast<double>(part) * threads_ / (now() - start);
    }
    constexpr int64_t kRounds = 20000;
    team_.run([&](int) { probe_->run(kRounds); });
    return static_cast<double>(kRounds * probe_->ops_per_round) * threads_ / (now() - start);
  }

 private:
  static constexpr int64_t kReadBytes = 1ll << 30;
  Team& team_;
  int threads_;
  const PeakProbe* probe_ = nullptr;
  const MemoryProbe* memory_ = nullptr;
  Memory buffer_;
  int64_t offset_ = 0;
};

void measure(const PeakTable& table, const PeakRow& row, bool packed, Shape shape, const Options& options, Team& team) {
  const std::string config = row.gemv ? print_fields(row.vector) : print_fields(row.gemm);
  const std::string mma = kCpuMmaNames[static_cast<int>(row.gemv ? row.vector.mma : row.gemm.mma)];
  const std::string name = (row.gemv ? "gemv " : "gemm ") + config + (packed ? " packed" : " plain");
  if (!options.filter.empty() && name.find(options.filter) == std::string::npos) return;
  Case c(table, row, packed, shape, options);
  Limit limit(mma, row.gemv, team, options.threads);
  Best best;
  double peak = 0;
  c.run(team);
  const double end = wall() + options.seconds;
  do {
    peak = std::max(peak, limit.measure());
    best.times.push_back(c.run(team));
  } while (wall() < end || best.times.size() < 5);
  const double rate = (row.gemv ? c.bytes() : c.flops()) / best.best();
  std::printf("%-82s %5lld %6lld %6lld %9.1f %9.1f %6.3f %5.1f%% %6zu\n", name.c_str(), static_cast<long long>(shape.m),
              static_cast<long long>(shape.n), static_cast<long long>(shape.k), rate * 1e-9, peak * 1e-9, rate / peak,
              100 * best.spread(), best.times.size());
  std::fflush(stdout);
}

// The best of many short bursts that take turns, in seconds of one core.
std::vector<double> best_seconds(const std::vector<std::function<void()>>& bursts, int turns) {
  std::vector<double> best(bursts.size(), 1e9);
  for (int turn = 0; turn < turns; ++turn) {
    for (size_t i = 0; i < bursts.size(); ++i) {
      bursts[i]();  // operands to where they belong
      const double start = now();
      bursts[i]();
      best[i] = std::min(best[i], now() - start);
    }
  }
  return best;
}

// A step is 64 cycles of products. Its 64 lines of operands come from the levels that the row names; `L2 lines` and
// `L3 lines` are what a step brings from these, sums included, `D lines` what it writes.
int print_amx_limits() {
  constexpr int64_t kSteps = 4096, kLines = 1 << 17;
  constexpr int kTurns = 300;
  const AmxLimits& limits = amx_limits();
  if (!limits.has() || cpu_info().target.empty() || !runs_on("x86-64-v4-amx", cpu_info().target)) {
    std::printf("skipped: this CPU or this build has no AMX\n");
    return 0;
  }
  using enum Level;
  const AmxLimit rows[] = {{kFirst, kFirst, 0, 0, 0, kFirst, 0, 0},      {kFirst, kFirst, 0, 0, 8, kFirst, 0, 0},
                           {kFirst, kFirst, 0, 0, 12, kFirst, 0, 0},     {kFirst, kFirst, 0, 0, 16, kFirst, 0, 0},
                           {kFirst, kFirst, 0, 0, 16, kSecond, 0, 0},    {kSecond, kFirst, 0, 0, 0, kFirst, 0, 0},
                           {kSecond, kFirst, 0, 0, 16, kSecond, 0, 0},   {kSecond, kSecond, 0, 0, 0, kFirst, 0, 0},
                           {kSecond, kSecond, 32, 18, 32, kFirst, 0, 0}, {kSecond, kSecond, 32, 18, 32, kFirst, 2, 0},
                           {kSecond, kSecond, 32, 18, 32, kFirst, 2, 8}, {kSecond, kSecond, 64, 18, 64, kFirst, 0, 0},
                           {kSecond, kSecond, 64, 18, 64, kFirst, 4, 0}, {kSecond, kSecond, 64, 18, 64, kFirst, 4, 4}};
  Memory memory = allocate(kAmxLimitBytes);
  fill(DType::kBf16, memory.get(), kAmxLimitBytes / 2);
  std::vector<std::function<void()>> bursts;
  for (const AmxLimit& row : rows) {
    for (CpuMma mma : {CpuMma::kAmxBf16, CpuMma::kAmxI8}) {
      bursts.push_back([&, mma] { limits.run(mma, row, memory.get(), kSteps); });
    }
  }
  for (int i = 0; i < limits.line_count; ++i) {
    bursts.push_back([&, i] { limits.lines[i].run(memory.get(), kLines); });
  }
  const std::vector<double> best = best_seconds(bursts, kTurns);
  std::printf("%-4s %-9s %-11s %-3s %9s %8s %8s  %s\n", "A", "B", "sums every", "in", "L2 lines", "L3 lines", "D lines",
              "share of the peak: bf16, i8");
  const char* names[] = {"", "L1", "L2", "L3"};
  for (size_t i = 0; i < std::size(rows); ++i) {
    const AmxLimit& row = rows[i];
    const std::string every = row.block == 0 ? "never" : std::to_string(row.block) + " steps";
    const double sums = row.block == 0 || row.sums == kFirst ? 0 : 64.0 / row.block;
    const double b = row.b == kFirst ? 0 : row.column == 0 ? 32 : 32.0 * (row.column - row.kept) / row.column;
    const std::string place = row.kept == 0 ? names[static_cast<int>(row.b)]
                                            : "L1 " + std::to_string(row.kept) + "/" + std::to_string(row.column);
    std::printf("%-4s %-9s %-11s %-3s %9.1f %8.1f %8.1f  %.3f  %.3f\n", names[static_cast<int>(row.a)], place.c_str(),
                every.c_str(), row.block == 0 ? "" : names[static_cast<int>(row.sums)],
                (row.a == kSecond ? 32 : 0) + b + sums, static_cast<double>(row.fetched), row.d_lines / 8.0,
                best[0] / best[2 * i], best[1] / best[2 * i + 1]);
  }
  std::printf("\n%-36s %s\n", "lines that do nothing but come", "in 64 cycles");
  for (int i = 0; i < limits.line_count; ++i) {
    const double steps = best[2 * std::size(rows) + static_cast<size_t>(i)] / (best[0] / kSteps);
    std::printf("%-36s %.1f\n", limits.lines[i].name, static_cast<double>(kLines) / steps);
  }
  return 0;
}

// Parts of an f32 product of 2048^3 and the whole of it, as shares of the speed of the same products on registers. Each row is a burst as
// long as the product: a core lowers its clock with what it does, so only bursts of one length, in turns, compare.
int print_fma_limits() {
  constexpr int kTurns = 41;
  const PeakTable& table = peak_rows_v4();
  if (cpu_info().target.empty() || !runs_on(table.target, cpu_info().target)) {
    std::printf("skipped: this CPU or this build has no AVX-512\n");
    return 0;
  }
  const PeakRow* product = nullptr;
  for (int i = 0; i < table.count && product == nullptr; ++i) {
    if (!table.rows[i].gemv && table.rows[i].gemm.dtype == DType::kF32) product = &table.rows[i];
  }
  if (product == nullptr) return 1;
  Team team(1);
  Case whole(table, *product, true, {2048, 2048, 2048}, {});
  const int64_t call = 2 * kFmaLimitRows * kFmaLimitColumns * kFmaLimitSteps;
  const int64_t calls = static_cast<int64_t>(whole.flops()) / call;
  Memory memory = allocate(kFmaLimitBytes);
  fill(DType::kF32, memory.get(), kFmaLimitBytes / 4);
  const FmaLimits& limits = fma_limits();
  std::vector<std::vector<double>> shares(static_cast<size_t>(limits.count) + 1);
  for (int turn = 0; turn < kTurns; ++turn) {
    double registers = 0;  // operations a second
    for (int i = 0; i < limits.count; ++i) {
      const double start = now();
      limits.limits[i].run(memory.get(), calls);
      const double rate = static_cast<double>(calls * call) / (now() - start);
      if (i == 0) registers = rate;
      shares[static_cast<size_t>(i)].push_back(rate / registers);
    }
    shares.back().push_back(whole.flops() / whole.run(team) / registers);
  }
  std::printf("%-40s %6s %12s\n", "", "median", "middle half");
  for (size_t i = 0; i < shares.size(); ++i) {
    std::vector<double>& row = shares[i];
    std::sort(row.begin(), row.end());
    std::printf("%-40s %6.3f %.3f..%.3f\n", i + 1 < shares.size() ? limits.limits[i].name : "gemm_cpu, packed",
                row[row.size() / 2], row[row.size() / 4], row[row.size() * 3 / 4]);
  }
  return 0;
}

int run(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string arg = argv[i], value = arg.substr(arg.find('=') + 1);
    long long a = 0, b = 0, c = 0;
    const int three = std::sscanf(value.c_str(), "%lld,%lld,%lld", &a, &b, &c);
    if (arg.rfind("--filter=", 0) == 0)
      options.filter = value;
    else if (arg.rfind("--shape=", 0) == 0 && three == 3)
      options.m = a, options.n = b, options.k = c;
    else if (arg.rfind("--blocks=", 0) == 0 && three == 3)
      options.block_m = a, options.block_n = b, options.block_k = c;
    else if (arg.rfind("--threads=", 0) == 0)
      options.threads = std::max(1, std::atoi(value.c_str()));
    else if (arg.rfind("--seconds=", 0) == 0)
      options.seconds = std::atof(value.c_str());
    else if (arg == "--fma-limits")
      return print_fma_limits();
    else if (arg == "--amx-limits")
      return print_amx_limits();
    else {
      std::fprintf(stderr, "gemm_kernel_peak: unknown argument '%s'\n", argv[i]);
      return 2;
    }
  }
  use_wall = options.threads > 1;
  Team team(options.threads);
  std::printf("%-82s %5s %6s %6s %9s %9s %6s %6s %6s\n", "kernel (gemm: GFLOP/s, gemv: GB/s of weights)", "m", "n", "k",
              "rate", "limit", "share", "spread", "runs");
  for (const PeakTable* table : {&peak_rows_v3(), &peak_rows_v4(), &peak_rows_dot(), &peak_rows_amx()}) {
    if (cpu_info().target.empty() || !runs_on(table->target, cpu_info().target)) continue;
    for (int i = 0; i < table->count; ++i) {
      const PeakRow& row = table->rows[i];
      std::vector<Shape> shapes = {{2048, 2048, 2048}};
      if (row.gemv) shapes = {{1, 4096, 14336}, {1, 28672, 4096}};
      if (options.m > 0) shapes = {{options.m, options.n, options.k}};
      for (const Shape& shape : shapes) {
        if (!row.gemv || row.vector.packed) measure(*table, row, true, shape, options, team);
        if (!row.gemv || !row.vector.packed) measure(*table, row, false, shape, options, team);
      }
    }
  }
  return 0;
}

}  // namespace
}  // namespace tilewright

int main(int argc, char** argv) { return tilewright::run(argc, argv); }
