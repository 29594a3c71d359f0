#include "report/doctor_words.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

#include "core/figures.h"
#include "core/number_text.h"
#include "doctor/model_parts.h"

namespace slipstream {
namespace {

constexpr int kFigureDigits = 3;

}  // namespace

std::string_view verdict_headline(Bottleneck verdict) {
  switch (verdict) {
    case Bottleneck::device:
      return "The device is busy, and its input keeps up.";
    case Bottleneck::copy:
      return "The device waits for batches to be copied to it.";
    case Bottleneck::transforms:
      return "The device waits for the transforms.";
    case Bottleneck::collate:
      return "The device waits for samples to be collated into batches.";
    case Bottleneck::part:
      return "The device waits for this part of the data set's code.";
    case Bottleneck::decode:
      return "The device waits for decoding.";
    case Bottleneck::read:
      return "The device waits for samples to be read.";
    case Bottleneck::launch_overhead:
      return "The device waits for the host to launch its kernels.";
    case Bottleneck::lock_contention:
      return "The device waits for loader workers, which wait for each other.";
    case Bottleneck::memory_bandwidth:
      return "The device waits for loader workers, which wait for memory.";
    case Bottleneck::none:
      return "The input keeps up, and the device is not fully used.";
    case Bottleneck::not_enough_evidence:
      break;
  }
  return "";
}

namespace {

/// The least gain of a change that is proposed, such as "5 %".
std::string least_gain() { return std::to_string(std::lround(100 * (kLeastGain - 1))) + " %"; }

/// Returns what to do if there is no change to propose, or "" if the verdict does not say that.
std::string advice_without_change(const Diagnosis& diagnosis) {
  switch (diagnosis.verdict) {
    case Bottleneck::device:
      return "No change of the input gains " + least_gain() +
             ": only a faster training step helps.";
    case Bottleneck::none:
      return "No change of the input gains " + least_gain() +
             ": give the device more work in each step, such as a larger batch.";
    case Bottleneck::launch_overhead:
      return "No change of the input gains " + least_gain() +
             ": launch fewer kernels, for example with larger batches.";
    case Bottleneck::not_enough_evidence:
      return diagnosis.rate.n > 0 ? "Repeat this with a larger budget while no other program runs."
                                  : "";
    default:
      return "No change that the doctor can predict gains " + least_gain() + ".";
  }
}

/// Returns the change to make first with its gain.
std::string first_advice(const Diagnosis& diagnosis) {
  const auto first = std::find_if(diagnosis.changes.begin(), diagnosis.changes.end(),
                                  [](const Change& change) { return change.id != "what_if"; });
  if (first == diagnosis.changes.end()) return advice_without_change(diagnosis);
  const bool is_hardware = first->effort == Effort::hardware;
  std::string text =
      is_hardware ? "Only other hardware gains " + least_gain() + ": " : "Do this first: ";
  text += first->description + ": " + prediction(*first);
  if (first->apply) return text + " (--apply)";
  return first->action.empty() ? text : text + " (" + first->action + ")";
}

std::string distance_from_limit(const Diagnosis& diagnosis) {
  if (!is_there(diagnosis.rate) || !is_there(diagnosis.ceiling)) return "";
  return "Training runs at " + figure(diagnosis.rate) + " steps/s, " +
         percent(diagnosis.rate.value / diagnosis.ceiling.value) + " of the limit of " +
         figure(diagnosis.ceiling) + " steps/s with all input cached on the device.";
}

/// Returns a text in one line.
std::string in_one_line(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

}  // namespace

const RankResult* slowest_rank(const DoctorReport& report) {
  const RankResult* slowest = nullptr;
  for (const RankResult& each : report.ranks)
    if (each.rate.n > 0 && (slowest == nullptr || each.rate.value < slowest->rate.value))
      slowest = &each;
  return slowest;
}

std::string ranks_sentence(const DoctorReport& report) {
  const RankResult* slowest = slowest_rank(report);
  if (slowest == nullptr) return "";
  const std::string text = "This is rank " + std::to_string(report.rank) + " of " +
                           std::to_string(report.ranks.size()) + ". ";
  const bool is_this = slowest->rank == report.rank;
  return text +
         (is_this ? "It is the slowest" : "The slowest is rank " + std::to_string(slowest->rank)) +
         ", and all others wait for it: " + figure(slowest->rate) + " steps/s, verdict " +
         slowest->verdict + ".";
}

std::vector<std::string> summary_lines(const DoctorReport& report) {
  const Diagnosis& diagnosis = report.diagnosis;
  std::string meaning(verdict_headline(diagnosis.verdict));
  if (diagnosis.verdict == Bottleneck::not_enough_evidence && !diagnosis.reason.empty())
    meaning = "Reason: " + diagnosis.reason;
  std::vector<std::string> lines = {"Verdict: " + spoken_verdict(report) + "." +
                                    (meaning.empty() ? "" : " " + meaning)};
  for (std::string line : {first_advice(diagnosis), distance_from_limit(diagnosis)})
    if (!line.empty()) lines.push_back(std::move(line));
  for (std::string& line : lines) line = in_one_line(std::move(line));
  return lines;
}

std::string spoken(Bottleneck bottleneck) {
  if (bottleneck == Bottleneck::read) return "reading";
  std::string name(to_string(bottleneck));
  std::replace(name.begin(), name.end(), '_', ' ');
  return name;
}

std::vector<std::string> spoken_names(const Diagnosis& diagnosis) {
  std::vector<std::string> names = bottleneck_names(diagnosis);
  for (std::size_t i = 0; i < names.size(); ++i)
    if (diagnosis.bottlenecks[i] != Bottleneck::part) names[i] = spoken(diagnosis.bottlenecks[i]);
  return names;
}

std::string spoken_verdict(const DoctorReport& report) {
  switch (report.diagnosis.verdict) {
    case Bottleneck::device:
      return report.observed.situation.on_gpu ? "the device is the limit"
                                              : "the device (here: the CPU) is the limit";
    case Bottleneck::none:
      return "the input does not limit training";
    default:
      return spoken_names(report.diagnosis).empty() ? spoken(report.diagnosis.verdict)
                                                    : spoken_names(report.diagnosis).front();
  }
}

bool is_there(const Measured& measured) {
  if (measured.n == 0 || !std::isfinite(measured.value)) return false;
  return !(std::isfinite(measured.low) && std::isfinite(measured.high) &&
           measured.high - measured.low > std::abs(measured.value));
}
bool is_there(const std::optional<Measured>& measured) { return measured && is_there(*measured); }

std::string figure(double value) { return compact(value, decimals_for(value, kFigureDigits)); }

std::string figure(const Measured& measured) {
  return is_there(measured) ? with_interval(measured, kFigureDigits) : "-";
}
std::string figure(const std::optional<Measured>& measured) {
  return measured ? figure(*measured) : "-";
}

std::string percent(double share) {
  if (!std::isfinite(share)) return "-";
  const double value = 100 * share;
  return compact(value, value != 0 && std::abs(value) < 9.95 ? 1 : 0) + " %";
}

std::string percent(const Measured& share) {
  if (share.n == 0) return "-";
  if (!std::isfinite(share.low) || !std::isfinite(share.high)) return percent(share.value);
  return percent(share.value) + " [" + percent(share.low) + ", " + percent(share.high) + "]";
}

Measured in_ms(const Measured& seconds) { return scaled(seconds, 1e3, "ms"); }

Measured waiting_share(const Diagnosis& diagnosis) {
  const Measured& share = diagnosis.share;
  const auto rest = [](double value) {
    return std::isfinite(value) ? std::clamp(1 - value, 0.0, 1.0) : value;
  };
  return {rest(share.value), rest(share.high), rest(share.low), share.unit, share.n};
}

double cores_used(const CostRow& row, const DoctorReport& report) {
  const Measured& rate = report.diagnosis.rate;
  if (!is_there(rate) || !is_there(row.cpu_ms)) return std::numeric_limits<double>::quiet_NaN();
  return row.cpu_ms.value / 1e3 * rate.value * static_cast<double>(report.observed.batch_size);
}

bool is_uncertain(const Level& level) {
  const bool is_measured = level.with_training && level.with_training->n > 0;
  return is_measured && !is_there(level.with_training) && !is_there(level.loader_alone);
}

bool is_ceiling(const Level& level) { return level.name == kDeviceLevel; }

std::string level_label(const Level& level) {
  return level.name + (is_ceiling(level) ? " (the ceiling)" : "");
}

std::string remarks_on(const CostRow& row) {
  std::string text = row.is_memory_bound ? "bound by memory" : "";
  if (row.locked >= 0.005)
    text +=
        (text.empty() ? "" : ", ") + percent(row.locked) + " of it with only one worker at a time";
  return text;
}

std::string prediction(const Change& change) {
  if (!is_there(change.predicted)) return "gain not known";
  std::string text =
      (change.is_upper_bound ? "at most " : "") + figure(change.predicted) + " steps/s";
  if (is_there(change.gain)) text += ", " + figure(change.gain) + " times as fast";
  if (!is_there(change.measured)) return text;
  return "predicted: " + text + "\nmeasured: " + figure(change.measured) + " steps/s, " +
         figure(change.measured_gain) + " times as fast";
}

std::string describe_setting(const DoctorReport& report) {
  const Environment& environment = report.environment;
  const Observations& observed = report.observed;
  std::string text = environment.gpu ? environment.gpu->name : environment.cpu;
  if (text.empty()) text = "unknown machine";
  return text + ", " + format_count(observed.situation.cores, "core") + "; batch " +
         std::to_string(observed.batch_size) + ", " + format_count(observed.workers, "worker") +
         "; " + compact(report.seconds, report.seconds < 10 ? 1 : 0) + " s of " +
         compact(report.budget_s, report.budget_s < 10 ? 1 : 0) + " s allowed";
}

std::string cores_sentence(const DoctorReport& report) {
  const auto& needed = report.diagnosis.cores_needed;
  if (!needed || !std::isfinite(*needed)) return "";
  return "To keep the device busy this input needs " + compact(*needed, *needed < 10 ? 1 : 0) +
         " cores; this process may use " + std::to_string(report.observed.situation.cores) + ".";
}

namespace {

/// Adds "WHAT: the levels: why", once for each reason.
void add_missing(const DoctorReport& report, const std::string& what, std::string Level::*why,
                 std::vector<std::string>& warnings) {
  std::vector<std::pair<std::string, std::string>> missing;  // reason, levels
  for (const Level& level : report.observed.levels) {
    const std::string& reason = level.*why;
    if (reason.empty()) continue;
    const auto same = std::find_if(missing.begin(), missing.end(),
                                   [&](const auto& each) { return each.first == reason; });
    if (same == missing.end())
      missing.emplace_back(reason, level.name);
    else
      same->second += ", " + level.name;
  }
  for (const auto& [reason, levels] : missing)
    warnings.emplace_back(what).append(": ").append(levels).append(": ").append(reason);
}

}  // namespace

std::vector<std::string> list_warnings(const DoctorReport& report) {
  std::vector<std::string> warnings;
  if (report.interrupted)
    warnings.emplace_back(
        "The examination was interrupted: the report contains what was measured until then.");
  add_missing(report, "Not measured", &Level::error, warnings);
  add_missing(report, "Loader alone not measured", &Level::loader_alone_error, warnings);
  std::string uncertain;
  for (const Level& level : report.observed.levels)
    if (is_uncertain(level)) uncertain += (uncertain.empty() ? "" : ", ") + level.name;
  if (!uncertain.empty())
    warnings.push_back("Not shown, because the intervals are wider than the values: " + uncertain +
                       ": raise the budget");
  const auto& observed = report.observed.warnings;
  const auto& environment = report.environment.warnings;
  warnings.insert(warnings.end(), observed.begin(), observed.end());
  warnings.insert(warnings.end(), environment.begin(), environment.end());
  return warnings;
}

std::string option_text(const OptionValue& value) {
  return std::visit(
      [](const auto& option) -> std::string {
        using T = std::decay_t<decltype(option)>;
        if constexpr (std::is_same_v<T, std::string>)
          return option;
        else if constexpr (std::is_same_v<T, bool>)
          return option ? "true" : "false";
        else if constexpr (std::is_same_v<T, double>)
          return number_text(option);
        else
          return std::to_string(option);
      },
      value);
}

std::string outcome_sentence(const Outcome& outcome) {
  const Measured& predicted = outcome.predicted;
  const Measured& measured = outcome.measured;
  if (!is_there(predicted) || !is_there(measured) || !(predicted.value > 0)) return "";
  const double off = measured.value / predicted.value - 1;
  const std::string by = percent(std::abs(off));
  const std::string note = outcome.note.empty() ? "" : " But " + outcome.note + ".";
  if (measured.high < predicted.low)
    return "The outcome is " + by + " below the prediction." + note;
  if (measured.low > predicted.high)
    return "The outcome is " + by + " above the prediction." + note;
  return "The outcome agrees with the prediction within the intervals." + note;
}

std::vector<Reading> collect_readings(const DoctorReport& report) {
  const Utilization& use = report.observed.utilization;
  std::vector<Reading> readings;
  const auto add = [&readings](const std::string& name, const std::optional<double>& share,
                               bool is_misleading = false) {
    if (share && std::isfinite(*share))
      readings.push_back({name, share, percent(*share), is_misleading});
  };
  add("SM activity", use.sm_activity);
  add("DRAM bandwidth", use.dram_use);
  add("GPU utilization (any kernel at all counts)", use.gpu_utilization, true);
  add("CPU, of " + format_count(report.observed.situation.cores, "core"), use.cpu_share);
  if (std::isfinite(use.read_bytes_per_second))
    readings.push_back(
        {"reading", std::nullopt, size_text(use.read_bytes_per_second) + "/s", false});
  return readings;
}

}  // namespace slipstream
