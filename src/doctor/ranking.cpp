#include <algorithm>

#include "core/enum_names.h"
#include "slipstream/doctor/diagnosis.h"

namespace slipstream {
namespace {

constexpr EnumNames<Effort, 4> kEffortNames = {{{Effort::option, "option"},
                                                {Effort::code, "code"},
                                                {Effort::data, "data"},
                                                {Effort::hardware, "hardware"}}};

/// A change comes before one of more effort if it gains at least this share of what that one gains.
/// With a smaller share, an option that gains 6 % could hide a change of code that doubles the
/// rate.
constexpr double kComparable = 0.5;
/// A change that at least doubles the rate comes before any that takes more effort.
constexpr double kLargeGain = 2;

/// Measured gains and rates are used in place of predicted ones, if there are any.
double gain(const Change& change) {
  return change.measured.n > 0 ? change.measured_gain.value : change.gain.value;
}

double rate_after(const Change& change) {
  return change.measured.n > 0 ? change.measured.value : change.predicted.value;
}

bool is_assumption(const Change& change) { return change.id == "what_if"; }

bool is_supported(const Change& change, const Diagnosis& diagnosis) {
  if (diagnosis.verdict == Bottleneck::not_enough_evidence) return false;
  return !diagnosis.bottlenecks.empty() || change.bottleneck == Bottleneck::device;
}

/// Whether a change without new hardware is about as fast as the best one with it. Upper bounds of
/// the changes without hardware are not considered: they may be far from what can be reached.
bool needs_no_hardware(const std::vector<Change>& changes) {
  double best = 0, best_without = 0;
  for (const Change& change : changes) {
    const bool is_hardware = change.effort == Effort::hardware;
    if (is_assumption(change)) continue;
    if (!is_hardware && change.is_upper_bound && change.measured.n == 0) continue;
    double& rate = is_hardware ? best : best_without;
    rate = std::max(rate, rate_after(change));
  }
  return best_without * kLeastGain >= best;
}

void remove_unsupported(Diagnosis& diagnosis) {
  std::vector<Change>& changes = diagnosis.changes;
  std::erase_if(changes, [&](const Change& change) {
    if (is_assumption(change)) return false;
    return gain(change) < kLeastGain || !is_supported(change, diagnosis);
  });
  if (needs_no_hardware(changes))
    std::erase_if(changes, [](const Change& each) { return each.effort == Effort::hardware; });
}

/// Moves the change that comes next among [begin, end) to the front.
void select_next(std::vector<Change>::iterator begin, std::vector<Change>::iterator end) {
  double most = 0;
  for (auto each = begin; each != end; ++each) most = std::max(most, gain(*each) - 1);
  auto next = end;
  const double least = std::min(kComparable * most, kLargeGain - 1);
  for (auto each = begin; each != end; ++each)
    if (gain(*each) - 1 >= least && (next == end || each->effort < next->effort)) next = each;
  if (next != end) std::rotate(begin, next, next + 1);
}

}  // namespace

std::string_view to_string(Effort effort) { return enum_name(kEffortNames, effort); }

Effort effort_named(std::string_view name) { return enum_named(kEffortNames, "effort", name); }

void rank_changes(Diagnosis& diagnosis) {
  remove_unsupported(diagnosis);
  std::vector<Change>& changes = diagnosis.changes;
  std::stable_sort(changes.begin(), changes.end(),
                   [](const Change& a, const Change& b) { return gain(a) > gain(b); });
  const auto assumed = std::stable_partition(
      changes.begin(), changes.end(), [](const Change& each) { return !is_assumption(each); });
  const auto hardware = std::stable_partition(
      changes.begin(), assumed, [](const Change& each) { return each.effort != Effort::hardware; });
  for (auto begin = changes.begin(); begin != hardware; ++begin) select_next(begin, hardware);
}

}  // namespace slipstream
