#include <algorithm>
#include <array>
#include <limits>
#include <queue>
#include <tuple>
#include <utility>

#include "doctor/pipeline_model.h"
#include "slipstream/core/error.h"

namespace slipstream {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr std::size_t kFewestBatches = 8;
constexpr std::size_t kMostBatches = 600;
constexpr std::size_t kSamples = 4000;  ///< approximate number of simulated samples

enum class Resource : std::uint8_t { time, core, memory, lock, nothing };

/// A part of a host step of one sample that needs one resource.
struct Part {
  Resource need;
  double seconds;
};

enum class Role : std::uint8_t { worker, reader, line };

struct Thread {
  Role role;
  std::uint64_t sample = 0;
  std::size_t part = 0;
  double locked_s = 0;  ///< seconds of the part that waits for the lock
  bool holds = false;   ///< whether the thread holds the lock
};

using Threads = std::vector<Thread*>;

/// The threads that use one resource, which all progress at the same speed. They are ordered by
/// their end on a clock that runs at this speed. If the speed changes because a thread is added or
/// removed, only the clock changes and not each thread's end, so an event costs O(log threads).
class ResourceClock {
 public:
  void begin(Thread& thread, double seconds) { ends_.emplace(now_ + seconds, begun_++, &thread); }
  std::size_t size() const { return ends_.size(); }
  double until_next(double speed) const {
    return ends_.empty() ? kNever : std::max(0.0, std::get<0>(ends_.top()) - now_) / speed;
  }
  /// Advances by `seconds` of simulated time, and appends the threads that end in it to `ended`.
  void pass(double seconds, double speed, Threads& ended) {
    constexpr double kAtOnce = 1e-12;
    now_ += seconds * speed;
    for (; !ends_.empty() && std::get<0>(ends_.top()) <= now_ + kAtOnce; ends_.pop())
      ended.push_back(std::get<2>(ends_.top()));
  }

 private:
  using End = std::tuple<double, std::uint64_t, Thread*>;
  double now_ = 0;
  std::uint64_t begun_ = 0;  ///< orders threads that end at the same time, for reproducible results
  std::priority_queue<End, std::vector<End>, std::greater<>> ends_;
};

/// A simulation of one pipeline, from event to event. An event is the end of a part.
class Simulation {
 public:
  Simulation(const PipelineModel& model, std::uint64_t seed)
      : model_(model),
        first_after_readers_(model.readers > 0 && !model.steps.empty() ? 1 : 0),
        workers_(model.workers, Thread{Role::worker}),
        readers_(first_after_readers_ > 0 ? model.readers : 0, Thread{Role::reader}),
        filled_(model.slabs, 0) {
    for (const auto& step : model.steps) offset_ = std::max(offset_, step.waiting_s.size());
    // A prime moves the start of each seed to a different part of the measured values.
    offset_ = offset_ > 0 ? seed * 7919 % offset_ : 0;
    batches_ =
        std::clamp(kSamples / model.batch_size, kFewestBatches, kMostBatches) + 2 * model.slabs;
    for (Thread& worker : workers_) idle_workers_.push_back(&worker);
    for (Thread& reader : readers_) idle_readers_.push_back(&reader);
  }

  double step_s() {
    // Steps on the slabs that are filled while training has not yet begun are not the steady state.
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
  /// Returns part number `part` of `sample` in the steps [first, last), or `nothing` after the
  /// last. Each step has three parts: the part that needs the lock, waiting, and working.
  Part make_part(std::uint64_t sample, std::size_t part, std::size_t first,
                 std::size_t last) const {
    const std::size_t step = first + part / 3;
    if (step >= last) return {Resource::nothing, 0};
    const PipelineModel::Step& of = model_.steps[step];
    const std::size_t at = (sample + offset_) % of.waiting_s.size();
    const double waiting = of.waiting_s[at], working = of.working_s[at];
    const double free = 1 - of.locked;
    if (part % 3 == 0) return {Resource::lock, of.locked * (waiting + working)};
    if (part % 3 == 1) return {Resource::time, free * waiting};
    return {of.is_memory_bound ? Resource::memory : Resource::core, free * working};
  }

  bool can_open(std::uint64_t sample) const {
    return sample / model_.batch_size < taken_ + model_.slabs;
  }

  ResourceClock& resource(Resource need) { return paces_[static_cast<std::size_t>(need)]; }

  void begin(Thread& thread, const Part& part) {
    if (part.need == Resource::lock) {
      thread.locked_s = part.seconds;
      waiting_.emplace(thread.sample, &thread);
    } else {
      resource(part.need).begin(thread, part.seconds);
    }
  }

  /// Begins the next part of the thread's sample that takes time, or ends the sample.
  void resume(Thread& thread) {
    const bool reads = thread.role == Role::reader;
    Part part{Resource::nothing, 0};
    do {
      part = reads ? make_part(thread.sample, thread.part++, 0, first_after_readers_)
                   : make_part(thread.sample, thread.part++, first_after_readers_,
                               model_.steps.size());
    } while (part.need != Resource::nothing && part.seconds <= 0);
    if (part.need != Resource::nothing) return begin(thread, part);
    if (reads) {
      ++read_;
      return idle_readers_.push_back(&thread);
    }
    ++filled_[thread.sample / model_.batch_size % model_.slabs];
    idle_workers_.push_back(&thread);
  }

  void take(Threads& idle, std::uint64_t sample) {
    Thread& thread = *idle.back();
    idle.pop_back();
    thread.sample = sample;
    thread.part = 0;
    resume(thread);
  }

  /// Ends a part of the line, which first waits, then works, and then returns the slab.
  void end_line_part() {
    if (line_.part++ == 0) return begin(line_, {Resource::core, model_.line_working_s});
    filled_[taken_ % model_.slabs] = 0;
    ++taken_;
    is_line_idle_ = true;
  }

  /// Begins all work that can begin now. Repeats, because a read may let a worker begin and vice
  /// versa.
  void start() {
    // The number of slots of a ReadRing with these readers.
    const std::uint64_t ahead = 2 * static_cast<std::uint64_t>(model_.readers);
    for (bool changes = true; changes && taken_ < batches_;) {
      const auto before = std::pair(next_read_, next_sample_);
      while (!idle_readers_.empty() && next_read_ < next_sample_ + ahead)
        take(idle_readers_, next_read_++);
      while (!idle_workers_.empty() && can_open(next_sample_) &&
             (first_after_readers_ == 0 || next_sample_ < read_))
        take(idle_workers_, next_sample_++);
      changes = before != std::pair(next_read_, next_sample_);
    }
    if (is_line_idle_ && filled_[taken_ % model_.slabs] >= model_.batch_size) {
      is_line_idle_ = false;
      line_.part = 0;
      begin(line_, {Resource::time, model_.line_waiting_s});
    }
  }

  /// Gives the lock to the waiting thread with the earliest sample.
  void give_lock() {
    if (is_locked_ || waiting_.empty()) return;
    Thread& thread = *waiting_.top().second;
    waiting_.pop();
    is_locked_ = thread.holds = true;
    resource(Resource::time).begin(thread, thread.locked_s);
  }

  /// Advances the time to the next event. Threads share the cores equally; memory-bound threads use
  /// a core, too, and also share the memory bandwidth.
  void advance() {
    give_lock();
    const double streams = static_cast<double>(resource(Resource::memory).size());
    const double cores = streams + static_cast<double>(resource(Resource::core).size());
    const double core_speed = std::min(1.0, model_.capacity.cores / std::max(1.0, cores));
    const double memory_speed =
        std::min(core_speed, model_.capacity.memory_streams / std::max(1.0, streams));
    const std::array speeds = {1.0, core_speed, memory_speed};
    double pause = kNever;
    for (std::size_t i = 0; i < paces_.size(); ++i)
      pause = std::min(pause, paces_[i].until_next(speeds[i]));
    ensure(pause < kNever, "a simulation has a next event");
    now_s_ += pause;
    ended_.clear();
    for (std::size_t i = 0; i < paces_.size(); ++i) paces_[i].pass(pause, speeds[i], ended_);
    for (Thread* thread : ended_) {
      if (std::exchange(thread->holds, false)) is_locked_ = false;
      thread->role == Role::line ? end_line_part() : resume(*thread);
    }
    start();
  }

  const PipelineModel& model_;
  std::size_t first_after_readers_;
  std::vector<Thread> workers_;
  std::vector<Thread> readers_;
  Threads idle_workers_, idle_readers_, ended_;
  std::vector<std::size_t> filled_;  ///< number of finished samples in each slab
  Thread line_{Role::line};
  bool is_line_idle_ = true;
  std::array<ResourceClock, 3> paces_;  ///< clocks of Resource::time, core and memory
  using Waiting = std::pair<std::uint64_t, Thread*>;
  /// Threads that wait for the lock.
  std::priority_queue<Waiting, std::vector<Waiting>, std::greater<>> waiting_;
  bool is_locked_ = false;
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

void PipelineModel::set_workers(unsigned n) {
  workers = n;
  if (slabs_per_worker > 0) slabs = n * slabs_per_worker + 1;
}

double simulated_step_s(const PipelineModel& model, std::uint64_t seed) {
  ensure(model.workers > 0 && model.batch_size > 0 && model.slabs > 0, "a model has sizes");
  return Simulation(model, seed).step_s();
}

}  // namespace slipstream
