#include "cli/training_flags.h"

#include <CLI/CLI.hpp>
#include <cmath>

#include "cli/option_text.h"
#include "cli/verbs.h"

namespace slipstream {
namespace {

std::string not_negative(const std::string& text) {
  const double value = number_in(text).value_or(0);
  return value >= 0 && std::isfinite(value) ? "" : text + " is less than 0 or not finite";
}

std::string decay_problem(const std::string& text) {
  const double value = number_in(text).value_or(0);
  return value >= 0 && value < 1 ? "" : text + " is not at least 0 and below 1";
}

}  // namespace

void TrainingFlags::add_to(CLI::App& verb) {
  verb.add_option("--accumulate", accumulate,
                  "Batches whose gradients are averaged for one update of the weights (default: 1)")
      ->check(at_least(1))
      ->group(kTrainingGroup);
  verb.add_option("--clip-grad", clip_grad,
                  "Scales gradients down to this norm of all together; 0: not (default: 0)")
      ->check(not_negative)
      ->group(kTrainingGroup);
  verb.add_option("--ema", ema,
                  "Keeps an average of the weights, with this decay an update, such as 0.9999; it "
                  "is what is evaluated; 0: none (default: 0)")
      ->check(decay_problem)
      ->group(kTrainingGroup);
  verb.add_option("--on-nan", on_nan,
                  "Where a loss is not finite: stop, or skip (leaves the update out; default: "
                  "stop)")
      ->check([](const std::string& text) {
        return text == "stop" || text == "skip" ? ""
                                                : unknown_name("choice", text, {"stop", "skip"});
      })
      ->group(kTrainingGroup);
}

Pipeline TrainingFlags::applied(Pipeline pipeline, WorkloadInfo& info) const {
  if (!accumulate && !clip_grad && !ema && !on_nan) return pipeline;
  TrainingOptions options = pipeline.training();
  if (accumulate) options.accumulate = *accumulate;
  if (clip_grad) options.clip_grad_norm = *clip_grad;
  if (ema) options.ema_decay = *ema;
  if (on_nan) options.on_nan = *on_nan == "skip" ? OnNonFinite::skip : OnNonFinite::stop;
  info.options.emplace_back("accumulate", static_cast<std::int64_t>(options.accumulate));
  info.options.emplace_back("clip_grad", options.clip_grad_norm);
  info.options.emplace_back("ema", options.ema_decay);
  info.options.emplace_back("on_nan", on_nan.value_or("stop"));
  return std::move(pipeline).with_training(options);
}

void ScheduleFlags::add_to(CLI::App& verb) {
  verb.add_option("--schedule", schedule,
                  "How the learning rate goes over the training: constant, step, cosine, linear or "
                  "one-cycle")
      ->check([](const std::string& text) -> std::string {
        try {
          static_cast<void>(schedule_named(text));
          return "";
        } catch (const Refused& refused) {
          return refused.what();
        }
      })
      ->capture_default_str()
      ->group(kTrainingGroup);
  verb.add_option("--warmup-epochs", warmup_epochs,
                  "Epochs during which the learning rate rises from a hundredth of --lr to it")
      ->check(not_negative)
      ->group(kTrainingGroup);
  verb.add_option("--warmup-steps", warmup_steps, "The same, in steps")
      ->check(at_least(0))
      ->group(kTrainingGroup);
  verb.add_option("--lr-step-size", step_size,
                  "With --schedule step: epochs after which the learning rate is multiplied by "
                  "--lr-gamma, again and again")
      ->check(above_zero)
      ->group(kTrainingGroup);
  verb.add_option("--lr-gamma", gamma, "With --schedule step: the factor (default: 0.1)")
      ->check(above_zero)
      ->group(kTrainingGroup);
  verb.add_option("--lr-min", lr_min,
                  "With --schedule cosine and linear: the learning rate at the end (default: 0)")
      ->check(not_negative)
      ->group(kTrainingGroup);
}

void WatchFlags::add_to(CLI::App& verb) {
  verb.add_flag(
          "--watch", watch,
          "Reports when the device starts to wait for input, and when the input keeps up again")
      ->group(kOutputGroup);
  verb.add_option("--watch-json", json,
                  "Watches, and adds a line of JSON to this file about once a second")
      ->group(kOutputGroup);
  verb.add_option("--watch-prom", prometheus,
                  "Watches, and keeps counters in this file for Prometheus")
      ->group(kOutputGroup);
}

}  // namespace slipstream
