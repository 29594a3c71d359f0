#include <CLI/CLI.hpp>
#include <iostream>
#include <limits>
#include <memory>

#include "cli/checkpoint_flags.h"
#include "cli/common_options.h"
#include "cli/preview.h"
#include "cli/training_loop.h"
#include "core/files.h"
#include "core/number_text.h"
#include "cuda/gpu_meter.h"
#include "report/evaluation_report.h"
#include "report/progress_line.h"
#include "report/watch_report.h"
#include "slipstream/engine/trainer.h"

namespace slipstream {
namespace {

struct TrainOptions {
  CommonOptions common;
  std::string plan = "pipelined";
  std::string transforms_device = "cpu";
  std::uint64_t steps = 100;
  std::optional<std::uint64_t> epochs;  ///< instead of `steps`
  std::string json, plan_out;
  WatchFlags watch;
  ScheduleFlags schedule;
  CheckpointFlags checkpoints;
  ValidationFlags validation;
  LogFlags log;
  PreviewFlag preview;
};

bool is_mode(const std::string& plan) { return plan == "serial" || plan == "pipelined"; }

std::uint64_t count_steps(const TrainOptions& options, const Pipeline& pipeline) {
  if (!options.epochs) return options.steps;
  const std::uint64_t batches = pipeline.batches_per_epoch();
  if (*options.epochs > std::numeric_limits<std::uint64_t>::max() / batches)
    throw Refused("--epochs " + std::to_string(*options.epochs) + " is too large: an epoch has " +
                  format_count(batches, "step"));
  return *options.epochs * batches;
}

std::optional<GpuUseInfo> read_gpu_use(cuda::GpuMeter* meter) {
  if (meter == nullptr) return std::nullopt;
  const cuda::GpuUse use = meter->use();
  const auto share = [](std::optional<double> value) -> std::optional<Measured> {
    if (!value) return std::nullopt;
    return measured_once(*value, "1");
  };
  return GpuUseInfo{share(use.sm_activity), share(use.dram_use), share(use.gpu_utilization),
                    use.note};
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
std::optional<Validation> make_validation(const TrainOptions& options, const Trainer& trainer,
                                          const std::optional<Plan>& file,
                                          const LoaderPlan& loader) {
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
  const auto plan_at = [&](const std::string& transforms_device) {
    return placed_plan(pipeline, mode, transforms_device, trainer.context().kind(), own,
                       trainer.numerics());
  };
  try {
    made.plan = plan_at(options.transforms_device);
  } catch (const Refused&) {  // without its random transforms nothing may be left for the device
    made.plan = plan_at("cpu");
  }
  return made;
}

template <typename Counters>
std::string describe_share(const Counters& cache) {
  return std::to_string(cache.hits) + " of " + format_count(cache.hits + cache.misses, "sample") +
         " came from it (batches filled ahead included)";
}

std::string jpeg_line(const JpegResult& jpeg) {
  const std::string device = jpeg.engines ? "the GPU's JPEG engines" : "CUDA kernels";
  const std::string but =
      jpeg.on_cpu > 0 ? ", but for " + std::to_string(jpeg.on_cpu) + " by the CPU" : "";
  return format_count(jpeg.images, "image") + " decoded by " + device + but + "\n";
}

void print_summary(const RunReport& report, std::uint64_t steps) {
  const RunResult& result = report.result;
  if (result.interrupted) std::cout << "interrupted after " << result.steps << " of ";
  std::cout << format_count(steps, "step");
  if (const Measured rate = reportable_rate(result.steps_per_second); rate.n > 0)
    std::cout << ", " << rounded_text(rate.value, 4) << " steps/s (after warm-up)";
  if (!result.losses.empty()) std::cout << ", " << loss_text(result.losses);
  std::cout << ", plan " << result.plan.schedule.mode << "\n";
  if (report.auto_choice)
    std::cout << "plan " << report.auto_choice->chosen << ": " << report.auto_choice->reason
              << "\n";
  for (const Gain& gain : result.gains) std::cout << gain_line(gain);
  print_skipped(result.skipped);
  if (result.jpeg) std::cout << jpeg_line(*result.jpeg);
  if (result.cache)
    std::cout << "cache: " << describe_share(*result.cache) << "; it holds "
              << result.cache->samples << " in " << format_count(result.cache->bytes, "byte")
              << "\n";
  if (result.disk_cache) {
    const std::string& stopped = result.disk_cache->stop_reason;
    std::cout << "disk cache: " << describe_share(*result.disk_cache) << "; it holds "
              << format_count(result.disk_cache->bytes, "byte")
              << (stopped.empty() ? "" : ", nothing more is stored: " + stopped) << "\n";
  }
  std::cout << warning_lines(report.environment);
}

void refuse_clashes(const TrainOptions& options) {
  const CheckpointFlags& flags = options.checkpoints;
  OutputPaths outputs = {.files = {{"--json", options.json},
                                   {"--plan-out", options.plan_out},
                                   {"--watch-json", options.watch.json},
                                   {"--watch-prom", options.watch.prometheus},
                                   {"--preview", options.preview.path}},
                         .folders = options.common.output_folders()};
  outputs.folders.emplace_back("--log-dir", options.log.dir);
  outputs.folders.emplace_back("--checkpoint", flags.checkpoint);
  for (auto& file : files_of_run_folder("--log-dir", options.log.dir))
    outputs.files.push_back(std::move(file));
  NamedPaths inputs = options.common.inputs(options.plan);
  inputs.emplace_back("--val", options.validation.val);
  for (const auto& [option, path] :
       {std::pair("--weights", flags.weights), std::pair("--resume", flags.resume),
        std::pair("--checkpoint", flags.checkpoint)})
    for (auto& each : checkpoints_at(option, path))
      if (each.second != flags.checkpoint) inputs.push_back(std::move(each));
  refuse_replaced_files(outputs, inputs);
  options.preview.check();
  options.checkpoints.check();
  options.validation.check();
}

/// What one training is made of, in the order in which it comes to be.
class Training {
 public:
  Training(const TrainOptions& options, const Cli& cli)
      : options_(options),
        cli_(cli),
        json_(options.json),
        plan_out_(options.plan_out),
        line_(std::cerr, {.columns = [] { return terminal_columns(2); },
                          .facts =
                              [this](const Progress& progress) {
                                return loop_ ? loop_->facts(progress) : TrainingFacts();
                              }}),
        watch_(options.watch.json, options.watch.prometheus, line_),
        picture_(options.preview.path),
        context_(options.common.device) {
    cli.check_interrupt();
    environment_ = collect_environment(context_);  // before the run itself loads the machine
    declare();
    bind();
  }

  int run() {
    const int code = train();
    preview_->write(cli_.interrupted);
    return code;
  }

 private:
  int train() {
    const bool is_scored =
        !validation_ || (loaded_ && loaded_->scored_step == trainer_->position());
    if (trainer_->position() >= steps_ && is_scored) {
      std::cout << "nothing is left to do: the training has " << format_count(steps_, "step")
                << "\n";
      return kDone;
    }
    const LoaderPlan& used = file_ ? file_->schedule.loader : loader_;
    if (options_.watch.is_on()) watch_.begin({used.num_workers, used.read_ahead.reads > 0});
    std::unique_ptr<cuda::GpuMeter> meter;
    if (context_.kind() == DeviceKind::cuda) {
      meter = std::make_unique<cuda::GpuMeter>(context_.device().index());
      meter->start();
    }
    TrainingLoop& loop = loop_.emplace(loop_setup());
    AutoResult result = loop.run(run_options());
    watch_.finish();
    const std::string problem_of_log = log_ ? log_->finish() : "";
    line_.finish();
    const int code = report(std::move(result), loop, read_gpu_use(meter.get()));
    if (!problem_of_log.empty()) std::cerr << "warning: " << problem_of_log << "\n";
    std::cout << watch_.summary();
    const Plan& plan = report_->result.plan;
    write_all({{&json_, run_report_json(*report_)},
               {&plan_out_, plan.schedule.lanes.empty() ? known_plan() : to_json_text(plan)}});
    return loop.is_lost() && code == kDone ? kFailed : code;
  }

  void declare() {
    if (options_.plan != "auto" && !is_mode(options_.plan))
      file_ = options_.common.plan_file(options_.plan, {"auto", "serial", "pipelined"}, context_);
    auto [pipeline, workload] = options_.common.declare();
    print_remarks(*pipeline.dataset());
    steps_ = count_steps(options_, pipeline);
    pipeline = options_.schedule.applied(std::move(pipeline), steps_, workload);
    options_.checkpoints.load_weights_into(pipeline);
    if (file_) {
      options_.common.adapt(*file_, pipeline, context_);
    } else {
      const Pipeline& measured = pipeline;
      loader_ =
          options_.common.loader(context_, options_.transforms_device, [&] { return measured; });
    }
    workload_ = std::move(workload);
    trainer_.emplace(std::move(pipeline), context_,
                     file_ ? file_->numerics : options_.common.numerics(context_.kind()));
  }

  void bind() {
    validation_ = make_validation(options_, *trainer_, file_, loader_);
    preview_.emplace(options_.preview, picture_, trainer_->pipeline(),
                     validation_ ? validation_->evaluator->pipeline() : trainer_->pipeline(),
                     context_, trainer_->numerics());
    checkpoints_ = options_.checkpoints.open(
        *trainer_, steps_,
        make_notes(workload_, trainer_->pipeline().dataset()->class_names(),
                   options_.common.transforms_json()));
    if (checkpoints_ != nullptr) checkpoints_->set_plan(known_plan());
    loaded_ = options_.checkpoints.load(*trainer_, checkpoints_.get());
    if (!options_.log.dir.empty())
      log_.emplace(
          options_.log, *trainer_, !options_.checkpoints.resume.empty(),
          make_run_facts(cli_.command(), environment_, workload_, *trainer_, steps_, known_plan()));
  }

  /// As JSON; "" where the run finds out which one is faster.
  std::string known_plan() const {
    if (file_) return to_json_text(*file_);
    if (!is_mode(options_.plan)) return "";
    return to_json_text(placed_plan(trainer_->pipeline(), options_.plan, options_.transforms_device,
                                    context_.kind(), loader_, trainer_->numerics()));
  }

  TrainingLoop::Setup loop_setup() {
    return {.trainer = *trainer_,
            .line = line_,
            .steps = steps_,
            .validation = validation_ ? &*validation_ : nullptr,
            .checkpoints = checkpoints_.get(),
            .log = log_ ? &*log_ : nullptr,
            .flags = options_.validation,
            .loaded = loaded_,
            .train = [this](const RunOptions& part) {
              return run_plan(*trainer_, options_, loader_, file_, part);
            }};
  }

  RunOptions run_options() {
    RunOptions run;
    run.stop = cli_.interrupted;
    run.progress = [this](const Progress& progress) {
      line_.update(progress);
      if (log_) log_->update(progress);
      if (progress.measuring.empty()) watch_.update(progress);
    };
    return run;
  }

  int report(AutoResult result, const TrainingLoop& loop, std::optional<GpuUseInfo> gpu) {
    report_.emplace(
        RunReport{environment_, workload_, std::move(result.run), std::move(gpu), std::nullopt});
    report_->class_names = trainer_->pipeline().dataset()->class_names();
    if (options_.plan == "auto") report_->auto_choice = std::move(result.choice);
    report_->validation = loop.scores();
    const RunResult& done = report_->result;
    print_summary(*report_, loop.ended().empty() ? steps_ - done.first_step : done.steps);
    if (!loop.ended().empty()) std::cout << loop.ended() << "\n";
    if (!loop.scores().empty()) std::cout << score_table(loop.scores(), loop.best_scores());
    return report_->result.interrupted ? kInterrupted : kDone;
  }

  const TrainOptions& options_;
  const Cli& cli_;
  OutputFile json_, plan_out_;
  ProgressLine line_;
  RunWatch watch_;
  OutputFile picture_;
  Context context_;
  Environment environment_;
  std::optional<Plan> file_;
  WorkloadInfo workload_;
  std::uint64_t steps_ = 0;  ///< of the whole training
  LoaderPlan loader_;
  std::optional<Trainer> trainer_;
  std::optional<Validation> validation_;
  std::optional<Preview> preview_;
  std::unique_ptr<Checkpoints> checkpoints_;
  std::optional<LoadedCheckpoint> loaded_;
  std::optional<RunLogging> log_;
  std::optional<TrainingLoop> loop_;
  std::optional<RunReport> report_;
};

int train(const TrainOptions& options, const Cli& cli) {
  refuse_clashes(options);
  return Training(options, cli).run();
}

}  // namespace

void add_train(CLI::App& app, Cli& cli, Verb& chosen) {
  auto options = std::make_shared<TrainOptions>();
  CLI::App* verb = app.add_subcommand("train", "Trains a workload under a plan");
  options->common.add_to(*verb, cli);
  verb->add_option(
          "--plan", options->plan,
          "Plan: pipelined, serial, auto (measures both and keeps the faster one), or a JSON file")
      ->capture_default_str()
      ->group(kScheduleGroup);
  options->common.add_batch_to(*verb, options->transforms_device);
  verb->add_option("--steps", options->steps, "Steps to train")
      ->check(at_least(1))
      ->capture_default_str()
      ->group(kTrainingGroup);
  verb->add_option("--epochs", options->epochs, "Number of epochs to train, instead of --steps")
      ->check(at_least(1))
      ->group(kTrainingGroup);
  verb->add_option("--json", options->json, "Writes the run's report to this file")
      ->group(kOutputGroup);
  verb->add_option("--plan-out", options->plan_out, "Writes the plan that was used to this file")
      ->group(kOutputGroup);
  options->schedule.add_to(*verb);
  options->checkpoints.add_to(*verb);
  options->validation.add_to(*verb);
  options->log.add_to(*verb);
  options->preview.add_to(*verb);
  options->watch.add_to(*verb);
  options->common.add_workloads_own_to(*verb);
  verb->callback([=, &cli, &chosen] {
    if (options->epochs && verb->count("--steps") > 0)
      throw Refused("--epochs and --steps both say how long to train: leave one of them out");
    chosen = [options, &cli] { return train(*options, cli); };
  });
}

}  // namespace slipstream
