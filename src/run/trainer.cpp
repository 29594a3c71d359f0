#include "slipstream/run/trainer.h"

#include <ATen/core/grad_mode.h>
#include <c10/core/DeviceGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>

#include "core/fingerprint.h"
#include "core/lane_threads.h"
#include "core/plain_message.h"
#include "core/schedule.h"
#include "core/seconds_since.h"
#include "cuda/cuda.h"
#include "run/delays.h"
#include "run/measures.h"
#include "run/message.h"
#include "run/mix_stage.h"
#include "run/numerics_scope.h"
#include "run/trainer_impl.h"
#include "run/trial_guard.h"

namespace slipstream {

using Clock = std::chrono::steady_clock;

namespace {

std::vector<std::uint64_t> digests_of(const std::vector<Fields>& cached) {
  std::vector<std::uint64_t> digests;
  for (const Fields& fields : cached)
    for (const auto& [name, tensor] : fields) digests.push_back(digest_of(std::array{tensor}));
  return digests;
}

std::vector<std::string> changed_fields(const std::vector<Fields>& cached,
                                        const std::vector<std::uint64_t>& before) {
  std::set<std::string> changed;
  const std::vector<std::uint64_t> now = digests_of(cached);
  std::size_t i = 0;
  for (const Fields& fields : cached)
    for (const auto& [name, tensor] : fields) {
      if (now[i] != before[i]) changed.insert(name);
      ++i;
    }
  return {changed.begin(), changed.end()};
}

}  // namespace

Trainer::Impl::Impl(Pipeline declared, Context& where, const Plan::Numerics& how)
    : pipeline(std::move(declared)), context(where), numerics(how) {
  if (pipeline.train_name().empty())
    throw Refused("pipeline: it has no training stage; end it with .train(...)");
  const SlabLayout layout = DataLoader::plan_layout(*pipeline.dataset(), pipeline.transforms(),
                                                    pipeline.options().batch_size, {}, kJpegBytes,
                                                    0, pipeline.batch_ops());
  if (layout.batch_chain != nullptr) mix_ = mix_stage(layout);
  place_modules();
}

void Trainer::Impl::place_modules() {
  for (const auto& stage : pipeline.stages())
    if (stage.stage.module != nullptr) place(*stage.stage.module);
  torch::nn::Module& trained = *pipeline.train_stage().module;
  place(trained);
  trained.train();
  for (const at::Tensor& parameter : trained.parameters())
    if (parameter.requires_grad()) parameters.push_back(parameter);
  persistent = trained.parameters();
  for (const at::Tensor& buffer : trained.buffers()) persistent.push_back(buffer);
  pipeline.train_stage().optimizer->bind(parameters);
}

void Trainer::Impl::place(torch::nn::Module& module) {
  module.to(context.device());
  const at::NoGradGuard no_gradients;
  const auto format =
      numerics.channels_last ? at::MemoryFormat::ChannelsLast : at::MemoryFormat::Contiguous;
  for (at::Tensor& parameter : module.parameters())
    if (parameter.dim() == 4) parameter.set_data(parameter.contiguous(format));
}

DataLoaderOptions Trainer::Impl::loader_options(const Plan& plan,
                                                const std::optional<HostCut>& cut) const {
  DataLoaderOptions options = pipeline.loader_options(plan);
  options.cut = cut;
  options.memory = &context.host_memory(plan.schedule.loader.pin_memory);
  return options;
}

std::unique_ptr<DataLoader> Trainer::Impl::make_loader(DataLoaderOptions options) const {
  options.first_batch = position;
  return std::make_unique<DataLoader>(pipeline.dataset(), pipeline.transforms(), options);
}

std::pair<DataLoader*, Trainer::Impl::InputSoFar> Trainer::Impl::loader_for(
    const Plan& plan, const RunOptions& options, const std::vector<LaneBinding>& lanes) {
  const LaneBinding& first = lanes.front();
  if (first.steps.front().kind != DeviceStep::Kind::copy) return {};
  std::optional<HostCut> cut;
  if (options.cut) cut = HostCut{options.cut->after, options.cut->items};
  DataLoaderOptions wanted = loader_options(plan, cut);
  if (!cut) wanted.trace = options.trace;
  if (loader_ != nullptr && wanted == loader_options_ && loader_position_ == position)
    return {loader_.get(), input_so_far()};
  loader_.reset();
  InputSoFar none;
  none.disk_cache = disk_cache_state(*pipeline.dataset());
  loader_ = make_loader(wanted);
  loader_options_ = std::move(wanted);
  loader_position_ = position;
  slab_marks_.resize(loader_->slabs());
  for (auto& mark : slab_marks_) mark = first.lane->make_mark();
  // Its workers may have counted already, for this run.
  none.counters.resize(loader_->counters().size());
  if (jpeg_ != nullptr) none.jpeg = {jpeg_->images(), jpeg_->decoded_by_cpu(), false};
  return {loader_.get(), std::move(none)};
}

JpegUnpacker* Trainer::Impl::jpeg_for(const Plan& plan) {
  const WireFormats wire = wire_formats(plan);
  if (!has_format(wire, Wire::jpeg)) return nullptr;
  if (jpeg_ != nullptr && jpeg_wire_ == wire) return jpeg_.get();
  jpeg_.reset();
  JpegUnpacker::Options options;
  options.device = context.device().index();
  options.memory = &device_memory_;
  options.decode = pipeline.options().decode;
  options.name = [this](std::uint64_t sample) { return pipeline.dataset()->name(sample); };
  jpeg_ = std::make_unique<JpegUnpacker>(layout_of(plan, pipeline.options().batch_size),
                                         std::move(options));
  jpeg_wire_ = wire;
  return jpeg_.get();
}

std::vector<Fields> Trainer::Impl::fill_cache(const Plan& plan, const Cut& cut) {
  RunOptions until;
  until.last_step = cut.after;
  const std::vector<DeviceStep> steps = steps_of(plan, until);
  Lane& lane = *bind(plan, {}).back().lane;
  const auto loader = make_loader(loader_options(plan, std::nullopt));
  JpegUnpacker* const jpeg = jpeg_for(plan);
  const Context::CurrentLane current(context, lane);
  const at::NoGradGuard no_gradients;
  std::vector<Fields> cache;
  for (std::size_t item = 0; item < cut.items; ++item) {
    const HostBatch host = loader->next();
    DeviceSlab slab = DeviceSlab::make(loader->layout(), context.device());
    copy_slab(slab, host, loader->layout(), lane, jpeg);
    lane.synchronize();
    loader->release(host, nullptr);
    Batch batch(position + item);
    for (const auto& [name, tensor] : slab.fields) batch.set(name, tensor);
    cache.push_back(batch.fields());
    for (auto& field : run_frozen(steps, batch)) cache.back().push_back(std::move(field));
  }
  lane.synchronize();
  return cache;
}

void Trainer::Impl::wait_for_caller(const Plan& plan) {
  if (!context.device().is_cuda()) return;
  cudaEvent_t here = nullptr;
  cuda::check_cuda(cudaEventCreateWithFlags(&here, cudaEventDisableTiming));
  const auto stream = c10::cuda::getCurrentCUDAStream(context.device().index());
  cuda::check_cuda(cudaEventRecord(here, stream.stream()));
  for (const LaneBinding& binding : bind(plan, {}))
    if (auto* lane = dynamic_cast<cuda::CudaLane*>(binding.lane))
      cuda::check_cuda(cudaStreamWaitEvent(lane->stream().get(), here, 0));
  cuda::check_cuda(cudaEventDestroy(here));
}

Trainer::Impl::InputSoFar Trainer::Impl::input_so_far() const {
  InputSoFar input = {.blocked_s = loader_->blocked_s(),
                      .counters = loader_->counters(),
                      .skipped_places = loader_->skipped().places,
                      .disk_cache = disk_cache_state(*pipeline.dataset())};
  if (loader_options_.cache && !loader_options_.cut) input.cache = loader_->cache();
  if (jpeg_ != nullptr)
    input.jpeg = {jpeg_->images(), jpeg_->decoded_by_cpu(), jpeg_->uses_engines()};
  return input;
}

RunResult Trainer::Impl::run(const Plan& plan, const RunOptions& options) {
  validate(plan, pipeline.device_steps(plan.schedule.loader.on_device), context.kind());
  if (!(plan.numerics == numerics))
    throw Refused("the plan's numerics differ from the trainer's: make another trainer for them");
  if (!spoiled_by_.empty())
    throw Refused("the weights are not those of any step, since an earlier run failed (" +
                  spoiled_by_ + "): restore() a state first, or make another trainer");
  if (options.cut && options.cut->items == 0) throw Refused("a cut needs at least one cached item");
  const c10::DeviceGuard device(context.device());
  const NumericsScope scope(numerics);
  const std::vector<LaneBinding> lanes = bind(plan, options);
  JpegUnpacker* const jpeg = jpeg_for(plan);
  const auto [loader, before] = loader_for(plan, options, lanes);
  ScheduleProbe probe;
  ForkProbe forks;
  apply_delays(options, lanes, probe, forks);
  const ProbedForks probed(context, forks);
  std::vector<Lane*> lane_pointers;
  for (const LaneBinding& lane : lanes) lane_pointers.push_back(lane.lane);

  std::vector<Fields> cached;
  std::optional<Execution> execution;
  std::optional<Schedule> schedule;
  bool has_run = false;
  preparing_.clear();
  try {
    wait_for_caller(plan);
    if (options.cut && loader == nullptr) cached = fill_cache(plan, *options.cut);
    std::vector<std::uint64_t> digests;
    if (options.check_cache) digests = digests_of(cached);
    const std::size_t extra_bytes = warm_lanes(plan, lanes);
    reset_peak(context.device());
    execution.emplace(Execution::Setup{
        pipeline, context, plan, options, lanes, loader, before.counters, jpeg, slab_marks_,
        parameters, !pipeline.train_stage().module->buffers().empty(), cached, position,
        numerics.cudnn_benchmark && !tuned.contains(key_of(plan, lanes))});
    schedule.emplace(lane_pointers, plan.schedule.depth, plan.schedule.run_ahead, *execution,
                     &probe);
    const auto start = Clock::now();
    const std::uint64_t steps =
        schedule->run(options.steps, plan.schedule.driver, context.threads(), options.stop);
    const double wall_s = seconds_since(start);
    tuned.insert(key_of(plan, lanes));
    has_run = true;
    RunResult result = collect(plan, options, *execution, steps, wall_s, before);
    result.memory.predicted_extra_bytes = extra_bytes;
    if (options.check_cache) result.changed_fields = changed_fields(cached, digests);
    if (!options.last_step.empty() && !options.cut) loader_.reset();
    return result;
  } catch (...) {
    loader_.reset();
    std::string where = has_run ? "after the last step: " : preparing_ + "before the first step: ";
    if (schedule && !has_run) where = settle(options, *execution, *schedule);
    // What the failed run held is free again when memory_advice() looks for what would fit.
    schedule.reset();
    execution.reset();
    cached.clear();
    fail(plan, where, std::current_exception());
  }
}

std::string Trainer::Impl::settle(const RunOptions& options, Execution& execution,
                                  const Schedule& schedule) {
  const std::string& what = execution.failed(schedule.failed_lane(), schedule.failed_batch());
  const std::string step = "step " + std::to_string(position + schedule.failed_batch());
  absorb(options, execution.record());
  const bool counts = !options.cut && options.last_step.empty();
  const std::string first = "step " + std::to_string(position);
  if (counts && execution.has_diverged())
    spoiled_by_ = first + " and those behind it trained on a loss that is not finite";
  else if (counts && execution.is_midway())
    spoiled_by_ = first + " and those behind it are half trained";
  return (what.empty() ? "before " : what + " at ") + step + ": ";
}

void Trainer::Impl::fail(const Plan& plan, const std::string& where, std::exception_ptr error) {
  drop_gradients(parameters);
  std::string what;
  bool is_full = false;
  try {
    std::rethrow_exception(error);
  } catch (const DeviceLost& e) {
    throw DeviceLost(where + e.what());
  } catch (const c10::OutOfMemoryError&) {
    is_full = true;
  } catch (const std::exception& e) {
    what = is_out_of_memory(e) ? "out of memory. " + plain_remedy() : message_of(e);
  } catch (...) {
    what = "an exception that is no std::exception";
  }
  try {
    synchronize();
  } catch (const DeviceLost& e) {
    throw DeviceLost(where + what + "\n" + e.what());
  }
  throw Error(where + (is_full ? "out of device memory. " + memory_advice(plan) : what));
}

void Trainer::Impl::absorb(const RunOptions& options, const Record& record) {
  if (options.cut || !options.last_step.empty()) return;
  position += record.losses.size();
  loader_position_ = position;
  for (float loss : record.losses)
    loss_digest = chain64(loss_digest, std::bit_cast<std::uint32_t>(loss));
}

RunResult Trainer::Impl::collect(const Plan& plan, const RunOptions& options, Execution& execution,
                                 std::uint64_t steps, double wall_s, const InputSoFar& input) {
  RunResult result;
  Record& record = execution.record();
  result.plan = plan;
  result.first_step = position;
  result.steps = steps;
  result.interrupted = steps < options.steps;
  result.wall_s = wall_s;
  absorb(options, record);
  result.losses = std::move(record.losses);
  result.accuracies = std::move(record.accuracies);
  result.step_end_s = std::move(record.step_end_s);
  result.inputs = std::move(record.inputs);
  result.lanes = std::move(record.lanes);
  result.steps_per_second = step_rate(result, options.cut, pipeline.options().batch_size);
  for (LaneResult& lane : result.lanes) lane.waiting_s = std::max(0.0, wall_s - lane.busy_s);
  const InputSoFar now = input.counters.empty() ? InputSoFar{} : input_so_far();
  result.input_wait_share =
      input_wait_share(now.blocked_s - input.blocked_s, result.lanes.back().busy_s, wall_s);
  result.counters = now.counters;
  for (std::size_t i = 0; i < result.counters.size(); ++i)
    result.counters[i].subtract(input.counters[i]);
  for (StepCounter& counter : execution.counters()) result.counters.push_back(std::move(counter));
  if (loader_ != nullptr) result.skipped = loader_->skipped();
  result.skipped.places -= std::min(result.skipped.places, input.skipped_places);
  if (loader_ != nullptr && wire_formats(plan) == jpeg_wire_ && jpeg_ != nullptr)
    result.jpeg = JpegResult{now.jpeg.images - input.jpeg.images,
                             now.jpeg.on_cpu - input.jpeg.on_cpu, now.jpeg.engines};
  const auto since = [](auto counted, const auto& before) {
    if (counted && before) counted->subtract(*before);
    return counted;
  };
  result.cache = since(now.cache, input.cache);
  result.disk_cache = since(now.disk_cache, input.disk_cache);
  result.gains = gains(execution.loading_gain());
  result.memory.peak_bytes = peak_bytes(context.device());
  result.memory.reserved_bytes = reserved_bytes(context.device());
  result.memory.reserved_after_warm_up_bytes = record.reserved_after_warm_up_bytes;
  if (options.digest) result.digest = digest();
  return result;
}

void Trainer::Impl::synchronize() const {
  if (!context.device().is_cuda()) return;
  const c10::DeviceGuard device(context.device());
  cuda::check_cuda(cudaDeviceSynchronize());
}

std::uint64_t Trainer::Impl::digest() const {
  std::vector<at::Tensor> tensors = persistent;
  for (const at::Tensor& tensor : pipeline.train_stage().optimizer->state())
    tensors.push_back(tensor);
  return chain64(loss_digest, digest_of(tensors));
}

State Trainer::Impl::state() const {
  const at::NoGradGuard no_gradients;
  State state;
  for (const at::Tensor& tensor : persistent) state.tensors.push_back(tensor.detach().clone());
  for (const at::Tensor& tensor : pipeline.train_stage().optimizer->state())
    state.tensors.push_back(tensor.clone());
  state.position = position;
  state.loss_digest = loss_digest;
  state.spoiled_by = spoiled_by_;
  synchronize();
  return state;
}

void Trainer::Impl::restore(const State& state) {
  const at::NoGradGuard no_gradients;
  std::vector<at::Tensor> targets = persistent;
  for (const at::Tensor& tensor : pipeline.train_stage().optimizer->state())
    targets.push_back(tensor);
  if (targets.size() != state.tensors.size())
    throw Error("this state belongs to another pipeline: it has " +
                std::to_string(state.tensors.size()) + " tensors, not " +
                std::to_string(targets.size()));
  for (std::size_t i = 0; i < targets.size(); ++i) targets[i].detach().copy_(state.tensors[i]);
  position = state.position;
  loss_digest = state.loss_digest;
  spoiled_by_ = state.spoiled_by;
  synchronize();
  loader_.reset();
}

Trainer::Trainer(Pipeline pipeline, Context& context, const Plan::Numerics& numerics)
    : impl_(std::make_unique<Impl>(std::move(pipeline), context, numerics)) {}
Trainer::~Trainer() = default;

RunResult Trainer::run(const Plan& plan, const RunOptions& options) {
  return impl_->run(plan, options);
}
std::unique_ptr<DataLoader> Trainer::make_loader(const Plan& plan,
                                                 const std::optional<HostCut>& cut) const {
  return impl_->make_loader(impl_->loader_options(plan, cut));
}
State Trainer::state() { return impl_->state(); }
void Trainer::restore(const State& state) { impl_->restore(state); }
const Pipeline& Trainer::pipeline() const { return impl_->pipeline; }
const Plan::Numerics& Trainer::numerics() const { return impl_->numerics; }
Context& Trainer::context() const { return impl_->context; }
std::uint64_t Trainer::position() const { return impl_->position; }
std::uint64_t Trainer::digest() const { return impl_->digest(); }

}  // namespace slipstream
