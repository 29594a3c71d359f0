#include "run/execution.h"

#include <ATen/Context.h>
#include <ATen/core/grad_mode.h>
#include <c10/cuda/CUDAStream.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <ctime>

#include "core/fingerprint.h"
#include "core/seconds_since.h"
#include "cuda/cuda.h"
#include "run/draw_check.h"
#include "run/measures.h"
#include "run/numerics_scope.h"
#include "run/trial_guard.h"

namespace slipstream {
namespace {

using Clock = std::chrono::steady_clock;

double thread_cpu_s() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

/// Adds one call to a counter of the lane that makes it, unless it is nullptr.
class Counting {
 public:
  explicit Counting(StepCounter* counter) : counter_(counter) {}
  void made(std::uint64_t bytes) {
    if (counter_ != nullptr) counter_->bytes += bytes;
  }
  ~Counting() {
    if (counter_ == nullptr) return;
    ++counter_->calls;
    counter_->wall_s += seconds_since(wall_);
    counter_->cpu_s += thread_cpu_s() - cpu_;
  }
  Counting(const Counting&) = delete;
  Counting& operator=(const Counting&) = delete;

 private:
  StepCounter* counter_;
  Clock::time_point wall_ = Clock::now();
  double cpu_ = thread_cpu_s();
};

/// `tensor`, or the same view of the slab without references to what it was made from.
at::Tensor own_view(const DeviceSlab& slab, at::Tensor tensor) {
  return tensor.is_view() && slab.has(tensor) ? tensor.variable_data() : tensor;
}

std::uint64_t bytes_of(const Fields& fields) {
  std::uint64_t bytes = 0;
  for (const auto& field : fields) bytes += field.second.nbytes();
  return bytes;
}

}  // namespace

std::vector<const Fields*> Execution::Slot::own() const {
  std::vector<const Fields*> all = {&slab.fields};
  for (const Fields& part : parts) all.push_back(&part);
  return all;
}

Execution::Execution(Setup setup)
    : setup_(std::move(setup)),
      slots_(setup_.plan.schedule.depth),
      window_(setup_.plan.schedule.depth + setup_.plan.schedule.run_ahead),
      metrics_(window_, Metrics{}, &setup_.context.host_memory(true)),
      inputs_(window_),
      running_(setup_.lanes.size()),
      previous_end_(setup_.lanes.size()),
      lane_time_s_(setup_.lanes.size()),
      untuned_lanes_(setup_.tune_first_batch ? setup_.lanes.size() : 0) {
  for (Slot& slot : slots_) slot.parts.resize(setup_.lanes.size());
  for (const LaneBinding& lane : setup_.lanes) {
    LaneResult& result = record_.lanes.emplace_back();
    result.name = lane.lane->name();
    auto& counters = counters_.emplace_back();
    for (const DeviceStep& step : lane.steps) {
      result.steps.push_back(step.name);
      counters.push_back({step.name, 0, 0, 0, 0});
    }
  }
  if (setup_.context.device().is_cuda()) {
    const auto stream = c10::cuda::getCurrentCUDAStream(setup_.context.device().index());
    callers_stream_ = stream.stream();
  }
  if (setup_.options.trace != nullptr)
    trace_.emplace(*setup_.options.trace, setup_.context, setup_.lanes, window_, setup_.first_step);
  if (setup_.loader == nullptr) return;
  blocked_before_s_ = setup_.loader->blocked_s();
  Context::CurrentLane current(setup_.context, *setup_.lanes.front().lane);
  for (Slot& slot : slots_)
    slot.slab = DeviceSlab::make(setup_.loader->layout(), setup_.context.device());
}

Execution::~Execution() {
  for (Slot& slot : slots_) {
    for (std::size_t lane = slot.parts.size(); lane-- > 0;) clear_part(slot, lane);
    let_go(slot.slab.fields, setup_.context.device(), callers_stream_, slot.own());
  }
}

bool Execution::input_ready(std::uint64_t) {
  return setup_.loader == nullptr || staged_ || setup_.loader->ready();
}

void Execution::await_input(std::uint64_t) { staged_ = take_input(); }

HostBatch Execution::take_input() {
  std::string doing = std::exchange(running_.front(), "input");
  HostBatch batch = setup_.loader->next();
  running_.front() = std::move(doing);
  return batch;
}

void Execution::drop(std::size_t lane, std::size_t slot_index) {
  Slot& slot = slots_.slot(slot_index);
  Context::CurrentLane current(setup_.context, *setup_.lanes[lane].lane);
  const std::lock_guard lock(slot.changing);
  clear_part(slot, lane);
  const bool owns_slab = setup_.loader != nullptr && lane == 0;
  if (!owns_slab || !is_held_outside(slot.slab.fields.front().second, slot.own())) return;
  let_go(slot.slab.fields, setup_.context.device(), callers_stream_, slot.own());
  slot.slab = DeviceSlab::make(setup_.loader->layout(), setup_.context.device());
}

void Execution::clear_part(Slot& slot, std::size_t lane) {
  Fields& part = slot.parts[lane];
  std::erase_if(part, [&](const auto& field) { return slot.slab.has(field.second); });
  let_go(part, setup_.context.device(), callers_stream_, slot.own());
}

Batch Execution::assemble(std::size_t lane, std::uint64_t batch, Slot& slot) {
  Batch fields(setup_.first_step + batch);
  if (!setup_.cached.empty())
    for (const auto& [name, tensor] : setup_.cached[batch % setup_.cached.size()])
      fields.set(name, tensor);
  for (std::size_t k = 0; k < lane; ++k)
    for (const auto& [name, tensor] : slot.parts[k]) fields.set(name, tensor);
  return fields;
}

void Execution::run(std::size_t lane, std::uint64_t batch, std::size_t slot_index) {
  std::unique_lock<std::mutex> turn;
  if (untuned_lanes_ > 0) turn = std::unique_lock(tuning_);
  LaneBinding& binding = setup_.lanes[lane];
  Slot& slot = slots_.slot(slot_index);
  Context::CurrentLane current(setup_.context, *binding.lane);
  Batch fields = assemble(lane, batch, slot);
  for (std::size_t i = 0; i < binding.steps.size(); ++i) {
    running_[lane] = "stage '" + binding.steps[i].name + "'";
    const bool is_counted = batch >= setup_.options.first_counted;
    Counting counting(is_counted ? &counters_[lane][i] : nullptr);
    Fields made;
    LaneTrace::Step traced(trace_ ? &*trace_ : nullptr, lane, batch, i);
    run_step(binding.steps[i], *binding.lane, batch, slot, fields, made);
    traced.done();
    counting.made(bytes_of(made));
    const std::lock_guard lock(slot.changing);
    for (auto& [name, tensor] : made)
      slot.parts[lane].emplace_back(std::move(name), own_view(slot.slab, std::move(tensor)));
  }
  if (turn.owns_lock()) binding.lane->synchronize();
  if (turn.owns_lock() && batch == 0) --untuned_lanes_;
}

void Execution::run_step(const DeviceStep& step, Lane& lane, std::uint64_t batch, Slot& slot,
                         Batch& fields, Fields& made) {
  const StageScope scope(setup_.plan.numerics, setup_.context.device(), step.name);
  switch (step.kind) {
    case DeviceStep::Kind::copy:
      copy(lane, batch, slot, fields);
      made = slot.slab.fields;
      return;
    case DeviceStep::Kind::frozen: {
      const at::NoGradGuard no_gradients;
      Batch before = fields;
      std::optional<DrawCheck> draws;
      if (batch == 0) draws.emplace(setup_.context.device());  // nobody else draws yet
      step.frozen->run(fields);
      if (draws) draws->expect_none();
      for (const auto& [name, tensor] : fields.fields())
        if (!before.contains(name) || !before.at(name).is_same(tensor))
          made.emplace_back(name, tensor);
      return;
    }
    case DeviceStep::Kind::train:
      pay(lane);
      train(batch, fields);
  }
}

void Execution::copy(Lane& lane, std::uint64_t batch, Slot& slot, Batch& fields) {
  DataLoader& loader = *setup_.loader;
  const HostBatch host = staged_ ? *staged_ : take_input();
  staged_.reset();
  if (batch == 0) first_taken_ = std::chrono::steady_clock::now();
  inputs_[batch % window_] = {host.filled, host.blocked_s, seconds_since(first_taken_)};
  copy_slab(slot.slab, host, loader.layout(), lane, setup_.jpeg);
  Mark& copied = *setup_.slab_marks[host.slab];
  lane.record(copied);
  loader.release(host, &copied);
  for (const auto& [name, tensor] : slot.slab.fields) fields.set(name, tensor);
}

void Execution::pay(Lane& lane) {
  const StepCosts& costs = setup_.pipeline.options().costs;
  const bool is_copied = setup_.loader != nullptr;
  const bool is_put_together =
      is_copied && (!setup_.options.cut || setup_.options.cut->after != "collate");
  for (const double cost_s :
       {costs.train_s, is_copied ? costs.copy_s : 0, is_put_together ? costs.hand_over_s : 0})
    if (cost_s > 0) setup_.context.delay(lane, cost_s * 1e6);
}

void Execution::train(std::uint64_t batch, Batch& fields) {
  const TrainStage& stage = setup_.pipeline.train_stage();
  const at::AutoGradMode gradients(true);
  key_generator(batch);
  is_midway_ = setup_.has_buffers;
  const at::Tensor output = stage.forward(fields.at(stage.loss.input));
  const LossValue value = stage.loss.compute(output, fields);
  drop_gradients(setup_.parameters);
  if (value.gradient.defined())
    output.backward(value.gradient);
  else
    value.loss.backward();
  is_midway_ = true;
  {
    const at::NoGradGuard no_gradients;
    stage.optimizer->step();
  }
  drop_gradients(setup_.parameters);
  keep_metrics(batch, value);
  is_midway_ = false;
}

/// What the training stage draws from PyTorch's generator (dropout) depends on the step alone, in
/// every plan and after every restart.
void Execution::key_generator(std::uint64_t batch) const {
  at::Generator generator = at::globalContext().defaultGenerator(setup_.context.device());
  const std::lock_guard lock(generator.mutex());
  generator.set_current_seed(chain64(setup_.pipeline.options().seed, setup_.first_step + batch));
}

Execution::Metrics& Execution::metrics_of(std::uint64_t batch) { return metrics_[batch % window_]; }

void Execution::keep_metrics(std::uint64_t batch, const LossValue& value) {
  Metrics& metrics = metrics_of(batch);
  metrics.labels = value.labels;
  const at::Tensor loss = value.loss.detach();
  const auto keep = [&](void* to, const at::Tensor& from, std::size_t bytes) {
    if (from.is_cuda())
      cuda::copy_async(to, from.const_data_ptr(), bytes,
                       cuda::StreamView(c10::cuda::getCurrentCUDAStream().stream()));
    else
      std::memcpy(to, from.const_data_ptr(), bytes);
  };
  keep(&metrics.loss, loss.scalar_type() == at::kFloat ? loss : loss.to(at::kFloat), sizeof(float));
  if (value.correct.defined()) keep(&metrics.correct, value.correct, sizeof(std::int64_t));
}

void Execution::retired(std::uint64_t batch, std::span<const Mark* const> begin,
                        std::span<const Mark* const> end) {
  if (has_diverged_) return;  // it trained what is none of the training
  if (setup_.lanes.back().steps.back().kind == DeviceStep::Kind::train) take_metrics(batch);
  time_lanes(batch, begin, end);
  if (setup_.loader != nullptr) record_.inputs.push_back(inputs_[batch % window_]);
  if (setup_.loader != nullptr && LoadingGain::looks_at(batch))
    loading_.look(batch, setup_.loader->counters(), record_.lanes);
  if (batch < warm_up_steps(setup_.options.steps))
    record_.reserved_after_warm_up_bytes = reserved_bytes(setup_.context.device());
  report_progress(batch);
}

void Execution::take_metrics(std::uint64_t batch) {
  const Metrics& metrics = metrics_of(batch);
  check_loss(batch, metrics.loss);
  record_.losses.push_back(metrics.loss);
  if (metrics.labels > 0)
    record_.accuracies.push_back(static_cast<float>(static_cast<double>(metrics.correct) /
                                                    static_cast<double>(metrics.labels)));
}

/// A cut, or a last step, measures: it trains again and again on the same batches, and takes as
/// long whatever the loss. With a probe that leaves waits out, anything may be the loss.
void Execution::check_loss(std::uint64_t batch, float loss) {
  const RunOptions& options = setup_.options;
  const bool measures =
      !options.check_loss || options.cut || !options.last_step.empty() || options.probe != nullptr;
  if (measures || std::isfinite(loss)) return;
  has_diverged_ = true;
  if (!failed_retiring_)
    failed_retiring_.emplace(batch, "stage '" + setup_.lanes.back().steps.back().name + "'");
  std::string message = std::isnan(loss) ? "the loss is NaN" : "the loss is infinite";
  message +=
      ". Remedy: use a smaller learning rate; look for values in the data that are not finite, or "
      "not normalized";
  if (setup_.plan.numerics.precision == Precision::bf16) message += "; train in precision fp32";
  throw Error(message + ".");
}

void Execution::time_lanes(std::uint64_t batch, std::span<const Mark* const> begin,
                           std::span<const Mark* const> end) {
  for (std::size_t lane = 0; lane < end.size(); ++lane) {
    // Where a test has left waits out, the last lane's end does not say that the others' are past.
    if (setup_.options.probe != nullptr) end[lane]->synchronize();
    const double busy_s = end[lane]->seconds_after(*begin[lane]);
    lane_time_s_[lane] = batch == 0
                             ? end[lane]->seconds_after(*begin[0])
                             : lane_time_s_[lane] + end[lane]->seconds_after(*previous_end_[lane]);
    previous_end_[lane] = end[lane];
    LaneResult& result = record_.lanes[lane];
    result.busy_s += busy_s;
    result.last_intervals.push_back(
        {setup_.first_step + batch, lane_time_s_[lane] - busy_s, lane_time_s_[lane]});
    if (result.last_intervals.size() > kKeptIntervals)
      result.last_intervals.erase(result.last_intervals.begin());
  }
  record_.step_end_s.push_back(lane_time_s_.back());
  if (trace_) trace_->retired(batch, lane_time_s_, begin, end);
}

void Execution::report_progress(std::uint64_t batch) {
  if (!setup_.options.progress || failed_retiring_) return;
  Progress progress;
  progress.step = batch + 1;
  progress.steps = setup_.options.steps;
  progress.elapsed_s = seconds_since(start_);
  if (!record_.losses.empty()) progress.loss = record_.losses.back();
  progress.busy_s = record_.lanes.back().busy_s;
  if (setup_.loader != nullptr) progress.blocked_s = setup_.loader->blocked_s() - blocked_before_s_;
  progress.input_wait_share =
      input_wait_share(progress.blocked_s, progress.busy_s, progress.elapsed_s);
  if (setup_.loader != nullptr) {
    progress.input = record_.inputs.back();
    progress.host_counters = [this] { return host_counters(); };
  }
  try {
    setup_.options.progress(progress);
  } catch (...) {
    if (!failed_retiring_) failed_retiring_.emplace(batch, "progress");
    throw;
  }
}

const std::string& Execution::failed(std::size_t lane, std::uint64_t batch) const {
  const bool was_retiring = failed_retiring_ && failed_retiring_->first == batch;
  return was_retiring ? failed_retiring_->second : running_[lane];
}

std::optional<Gain> Execution::loading_gain() const {
  return loading_.gain(setup_.pipeline.options().batch_size,
                       setup_.plan.schedule.loader.num_workers);
}

std::vector<StepCounter> Execution::host_counters() const {
  std::vector<StepCounter> counted = setup_.loader->counters();
  for (std::size_t i = 0; i < counted.size(); ++i) counted[i].subtract(setup_.counted_before[i]);
  return counted;
}

std::vector<StepCounter> Execution::counters() const {
  std::vector<StepCounter> all;
  for (const auto& lane : counters_) all.insert(all.end(), lane.begin(), lane.end());
  return all;
}

}  // namespace slipstream
