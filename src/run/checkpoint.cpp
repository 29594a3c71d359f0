#include "slipstream/run/checkpoint.h"

#include <c10/core/DeviceGuard.h>
#include <c10/core/StreamGuard.h>
#include <c10/cuda/CUDAStream.h>

#include <condition_variable>
#include <mutex>
#include <thread>

#include "checkpoints/checkpoint_folder.h"
#include "checkpoints/checkpoint_record.h"
#include "core/files.h"
#include "core/plain_message.h"
#include "run/checkpoint_tensors.h"

namespace slipstream {
namespace {

namespace fs = std::filesystem;

CheckpointRecord record_of(const Trainer& trainer, std::uint64_t step) {
  const Pipeline& pipeline = trainer.pipeline();
  const auto epoch_steps = static_cast<double>(pipeline.batches_per_epoch());
  return {.step = step,
          .epoch = static_cast<double>(step) / epoch_steps,
          .seed = pipeline.options().seed,
          .batch_size = pipeline.options().batch_size,
          .samples = pipeline.dataset()->size()};
}

void check_same_training(const CheckpointRecord& there, const CheckpointRecord& here,
                         const fs::path& path) {
  std::vector<std::string> problems;
  const auto check = [&](const std::string& what, std::uint64_t is, std::uint64_t was) {
    if (is != was)
      problems.push_back(path.string() + ": the checkpoint has " + what + " " +
                         std::to_string(was) + ", this training " + std::to_string(is) +
                         "; its position means other samples");
  };
  check("seed", here.seed, there.seed);
  check("batch size", here.batch_size, there.batch_size);
  check("a data set of size", here.samples, there.samples);
  refuse(problems);
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
      : options(std::move(given)), trainer(of), folder(options.folder) {
    writer = std::thread([this] { work(); });
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
    return !next && !is_writing;
  }

  void take(State state) {
    const std::lock_guard lock(mutex);
    if (next || is_writing) return;
    next = std::move(state);
    changed.notify_all();
  }

  void work() {
    const c10::Device device = trainer.context().device();
    const c10::DeviceGuard on(device);
    std::optional<c10::StreamGuard> stream;
    if (device.is_cuda())
      stream.emplace(
          c10::cuda::getStreamFromPool(/*isHighPriority=*/false, device.index()).unwrap());
    std::unique_lock lock(mutex);
    while (true) {
      changed.wait(lock, [this] { return next || is_over; });
      if (!next) return;
      State state = std::move(*next);
      next.reset();
      is_writing = true;
      lock.unlock();
      write(state, std::nullopt);
      state = {};
      lock.lock();
      is_writing = false;
      changed.notify_all();
    }
  }

  bool write(const State& state, const std::optional<CheckpointScore>& score) try {
    if (!state.spoiled_by.empty()) throw Error(state.spoiled_by);
    CheckpointRecord record = record_of(trainer, state.position);
    record.loss_digest = state.loss_digest;
    record.program = options.program;
    record.plan = options.plan;
    std::optional<CheckpointScore> now = best;
    if (score && (score->is_best || !now)) now = score;
    if (score && now) now->epochs_since_best = score->epochs_since_best;
    if (now) {
      if (score && score->is_best) now->step = state.position;
      record.best = BestScore{now->metric, now->value, now->step};
      record.epochs_since_best = now->epochs_since_best;
    }
    folder.add(state.position, [&](const fs::path& into) {
      record.fingerprints = write_tensors(state, into);
      const std::string text = to_json(record);
      const auto bytes = std::as_bytes(std::span(text));
      write_file_durably(into / kRecordFile, {&bytes, 1});
    });
    best = now;
    if (score && score->is_best) folder.set_best(state.position);
    folder.keep(options.keep);
    return true;
  } catch (const std::exception& error) {
    const std::lock_guard lock(mutex);
    problem = "checkpoint of step " + std::to_string(state.position) + ": " + error.what();
    return false;
  }

  CheckpointOptions options;
  Trainer& trainer;
  CheckpointFolder folder;
  std::optional<CheckpointScore> best;
  std::mutex mutex;
  std::condition_variable changed;
  std::optional<State> next;
  bool is_writing = false;
  bool is_over = false;
  std::string problem;
  std::thread writer;
};

Checkpoints::Checkpoints(CheckpointOptions options, Trainer& trainer)
    : impl_(std::make_unique<Impl>(std::move(options), trainer)) {}
Checkpoints::~Checkpoints() = default;

void Checkpoints::save_during(RunOptions& options) {
  options.wants_state = [this](std::uint64_t position) { return impl_->is_due(position); };
  options.on_state = [this](State state) { impl_->take(std::move(state)); };
}

bool Checkpoints::save(const std::optional<CheckpointScore>& score) {
  {
    std::unique_lock lock(impl_->mutex);
    impl_->changed.wait(lock, [this] { return !impl_->next && !impl_->is_writing; });
  }
  return impl_->write(impl_->trainer.state(), score);
}

std::string Checkpoints::problem() {
  const std::lock_guard lock(impl_->mutex);
  return std::exchange(impl_->problem, "");
}

std::optional<LoadedCheckpoint> Checkpoints::load_latest() {
  std::optional<LoadedCheckpoint> loaded =
      load_latest_checkpoint(impl_->trainer, impl_->folder.path());
  if (loaded) impl_->best = loaded->best;
  return loaded;
}

LoadedCheckpoint load_checkpoint(Trainer& trainer, const fs::path& path) {
  std::error_code failed;
  if (!fs::is_directory(path, failed))
    throw Refused("no checkpoint is at " + path.string() +
                  ": it is a folder such as step-00000100");
  const CheckpointRecord record = read_record(path);
  check_same_training(record, record_of(trainer, record.step), path);
  State state = trainer.state();
  read_tensors(path, record.fingerprints, state);
  state.position = record.step;
  state.loss_digest = record.loss_digest;
  state.spoiled_by.clear();
  trainer.restore(state);
  LoadedCheckpoint loaded{.path = path, .step = record.step};
  if (record.best)
    loaded.best = CheckpointScore{record.best->metric, record.best->value, false,
                                  record.epochs_since_best, record.best->step};
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
