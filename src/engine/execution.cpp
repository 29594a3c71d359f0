#include "engine/execution.h"

#include <ATen/core/grad_mode.h>
#include <c10/cuda/CUDAStream.h>
#include <c10/util/Exception.h>

#include <cmath>

#include "core/seconds_since.h"
#include "cuda/cuda.h"
#include "engine/counting.h"
#include "engine/current_lane.h"
#include "engine/device_steps.h"
#include "engine/draw_check.h"
#include "engine/input_wait.h"
#include "engine/measures.h"
#include "engine/numerics_scope.h"
#include "engine/step_costs.h"

namespace slipstream {
namespace {

/// Returns `tensor` or, if it is a view of the slab, a tensor of the same memory without a
/// reference to its base. That reference would make the slab look as if code outside still used it.
at::Tensor own_view(const DeviceSlab& slab, at::Tensor tensor) {
  return tensor.is_view() && slab.has(tensor) ? tensor.variable_data() : tensor;
}

}  // namespace

Execution::Execution(Setup setup)
    : setup_(std::move(setup)),
      feed_(setup_.before ? &setup_.feed : nullptr),
      lister_(lister_of_run(setup_.bound.pipeline, setup_.options)),
      context_(setup_.bound.context),
      memory_(setup_.memory),
      slots_(memory_.slots),
      // The most batches that can be enqueued and not yet completed, so per-batch data is kept in
      // rings of this length.
      window_(setup_.plan.schedule.depth + setup_.plan.schedule.run_ahead),
      train_(setup_.bound, setup_.first_step, window_),
      loss_digest_(setup_.state.loss_digest()),
      epoch_losses_(setup_.state.epoch_losses()),
      states_(window_),
      inputs_(window_),
      running_(setup_.lanes.size()),
      times_(setup_.lanes.size()),
      untuned_lanes_(setup_.tune_first_batch ? setup_.lanes.size() : 0) {
  for (const LaneBinding& lane : setup_.lanes) {
    LaneResult& result = record_.lanes.emplace_back();
    result.name = lane.lane->name();
    auto& counters = counters_.emplace_back();
    for (const DeviceStep& step : lane.steps) {
      result.steps.push_back(step.name);
      counters.push_back({step.name, 0, 0, 0, 0});
    }
  }
  if (context_.device().is_cuda()) {
    // Outside code that keeps a tensor may use it on the caller's stream, or, if a stage or the
    // training step calls it, on the stream of a lane.
    const auto stream = c10::cuda::getCurrentCUDAStream(context_.device().index());
    streams_.push_back(stream.stream());
    for (const LaneBinding& lane : setup_.lanes)
      if (const auto* own = dynamic_cast<const cuda::CudaLane*>(lane.lane))
        streams_.push_back(own->stream().get());
  }
  if (setup_.hooks.trace != nullptr)
    trace_.emplace(*setup_.hooks.trace, context_, setup_.lanes, window_, setup_.first_step);
  if (feed_ == nullptr) return;
  CurrentLane current(context_, *setup_.lanes.front().lane);
  for (Slot& slot : slots_)
    if (slot.slab.fields.empty()) slot.slab = make_slab();
}

DeviceSlab Execution::make_slab() const {
  return DeviceSlab::make(feed_->loader()->layout(), context_.device());
}

Execution::~Execution() {
  for (std::size_t i = 0; i < slots_.depth(); ++i) {
    Slot& slot = slots_.slot(i);
    // The members' destructors would free the memory without record_stream(), which is needed for
    // tensors that outside code still references.
    for (std::size_t lane = slot.parts.size(); lane-- > 0;) clear_part(i, lane);
    // The memory of graphs is kept for the next run.
    if (!memory_.has_graphs())
      release_tensors(slot.slab.fields, context_.device(), streams_, memory_.own(i));
  }
}

bool Execution::input_ready(std::uint64_t batch) {
  list_batches(batch);
  return feed_ == nullptr || staged_ || feed_->ready();
}

void Execution::list_batches(std::uint64_t batch) {
  if (lister_ == nullptr) return;
  // If list() throws, the entry stays "input", as in take_input().
  std::string doing = std::exchange(running_.front(), "input");
  const std::uint64_t next = setup_.first_step + batch;
  lister_->list(setup_.first_step + trained_, next, next + feed_->loader()->slabs());
  feed_->notify_added();
  running_.front() = std::move(doing);
}

void Execution::await_input(std::uint64_t) { staged_ = take_input(); }

HostBatch Execution::take_input() {
  // If take() throws, the entry stays "input", so that failed() reports the input as the cause.
  std::string doing = std::exchange(running_.front(), "input");
  HostBatch batch = feed_->take();
  running_.front() = std::move(doing);
  return batch;
}

void Execution::drop(std::size_t lane, std::size_t slot_index) {
  Slot& slot = slots_.slot(slot_index);
  CurrentLane current(context_, *setup_.lanes[lane].lane);
  const std::lock_guard lock(slot.changing);
  clear_part(slot_index, lane);
  const auto own = [&] { return memory_.own(slot_index); };
  for (std::size_t i = 0; i < setup_.lanes[lane].steps.size(); ++i)
    if (StepGraphs* graphs = memory_.find_graphs(lane, i))
      graphs->release_held(slot_index, context_.device(), streams_, own, slot.slab);
  const bool owns_slab = feed_ != nullptr && lane == 0;
  // If code outside still references the slab's memory, that memory keeps its values, and the slot
  // gets a new slab.
  if (!owns_slab || !is_held_outside(slot.slab.fields.front().second, own())) return;
  release_tensors(slot.slab.fields, context_.device(), streams_, own());
  slot.slab = make_slab();
}

void Execution::clear_part(std::size_t slot_index, std::size_t lane) {
  const Slot& slot = slots_.slot(slot_index);
  Fields& part = slots_.slot(slot_index).parts[lane];
  // Tensors of the slab and of graphs stay in it: their memory is reused for the next batch, not
  // released.
  std::erase_if(part, [&](const auto& field) {
    return slot.slab.has(field.second) || memory_.is_result(slot_index, field.second);
  });
  release_tensors(part, context_.device(), streams_, memory_.own(slot_index));
}

Batch Execution::assemble(std::size_t lane, std::uint64_t batch, Slot& slot) {
  Batch fields(setup_.first_step + batch);
  if (!setup_.cached.empty())
    for (const auto& [name, tensor] : setup_.cached[batch % setup_.cached.size()])
      fields.set(name, tensor);
  for (std::size_t k = 0; k < lane; ++k)
    for (const auto& [name, tensor] : slot.parts[k])
      fields.set(name, tensor, slot.slab.find_classes(name, tensor));
  if (lane > 0) fields.set_stand_ins(slot.slab.stand_ins);
  return fields;
}

void Execution::run(std::size_t lane, std::uint64_t batch, std::size_t slot_index) {
  std::unique_lock<std::mutex> turn;
  if (untuned_lanes_ > 0) turn = std::unique_lock(tuning_);
  LaneBinding& binding = setup_.lanes[lane];
  Slot& slot = slots_.slot(slot_index);
  CurrentLane current(context_, *binding.lane);
  Batch fields = assemble(lane, batch, slot);
  for (std::size_t i = 0; i < binding.steps.size(); ++i) {
    running_[lane] = "stage '" + binding.steps[i].name + "'";
    const bool is_counted = batch >= setup_.options.first_counted;
    Counting counting(is_counted ? &counters_[lane][i] : nullptr);
    LaneTrace::Step traced(trace_ ? &*trace_ : nullptr, lane, batch, i);
    Fields made = run_step({lane, i, batch, slot_index, fields});
    traced.done();
    counting.made(count_bytes(made));
    const std::lock_guard lock(slot.changing);
    for (auto& [name, tensor] : made)
      slot.parts[lane].emplace_back(std::move(name), own_view(slot.slab, std::move(tensor)));
  }
  // cuDNN times its algorithms in the first batch. The lanes take turns for it, and each waits
  // until its work has finished, so that other lanes' work does not distort the times.
  if (turn.owns_lock()) binding.lane->synchronize();
  if (turn.owns_lock() && batch == 0) --untuned_lanes_;
}

Fields Execution::run_step(const StepRun& run) {
  const LaneBinding& lane = setup_.lanes[run.lane];
  const DeviceStep& step = lane.steps[run.step];
  const StageScope scope(setup_.plan.numerics, context_.device(), step.name);
  if (step.kind == DeviceStep::Kind::copy) return copy(run);
  if (step.kind == DeviceStep::Kind::frozen) return run_frozen_step(run, *step.frozen);
  simulate_cost(*lane.lane);
  train_.run(run.batch, run.fields, run.slot, memory_.find_graphs(run.lane, run.step),
             make_call(run.slot));
  take_state(run.batch);
  return {};
}

Fields Execution::run_frozen_step(const StepRun& run, const FrozenStage& stage) {
  const at::NoGradGuard no_gradients;
  std::optional<DrawCheck> draws;
  // The generator is checked only in the first batch: the training stage, which may use it, has not
  // run yet.
  if (run.batch == 0) draws.emplace(context_.device());
  StepCall call = make_call(run.slot);
  call.work = [frozen = &stage](Batch& fields) {
    const Batch before = fields;
    frozen->run(fields);
    StepResult result{made_between(before, fields), {}, {}};
    for (const auto& [name, tensor] : result.made) result.classes.push_back(fields.classes(name));
    return result;
  };
  StepGraphs* const graphs = memory_.find_graphs(run.lane, run.step);
  StepResult result =
      graphs != nullptr ? graphs->run(run.fields, run.slot, call) : call.work(run.fields);
  if (draws) draws->expect_none();
  if (graphs != nullptr)
    for (std::size_t i = 0; i < result.made.size(); ++i)
      run.fields.set(result.made[i].first, result.made[i].second, result.classes[i]);
  return std::move(result.made);
}

StepCall Execution::make_call(std::size_t slot_index) {
  StepCall call;
  Slot& slot = slots_.slot(slot_index);
  call.slot_mutex = &slot.changing;
  call.is_deterministic = setup_.plan.numerics.deterministic;
  call.is_static = [this, &slot, slot_index](const at::Tensor& tensor) {
    const std::lock_guard lock(slot.changing);
    return slot.slab.has(tensor) || memory_.is_result(slot_index, tensor);
  };
  return call;
}

/// Copies the state if the run's options request it. If there is no memory for the copy, training
/// continues, because the step itself succeeded.
void Execution::take_state(std::uint64_t batch) {
  const RunOptions& options = setup_.options;
  if (!options.wants_state || options.cut || !options.last_step.empty()) return;
  if (!options.wants_state(setup_.first_step + batch + 1)) return;
  try {
    states_[batch % window_] = setup_.state.copied_tensors();
  } catch (const c10::OutOfMemoryError&) {
    states_[batch % window_].emplace().failure =
        "there is not enough device memory for a copy of the state";
  }
}

void Execution::hand_state_over(std::uint64_t batch) {
  std::optional<State>& taken = states_[batch % window_];
  if (!taken) return;
  taken->position = setup_.first_step + batch + 1;
  taken->loss_digest = loss_digest_;
  taken->epoch_losses = epoch_losses_;
  if (lister_ != nullptr) taken->order = lister_->state(taken->position);
  call_user("state", batch, [&] { setup_.options.on_state(std::move(*taken)); });
  taken.reset();
}

Fields Execution::copy(const StepRun& run) {
  DeviceSlab& slab = slots_.slot(run.slot).slab;
  const HostBatch host = staged_ ? *staged_ : take_input();
  staged_.reset();
  // The same origin as that of LaneTimes, because the steady rate compares the times at which
  // batches were taken with the ends of steps.
  if (run.batch == 0) first_taken_ = std::chrono::steady_clock::now();
  inputs_[run.batch % window_] = {host.filled, host.blocked_s, seconds_since(first_taken_)};
  // The loader may reuse the host slab after this copy; DeviceFeed records the mark.
  feed_->copy(host, slab, *setup_.lanes[run.lane].lane);
  run.fields.set_stand_ins(host.stand_ins);
  Fields made = slab.fields;
  // Graphs need the slab's memory again. If Python keeps an object for one of its tensors, it must
  // not look as if it were still in use.
  if (memory_.has_graphs())
    for (auto& [name, tensor] : made) tensor = tensor.variable_data();
  for (std::size_t i = 0; i < made.size(); ++i)
    run.fields.set(made[i].first, made[i].second, slab.classes[i]);
  return made;
}

void Execution::simulate_cost(Lane& lane) const {
  const bool is_copied = feed_ != nullptr;
  const bool is_put_together =
      is_copied && (!setup_.options.cut || setup_.options.cut->after != "collate");
  simulate_step_cost(setup_.bound.pipeline, is_copied, is_put_together, lane);
}

void Execution::completed(std::uint64_t batch, std::span<const Mark* const> begin,
                          std::span<const Mark* const> end) {
  if (has_diverged_) return;  // these steps used weights from after the loss that was not finite
  if (setup_.lanes.back().steps.back().kind == DeviceStep::Kind::train) take_metrics(batch);
  hand_state_over(batch);
  time_lanes(batch, begin, end);
  if (feed_ != nullptr) record_.inputs.push_back(inputs_[batch % window_]);
  if (feed_ != nullptr && LoadingGain::is_snapshot_due(batch))
    loading_.snapshot(batch, feed_->loader()->counters(), record_.lanes);
  if (batch < warm_up_steps(setup_.options.steps))
    record_.reserved_after_warm_up_bytes = reserved_bytes(context_.device());
  trained_ = batch + 1;
  report_progress(batch);
}

void Execution::take_metrics(std::uint64_t batch) {
  const TrainingStage::BatchResult batch_result = train_.take_result(batch);
  check_loss(batch, batch_result.loss);
  record_.losses.push_back(batch_result.loss);
  loss_digest_ = digest_with(loss_digest_, batch_result.loss);
  epoch_losses_.add(batch_result.loss, setup_.first_step + batch,
                    setup_.bound.pipeline.batches_per_epoch());
  if (batch_result.accuracy) record_.accuracies.push_back(*batch_result.accuracy);
  if (setup_.options.on_outputs && !batch_result.outputs.empty())
    call_user("output", batch,
              [&] { setup_.options.on_outputs(setup_.first_step + batch, batch_result.outputs); });
}

/// Runs with a cut or a last step only measure: they train repeatedly on the same batches, and the
/// value of the loss does not affect the time. A probe may leave out waits, so the loss may have
/// any value.
void Execution::check_loss(std::uint64_t batch, float loss) {
  const RunOptions& options = setup_.options;
  const bool measures = !options.check_loss || options.cut || !options.last_step.empty() ||
                        setup_.hooks.probe != nullptr ||
                        setup_.bound.pipeline.training().on_nan == OnNonFinite::skip;
  if (measures || std::isfinite(loss)) return;
  has_diverged_ = true;
  if (!failed_completing_)
    failed_completing_.emplace(batch, "stage '" + setup_.lanes.back().steps.back().name + "'");
  std::string message = std::isnan(loss) ? "the loss is NaN" : "the loss is infinite";
  message +=
      ". Remedy: use a smaller learning rate; look for values in the data that are not finite, or "
      "not normalized, and for labels that are not below the number of the model's outputs";
  const Precision precision = setup_.plan.numerics.precision;
  if (precision == Precision::bf16 || precision == Precision::fp16)
    message += "; train in precision fp32";
  throw Error(message + ".");
}

void Execution::time_lanes(std::uint64_t batch, std::span<const Mark* const> begin,
                           std::span<const Mark* const> end) {
  // If a test leaves out waits, the end of the last lane does not imply that the other lanes have
  // finished.
  if (setup_.hooks.probe != nullptr)
    for (const Mark* mark : end) mark->synchronize();
  times_.add(setup_.first_step + batch, begin, end, record_.lanes);
  record_.step_end_s.push_back(times_.end_s().back());
  if (trace_) trace_->completed(batch, times_.end_s(), begin, end);
}

void Execution::report_progress(std::uint64_t batch) {
  if (!setup_.options.progress || failed_completing_) return;
  Progress progress;
  progress.step = batch + 1;
  progress.steps = setup_.options.steps;
  progress.elapsed_s = seconds_since(start_);
  if (!record_.losses.empty()) progress.loss = record_.losses.back();
  progress.busy_s = record_.lanes.back().busy_s;
  if (feed_ != nullptr)
    progress.blocked_s = feed_->loader()->blocked_s() - setup_.before->blocked_s;
  progress.input_wait_share =
      input_wait_share(progress.blocked_s, progress.busy_s, progress.elapsed_s);
  if (feed_ != nullptr) {
    progress.input = record_.inputs.back();
    progress.host_counters = [this] { return host_counters(); };
  }
  call_user("progress", batch, [&] { setup_.options.progress(progress); });
}

void Execution::call_user(const char* what, std::uint64_t batch,
                          const std::function<void()>& call) {
  if (failed_completing_) return;
  try {
    call();
  } catch (...) {
    failed_completing_.emplace(batch, what);
    throw;
  }
}

const std::string& Execution::failed(std::size_t lane, std::uint64_t batch) const {
  const bool was_completing = failed_completing_ && failed_completing_->first == batch;
  return was_completing ? failed_completing_->second : running_[lane];
}

std::optional<Gain> Execution::loading_gain() const {
  return loading_.gain(setup_.bound.pipeline.options().batch_size,
                       setup_.plan.schedule.loader.num_workers);
}

std::vector<StepCounter> Execution::host_counters() const {
  std::vector<StepCounter> counted = feed_->loader()->counters();
  for (std::size_t i = 0; i < counted.size(); ++i) counted[i].subtract(setup_.before->counters[i]);
  return counted;
}

std::vector<StepCounter> Execution::counters() const {
  std::vector<StepCounter> all;
  for (const auto& lane : counters_) all.insert(all.end(), lane.begin(), lane.end());
  return all;
}

}  // namespace slipstream
