#include "training/schedule_settings.h"

#include <algorithm>
#include <cmath>

namespace slipstream {
namespace {

/// Throws Refused for options that the schedule does not use.
void refuse_unread(const ScheduleSettings& settings, LrSchedule::Kind kind) {
  using Kind = LrSchedule::Kind;
  std::vector<std::string> problems;
  const auto need = [&](bool given, bool is_read, const std::string& option) {
    if (given && !is_read)
      problems.push_back(option + " has no effect with --schedule " + settings.schedule +
                         "; leave it out");
  };
  need(settings.step_size.has_value(), kind == Kind::step, "--lr-step-size");
  need(settings.gamma.has_value(), kind == Kind::step, "--lr-gamma");
  need(settings.lr_min.has_value(), kind == Kind::cosine || kind == Kind::linear, "--lr-min");
  need(settings.warmup_epochs.has_value(), kind != Kind::one_cycle, "--warmup-epochs");
  need(settings.warmup_steps.has_value(), kind != Kind::one_cycle, "--warmup-steps");
  if (settings.warmup_epochs && settings.warmup_steps)
    problems.emplace_back(
        "--warmup-epochs and --warmup-steps both set the length of the warm-up: leave one of them "
        "out");
  if (kind == Kind::step && !settings.step_size)
    problems.emplace_back("--schedule step needs --lr-step-size, in epochs");
  refuse(problems);
}

}  // namespace

bool ScheduleSettings::is_given() const {
  return schedule != "constant" || warmup_epochs || warmup_steps || step_size || gamma || lr_min;
}

Pipeline ScheduleSettings::applied(Pipeline pipeline, std::uint64_t steps,
                                   WorkloadInfo& info) const {
  if (!is_given()) return pipeline;
  TrainingOptions options = pipeline.training();
  LrSchedule& made = options.schedule;
  made = {.kind = schedule_named(schedule)};
  refuse_unread(*this, made.kind);
  const double updates_of_epoch =
      static_cast<double>(pipeline.batches_per_epoch()) / static_cast<double>(options.accumulate);
  made.updates = (steps + options.accumulate - 1) / options.accumulate;
  if (warmup_steps) made.warmup = *warmup_steps / options.accumulate;
  if (warmup_epochs)
    made.warmup = static_cast<std::uint64_t>(std::llround(*warmup_epochs * updates_of_epoch));
  if (step_size)
    made.step_size =
        static_cast<std::uint64_t>(std::max(1LL, std::llround(*step_size * updates_of_epoch)));
  if (gamma) made.gamma = *gamma;
  const std::shared_ptr<Optimizer>& optimizer = pipeline.train_stage().optimizer;
  if (lr_min && optimizer != nullptr) {
    if (*lr_min > optimizer->lr()) throw Refused("--lr-min is above the learning rate");
    made.end_factor = *lr_min / optimizer->lr();
  }
  info.options.emplace_back("schedule", schedule);
  info.options.emplace_back("warmup_updates", static_cast<std::int64_t>(made.warmup));
  return std::move(pipeline).with_training(options);
}

}  // namespace slipstream
