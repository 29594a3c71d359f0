#include <CLI/CLI.hpp>
#include <iostream>
#include <limits>
#include <memory>

#include "cli/checkpoint_flags.h"
#include "cli/common_options.h"
#include "cli/preview.h"
#include "cli/train_summary.h"
#include "core/files.h"
#include "core/number_text.h"
#include "cuda/gpu_meter.h"
#include "engine/placement.h"
#include "report/progress_line.h"
#include "report/watch_report.h"
#include "slipstream/engine/trainer.h"
#include "training/fit.h"

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

/// Computes a model's scores on data that it is not trained on.
struct Validation {
  std::unique_ptr<Evaluator> evaluator;
  Plan plan;
};

/// Creates the validation on the data of --val, with the training's other options.
std::optional<Validation> make_validation(const TrainOptions& options, const Trainer& trainer,
                                          const std::optional<Plan>& file,
                                          const LoaderPlan& loader) {
  if (options.validation.val.empty()) return std::nullopt;
  const Pipeline data = options.common.declare_on(options.validation.val);
  check_same_classes(*trainer.pipeline().dataset(), *data.dataset());
  auto evaluator =
      std::make_unique<Evaluator>(trainer.pipeline(), data, trainer.context(), trainer.numerics());
  LoaderPlan own = file ? file->schedule.loader : loader;
  own.cache.reset();
  const std::string mode = file                     ? file->schedule.mode
                           : options.plan == "auto" ? "pipelined"
                                                    : options.plan;
  Plan plan = evaluation_plan(evaluator->pipeline(), mode, options.transforms_device,
                              trainer.context().kind(), own, trainer.numerics());
  return Validation{std::move(evaluator), std::move(plan)};
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

/// One training. Members are in the order of their construction.
class Training final : private FitSteps {
 public:
  Training(const TrainOptions& options, const Cli& cli)
      : options_(options),
        cli_(cli),
        json_(options.json),
        plan_out_(options.plan_out),
        line_(std::cerr, {.columns = [] { return terminal_columns(2); },
                          .facts =
                              [this](const Progress& progress) {
                                return training_facts(trainer_->pipeline(), steps_, history_,
                                                      progress);
                              }}),
        watch_(options.watch.json, options.watch.prometheus, line_),
        picture_(options.preview.path),
        context_(options.common.device) {
    cli.check_interrupt();
    environment_ = collect_environment(context_);  // before the run itself loads the machine
    declare();
    bind();
  }

  /// Ends the progress line first, because it uses members that are destroyed before it.
  ~Training() override { line_.finish(); }
  Training(const Training&) = delete;
  Training& operator=(const Training&) = delete;

  int run() {
    const int code = fit();
    preview_->write(cli_.interrupted);
    return code;
  }

 private:
  int fit() {
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
    FitResult result =
        Fit(*trainer_, fit_options(), history_, *this, log_ ? &*log_ : nullptr).run();
    result.run.digest = trainer_->digest();
    watch_.finish();
    const std::string problem_of_log = log_ ? log_->finish() : "";
    line_.finish();
    const int code = report(std::move(result), read_gpu_use(meter.get()));
    if (!problem_of_log.empty()) std::cerr << "warning: " << problem_of_log << "\n";
    std::cout << watch_.summary();
    const Plan& plan = report_->result.plan;
    write_all({{&json_, run_report_json(*report_)},
               {&plan_out_, plan.schedule.lanes.empty() ? known_plan() : to_json_text(plan)}});
    return history_.is_lost && code == kDone ? kFailed : code;
  }

  void declare() {
    if (options_.plan != "auto" && !is_plan_mode(options_.plan))
      file_ = options_.common.plan_file(options_.plan, context_, {"auto"});
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
    if (file_) plan_ = *file_;
    if (is_plan_mode(options_.plan)) plan_ = mode_plan(options_.plan);
    criterion_ = fit_criterion(trainer_->pipeline(), options_.validation.keep_best, "--keep-best");
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
    history_ = {trainer_->position(), loaded_, criterion_};
    if (!options_.log.dir.empty())
      log_.emplace(
          options_.log, *trainer_, !options_.checkpoints.resume.empty(),
          make_run_facts(cli_.command(), environment_, workload_, *trainer_, steps_, known_plan()));
  }

  Plan mode_plan(const std::string& mode) const {
    return placed_plan(trainer_->pipeline(), mode, options_.transforms_device, context_.kind(),
                       loader_, trainer_->numerics());
  }

  /// Returns the plan as JSON, or "" if the run will choose it.
  std::string known_plan() const { return plan_ ? to_json_text(*plan_) : ""; }

  FitOptions fit_options() const {
    return {.steps = steps_,
            .evaluates = validation_.has_value(),
            .saves = checkpoints_ != nullptr,
            .criterion = criterion_,
            .criterion_option = "--keep-best " + criterion_,
            .early_stop = options_.validation.early_stop};
  }

  RunResult train(RunOptions part) override {
    part.stop = cli_.interrupted;
    if (checkpoints_ != nullptr) checkpoints_->save_during(part);
    RunResult result = plan_ ? trainer_->run(*plan_, part) : find_plan(part);
    if (result.graphs)
      for (const std::string& warning : result.graphs->warnings)
        line_.print("warning: " + printable_name(warning));
    if (checkpoints_ != nullptr) checkpoints_->set_plan(to_json_text(result.plan));
    return result;
  }

  RunResult find_plan(const RunOptions& part) {
    std::optional<Plan> graph;
    if (context_.kind() == DeviceKind::cuda) graph = mode_plan("graph");
    AutoResult found =
        run_auto(*trainer_, mode_plan("serial"), mode_plan("pipelined"), part, graph);
    choice_ = std::move(found.choice);
    plan_ = found.run.plan;
    return std::move(found.run);
  }

  EvaluationResult evaluate() override {
    RunOptions run;
    run.stop = cli_.interrupted;
    return validation_->evaluator->run(validation_->plan, run);
  }

  bool save(const std::optional<CheckpointScore>& score) override {
    return checkpoints_->save(score);
  }

  void report_problem() override {
    const std::string problem = checkpoints_ != nullptr ? checkpoints_->problem() : "";
    if (!problem.empty()) line_.print("warning: could not save " + problem);
  }

  void show(const Progress& progress) override {
    line_.update(progress);
    if (progress.measuring.empty()) watch_.update(progress);
    report_problem();
  }

  void end_epoch(const EpochResult& epoch) override {
    line_.clear();
    print_epoch(epoch, trainer_->pipeline().train_step()->lr(epoch.row.step - 1));
  }

  int report(FitResult fit, std::optional<GpuUseInfo> gpu) {
    report_.emplace(
        RunReport{environment_, workload_, std::move(fit.run), std::move(gpu), std::nullopt});
    report_->class_names = trainer_->pipeline().dataset()->class_names();
    if (options_.plan == "auto") report_->auto_choice = choice_;
    report_->validation = fit.scores;
    const RunResult& done = report_->result;
    print_summary(*report_, fit.ended.empty() ? steps_ - done.first_step : done.steps);
    if (!fit.ended.empty()) std::cout << fit.ended << "\n";
    if (!fit.scores.empty()) print_scores(fit.scores, history_, trainer_->pipeline());
    return done.interrupted ? kInterrupted : kDone;
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
  std::uint64_t steps_ = 0;  ///< number of steps of the whole training
  LoaderPlan loader_;
  std::optional<Trainer> trainer_;
  std::optional<Validation> validation_;
  std::optional<Preview> preview_;
  std::unique_ptr<Checkpoints> checkpoints_;
  std::optional<LoadedCheckpoint> loaded_;
  std::optional<RunLogging> log_;
  std::string criterion_;
  FitHistory history_;
  std::optional<Plan> plan_;  ///< empty: the first part of the run will choose it
  AutoChoice choice_;
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
  verb->add_option("--plan", options->plan,
                   "Plan: pipelined, serial, graph (pipelined with CUDA graphs), auto (measures "
                   "these and keeps "
                   "the fastest one), or a JSON file")
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
      throw Refused(
          "--epochs and --steps both set the length of the training: leave one of them out");
    chosen = [options, &cli] { return train(*options, cli); };
  });
}

}  // namespace slipstream
