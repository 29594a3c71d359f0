#include "slipstream/engine/checkpoint.h"

#include <c10/core/StreamGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/nn/module.h>

#include <condition_variable>
#include <functional>
#include <mutex>
#include <set>
#include <thread>

#include "core/files.h"
#include "core/fingerprint.h"
#include "core/start_thread.h"
#include "cuda/cuda.h"
#include "engine/access.h"
#include "engine/checkpoint_folder.h"
#include "engine/checkpoint_record.h"
#include "engine/checkpoint_tensors.h"
#include "engine/copy_values.h"
#include "engine/trainer_impl.h"

namespace slipstream {
namespace {

namespace fs = std::filesystem;

/// Name of the file with State::order, which only trainings with a lister have.
constexpr const char* kOrderFile = "sampler.pt";

std::string describe_order(const Pipeline& pipeline) {
  if (pipeline.lister() != nullptr) return "listed by a sampler";
  const SampleOptions& options = pipeline.options();
  std::string order = options.shuffle ? "shuffled" : "by number";
  if (options.sampler.size()) order += ", sampled by weight or class";
  if (!options.drop_last) order += ", the last batch filled up";
  return order;
}

/// Returns a record with the values that stay the same during a training.
CheckpointRecord make_record(const Pipeline& pipeline) {
  return {.seed = pipeline.options().seed,
          .batch_size = pipeline.options().batch_size,
          .samples = pipeline.dataset()->size(),
          .accumulate = pipeline.training().accumulate,
          .data = pipeline.dataset()->identity(),
          .order = describe_order(pipeline)};
}

void check_same_training(const CheckpointRecord& there, const CheckpointRecord& here,
                         const fs::path& path) {
  std::vector<std::string> problems;
  const auto check = [&](const std::string& what, std::uint64_t is, std::uint64_t was) {
    if (is != was)
      problems.push_back(path.string() + ": the checkpoint has " + what + " " +
                         std::to_string(was) + ", this training " + std::to_string(is) +
                         "; at the checkpoint's position this training would use other samples");
  };
  check("seed", here.seed, there.seed);
  check("batch size", here.batch_size, there.batch_size);
  check("a data set of size", here.samples, there.samples);
  check("batches accumulated for an update:", here.accumulate, there.accumulate);
  if (here.data != there.data)
    problems.push_back(path.string() + ": the checkpoint is of another data set");
  if (here.order != there.order)
    problems.push_back(path.string() + ": the order of samples differs; the checkpoint's: " +
                       there.order + "; this training's: " + here.order);
  refuse(problems);
}

void check_copied_whole(const State& from, const State& to, const fs::path& path) {
  std::vector<std::string> problems;
  for (std::size_t i = 0; i < to.model.size(); ++i) {
    const std::string lost =
        lost_by_copy(to.model[i].name, to.model[i].tensor, from.model[i].tensor);
    if (!lost.empty()) problems.push_back(path.string() + ": " + lost);
  }
  refuse(problems);
}

void write_order(const State& state, const fs::path& folder, FileFingerprints& fingerprints) {
  if (state.order.empty()) return;
  fingerprints[kOrderFile] = fingerprint(state.order.data(), state.order.size());
  const auto bytes = std::as_bytes(std::span(state.order));
  write_file_durably(folder / kOrderFile, {&bytes, 1});
}

/// Reads the file of write_order() and removes it from `fingerprints`. Returns "" if there is none.
std::string read_order(const fs::path& folder, FileFingerprints& fingerprints) {
  const auto found = fingerprints.extract(kOrderFile);
  if (found.empty()) return "";
  std::string order;
  try {
    order = read_text(folder / kOrderFile, kMostWrittenBytes);
  } catch (const Error& error) {
    throw DamagedCheckpoint(error.what());
  }
  if (fingerprint(order.data(), order.size()) != found.mapped())
    throw DamagedCheckpoint((folder / kOrderFile).string() +
                            " is damaged: its content is not what was written");
  return order;
}

CheckpointRecord read_record(const fs::path& folder) {
  std::string text;
  try {
    text = read_text(folder / kRecordFile, kMostWrittenBytes);
  } catch (const Error& error) {
    throw DamagedCheckpoint(error.what());
  }
  try {
    return parse_checkpoint_record(text);
  } catch (const LaterCheckpoint& later) {
    throw Refused((folder / kRecordFile).string() + ": " + later.what());
  } catch (const Refused& refused) {
    throw DamagedCheckpoint((folder / kRecordFile).string() + ": " + refused.what());
  }
}

}  // namespace

struct Checkpoints::Impl {
  Impl(CheckpointOptions given, Trainer& of)
      : options(std::move(given)),
        trainer(of),
        folder(options.folder),
        training(make_record(of.pipeline())),
        steps_of_epoch(static_cast<double>(of.pipeline().batches_per_epoch())) {
    for (const NamedModule& each : trainer.pipeline().train_step()->modules())
      for (const auto& parameter : each.module->named_parameters())
        parameters.insert((each.name.empty() ? "" : each.name + ".") + parameter.key());
    writer = start_thread([this] { work(); });
  }
  ~Impl() {
    {
      const std::lock_guard lock(mutex);
      is_over = true;
    }
    changed.notify_all();
    writer.join();
  }

  bool is_due(std::uint64_t position) {
    if (options.save_every == 0 || position % options.save_every != 0) return false;
    const std::lock_guard lock(mutex);
    // At most one copy of the state exists at a time, because it takes device memory. While one is
    // requested or being written, a checkpoint is skipped.
    if (next || is_writing || is_awaited) return false;
    is_awaited = true;
    return true;
  }

  void take(State state) {
    const std::lock_guard lock(mutex);
    is_awaited = false;
    next = std::move(state);
    changed.notify_all();
  }

  void work() {
    const c10::Device device = trainer.context().device();
    std::optional<c10::StreamGuard> stream;
    if (device.is_cuda()) {
      cuda::begin_thread(device.index());
      // The copies to the host run on a separate stream, not on the stream of a lane.
      stream.emplace(
          c10::cuda::getStreamFromPool(/*isHighPriority=*/false, device.index()).unwrap());
    }
    std::unique_lock lock(mutex);
    while (true) {
      changed.wait(lock, [this] { return next || is_over; });
      if (!next) return;
      State state = std::move(*next);
      next.reset();
      is_writing = true;
      lock.unlock();
      write(state);
      // Frees the copy on the device before the next one is requested.
      state = {};
      lock.lock();
      is_writing = false;
      changed.notify_all();
    }
  }

  /// Takes over the scores of a loaded checkpoint. Also sets the link `best`, because the process
  /// may have been killed before it was set.
  void go_on_from(const LoadedCheckpoint& loaded) {
    scored_step = loaded.scored_step;
    best_scores = loaded.best_scores;
    if (!loaded.best) return;
    best = BestScore{loaded.best->metric, loaded.best->value, loaded.best_step};
    epochs_since_best = loaded.best->epochs_since_best;
    for (const FoundCheckpoint& each : checkpoints_in(folder.path()))
      if (each.step == best->step) try_to([&] { folder.set_best(each.step); });
  }

  void take_score(const CheckpointScore& score, std::uint64_t step) {
    scored_step = step;
    epochs_since_best = score.epochs_since_best;
    best_scores = score.best_scores;
    if (score.is_best) best = BestScore{score.metric, score.value, step};
  }

  /// Checks the weights themselves, because a finite loss does not show whether the step's update
  /// made them infinite or NaN.
  void check_finite(const State& state) const {
    for (const auto& [name, tensor] : state.model)
      if (parameters.contains(name) && tensor.is_floating_point() &&
          !tensor.detach().isfinite().all().item<bool>())
        throw Error("the weights '" + printable_name(name) + "' are not finite");
  }

  void wait_until_idle() {
    std::unique_lock lock(mutex);
    changed.wait(lock, [this] { return !next && !is_writing; });
    // A run that failed may have requested a state that it never delivered. Without this, no
    // further state would be requested.
    is_awaited = false;
  }

  void add(const State& state) {
    if (!state.failure.empty()) throw Error(state.failure);
    check_finite(state);
    CheckpointRecord record = training;
    record.step = state.position;
    record.epoch = static_cast<double>(state.position) / steps_of_epoch;
    record.loss_digest = state.loss_digest;
    record.epoch_loss_sum = state.epoch_losses.sum;
    record.epoch_loss_steps = state.epoch_losses.steps;
    record.best = best;
    record.epochs_since_best = epochs_since_best;
    record.scored_step = scored_step;
    for (const BestOfScore& each : best_scores)
      record.best_scores.push_back({each.metric, each.value, each.step});
    record.program = options.program;
    record.plan = plan;
    record.notes = options.notes;
    folder.add(state.position, [&](const fs::path& into) {
      record.fingerprints = write_tensors(state, into);
      write_order(state, into, record.fingerprints);
      const std::string text = to_json_text(record);
      const auto bytes = std::as_bytes(std::span(text));
      write_file_durably(into / kRecordFile, {&bytes, 1});
    });
  }

  /// Writes the state. Returns true if it was written.
  bool write(const State& state) {
    const std::string what = "the checkpoint of step " + std::to_string(state.position);
    if (!try_to([&] { add(state); }, what)) return false;
    try_to([&] { folder.set_last(state.position); }, what);
    if (best && best->step == state.position)
      try_to([&] { folder.set_best(state.position); }, what);
    // Last, because keep() does not remove the checkpoints that the links refer to, so the links
    // must have been updated before.
    try_to([&] { folder.keep(options.keep_last, state.position); }, what);
    return true;
  }

  bool try_to(const std::function<void()>& call, const std::string& what = "the best checkpoint") {
    try {
      call();
      return true;
    } catch (const std::exception& error) {
      const std::lock_guard lock(mutex);
      problem = what + ": " + error.what();
      return false;
    }
  }

  CheckpointOptions options;
  Trainer& trainer;
  CheckpointFolder folder;
  const CheckpointRecord training;  ///< the values that are the same in all records
  const double steps_of_epoch;
  std::set<std::string> parameters;  ///< names
  std::string plan;
  std::optional<BestScore> best;
  std::vector<BestOfScore> best_scores;
  std::uint64_t epochs_since_best = 0, scored_step = 0;
  std::mutex mutex;
  std::condition_variable changed;
  std::optional<State> next;
  bool is_awaited = false;  ///< a state was requested and has not arrived yet
  bool is_writing = false;
  bool is_over = false;
  std::string problem;
  std::jthread writer;
};

Checkpoints::Checkpoints(CheckpointOptions options, Trainer& trainer) {
  std::vector<std::string> problems = unstorable(Access::of(trainer).state.live());
  for (std::string& each : problems) each = "this training cannot be saved: " + each;
  refuse(problems);
  impl_ = std::make_unique<Impl>(std::move(options), trainer);
}
Checkpoints::~Checkpoints() = default;

void Checkpoints::save_during(RunOptions& options) {
  impl_->wait_until_idle();
  options.wants_state = [this](std::uint64_t position) { return impl_->is_due(position); };
  options.on_state = [this](State state) { impl_->take(std::move(state)); };
}

bool Checkpoints::save(const std::optional<CheckpointScore>& score) {
  impl_->wait_until_idle();
  const State state = Access::of(impl_->trainer).state.live();
  const auto best = impl_->best;
  const auto best_scores = impl_->best_scores;
  const std::uint64_t epochs = impl_->epochs_since_best, scored = impl_->scored_step;
  // The checkpoint itself contains the new score. If it cannot be written, the old values are
  // restored, because `best` would name a checkpoint that does not exist.
  if (score) impl_->take_score(*score, state.position);
  if (impl_->write(state)) return true;
  impl_->best = best;
  impl_->best_scores = best_scores;
  impl_->epochs_since_best = epochs;
  impl_->scored_step = scored;
  return false;
}

std::string Checkpoints::problem() {
  const std::lock_guard lock(impl_->mutex);
  return std::exchange(impl_->problem, "");
}

std::optional<LoadedCheckpoint> Checkpoints::load_latest() {
  impl_->wait_until_idle();
  std::optional<LoadedCheckpoint> loaded =
      load_latest_checkpoint(impl_->trainer, impl_->folder.path());
  if (!loaded) return loaded;
  impl_->go_on_from(*loaded);
  // The link may be missing because the process was killed before it was set, or it may refer to
  // the damaged checkpoint that was skipped.
  impl_->try_to([&] { impl_->folder.set_last(loaded->step); }, "the last checkpoint");
  return loaded;
}

LoadedCheckpoint Checkpoints::load(const fs::path& path) {
  impl_->wait_until_idle();
  const std::vector<FoundCheckpoint> own = checkpoints_in(impl_->folder.path());
  if (!own.empty() && own.front().step > read_record(path).step)
    throw Refused(impl_->folder.path().string() + " has checkpoints that are later than " +
                  path.string() + ", up to step " + std::to_string(own.front().step) +
                  ": give another folder, or remove them");
  LoadedCheckpoint loaded = load_checkpoint(impl_->trainer, path);
  impl_->go_on_from(loaded);
  return loaded;
}

void Checkpoints::set_plan(std::string json) {
  impl_->wait_until_idle();
  impl_->plan = std::move(json);
}

LoadedCheckpoint load_checkpoint(Trainer& trainer, const fs::path& path) {
  std::error_code failed;
  if (!fs::is_directory(path, failed))
    throw Refused("there is no checkpoint at " + path.string() +
                  ": a checkpoint is a folder such as step-00000100");
  CheckpointRecord record = read_record(path);
  if (const auto named = parse_step(path); named && *named != record.step)
    throw DamagedCheckpoint(path.string() + " is damaged: its record is of step " +
                            std::to_string(record.step));
  // The tensors are read into a copy, and the trainer changes only after all checks, so that a
  // refused checkpoint leaves it as it was.
  State state = trainer.state();
  state.order = read_order(path, record.fingerprints);
  read_tensors(path, record.fingerprints, state);
  check_same_training(record, make_record(trainer.pipeline()), path);
  check_copied_whole(state, Access::of(trainer).state.live(), path);
  state.position = record.step;
  state.loss_digest = record.loss_digest;
  state.epoch_losses = {record.epoch_loss_sum, record.epoch_loss_steps};
  state.failure.clear();
  trainer.restore(state);
  LoadedCheckpoint loaded{.path = path, .step = record.step, .scored_step = record.scored_step};
  if (record.best) {
    loaded.best =
        CheckpointScore{record.best->metric, record.best->value, true, record.epochs_since_best};
    loaded.best_step = record.best->step;
  }
  for (const BestScore& each : record.best_scores)
    loaded.best_scores.push_back({each.metric, each.value, each.step});
  if (loaded.best_scores.empty() && record.best)
    loaded.best_scores.push_back({record.best->metric, record.best->value, record.best->step});
  return loaded;
}

std::optional<LoadedCheckpoint> load_latest_checkpoint(Trainer& trainer, const fs::path& folder) {
  std::vector<std::string> passed_over;
  for (const FoundCheckpoint& found : checkpoints_in(folder)) try {
      LoadedCheckpoint loaded = load_checkpoint(trainer, found.path);
      loaded.passed_over = std::move(passed_over);
      return loaded;
    } catch (const DamagedCheckpoint& damaged) {
      passed_over.emplace_back(damaged.what());
    }
  if (passed_over.empty()) return std::nullopt;
  std::string message = "no checkpoint in " + folder.string() + " can be read:";
  for (const std::string& each : passed_over) message += "\n  " + each;
  throw Refused(message);
}

}  // namespace slipstream
