#include "slipstream/engine/trainer.h"

#include <c10/core/DeviceGuard.h>
#include <c10/cuda/CUDAStream.h>

#include <algorithm>
#include <chrono>

#include "core/lane_threads.h"
#include "core/schedule.h"
#include "core/seconds_since.h"
#include "cuda/cuda.h"
#include "engine/access.h"
#include "engine/cache_filling.h"
#include "engine/delays.h"
#include "engine/digest.h"
#include "engine/evaluation_step.h"
#include "engine/fork_gains.h"
#include "engine/input_wait.h"
#include "engine/measures.h"
#include "engine/numerics_scope.h"
#include "engine/run_failure.h"
#include "engine/trainer_impl.h"

namespace slipstream {

using Clock = std::chrono::steady_clock;

Trainer::Impl::Impl(Pipeline pipeline, Context& context, const Plan::Numerics& numerics)
    : bound(std::move(pipeline), context, numerics),
      state(bound),
      steps_(bound),
      feed_(context),
      warm_up_(bound) {}

void Trainer::Impl::check(const Plan& plan, const RunOptions& options,
                          const RunHooks& hooks) const {
  Plan checked = plan;
  if (hooks.make_recorder) checked.schedule.graphs = false;  // such a recorder needs no GPU
  validate(checked, bound.pipeline.device_steps(plan.schedule.loader.on_device),
           bound.context.kind());
  if (!(plan.numerics == bound.numerics))
    throw Refused("the plan's numerics differ from the trainer's: create another trainer for them");
  state.check_sound();
  if (options.cut && options.cut->items == 0) throw Refused("a cut needs at least one cached item");
}

void Trainer::Impl::wait_for_caller(const Plan& plan) {
  const c10::Device device = bound.context.device();
  if (!device.is_cuda()) return;
  // An event on the caller's stream orders the lanes after its work without blocking the host.
  cudaEvent_t here = nullptr;
  cuda::check_cuda(cudaEventCreateWithFlags(&here, cudaEventDisableTiming));
  const auto stream = c10::cuda::getCurrentCUDAStream(device.index());
  cuda::check_cuda(cudaEventRecord(here, stream.stream()));
  for (const LaneBinding& binding : steps_.on_lanes(plan, {}))
    if (auto* lane = dynamic_cast<cuda::CudaLane*>(binding.lane))
      cuda::check_cuda(cudaStreamWaitEvent(lane->stream().get(), here, 0));
  // An event may be destroyed before the device has reached it: CUDA frees it afterwards, and the
  // waits stay enqueued.
  cuda::check_cuda(cudaEventDestroy(here));
}

std::optional<DeviceFeed::Counted> Trainer::Impl::seek(const Plan& plan, const RunOptions& options,
                                                       const RunHooks& hooks,
                                                       const std::vector<LaneBinding>& lanes) {
  const auto& dataset = bound.pipeline.dataset();
  const std::vector<NamedOp>& transforms = bound.pipeline.transforms();
  DataLoaderOptions wanted = bound.loader_options(plan, state.position());
  const LaneBinding& first = lanes.front();
  if (first.steps.front().kind != DeviceStep::Kind::copy) {
    feed_.prepare(dataset, transforms, wanted);
    return std::nullopt;
  }
  if (BatchLister* lister = lister_of_run(bound.pipeline, options))
    wanted.batches = lister->queue();
  if (options.cut)
    wanted.cut = {options.cut->after, options.cut->items};
  else
    wanted.trace = hooks.trace;
  return feed_.seek(dataset, transforms, wanted, *first.lane);
}

std::shared_ptr<RunMemory> Trainer::Impl::find_memory(const Plan& plan, const RunOptions& options,
                                                      const RunHooks& hooks,
                                                      const std::vector<LaneBinding>& lanes) {
  const bool trains =
      dynamic_cast<const EvaluationStep*>(bound.pipeline.train_step().get()) == nullptr;
  MakeRecorder make_recorder;
  if (plan.schedule.graphs && trains)
    make_recorder = hooks.make_recorder ? hooks.make_recorder : make_cuda_recorder;
  const auto make = [&] {
    return std::make_shared<RunMemory>(plan.schedule.depth, lanes, bound.context.device(),
                                       make_recorder);
  };
  if (!make_recorder || options.cut || !options.last_step.empty()) return make();
  std::vector<std::uint64_t> fixed = bound.find_fixed();
  if (!kept_ || kept_->plan != plan || kept_->fixed != fixed) {
    kept_.reset();
    kept_ = {plan, std::move(fixed), make()};
  }
  return kept_->memory;
}

RunResult Trainer::Impl::run(const Plan& plan, const RunOptions& options, const RunHooks& hooks) {
  check(plan, options, hooks);
  const c10::Device device = bound.context.device();
  const c10::DeviceGuard guard(device);
  const NumericsScope scope(bound.numerics);
  const std::vector<LaneBinding> lanes = steps_.on_lanes(plan, options);
  const std::optional<DeviceFeed::Counted> before = seek(plan, options, hooks, lanes);
  ScheduleProbe probe;
  ForkProbe forks;
  apply_hooks(hooks, lanes, probe, forks);
  const ProbedForks probed(bound.context, forks);
  std::vector<Lane*> lane_pointers;
  for (const LaneBinding& lane : lanes) lane_pointers.push_back(lane.lane);

  std::vector<Fields> cached;
  std::shared_ptr<RunMemory> memory;
  std::optional<Execution> execution;
  std::optional<Schedule> schedule;
  bool has_run = false;
  std::string preparing;
  try {
    wait_for_caller(plan);
    if (options.cut && !before)
      cached = fill_cache(bound, steps_, feed_, plan, *options.cut, state.position(), preparing);
    const FieldDigests digests = options.check_cache ? FieldDigests(cached) : FieldDigests();
    const std::size_t extra_bytes = warm_up_.warm(plan, lanes, preparing);
    reset_peak(device);
    memory = find_memory(plan, options, hooks, lanes);
    execution.emplace(Execution::Setup{bound, plan, options, hooks, lanes, feed_, before, cached,
                                       state, *memory, state.position(),
                                       warm_up_.must_tune(plan, lanes)});
    schedule.emplace(lane_pointers, plan.schedule.depth, plan.schedule.run_ahead, *execution,
                     &probe);
    const auto start = Clock::now();
    const std::uint64_t steps = schedule->run(options.steps, plan.schedule.driver,
                                              get_threads(bound.context), options.stop);
    const double wall_s = seconds_since(start);
    warm_up_.set_tuned(plan, lanes);
    has_run = true;
    RunResult result = collect(plan, options, *execution, before, steps, wall_s);
    result.memory.predicted_extra_bytes = extra_bytes;
    if (plan.schedule.graphs) result.graphs = memory->take_counts();
    if (options.check_cache) result.changed_fields = digests.changed_in(cached);
    // This run took batches without training on them, so the loader has passed the trainer's
    // position and the next run cannot use it.
    if (!options.last_step.empty() && !options.cut) feed_.stop();
    return result;
  } catch (...) {
    feed_.stop();
    std::string where = has_run ? "after the last step: " : preparing + "before the first step: ";
    if (schedule && !has_run) where = settle(options, *execution, *schedule);
    // Frees the memory of the failed run before throw_failure() measures what would fit.
    schedule.reset();
    execution.reset();
    memory.reset();
    kept_.reset();
    cached.clear();
    throw_failure(bound, steps_, plan, where, std::current_exception());
  }
}

std::string Trainer::Impl::settle(const RunOptions& options, Execution& execution,
                                  const Schedule& schedule) {
  const std::string& what = execution.failed(schedule.failed_lane(), schedule.failed_batch());
  const std::string step = "step " + std::to_string(state.position() + schedule.failed_batch());
  absorb(options, execution.record());
  const bool counts = !options.cut && options.last_step.empty();
  const std::string first = "step " + std::to_string(state.position());
  if (counts && execution.has_diverged())
    state.spoil(first + " and later steps trained on a loss that is not finite");
  else if (counts && execution.is_midway())
    state.spoil(first + " and later steps are only partly trained");
  return (what.empty() ? "before " : what + " at ") + step + ": ";
}

void Trainer::Impl::absorb(const RunOptions& options, const Record& record) {
  if (options.cut || !options.last_step.empty()) return;
  state.add_steps(record.losses);
}

void Trainer::Impl::count_input(const DeviceFeed::Counted& before, RunResult& result) const {
  DeviceFeed::Counted counted = feed_.counted();
  counted.subtract(before);
  result.input_wait_share =
      input_wait_share(counted.blocked_s, result.lanes.back().busy_s, result.wall_s);
  result.counters = std::move(counted.counters);
  result.skipped = feed_.loader()->skipped();
  result.skipped.replacements = counted.skipped_positions;
  result.jpeg = counted.jpeg;
  result.cache = counted.cache;
  result.disk_cache = counted.disk_cache;
}

RunResult Trainer::Impl::collect(const Plan& plan, const RunOptions& options, Execution& execution,
                                 const std::optional<DeviceFeed::Counted>& before,
                                 std::uint64_t steps, double wall_s) {
  RunResult result;
  Record& record = execution.record();
  result.plan = plan;
  result.first_step = state.position();
  result.steps = steps;
  result.interrupted = steps < options.steps;
  result.wall_s = wall_s;
  absorb(options, record);
  result.losses = std::move(record.losses);
  result.accuracies = std::move(record.accuracies);
  result.step_end_s = std::move(record.step_end_s);
  result.inputs = std::move(record.inputs);
  result.lanes = std::move(record.lanes);
  result.steps_per_second = step_rate(result, options.cut, bound.pipeline.options().batch_size);
  for (LaneResult& lane : result.lanes) lane.waiting_s = std::max(0.0, wall_s - lane.busy_s);
  if (before) count_input(*before, result);
  for (StepCounter& counter : execution.counters()) result.counters.push_back(std::move(counter));
  result.gains = fork_gains(bound.pipeline);
  if (auto loading = execution.loading_gain()) result.gains.push_back(std::move(*loading));
  const c10::Device device = bound.context.device();
  result.memory.peak_bytes = peak_bytes(device);
  result.memory.reserved_bytes = reserved_bytes(device);
  result.memory.reserved_after_warm_up_bytes = record.reserved_after_warm_up_bytes;
  if (options.digest) result.digest = state.digest();
  return result;
}

void Trainer::Impl::restart() {
  if (state.position() == 0) return;
  state.restart();
  feed_.stop();
}

void Trainer::Impl::restore(const State& given) {
  state.restore(given);
  feed_.stop();
}

Trainer::Trainer(Pipeline pipeline, Context& context, const Plan::Numerics& numerics)
    : impl_(std::make_unique<Impl>(std::move(pipeline), context, numerics)) {}
Trainer::~Trainer() = default;

RunResult Trainer::run(const Plan& plan, const RunOptions& options) {
  return impl_->run(plan, options, {});
}
RunResult run_with(Trainer& trainer, const Plan& plan, const RunOptions& options,
                   const RunHooks& hooks) {
  return Access::of(trainer).run(plan, options, hooks);
}
std::unique_ptr<DataLoader> Trainer::make_loader(const Plan& plan,
                                                 const std::optional<HostCut>& cut) const {
  const BoundPipeline& bound = impl_->bound;
  DataLoaderOptions options = bound.loader_options(plan, impl_->state.position());
  options.cut = cut;
  return std::make_unique<DataLoader>(bound.pipeline.dataset(), bound.pipeline.transforms(),
                                      std::move(options));
}
State Trainer::state() { return impl_->state.copy(); }
void Trainer::restore(const State& state) { impl_->restore(state); }
void Trainer::release_graphs() { impl_->release_graphs(); }
const Pipeline& Trainer::pipeline() const { return impl_->bound.pipeline; }
const Plan::Numerics& Trainer::numerics() const { return impl_->bound.numerics; }
Context& Trainer::context() const { return impl_->bound.context; }
std::uint64_t Trainer::position() const { return impl_->state.position(); }
EpochLosses Trainer::epoch_losses() const { return impl_->state.epoch_losses(); }
std::uint64_t Trainer::digest() const { return impl_->state.digest(); }

}  // namespace slipstream
