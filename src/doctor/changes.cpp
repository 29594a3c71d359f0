#include "doctor/changes.h"

namespace slipstream {

Changes::Changes(const Observations& observed, const PipelineModel& now, double model_error)
    : observed_(observed),
      situation_(observed.situation),
      now_(now),
      now_step_s_(mean_step_s(now)),
      error_(model_error) {}

std::vector<Change> Changes::all() {
  if (!now_.steps.empty()) {
    workers();
    prefetch();
    cache();
    read_ahead();
    smaller_samples();
    device_transforms();
    crop_first();
    convert();
    contention();
    cheaper_steps();
    cores();
  }
  pinning();
  pipelining();
  unused_fields();
  wires();
  feature_cache();
  return std::move(found_);
}

void Changes::add(Change change) {
  PipelineModel then = now_;
  change.model(then);
  // This check needs no interval, so it is much cheaper than predicted_rate().
  if (now_step_s_ < kLeastGain * mean_step_s(then)) return;
  change.predicted = predicted_rate(observed_, now_, then, error_);
  if (change.predicted.n == 0) return;
  change.gain = ratio(change.predicted, *level_rate(observed_, kWholeLevel));
  found_.push_back(std::move(change));
}

std::vector<Change> changes_for(const Observations& observed, const PipelineModel& now,
                                double model_error) {
  return Changes(observed, now, model_error).all();
}

}  // namespace slipstream
