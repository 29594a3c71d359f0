#include "doctor/findings.h"

#include <algorithm>
#include <cmath>

#include "core/text.h"
#include "doctor/wording.h"

namespace slipstream {
namespace {

constexpr std::size_t kFewestRepeats = 4;  ///< steps on each cached batch
constexpr double kApart = 0.05;            ///< relative difference that is worth a warning
constexpr double kSlower = 0.97;           ///< rate with busy workers / rate without them

}  // namespace

std::optional<std::string> depends_on_data(const std::vector<std::vector<double>>& by_item) {
  if (by_item.size() < 2) return std::nullopt;
  std::optional<Measured> fastest, slowest;
  for (const std::vector<double>& seconds : by_item) {
    if (seconds.size() < kFewestRepeats) return std::nullopt;
    const Measured median = median_interval(seconds, "s");
    if (!fastest || median.value < fastest->value) fastest = median;
    if (!slowest || median.value > slowest->value) slowest = median;
  }
  if (fastest->high >= slowest->low || slowest->value < (1 + kApart) * fastest->value)
    return std::nullopt;
  return "the step's time depends on the data: one cached batch takes " +
         whole_percent(slowest->value / fastest->value - 1) +
         " longer than another, so rates of cached batches are less certain";
}

std::optional<std::string> slowdown_with_workers(const TrainingRate& alone,
                                                 const TrainingRate& beside) {
  if (!alone.is_measured() || !beside.is_measured()) return std::nullopt;
  const Measured quiet = alone.rate(), busy = beside.rate();
  if (busy.high >= quiet.low || busy.value > kSlower * quiet.value) return std::nullopt;
  return "the step itself is " + whole_percent(1 - busy.value / quiet.value) +
         " slower while the workers are busy: it shares the cores or the memory with them";
}

std::optional<std::string> diverges(const RunResult& result) {
  const auto at = std::find_if(result.losses.begin(), result.losses.end(),
                               [](float loss) { return !std::isfinite(loss); });
  if (at == result.losses.end()) return std::nullopt;
  return "training diverges: the loss is not a finite number by step " +
         std::to_string(result.first_step +
                        static_cast<std::uint64_t>(at - result.losses.begin())) +
         "; the measured rates are valid, because the device does the same work with such numbers";
}

std::optional<std::string> skips(const RunResult& result) {
  const std::vector<SkippedSample>& samples = result.skipped.samples;
  if (samples.empty()) return std::nullopt;
  return "bad samples were skipped, " + std::to_string(samples.size()) +
         " with nothing cached, the first: " + samples.front().message + "; inspect lists all";
}

std::optional<std::string> shares_gpu(std::optional<unsigned> processes) {
  if (processes.value_or(1) < 2) return std::nullopt;
  return std::to_string(*processes) +
         " processes use the GPU: the others slow this one down, and their load may change during "
         "the measurement";
}

std::optional<std::string> writes_into_input(const RunResult& result) {
  if (result.changed_fields.empty()) return std::nullopt;
  return "a stage writes into its input (" + joined(result.changed_fields) +
         "): stages that run ahead may see the change; make it work on a copy";
}

}  // namespace slipstream
