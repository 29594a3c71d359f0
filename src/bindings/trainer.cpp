#include "bindings/trainer.h"

#include <filesystem>
#include <iostream>

#include "bindings/draws.h"
#include "bindings/gil.h"
#include "core/lane_threads.h"
#include "cuda/cuda.h"
#include "engine/checkpoint_folder.h"
#include "engine/context_parts.h"
#include "engine/environment.h"
#include "engine/placement.h"
#include "training/resume.h"

namespace slipstream {
namespace {

namespace py = pybind11;

/// Returns the loader's wire formats that are exact, or those that are not.
WireFormats choose_wire(const NativeLoader& loader, bool exact) {
  WireFormats some;
  for (const auto& [field, wire] : loader.options().wire)
    if (is_exact(wire) == exact) some[field] = wire;
  return some;
}

LoaderPlan make_loader_plan(const NativeLoader& loader) {
  const DataLoaderOptions& given = loader.options();
  LoaderPlan plan{given};
  plan.wire = choose_wire(loader, true);
  if (given.on_device > 0)
    plan.on_device = loader.transforms()[loader.transforms().size() - given.on_device].name;
  return plan;
}

}  // namespace

template <typename Call>
auto NativeTrainer::run_unlocked(Call call, SignalHandlers* handlers, std::thread::id owner) const {
  made_in_.require_this_process("this trainer");
  try {
    const GilRelease unlocked;
    const ContextLease taken(*context_, owner);
    std::optional<LaneThreads::PollScope> poll_scope;
    if (handlers != nullptr)
      poll_scope.emplace(get_threads(*context_), [handlers] { handlers->poll(); });
    return call();
  } catch (const std::exception& error) {
    rethrow_of_python(error);
    throw;
  }
}

NativeTrainer::NativeTrainer(const std::shared_ptr<NativeLoader>& loader,
                             const TrainerSettings& settings)
    : loader_(loader),
      context_(get_context(loader->context().device().str())),
      module_(settings.module),
      mode_(settings.plan),
      transforms_device_(
          settings.transforms_device.value_or(loader->options().on_device > 0 ? "cuda" : "cpu")),
      in_one_thread_(settings.in_one_thread),
      shows_progress_(settings.shows_progress),
      logging_(settings.log),
      command_(settings.command),
      steps_(settings.steps),
      workload_(settings.workload) {
  Context& context = *context_;
  Plan::Numerics numerics;
  numerics.precision = precision_named(settings.precision);
  numerics.deterministic = settings.deterministic;
  numerics.cudnn_benchmark = !settings.deterministic;
  numerics.channels_last = settings.channels_last;
  if (context.kind() == DeviceKind::cpu) numerics.intra_op_threads = {{"*", settings.threads}};
  numerics_ = make_plan("serial", {"copy", kTrainName}, context.kind(), {}, numerics).numerics;
  loading_ = make_loader_plan(*loader_);
  numerics_.wire = choose_wire(*loader_, false);
  saving_.folder = settings.checkpoint;
  saving_.save_every = settings.save_every;
  saving_.keep_last = settings.keep_last;
  if (saving_.save_every >= steps_) saving_.save_every = 0;  // the last step is saved anyway
  saving_.program = std::string(slipstream_version());
  if (mode_ != "auto" && !is_plan_mode(mode_)) throw Refused(unknown_plan(mode_, {"auto"}));
  check_transforms_device(transforms_device_, context.kind());
  Pipeline pipeline = build_pipeline(*loader_, settings, workload_);
  const GilRelease unlocked;
  saving_.notes = make_notes(workload_, pipeline.dataset()->class_names());
  trainer_.emplace(std::move(pipeline), context, numerics_);
  plan_ = build_plan(trainer_->pipeline(), mode_ == "auto" ? "pipelined" : mode_);
}

Plan NativeTrainer::build_plan(const Pipeline& pipeline, const std::string& mode) const {
  const DeviceKind kind = context_->kind();
  Plan plan = placed_plan(pipeline, mode, transforms_device_, kind, loading_, numerics_);
  // With the GIL, only one thread enqueues at a time, so threads are of no use on a GPU. On a CPU,
  // lanes overlap only if they have threads.
  if (kind == DeviceKind::cuda || mode == "serial" || in_one_thread_)
    plan.schedule.driver = Driver::interleaved;
  return plan;
}

std::unique_ptr<Checkpoints> NativeTrainer::taken_folder() {
  if (saving_.folder.empty()) return nullptr;
  auto taken = std::make_unique<Checkpoints>(saving_, *trainer_);
  taken->set_plan(known_plan());
  return taken;
}

void NativeTrainer::begin() {
  made_in_.require_this_process("this trainer");
  auto held = std::make_unique<ContextHold>(*context_);
  is_stopped_ = false;
  run_unlocked([&] {
    std::unique_ptr<Checkpoints> taken = taken_folder();
    if (taken == nullptr) return;
    std::vector<FoundCheckpoint> found = checkpoints_in(saving_.folder);
    std::erase_if(found, [&](const FoundCheckpoint& each) {
      return each.step > position() && passed_over_.contains(each.path);
    });
    if (!found.empty() && found.front().step > position())
      throw Refused(saving_.folder.string() + " has checkpoints of later steps, up to " +
                    std::to_string(found.front().step) + "; this trainer is at step " +
                    std::to_string(position()) +
                    ": continue from there with resume=\"auto\", or give another folder");
    if (!found.empty()) {
      const State now = trainer_->state();
      try {
        taken->load_latest();  // only for its best score
      } catch (const DeviceLost&) {
        throw;
      } catch (const Error&) {
        // Checkpoints of another training, and damaged ones, contain no score of this training.
      }
      trainer_->restore(now);
    }
    checkpoints_ = std::move(taken);
  });
  held_.push_back(std::move(held));
}

void NativeTrainer::end() {
  if (!is_here()) return;
  const GilRelease unlocked;
  checkpoints_.reset();
  if (!held_.empty()) held_.pop_back();
}

void NativeTrainer::select_criterion(const std::optional<std::string>& chosen) {
  criterion_ = fit_criterion(trainer_->pipeline(), chosen, "keep_best");
}

std::vector<std::string> NativeTrainer::open(const std::string& resume) {
  const GilRelease unlocked;
  const std::unique_ptr<Checkpoints> taken = taken_folder();
  if (resume == kLatest && taken == nullptr) throw Refused("resume=\"auto\" needs checkpoint=DIR");
  const std::optional<LoadedCheckpoint> loaded =
      load_resumed(*trainer_, taken.get(), saving_.folder, resume, "resume=\"auto\"");
  if (resume == kLatest)
    for (const FoundCheckpoint& each : checkpoints_in(saving_.folder))
      if (each.step > trainer_->position()) passed_over_.insert(each.path);
  history_ = {position(), loaded, criterion_};
  if (!logging_.dir.empty())
    log_.emplace(logging_, *trainer_, !resume.empty(),
                 make_run_facts(command_, collect_environment(*context_), workload_, *trainer_,
                                steps_, known_plan()));
  return loaded ? loaded->passed_over : std::vector<std::string>();
}

void NativeTrainer::show(const Progress& progress) {
  if (!shows_progress_) return;
  if (line_ == nullptr)
    line_ = std::make_unique<ProgressLine>(
        std::cerr, ProgressLineOptions{.columns = [] { return terminal_columns(2); },
                                       .facts =
                                           [this](const Progress& p) {
                                             return training_facts(trainer_->pipeline(), steps_,
                                                                   history_, p);
                                           }});
  line_->update(progress);
}

RunResult NativeTrainer::run(const RunOptions& options) {
  if (mode_ != "auto") return trainer_->run(plan_, options);
  std::optional<Plan> graph;
  if (context_->kind() == DeviceKind::cuda) graph = build_plan(trainer_->pipeline(), "graph");
  AutoResult result = run_auto(*trainer_, build_plan(trainer_->pipeline(), "serial"),
                               build_plan(trainer_->pipeline(), "pipelined"), options, graph);
  if (result.run.interrupted) return std::move(result.run);
  mode_ = result.choice.chosen;
  plan_ = result.run.plan;
  if (checkpoints_ != nullptr) checkpoints_->set_plan(known_plan());
  return std::move(result.run);
}

RunResult NativeTrainer::train(RunOptions options, const std::exception_ptr& raised) {
  SignalHandlers handlers;
  options.stop = [&] {
    return is_stopped_ || raised || handlers.has_raised() || Interrupts::count() > 0;
  };
  const auto trained = [&] {
    const KeyedDraws draws(context_->device(), loader_->options().seed, position());
    PythonModes modes(module_);
    modes.set(/*trains=*/true);
    if (checkpoints_ != nullptr) checkpoints_->save_during(options);
    RunResult done = run(options);
    modes.restore();
    return done;
  };
  RunResult result = run_unlocked(trained, &handlers);
  loader_->add_skipped(result.skipped);
  if (line_ != nullptr) line_->clear();
  if (raised) std::rethrow_exception(raised);
  handlers.rethrow();
  if (result.graphs)
    for (const std::string& warning : result.graphs->warnings)
      py::module_::import("warnings")
          .attr("warn")("slipstream: " + warning, py::arg("stacklevel") = 2);
  return result;
}

std::uint64_t NativeTrainer::digest() const {
  return run_unlocked([&] { return trainer_->digest(); });
}

void NativeTrainer::restore(const std::string& path) {
  if (log_)
    throw Refused(
        "log_dir: a run folder cannot go back to another step; create another trainer, with " +
        ("resume='" + path + "'"));
  const LoadedCheckpoint loaded = run_unlocked([&] { return load_checkpoint(*trainer_, path); });
  history_ = {position(), loaded, criterion_};
}

bool NativeTrainer::save(const std::optional<CheckpointScore>& score) {
  if (checkpoints_ == nullptr) return false;
  return run_unlocked([&] { return checkpoints_->save(score); });
}

std::string NativeTrainer::problem() {
  if (!is_here()) return "";
  const std::string problem = checkpoints_ == nullptr ? "" : checkpoints_->problem();
  return problem.empty() ? "" : "could not save " + problem;
}

std::string NativeTrainer::finish() {
  if (!is_here()) return "";
  if (line_ != nullptr) line_->finish();
  return log_ ? log_->finish() : "";
}

std::vector<NamedTensor> NativeTrainer::averages() const {
  return run_unlocked([&] {
    std::vector<NamedTensor> all = trainer_->pipeline().train_step()->averaged();
    for (NamedTensor& each : all) each.tensor = each.tensor.clone();
    return all;
  });
}

NativeEvaluator::NativeEvaluator(std::shared_ptr<NativeTrainer> trainer,
                                 std::shared_ptr<NativeLoader> given, bool counts_scores,
                                 bool may_differ)
    : trainer_(std::move(trainer)), loader_(std::move(given)) {
  const std::shared_ptr<NativeLoader>& loader = loader_;
  const NativeTrainer& of = *trainer_;
  of.made_in_.require_this_process("this trainer");
  Context& context = *of.context_;
  if (context.device() != loader->context().device())
    throw Refused("the loader loads batches for " + loader->context().device().str() +
                  ", but the trainer's device is " + context.device().str() +
                  ": use the same device for both");
  const Pipeline data = make_data_pipeline(*loader, /*is_evaluated=*/true);
  EvaluationOptions options;
  options.same_images = counts_scores && !may_differ;
  options.allowed_by = "give the trainer val_may_differ=True, or evaluate() may_differ=True";
  if (counts_scores) options.on_bad_sample = data.options().on_bad_sample;
  const GilRelease unlocked;
  evaluator_ =
      std::make_unique<Evaluator>(of.trainer_->pipeline(), data, context, of.numerics_, options);
  LoaderPlan loading = make_loader_plan(*loader);
  loading.wire = of.loading_.wire;
  plan_ = evaluation_plan(evaluator_->pipeline(), of.plan_.schedule.mode, of.transforms_device_,
                          context.kind(), loading, of.numerics_);
  plan_.schedule.driver = of.plan_.schedule.driver;
}

EvaluationResult NativeEvaluator::evaluate() {
  RunOptions options;
  SignalHandlers handlers;
  options.stop = [&] { return is_stopped_ || handlers.has_raised() || Interrupts::count() > 0; };
  const auto evaluated = [&] {
    const KeyedDraws draws(trainer_->context_->device(), 0, 0);
    PythonModes modes(trainer_->module_);
    modes.set(/*trains=*/false);
    EvaluationResult done = evaluator_->run(plan_, options);
    modes.restore();
    return done;
  };
  EvaluationResult result = trainer_->run_unlocked(evaluated, &handlers);
  loader_->add_skipped(result.run.skipped);
  handlers.rethrow();
  return result;
}

bool NativeEvaluator::predict(const py::object& take) {
  // At the same time, the caller's thread may capture a CUDA graph.
  const cuda::RelaxedCaptureScope captures;
  std::exception_ptr raised;
  bool is_over = false;
  RunOptions options;
  options.stop = [&] { return is_over || raised || Interrupts::count() > 0; };
  const auto given = [&](std::uint64_t, const std::vector<at::Tensor>& outputs) {
    if (is_over || raised) return;
    const GilAcquire locked;
    try {
      is_over = !take(outputs.front()).cast<bool>();
    } catch (const py::error_already_set&) {
      raised = std::current_exception();
    }
  };
  const auto kept = [](const at::Tensor& output) { return std::vector<at::Tensor>{output}; };
  const auto run = [&] {
    const KeyedDraws draws(trainer_->context_->device(), 0, 0);
    PythonModes modes(trainer_->module_);
    modes.set(/*trains=*/false);
    RunResult done = evaluator_->predict(plan_, kept, given, options);
    modes.restore();
    return done;
  };
  const RunResult result = trainer_->run_unlocked(run, nullptr, made_by_);
  if (raised) std::rethrow_exception(raised);
  return !result.interrupted || is_over;
}

}  // namespace slipstream
