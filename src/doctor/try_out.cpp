#include <algorithm>
#include <chrono>

#include "core/number_text.h"
#include "core/seconds_since.h"
#include "doctor/training_rate.h"
#include "engine/state_guard.h"
#include "slipstream/doctor/doctor.h"

namespace slipstream {
namespace {

constexpr double kRounds = 3;            ///< largest number of rounds
constexpr double kTelling = 16;          ///< steps of each plan in a round that give a useful rate
constexpr double kTrialFillShare = 0.6;  ///< largest share of the budget for filling a cache

std::vector<std::string> describe_changes(const Remedy& remedy, const Diagnosis& diagnosis) {
  std::vector<std::string> words;
  for (const std::string& id : remedy.changes)
    for (const Change& change : diagnosis.changes)
      if (change.id == id && id != "num_workers") words.push_back(change.description);
  const unsigned workers = remedy.plan.schedule.loader.num_workers;
  if (std::find(remedy.changes.begin(), remedy.changes.end(), "num_workers") !=
      remedy.changes.end())
    words.push_back("use " + format_count(workers, "worker"));
  return words;
}

}  // namespace

Outcome try_out(Trainer& trainer, const Plan& examined, const Remedy& remedy,
                const Diagnosis& diagnosis, const DoctorOptions& options) {
  StateGuard guard(trainer);
  Outcome outcome;
  outcome.plan = remedy.plan;
  outcome.predicted = remedy.predicted;
  outcome.changes = describe_changes(remedy, diagnosis);
  TrainingRate before(examined, std::nullopt), after(remedy.plan, std::nullopt);
  const bool has_cache = examined.schedule.loader.cache || remedy.plan.schedule.loader.cache;
  for (TrainingRate* rate : {&before, &after})
    rate->fill_cache_for(kTrialFillShare * options.budget_s);
  const double turn_s = kTelling * (diagnosis.rate.value > 0 ? 1 / diagnosis.rate.value : 0);
  const double fitting = turn_s > 0 ? options.budget_s / 2 / turn_s : kRounds;
  const auto rounds = has_cache ? 1U : static_cast<unsigned>(std::clamp(fitting, 1.0, kRounds));
  const double step_s = diagnosis.ceiling.value > 0 ? 1 / diagnosis.ceiling.value : 0;
  const auto start = std::chrono::steady_clock::now();
  double turns_left = 2 * rounds;
  const auto measure = [&](TrainingRate& rate, const std::string& what) {
    const double left_s = std::max(0.0, options.budget_s - seconds_since(start));
    if ((options.stop && options.stop()) || (rate.is_measured() && left_s <= 0)) return;
    if (options.log_line) options.log_line(what);
    rate.measure(trainer, {options.budget_s / 2 / rounds, left_s / turns_left--, step_s},
                 options.stop);
  };
  for (unsigned round = 0; round < rounds; ++round) {
    measure(before, "the plan as it was");
    guard.restore();
    measure(after, "the changed plan");
    guard.restore();
  }
  if (after.is_cold())
    outcome.note = "the cache was not full yet, and later epochs are faster: raise the budget";
  if (before.is_measured()) outcome.before = before.rate();
  if (after.is_measured()) outcome.measured = after.rate();
  return outcome;
}

}  // namespace slipstream
