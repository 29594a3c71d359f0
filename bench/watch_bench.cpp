// Measures what watching costs the thread that feeds the first lane: the time to report one step,
// in runs of 100 and of 1000 steps per second, with the counters of 8 host steps.
#include <benchmark/benchmark.h>

#include "report/watch_report.h"

namespace slipstream {
namespace {

void one_step(benchmark::State& state) {
  const std::vector<StepCounter> counters(8, {"a step", 1000, 1, 1, 1 << 20});
  const auto steps_per_second = static_cast<double>(state.range(0));
  StarvationWatch watch({.workers = 8});
  Progress progress;
  progress.input = StepInput{0, 0.001};
  progress.host_counters = [&] { return counters; };
  std::size_t bytes = 0;
  for (auto _ : state) {
    ++progress.step;
    progress.elapsed_s = static_cast<double>(progress.step) / steps_per_second;
    progress.blocked_s = progress.elapsed_s / 2;
    const WatchWindow* window = watch.update(progress);
    if (window == nullptr) continue;
    bytes += watch_json(*window).size();
    bytes += watch_prometheus(watch.totals(), window, "bench").size();
  }
  benchmark::DoNotOptimize(bytes);
}

BENCHMARK(one_step)->ArgName("steps_per_second")->Arg(100)->Arg(1000);

}  // namespace
}  // namespace slipstream

BENCHMARK_MAIN();
