#include "report/loader_report.h"

#include <algorithm>
#include <optional>

#include "core/figures.h"
#include "report/json.h"
#include "report/report.h"

namespace slipstream {
namespace {

double milliseconds_each(const StepCounter& step) {
  return step.calls == 0 ? 0 : 1e3 * step.wall_s / static_cast<double>(step.calls);
}

const LoaderRate& with_fewest_workers(const std::vector<LoaderRate>& rates) {
  return *std::min_element(
      rates.begin(), rates.end(),
      [](const LoaderRate& a, const LoaderRate& b) { return a.workers < b.workers; });
}

unsigned most_workers(const std::vector<LoaderRate>& rates) {
  unsigned most = 0;
  for (const LoaderRate& rate : rates) most = std::max(most, rate.workers);
  return most;
}

/// Returns how many workers are enough, or no value if no more were measured.
std::optional<unsigned> find_enough_workers(const std::vector<LoaderRate>& rates) {
  if (rates.empty()) return std::nullopt;
  const unsigned fewest = fewest_workers(rates);
  return fewest < most_workers(rates) ? std::optional(fewest) : std::nullopt;
}

std::string enough_workers(const std::vector<LoaderRate>& rates) {
  const std::string most = std::to_string(most_workers(rates));
  const auto enough = find_enough_workers(rates);
  if (rates.size() == 1) return "no other number of workers was measured (--num-workers 1,2,4)\n";
  if (!enough)
    return "the largest number of workers that was measured, " + most +
           ", gave the highest rate: more workers may be faster (--num-workers)\n";
  return std::to_string(*enough) + (*enough == 1 ? " worker is" : " workers are") +
         " enough: the rate is at least 97 % of the highest of up to " + most +
         " that were measured\n";
}

/// Returns the share of samples that the cache served.
template <typename Counters>
std::string describe_share(const std::optional<Counters>& cache) {
  if (!cache || cache->hits + cache->misses == 0) return "-";
  const auto hits = static_cast<double>(cache->hits);
  return fixed(hits / (hits + static_cast<double>(cache->misses)), 2);
}

Json to_json(const LoaderRate& rate) {
  return {{"num_workers", rate.workers},
          {"samples_per_second", to_json(rate.samples_per_second)},
          {"steps", json_list(rate.steps)},
          {"cache", to_json(rate.cache)},
          {"disk_cache", to_json(rate.disk_cache)},
          {"skipped", to_json(rate.skipped)}};
}

}  // namespace

std::string loader_report_json(const LoaderReport& report) {
  const auto enough = find_enough_workers(report.rates);
  return printed(
      {{"schema", "slipstream.loader_bench"},
       {"version", 1},
       {"environment", to_json(report.environment)},
       {"data", report.data},
       {"batch_size", report.batch_size},
       {"transforms", report.transforms},
       {"image_size", report.transforms.empty() ? Json(report.image_size) : Json(nullptr)},
       {"enough_workers", enough ? Json(*enough) : Json(nullptr)},
       {"rates", json_list(report.rates, [](const LoaderRate& rate) { return to_json(rate); })}});
}

std::string loader_table(const LoaderReport& report) {
  if (report.rates.empty()) return "";
  std::vector<std::string> head = {"workers", "samples/s", "speed-up", "of perfect"};
  for (const StepCounter& step : report.rates.front().steps) head.push_back(step.name + " ms");
  const bool has_cache = report.rates.front().cache.has_value();
  const bool has_disk_cache = report.rates.front().disk_cache.has_value();
  if (has_cache) head.emplace_back("from cache");
  if (has_disk_cache) head.emplace_back("from disk cache");
  std::vector<std::vector<std::string>> rows = {std::move(head)};
  const LoaderRate& base = with_fewest_workers(report.rates);
  for (const LoaderRate& rate : report.rates) {
    const double speed_up = rate.samples_per_second.value / base.samples_per_second.value;
    const double perfect = static_cast<double>(rate.workers) / base.workers;
    std::vector<std::string>& row = rows.emplace_back();
    row = {std::to_string(rate.workers), with_interval(rate.samples_per_second), fixed(speed_up, 2),
           fixed(speed_up / perfect, 2)};
    for (const StepCounter& step : rate.steps) row.push_back(fixed(milliseconds_each(step), 3));
    if (has_cache) row.push_back(describe_share(rate.cache));
    if (has_disk_cache) row.push_back(describe_share(rate.disk_cache));
  }
  return aligned_table(rows, {0}) + enough_workers(report.rates) +
         warning_lines(report.environment);
}

}  // namespace slipstream
