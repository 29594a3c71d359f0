#include "doctor/examined_pipeline.h"

#include <thread>

#include "core/seconds_since.h"
#include "core/start_thread.h"
#include "doctor/examiner.h"
#include "doctor/pipeline_model.h"
#include "doctor/situation.h"
#include "engine/message.h"

namespace slipstream {
namespace {

constexpr double kFillShare = 0.15;  ///< largest share of the budget for filling a plan's cache

}  // namespace

double ExaminedPipeline::seconds() const { return seconds_since(start_); }

MachineCapacity ExaminedPipeline::capacity(unsigned cores) const { return measure_capacity(cores); }

void ExaminedPipeline::train(TrainingRate& rate, const TurnTime& time) {
  rate.measure(trainer_, time, options_.stop);
  guard_.restore();
}

RateInTurns ExaminedPipeline::with_training(TrainingRate& rate) {
  return {[this, &rate](const TurnTime& time) { train(rate, time); },
          [&rate] { return rate.rate(); }, [&rate] { rate.restart(); }};
}

RateInTurns ExaminedPipeline::drained(DrainedRate& rate) {
  const double fill_s = kFillShare * options_.budget_s;
  return {[this, &rate, fill_s](const TurnTime& time) {
            rate.measure(trainer_, time, fill_s, options_.stop);
          },
          [&rate] { return rate.rate(); }};
}

RateInTurns ExaminedPipeline::loader_alone(WorkerCount count) {
  Plan plan = plan_;
  LoaderPlan& loader = plan.schedule.loader;
  if (count == WorkerCount::all) return drained(all_.emplace(plan, std::nullopt));
  if (count == WorkerCount::half) {
    loader.num_workers /= 2;
    return drained(half_.emplace(plan, std::nullopt));
  }
  loader.num_workers = 1;
  // Reader threads would take the step `read` off the one worker.
  loader.read_ahead.reads = 0;
  return drained(one_.emplace(plan, std::nullopt));
}

SampleCosts ExaminedPipeline::sample_costs() const {
  return {seconds_per_sample(one_->laps()), bytes_per_sample(one_->counters())};
}

std::vector<ExaminedLevel> ExaminedPipeline::make_levels(const CacheSizes& sizes) {
  const std::size_t host_steps = one_->counters().size();
  for (LevelPlan& level : plan_levels(trainer_.pipeline(), plan_, is_on_gpu())) {
    if (level.cut) {
      const bool of_batches = level.step >= host_steps || level.cut->after == "collate";
      level.cut->items = of_batches ? sizes.batches() : sizes.samples_after(level.step);
    }
    levels_.emplace_back(std::move(level));
  }
  levels_.back().training.fill_cache_for(kFillShare * options_.budget_s);
  std::vector<ExaminedLevel> examined;
  for (MeasuredLevel& level : levels_) {
    ExaminedLevel& each = examined.emplace_back();
    each.level.name = level.plan.name;
    each.is_essential = level.plan.is_essential;
    each.training = with_training(level.training);
    if (level.plan.cut) {
      each.level.after = level.plan.cut->after;
      each.level.items = level.plan.cut->items;
    } else {
      each.training.measure = [this, &level](const TurnTime& time) {
        usage_.during([&] { train(level.training, time); });
      };
    }
    if (level.loader_alone) each.loader_alone = drained(*level.loader_alone);
  }
  return examined;
}

std::vector<OtherRate> ExaminedPipeline::make_other_rates(const CacheSizes& sizes) {
  std::vector<OtherRate> others;
  device_ = steps_alone(trainer_.pipeline(), plan_, trainer_.context().kind(), sizes.batches());
  for (MeasuredStep& step : device_)
    others.push_back({step.name + " alone", with_training(step.rate)});
  const std::string first = describe().situation.on_device_from;
  if (!first.empty()) {
    const Plan moved = with_device_transforms(trainer_, plan_, first);
    augment_ = MeasuredStep{kAugmentStep, TrainingRate(moved, Cut{"copy", 2}, kAugmentStep)};
    others.push_back({"transforms on the device, alone", with_training(augment_->rate)});
  }
  if (!is_on_gpu()) return others;
  if (auto files = with_jpeg_files(trainer_.pipeline(), plan_)) {
    jpeg_.emplace(std::move(*files));
    others.push_back(
        {"images as JPEG files, decoded by the device alone",
         {[this](const TurnTime& time) { jpeg_->measure(trainer_, time, options_.stop); },
          [this] { return jpeg_->rate(); }},
         /*is_expected=*/false});
  }
  with_workers_.emplace(levels_.front().plan.how, levels_.front().plan.cut);
  others.push_back({"device batch while workers are busy",
                    {[this](const TurnTime& time) { train_with_workers(time); },
                     [this] { return with_workers_->rate(); }}});
  return others;
}

void ExaminedPipeline::train_with_workers(const TurnTime& time) {
  const auto loader = trainer_.make_loader(plan_, std::nullopt);
  std::jthread draining = start_thread([&loader](const std::stop_token& stop) {
    try {
      while (!stop.stop_requested())
        if (loader->ready())
          loader->release(loader->next(), nullptr);
        else
          std::this_thread::sleep_for(std::chrono::microseconds(200));
    } catch (const std::exception&) {
      // The measurement of the loader alone reports this error.
    }
  });
  train(*with_workers_, time);
}

std::string ExaminedPipeline::take_failure() {
  try {
    throw;
  } catch (const DeviceLost&) {
    throw;
  } catch (const std::exception& error) {
    std::string reason = describe_error(error);
    guard_.restore();
    return reason;
  }
}

std::vector<LaneResult> ExaminedPipeline::lanes() const {
  if (levels_.empty() || !levels_.back().training.is_measured()) return {};
  return levels_.back().training.last().lanes;
}

Examination examine(Trainer& trainer, const Plan& plan, const DoctorOptions& options) {
  if (!(options.budget_s > 0)) throw Refused("the doctor's budget must be more than 0 seconds");
  ExaminedPipeline examined(trainer, plan, options);
  Examination examination;
  examination.observed = Examiner(examined, options).run();
  examination.lanes = examined.lanes();
  examination.interrupted = options.stop && options.stop();
  examination.seconds = examined.seconds();
  return examination;
}

}  // namespace slipstream
