#include <CLI/CLI.hpp>
#include <iostream>
#include <limits>
#include <memory>

#include "cli/checkpoint_flags.h"
#include "cli/common_options.h"
#include "cli/training_loop.h"
#include "cli/watch.h"
#include "core/files.h"
#include "core/number_text.h"
#include "cuda/gpu_meter.h"
#include "report/progress_line.h"
#include "slipstream/run/trainer.h"

namespace slipstream {
namespace {

struct TrainOptions {
  CommonOptions common;
  std::string plan = "auto";
  std::string transforms_device = "cpu";
  std::uint64_t steps = 100;
  std::optional<std::uint64_t> epochs;  ///< instead of `steps`
  std::string json, plan_out;
  WatchVerb watch;
  ScheduleFlags schedule;
  CheckpointFlags checkpoints;
  ValidationFlags validation;
};

bool is_mode(const std::string& plan) { return plan == "serial" || plan == "pipelined"; }

std::uint64_t steps_of(const TrainOptions& options, const Pipeline& pipeline) {
  if (!options.epochs) return options.steps;
  const std::uint64_t batches = pipeline.batches_per_epoch();
  if (*options.epochs > std::numeric_limits<std::uint64_t>::max() / batches)
    throw Refused("--epochs " + std::to_string(*options.epochs) + " is too large: an epoch has " +
                  count_of(batches, "step"));
  return *options.epochs * batches;
}

std::optional<GpuUseInfo> use_of(cuda::GpuMeter* meter) {
  if (meter == nullptr) return std::nullopt;
  const cuda::GpuUse use = meter->use();
  const auto share = [](std::optional<double> value) -> std::optional<Measured> {
    if (!value) return std::nullopt;
    return measured_once(*value, "1");
  };
  return GpuUseInfo{share(use.sm_activity), share(use.dram_use), share(use.coarse), use.note};
}

AutoResult run_plan(Trainer& trainer, const TrainOptions& options, const LoaderPlan& loader,
                    const std::optional<Plan>& file, const RunOptions& run) {
  const auto plan = [&](const std::string& mode) {
    return placed_plan(trainer.pipeline(), mode, options.transforms_device,
                       trainer.context().kind(), loader, trainer.numerics());
  };
  if (file) return {{}, trainer.run(*file, run)};
  if (is_mode(options.plan)) return {{}, trainer.run(plan(options.plan), run)};
  return run_auto(trainer, plan("serial"), plan("pipelined"), run);
}

/// Of --val, with what the training has of the rest.
std::optional<Validation> validation_of(const TrainOptions& options, const Trainer& trainer,
                                        const std::optional<Plan>& file, const LoaderPlan& loader) {
  if (options.validation.val.empty()) return std::nullopt;
  const Pipeline data = options.common.declare_on(options.validation.val);
  check_same_classes(*trainer.pipeline().dataset(), *data.dataset());
  Validation made{.evaluator = std::make_unique<Evaluator>(trainer.pipeline(), data,
                                                           trainer.context(), trainer.numerics()),
                  .plan = {}};
  const Pipeline& pipeline = made.evaluator->pipeline();
  LoaderPlan own = file ? file->schedule.loader : loader;
  own.on_device.clear();
  own.cache.reset();
  const std::string mode = file                       ? file->schedule.mode
                           : options.plan == "serial" ? "serial"
                                                      : "pipelined";
  made.plan = placed_plan(pipeline, mode, options.transforms_device, trainer.context().kind(), own,
                          trainer.numerics());
  return made;
}

template <typename Counters>
std::string share_of(const Counters& cache) {
  return std::to_string(cache.hits) + " of " + count_of(cache.hits + cache.misses, "sample") +
         " came from it (batches filled ahead included)";
}

std::string jpeg_line(const JpegResult& jpeg) {
  const std::string device = jpeg.engines ? "the GPU's JPEG engines" : "CUDA kernels";
  const std::string but =
      jpeg.on_cpu > 0 ? ", but for " + std::to_string(jpeg.on_cpu) + " by the CPU" : "";
  return count_of(jpeg.images, "image") + " decoded by " + device + but + "\n";
}

void print_summary(const RunReport& report, std::uint64_t steps) {
  const RunResult& result = report.result;
  if (result.interrupted) std::cout << "interrupted after " << result.steps << " of ";
  std::cout << count_of(steps, "step");
  if (const Measured rate = told_rate(result.steps_per_second); rate.n > 0)
    std::cout << ", " << rate.value << " steps/s (after warm-up)";
  if (!result.losses.empty()) std::cout << ", " << loss_text(result.losses);
  std::cout << ", plan " << result.plan.schedule.mode << "\n";
  if (report.auto_choice)
    std::cout << "kept " << report.auto_choice->kept << ": " << report.auto_choice->reason << "\n";
  for (const Gain& gain : result.gains) std::cout << gain_line(gain);
  print_skipped(result.skipped.samples);
  if (result.jpeg) std::cout << jpeg_line(*result.jpeg);
  if (result.cache)
    std::cout << "cache: " << share_of(*result.cache) << "; it holds " << result.cache->samples
              << " in " << count_of(result.cache->bytes, "byte") << "\n";
  if (result.disk_cache) {
    const std::string& stopped = result.disk_cache->stopped;
    std::cout << "disk cache: " << share_of(*result.disk_cache) << "; it holds "
              << count_of(result.disk_cache->bytes, "byte")
              << (stopped.empty() ? "" : ", nothing more is stored: " + stopped) << "\n";
  }
  std::cout << warning_lines(report.environment);
}

int train(const TrainOptions& options, const Cli& cli) {
  refuse_same_files({{"--json", options.json},
                     {"--plan-out", options.plan_out},
                     {"--watch-json", options.watch.json},
                     {"--watch-prom", options.watch.prometheus}},
                    options.common.inputs());
  options.checkpoints.check();
  options.validation.check();
  OutputFile json(options.json), plan_out(options.plan_out);
  WatchFiles watch_files(options.watch.json, options.watch.prometheus);
  Context context(options.common.device);
  cli.check_interrupt();
  Environment environment = environment_of(context);  // as it is before the run is part of it
  std::optional<Plan> file;
  if (options.plan != "auto" && !is_mode(options.plan))
    file = options.common.plan_file(options.plan, {"auto", "serial", "pipelined"}, context);
  auto [pipeline, workload] = options.common.declare();
  print_remarks(*pipeline.dataset());
  const std::uint64_t steps = steps_of(options, pipeline);
  pipeline = options.schedule.applied(std::move(pipeline), steps, workload);
  options.checkpoints.load_weights_into(pipeline);
  LoaderPlan loader;
  if (file) {
    options.common.fit(*file, pipeline, context);
  } else {
    const Pipeline& measured = pipeline;
    loader = options.common.loader(context, options.transforms_device, [&] { return measured; });
  }
  Trainer trainer(std::move(pipeline), context,
                  file ? file->numerics : options.common.numerics(context.kind()));
  std::optional<Validation> validation = validation_of(options, trainer, file, loader);
  const auto checkpoints = options.checkpoints.open(trainer, steps, file ? to_json(*file) : "");
  const auto loaded = options.checkpoints.load(trainer, checkpoints.get());
  if (trainer.position() >= steps)
    throw Refused("the checkpoint is of step " + std::to_string(trainer.position()) +
                  ", and the training has " + count_of(steps, "step") +
                  ": give more --steps or --epochs to go on");

  ProgressLine line(std::cerr, {[] { return terminal_columns(2); }});
  RunOptions run;
  run.stop = cli.interrupted;
  std::optional<RunWatch> watch;
  if (options.watch.is_on()) {
    const LoaderPlan& used = file ? file->schedule.loader : loader;
    watch.emplace(WatchOptions{used.num_workers, used.read_ahead.reads}, watch_files, line);
  }
  run.progress = [&](const Progress& progress) {
    line.update(progress);
    if (watch && progress.measuring.empty()) watch->update(progress);
  };
  std::unique_ptr<cuda::GpuMeter> meter;
  if (context.kind() == DeviceKind::cuda) {
    meter = std::make_unique<cuda::GpuMeter>(context.device().index());
    meter->start();
  }
  TrainingLoop loop({.trainer = trainer,
                     .line = line,
                     .steps = steps,
                     .validation = validation ? &*validation : nullptr,
                     .checkpoints = checkpoints.get(),
                     .flags = options.validation,
                     .best = loaded ? loaded->best : std::nullopt,
                     .train = [&](const RunOptions& part) {
                       return run_plan(trainer, options, loader, file, part);
                     }});
  AutoResult result = loop.run(run);
  if (watch) watch->finish();
  line.finish();

  RunReport report{std::move(environment), std::move(workload), std::move(result.run),
                   use_of(meter.get()), std::nullopt};
  report.class_names = trainer.pipeline().dataset()->class_names();
  if (options.plan == "auto") report.auto_choice = std::move(result.choice);
  report.validation = loop.scores();
  print_summary(report, steps - report.result.first_step);
  if (!loop.ended().empty()) std::cout << loop.ended() << "\n";
  if (watch) std::cout << watch->summary() << "\n";
  write_all({{&json, run_report_json(report)}, {&plan_out, to_json(report.result.plan)}});
  return report.result.interrupted ? kInterrupted : kDone;
}

}  // namespace

void add_train(CLI::App& app, Cli& cli, Verb& chosen) {
  auto options = std::make_shared<TrainOptions>();
  CLI::App* verb = app.add_subcommand("train", "Trains a workload under a plan");
  options->common.add_to(*verb, cli);
  verb->add_option(
          "--plan", options->plan,
          "The plan: auto (measures both and keeps the faster), serial, pipelined, or a JSON file")
      ->capture_default_str()
      ->group(kScheduleGroup);
  options->common.add_batch_to(*verb, options->transforms_device);
  verb->add_option("--steps", options->steps, "Steps to train")
      ->check(at_least(1))
      ->capture_default_str()
      ->group(kTrainingGroup);
  verb->add_option("--epochs", options->epochs,
                   "Instead of --steps: how often to train on the whole data set")
      ->check(at_least(1))
      ->group(kTrainingGroup);
  verb->add_option("--json", options->json, "Writes the run's report to this file")
      ->group(kOutputGroup);
  verb->add_option("--plan-out", options->plan_out, "Writes the plan that was used to this file")
      ->group(kOutputGroup);
  options->schedule.add_to(*verb);
  options->checkpoints.add_to(*verb);
  options->validation.add_to(*verb);
  options->watch.add_to(*verb);
  options->common.add_workloads_own_to(*verb);
  verb->callback([=, &cli, &chosen] {
    if (options->epochs && verb->count("--steps") > 0)
      throw Refused("--epochs and --steps both say how long to train: leave one of them out");
    chosen = [options, &cli] { return train(*options, cli); };
  });
}

}  // namespace slipstream
