#include <algorithm>
#include <limits>
#include <tuple>

#include "slipstream/error.h"
#include "slipstream/pipeline_model.h"

namespace slipstream {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr std::size_t kFewestBatches = 24;
constexpr std::size_t kMostBatches = 600;
constexpr std::size_t kSamples = 4000;

enum class Need : std::uint8_t { nothing, time, core, memory, lock };

/// A stretch of one sample's way through the steps.
struct Part {
  Need need;
  double seconds;
};

/// One thread: a worker, a reader or the training line.
struct Thread {
  Need need = Need::nothing;
  double left_s = 0;
  std::uint64_t sample = 0;
  std::size_t part = 0;
  bool is_idle = true;
};

class Simulation {
 public:
  Simulation(const PipelineModel& model, std::uint64_t seed)
      : model_(model),
        first_behind_readers_(model.readers > 0 && !model.steps.empty() ? 1 : 0),
        workers_(model.workers),
        readers_(first_behind_readers_ > 0 ? model.readers : 0),
        filled_(model.slabs, 0) {
    for (const auto& step : model.steps) offset_ = std::max(offset_, step.waiting_s.size());
    offset_ = offset_ > 0 ? seed * 7919 % offset_ : 0;
    batches_ = std::clamp(kSamples / model.batch_size, kFewestBatches, kMostBatches) + model.slabs;
  }

  double step_s() {
    const std::uint64_t first = model_.slabs + 2;
    double first_s = 0;
    start();
    while (taken_ < batches_) {
      advance();
      if (taken_ == first && first_s == 0) first_s = now_s_;
    }
    return (now_s_ - first_s) / static_cast<double>(batches_ - first);
  }

 private:
  /// The stretch `part` of `sample`'s steps from `first` to before `last`; nothing behind them.
  Part part_of(std::uint64_t sample, std::size_t part, std::size_t first, std::size_t last) const {
    const std::size_t step = first + part / 3;
    if (step >= last) return {Need::nothing, 0};
    const PipelineModel::Step& of = model_.steps[step];
    const std::size_t at = (sample + offset_) % of.waiting_s.size();
    const double waiting = of.waiting_s[at], working = of.working_s[at];
    const double free = 1 - of.locked;
    if (part % 3 == 0) return {Need::lock, of.locked * (waiting + working)};
    if (part % 3 == 1) return {Need::time, free * waiting};
    return {of.is_memory_bound ? Need::memory : Need::core, free * working};
  }

  bool can_open(std::uint64_t sample) const {
    return sample / model_.batch_size < taken_ + model_.slabs;
  }

  void next_part(Thread& thread, std::size_t first, std::size_t last) {
    Part part{Need::nothing, 0};
    do {
      part = part_of(thread.sample, thread.part++, first, last);
    } while (part.need != Need::nothing && part.seconds <= 0);
    thread.need = part.need;
    thread.left_s = part.seconds;
  }

  void start_reader(Thread& reader) {
    const std::uint64_t ahead = 2 * static_cast<std::uint64_t>(model_.readers);
    if (next_read_ >= next_sample_ + ahead) return;
    reader = {Need::nothing, 0, next_read_++, 0, false};
    next_part(reader, 0, first_behind_readers_);
    if (reader.need == Need::nothing) finish_reading(reader);
  }

  void finish_reading(Thread& reader) {
    reader.is_idle = true;
    ++read_;
  }

  void start_worker(Thread& worker) {
    if (!can_open(next_sample_)) return;
    if (first_behind_readers_ > 0 && next_sample_ >= read_) return;
    worker = {Need::nothing, 0, next_sample_++, 0, false};
    next_part(worker, first_behind_readers_, model_.steps.size());
    if (worker.need == Need::nothing) finish_sample(worker);
  }

  void finish_sample(Thread& worker) {
    worker.is_idle = true;
    ++filled_[worker.sample / model_.batch_size % model_.slabs];
  }

  /// The line: waits, then works, then gives the slab back.
  void advance_line() {
    if (line_.is_idle) {
      if (filled_[taken_ % model_.slabs] < model_.batch_size) return;
      line_ = {Need::time, model_.line_waiting_s, 0, 0, false};
    } else if (line_.need == Need::time) {
      line_.need = Need::core;
      line_.left_s = model_.line_working_s;
    } else {
      filled_[taken_ % model_.slabs] = 0;
      ++taken_;
      line_.is_idle = true;
      line_.need = Need::nothing;
    }
  }

  /// All that can begin at this moment.
  void start() {
    for (bool changes = true; changes && taken_ < batches_;) {
      const auto before = std::tuple(next_sample_, next_read_, read_, taken_, line_.need);
      for (Thread& reader : readers_)
        if (reader.is_idle) start_reader(reader);
      for (Thread& worker : workers_)
        if (worker.is_idle) start_worker(worker);
      if (line_.is_idle || line_.left_s <= 0) advance_line();
      changes = before != std::tuple(next_sample_, next_read_, read_, taken_, line_.need);
    }
  }

  template <typename Use>
  void each_thread(const Use& use) {
    for (Thread& worker : workers_)
      if (!worker.is_idle) use(worker);
    for (Thread& reader : readers_)
      if (!reader.is_idle) use(reader);
    if (!line_.is_idle) use(line_);
  }

  double speed(const Thread& thread) const {
    switch (thread.need) {
      case Need::core:
        return core_speed_;
      case Need::memory:
        return std::min(core_speed_, memory_speed_);
      case Need::lock:
        return &thread == holder_ ? 1 : 0;
      default:
        return 1;
    }
  }

  void share() {
    double cores = 0, streams = 0;
    if (holder_ != nullptr && holder_->need != Need::lock) holder_ = nullptr;
    each_thread([&](Thread& thread) {
      cores += thread.need == Need::core || thread.need == Need::memory ? 1 : 0;
      streams += thread.need == Need::memory ? 1 : 0;
    });
    core_speed_ = std::min(1.0, model_.capacity.cores / std::max(1.0, cores));
    memory_speed_ = std::min(1.0, model_.capacity.memory_streams / std::max(1.0, streams));
    if (holder_ != nullptr) return;
    each_thread([&](Thread& thread) {
      if (thread.need == Need::lock && (holder_ == nullptr || thread.sample < holder_->sample))
        holder_ = &thread;
    });
  }

  void advance() {
    share();
    double pause = kNever;
    each_thread([&](Thread& thread) {
      if (speed(thread) > 0) pause = std::min(pause, thread.left_s / speed(thread));
    });
    ensure(pause < kNever, "something goes on in a simulation");
    now_s_ += pause;
    each_thread([&](Thread& thread) {
      thread.left_s -= pause * speed(thread);
      if (thread.left_s < 1e-12) thread.left_s = 0;
    });
    for (Thread& worker : workers_)
      if (!worker.is_idle && worker.left_s <= 0) {
        if (holder_ == &worker) holder_ = nullptr;
        next_part(worker, first_behind_readers_, model_.steps.size());
        if (worker.need == Need::nothing) finish_sample(worker);
      }
    for (Thread& reader : readers_)
      if (!reader.is_idle && reader.left_s <= 0) {
        if (holder_ == &reader) holder_ = nullptr;
        next_part(reader, 0, first_behind_readers_);
        if (reader.need == Need::nothing) finish_reading(reader);
      }
    start();
  }

  const PipelineModel& model_;
  std::size_t first_behind_readers_;
  std::vector<Thread> workers_;
  std::vector<Thread> readers_;
  std::vector<std::size_t> filled_;  ///< samples, by slab
  Thread line_;
  const Thread* holder_ = nullptr;  ///< of the lock
  double core_speed_ = 1, memory_speed_ = 1;
  double now_s_ = 0;
  std::uint64_t next_sample_ = 0, next_read_ = 0, read_ = 0, taken_ = 0;
  std::size_t offset_ = 0;
  std::size_t batches_ = 0;
};

}  // namespace

const PipelineModel::Step* PipelineModel::find(std::string_view name) const {
  const auto at =
      std::find_if(steps.begin(), steps.end(), [&](const Step& step) { return step.name == name; });
  return at == steps.end() ? nullptr : &*at;
}

double simulated_step_s(const PipelineModel& model, std::uint64_t seed) {
  ensure(model.workers > 0 && model.batch_size > 0 && model.slabs > 0, "a model has sizes");
  return Simulation(model, seed).step_s();
}

}  // namespace slipstream
