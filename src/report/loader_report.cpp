#include "slipstream/loader_report.h"

#include <algorithm>
#include <cstdio>

#include "report/json.h"
#include "report/text.h"

namespace slipstream {
namespace {

std::string figure(const char* format, double value) {
  char text[32];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

double milliseconds_each(const StepCounter& step) {
  return step.calls == 0 ? 0 : 1e3 * step.wall_s / static_cast<double>(step.calls);
}

const LoaderRate& with_fewest_workers(const std::vector<LoaderRate>& rates) {
  return *std::min_element(
      rates.begin(), rates.end(),
      [](const LoaderRate& a, const LoaderRate& b) { return a.workers < b.workers; });
}

Json json_of(const LoaderRate& rate) {
  Json steps = Json::array();
  for (const StepCounter& step : rate.steps)
    steps.push_back({{"name", step.name},
                     {"calls", step.calls},
                     {"wall_s", number(step.wall_s)},
                     {"cpu_s", number(step.cpu_s)},
                     {"bytes", step.bytes}});
  return {{"workers", rate.workers},
          {"samples_per_second", json_of(rate.samples_per_second)},
          {"steps", std::move(steps)}};
}

}  // namespace

std::string loader_report_json(const LoaderReport& report) {
  Json rates = Json::array();
  for (const LoaderRate& rate : report.rates) rates.push_back(json_of(rate));
  return printed({{"schema", "slipstream.loader_bench"},
                  {"version", 1},
                  {"environment", json_of(report.environment)},
                  {"data", report.data},
                  {"batch_size", report.batch_size},
                  {"chain", report.chain},
                  {"image_size", report.chain.empty() ? Json(report.image_size) : Json(nullptr)},
                  {"enough_workers",
                   report.rates.empty() ? Json(nullptr) : Json(fewest_workers(report.rates))},
                  {"rates", std::move(rates)}});
}

std::string loader_table(const LoaderReport& report) {
  if (report.rates.empty()) return "";
  std::vector<std::string> head = {"workers", "samples/s", "speed-up", "of perfect"};
  for (const StepCounter& step : report.rates.front().steps) head.push_back(step.name + " ms");
  std::vector<std::vector<std::string>> rows = {std::move(head)};
  const LoaderRate& base = with_fewest_workers(report.rates);
  for (const LoaderRate& rate : report.rates) {
    const double speed_up = rate.samples_per_second.value / base.samples_per_second.value;
    const double perfect = static_cast<double>(rate.workers) / base.workers;
    std::vector<std::string>& row = rows.emplace_back();
    row = {std::to_string(rate.workers), with_interval(rate.samples_per_second),
           figure("%.2f", speed_up), figure("%.2f", speed_up / perfect)};
    for (const StepCounter& step : rate.steps)
      row.push_back(figure("%.3f", milliseconds_each(step)));
  }
  const unsigned enough = fewest_workers(report.rates);
  return aligned_table(rows, {0}) + std::to_string(enough) +
         (enough == 1 ? " worker is" : " workers are") + " enough: more gain less than 3 %\n";
}

}  // namespace slipstream
