#include "cli/training_flags.h"

#include <CLI/CLI.hpp>
#include <cmath>

#include "cli/verbs.h"
#include "core/number_text.h"

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
                  "Number of batches whose gradients are averaged for one update of the weights "
                  "(default: 1)")
      ->check(at_least(1))
      ->group(kTrainingGroup);
  verb.add_option(
          "--clip-grad", clip_grad,
          "Clips the norm of all gradients together to this value; 0: no clipping (default: 0)")
      ->check(not_negative)
      ->group(kTrainingGroup);
  verb.add_option("--ema-decay", ema_decay,
                  "Keeps an exponential moving average of the weights with this decay, such as "
                  "0.9999, and evaluates with it; 0: no average (default: 0)")
      ->check(decay_problem)
      ->group(kTrainingGroup);
  verb.add_option("--on-nan", on_nan,
                  "What to do if a loss is not finite: stop, or skip the update (default: stop)")
      ->check([](const std::string& text) {
        return text == "stop" || text == "skip" ? ""
                                                : unknown_name("choice", text, {"stop", "skip"});
      })
      ->group(kTrainingGroup);
}

Pipeline TrainingFlags::applied(Pipeline pipeline, WorkloadInfo& info) const {
  if (!accumulate && !clip_grad && !ema_decay && !on_nan) return pipeline;
  TrainingOptions options = pipeline.training();
  if (accumulate) options.accumulate = *accumulate;
  if (clip_grad) options.clip_grad_norm = *clip_grad;
  if (ema_decay) options.ema_decay = *ema_decay;
  if (on_nan) options.on_nan = *on_nan == "skip" ? OnNonFinite::skip : OnNonFinite::stop;
  info.options.emplace_back("accumulate", static_cast<std::int64_t>(options.accumulate));
  info.options.emplace_back("clip_grad", options.clip_grad_norm);
  info.options.emplace_back("ema_decay", options.ema_decay);
  info.options.emplace_back("on_nan", on_nan.value_or("stop"));
  return std::move(pipeline).with_training(options);
}

void ScheduleFlags::add_to(CLI::App& verb) {
  verb.add_option("--schedule", schedule,
                  "Learning rate schedule: constant, step, cosine, linear or one-cycle")
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
  verb.add_option(
          "--warmup-epochs", warmup_epochs,
          "Epochs of warm-up, in which the learning rate rises from a hundredth of --lr to --lr")
      ->check(not_negative)
      ->group(kTrainingGroup);
  verb.add_option("--warmup-steps", warmup_steps, "Steps of warm-up, instead of --warmup-epochs")
      ->check(at_least(0))
      ->group(kTrainingGroup);
  verb.add_option("--lr-step-size", step_size,
                  "With --schedule step: the number of epochs after which the learning rate is "
                  "multiplied by --lr-gamma")
      ->check(above_zero)
      ->group(kTrainingGroup);
  verb.add_option("--lr-gamma", gamma, "With --schedule step: the factor (default: 0.1)")
      ->check(above_zero)
      ->group(kTrainingGroup);
  verb.add_option("--lr-min", lr_min,
                  "With --schedule cosine or linear: the learning rate at the end (default: 0)")
      ->check(not_negative)
      ->group(kTrainingGroup);
}

void LogFlags::add_to(CLI::App& verb) {
  verb.add_option("--log-dir", dir,
                  "Folder for the run: scores as CSV, JSON lines, TensorBoard events and plots, "
                  "and everything that is needed to repeat the run")
      ->group(kOutputGroup);
  verb.add_option("--log-every", every, "Steps between two rows of --log-dir")
      ->check(at_least(1))
      ->capture_default_str()
      ->group(kOutputGroup);
}

void ValidationFlags::add_to(CLI::App& verb) {
  verb.add_option(
          "--val", val,
          "Validation data, given like --data; the model is evaluated on it after each epoch")
      ->group(kDataGroup);
  verb.add_option("--keep-best", keep_best,
                  "Score of --val that decides which checkpoint is the best: loss, accuracy, or "
                  "one of the workload's (default: the workload's first)")
      ->group(kCheckpointGroup);
  verb.add_option("--early-stop", early_stop,
                  "Stops when the score of --keep-best has not improved for this many epochs")
      ->check(at_least(1))
      ->group(kTrainingGroup);
}

void ValidationFlags::check() const {
  std::vector<std::string> problems;
  if (val.empty() && keep_best) problems.emplace_back("--keep-best needs --val DATA");
  if (val.empty() && early_stop) problems.emplace_back("--early-stop needs --val DATA");
  refuse(problems);
}

void WatchFlags::add_to(CLI::App& verb) {
  verb.add_flag("--watch", watch,
                "Reports when the device starts to wait for input and when it stops waiting")
      ->group(kOutputGroup);
  verb.add_option("--watch-json", json,
                  "Like --watch, and appends a line of JSON to this file about once a second")
      ->group(kOutputGroup);
  verb.add_option("--watch-prom", prometheus,
                  "Like --watch, and writes counters for Prometheus to this file")
      ->group(kOutputGroup);
}

}  // namespace slipstream
