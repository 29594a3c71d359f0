#include <algorithm>

#include "core/number_text.h"
#include "doctor/alternating.h"
#include "doctor/training_rate.h"
#include "engine/state_guard.h"
#include "slipstream/doctor/doctor.h"

namespace slipstream {
namespace {

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
  const auto in_turns = [&](TrainingRate& rate, const std::string& what) {
    return RateInTurns{[&rate, what, &trainer, &guard, &options](const TurnTime& time) {
                         if (options.log_line) options.log_line(what);
                         rate.measure(trainer, time, options.stop);
                         guard.restore();
                       },
                       [&rate] { return rate.is_measured() ? rate.rate() : Measured{}; }};
  };
  measure_alternately(
      {in_turns(before, "the plan as it was"), in_turns(after, "the changed plan")},
      {.budget_s = options.budget_s,
       .turn_s = kTelling * (diagnosis.rate.value > 0 ? 1 / diagnosis.rate.value : 0),
       .step_s = diagnosis.ceiling.value > 0 ? 1 / diagnosis.ceiling.value : 0,
       .is_single = has_cache,
       .stopped = options.stop});
  if (after.is_cold())
    outcome.note = "the cache was not full yet, and later epochs are faster: raise the budget";
  if (before.is_measured()) outcome.before = before.rate();
  if (after.is_measured()) outcome.measured = after.rate();
  return outcome;
}

}  // namespace slipstream
