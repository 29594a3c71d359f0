#include "cli/train_summary.h"

#include <iostream>

#include "cli/verbs.h"
#include "core/number_text.h"
#include "report/evaluation_report.h"

namespace slipstream {
namespace {

constexpr int kDigits = 4;

template <typename Counters>
std::string describe_share(const Counters& cache) {
  return std::to_string(cache.hits) + " of " + format_count(cache.hits + cache.misses, "sample") +
         " were loaded from it (including prefetched batches)";
}

std::string jpeg_line(const JpegResult& jpeg) {
  const std::string device = jpeg.engines ? "the GPU's JPEG engines" : "CUDA kernels";
  const std::string but =
      jpeg.on_cpu > 0 ? ", except " + std::to_string(jpeg.on_cpu) + " by the CPU" : "";
  return format_count(jpeg.images, "image") + " decoded by " + device + but + "\n";
}

}  // namespace

void print_epoch(const EpochResult& epoch, std::optional<double> lr) {
  const auto& [row, losses, is_best] = epoch;
  std::cout << "epoch " << rounded_text(row.epoch, kDigits) << ", step " << row.step << ": ";
  // A checkpoint that an earlier version wrote at the end of an epoch does not contain its losses.
  if (losses.steps > 0) std::cout << "loss " << rounded_text(losses.mean(), kDigits) << "; ";
  std::cout << "val";
  for (const auto& [name, value] : row.scores)
    std::cout << " " << name << " " << rounded_text(value, kDigits);
  if (lr) std::cout << "; lr " << rounded_text(*lr, kDigits);
  std::cout << (is_best ? "  best" : "") << std::endl;
}

void print_summary(const RunReport& report, std::uint64_t steps) {
  const RunResult& result = report.result;
  if (result.interrupted) std::cout << "interrupted after " << result.steps << " of ";
  std::cout << format_count(steps, "step");
  if (const Measured rate = reportable_rate(result.steps_per_second); rate.n > 0)
    std::cout << ", " << rounded_text(rate.value, kDigits) << " steps/s (after warm-up)";
  if (!result.losses.empty()) std::cout << ", " << loss_text(result.losses);
  std::cout << ", plan " << result.plan.schedule.mode << "\n";
  if (report.auto_choice)
    std::cout << "plan " << report.auto_choice->chosen << ": " << report.auto_choice->reason
              << "\n";
  if (result.graphs)
    std::cout << "CUDA graphs: " << result.graphs->graphs << ", replayed "
              << format_count(result.graphs->replays, "time") << "\n";
  for (const Gain& gain : result.gains) std::cout << gain_line(gain);
  print_skipped(result.skipped);
  if (result.jpeg) std::cout << jpeg_line(*result.jpeg);
  if (result.cache)
    std::cout << "cache: " << describe_share(*result.cache) << "; it contains "
              << result.cache->samples << " in " << format_count(result.cache->bytes, "byte")
              << "\n";
  if (result.disk_cache) {
    const std::string& stopped = result.disk_cache->stop_reason;
    std::cout << "disk cache: " << describe_share(*result.disk_cache) << "; it contains "
              << format_count(result.disk_cache->bytes, "byte")
              << (stopped.empty() ? "" : ", nothing more is stored: " + stopped) << "\n";
  }
  std::cout << warning_lines(report.environment);
}

void print_scores(const std::vector<ScoreRow>& rows, const FitHistory& history,
                  const Pipeline& pipeline) {
  std::vector<ScoreRow> best;
  for (const auto& [name, value, step] : history.best_scores)
    best.push_back({step, epochs_in(step, pipeline), {{name, value}}});
  std::cout << score_table(rows, best);
}

}  // namespace slipstream
