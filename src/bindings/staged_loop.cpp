#include "bindings/staged_loop.h"

#include <ATen/Parallel.h>
#include <ATen/PythonTorchFunctionTLS.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/impl/TorchDispatchModeTLS.h>
#include <c10/cuda/CUDAGuard.h>
#include <torch/csrc/autograd/python_variable.h>

#include <limits>
#include <tuple>
#include <utility>

#include "bindings/gil.h"
#include "bindings/loop_error.h"
#include "bindings/tree.h"
#include "cuda/cuda.h"
#include "engine/context_parts.h"
#include "slipstream/core/error.h"

namespace slipstream {
namespace {

namespace py = pybind11;

/// Makes a lane's stream the current one during its lifetime.
class LaneScope {
 public:
  LaneScope(Lane& lane, c10::Device device) {
    if (const auto* stream = dynamic_cast<const cuda::CudaLane*>(&lane))
      guard_.emplace(c10::cuda::getStreamFromExternal(stream->stream().get(), device.index()));
  }

 private:
  std::optional<c10::cuda::CUDAStreamGuard> guard_;
};

std::unique_ptr<Lane> callers_lane(c10::Device device,
                                   const std::optional<c10::cuda::CUDAStream>& stream) {
  if (!device.is_cuda()) return std::make_unique<HostLane>("body");
  return std::make_unique<cuda::BorrowedLane>(
      // Captures `stream` by reference, because the caller may make another stream the current one
      // between two batches.
      "body", device.index(), [&stream](const auto& enqueue) {
        const c10::cuda::CUDAGuard on(stream->device_index());
        enqueue(stream->stream());
      });
}

std::vector<Lane*> make_lanes(Context& context, const std::vector<LoopStage>& stages, Lane& body) {
  std::vector<Lane*> lanes = {&get_lane(context, "copy", 0)};
  for (const LoopStage& stage : stages) lanes.push_back(&get_lane(context, stage.name, 0));
  lanes.push_back(&body);
  return lanes;
}

/// Whether Python code, for example slipstream.verify, observes each operation of this thread.
/// Stages then run on this thread, because such code needs their operations in order.
bool sees_operations() {
  return c10::impl::TorchDispatchModeTLS::any_modes_set() ||
         at::impl::PythonTorchFunctionTLS::stack_len() > 0;
}

/// Selects the lanes with a thread. No lane can have one if its input is from another thread:
/// Python must first put that result into the batch.
std::vector<std::size_t> lanes_on_threads(bool copy_wants_one,
                                          const std::vector<LoopStage>& stages) {
  std::vector<std::size_t> lanes;
  const auto wants_one = [&](std::size_t lane) {
    if (lane > 0) return stages[lane - 1].script != nullptr && !sees_operations();
    // The copy calls operations from C++, which only dispatch modes observe.
    return copy_wants_one && !c10::impl::TorchDispatchModeTLS::any_modes_set();
  };
  for (std::size_t lane = 1; lane <= stages.size(); ++lane)
    if (wants_one(lane) && (lanes.empty() || lanes.back() + 1 != lane)) lanes.push_back(lane);
  if (wants_one(0) && (lanes.empty() || lanes.front() != 1)) lanes.insert(lanes.begin(), 0);
  return lanes;
}

/// Returns the first line of a message, because the other lines are Python's traceback.
std::string first_line(const std::exception& error) {
  const std::string text = error.what();
  return text.substr(0, text.find('\n'));
}

/// Calls function(), which calls the Python function of `stage` with the batch `input`.
template <typename Function>
auto in_python(const LoopStage& stage, const py::object& input, const Function& function) {
  try {
    return function();
  } catch (py::error_already_set& error) {
    if (error.matches(PyExc_StopIteration))
      throw_instead_of_stop(error, "stage '" + stage.name + "'");
    add_remedy(error, input);
    throw;
  }
}

/// Returns the result of stage.apply(), without calling it if `direct` allows. Each Python function
/// takes far longer during a training step, which has filled the CPU's caches, than by itself.
py::object applied(const LoopStage& stage, const py::object& batch, std::uint64_t number) {
  if (stage.takes_number) return call_python(stage.apply, py::make_tuple(batch, number));
  const auto direct = py::reinterpret_borrow<py::tuple>(stage.direct);
  py::object made;
  if (!direct.empty())
    made = with_applied(batch, stage.apply.attr("function"), direct[0], direct[1]);
  return made ? made : call_python(stage.apply, py::make_tuple(batch));
}

}  // namespace

StagedLoop::StagedLoop(std::shared_ptr<Feed> feed, std::vector<LoopStage> stages,
                       const std::shared_ptr<Context>& context, std::uint64_t first,
                       std::uint64_t limit, std::size_t run_ahead)
    : context_(context),
      stages_(std::move(stages)),
      device_(context->device()),
      first_(first),
      body_(callers_lane(device_, stream_)),
      lanes_(make_lanes(*context, stages_, *body_)),
      values_(lanes_.size(), std::vector<py::object>(lanes_.size())),
      moved_(lanes_.size()),
      calls_(lanes_.size(), std::vector<std::optional<ScriptStage::Call>>(lanes_.size())),
      failures_(lanes_.size()),
      memory_(lanes_.size()),
      begun_(lanes_.size()),
      entry_(body_->make_untimed_mark()),
      draws_(device_),
      input_(std::move(feed), limit, draws_),
      stop_([this] { return input_.is_over(); }),
      schedule_(new Schedule(lanes_, lanes_.size(), run_ahead, *this)) {}

StagedLoop::~StagedLoop() { close_quietly(); }

void StagedLoop::close_quietly() {
  try {
    close();
  } catch (const std::exception&) {
    // This fails only if the device is lost, and the next use of the device reports that.
  }
}

void StagedLoop::set_stream() {
  if (device_.is_cuda()) stream_ = c10::cuda::getCurrentCUDAStream(device_.index());
}

void StagedLoop::begin() {
  has_begun_ = true;
  set_stream();
  // The caller may already have enqueued writes to tensors that the stages read.
  body_->record(*entry_);
  for (Lane* lane : lanes_)
    if (lane != body_.get()) lane->wait(*entry_);
  std::vector<std::size_t> on_threads = lanes_on_threads(input_.wants_thread(), stages_);
  if (!on_threads.empty() && on_threads.front() == 0) {
    input_.move_to_thread();
    modes_.emplace();
  }
  if (!on_threads.empty()) threads_.emplace();
  schedule_->begin(std::numeric_limits<std::uint64_t>::max(), stop_,
                   threads_ ? &threads_->threads() : nullptr, std::move(on_threads));
}

std::optional<py::object> StagedLoop::next() {
  if (!ended_by_.empty())
    throw Error("this iteration has already ended with an error (" + ended_by_ +
                "). Remedy: start another one with iter(pipeline)");
  if (is_closed_) return std::nullopt;
  failed_.clear();
  try {
    if (!advance()) return std::nullopt;
  } catch (const std::exception& error) {
    ended_by_ = first_line(error);
    close_quietly();
    throw;
  }
  const std::size_t slot = given_++ % lanes_.size();
  draws_.begin();
  if (Failure failure = std::exchange(failures_[slot], {}); failure) {
    failed_ = failure.stage;
    if (failure.is_loaders) input_.resume();
    if (failure.error) std::rethrow_exception(failure.error);
    PyErr_SetObject(py::type::of(failure.raised).ptr(), failure.raised.ptr());
    throw py::error_already_set();
  }
  py::object batch = value(slot, stages_.size());
  autocast_.begin_body();
  return batch;
}

/// Advances the lanes until the caller's next batch is available. Returns false at the end.
bool StagedLoop::advance() {
  if (!has_begun_) begin();
  if (threads_ && !threads_->are_here())
    throw Refused(
        "this loop was started in the process that this one was forked from, whose threads do not "
        "exist here: start another one in this process");
  restore_lanes();
  bool is_there = false;
  try {
    const GilRelease unlocked;
    // Lanes that call Python acquire the GIL again for their calls.
    is_there = schedule_->next();
  } catch (...) {
    const std::size_t lane = schedule_->failed_lane();
    if (failed_.empty() && lane > 0 && lane <= stages_.size()) failed_ = stages_[lane - 1].name;
    throw;
  }
  if (is_there) return true;
  check_stages(/*is_at_end=*/true);
  close();
  return false;
}

/// Called when the caller has finished with its batch. It may still reference the one before.
void StagedLoop::restore_lanes() {
  const std::string differs = autocast_.end_body();
  if (!differs.empty()) throw LoopCheckFailed(differs);
  if (given_ == 0) return;
  const std::uint64_t batch = given_ - 1;
  draws_.end("the loop body", {batch, stages_.size() + 1});
  check_stages(/*is_at_end=*/false);
  clear(batch % lanes_.size());
  if (stream_ && batch > 0) {
    const std::lock_guard keeping(keeping_);
    // The loop's variables may have referred to the batch before until now. What is still
    // referenced was kept on purpose.
    for (LaneMemory& memory : memory_) memory.hand_to_holders(batch - 1, *stream_);
  }
  // The end of the batch is recorded on the stream that its loop body used. Only then is the stream
  // of the next one looked up.
  schedule_->done();
  set_stream();
}

int StagedLoop::traverse(visitproc visit, void* arg) const {
  for (const Failure& failure : failures_) Py_VISIT(failure.raised.ptr());
  return 0;
}

void StagedLoop::clear(std::size_t slot) {
  failures_[slot] = {};
  for (py::object& value : values_[slot]) value = {};
  for (auto& call : calls_[slot]) call.reset();
  moved_[slot].clear();
}

void StagedLoop::close() {
  if (std::exchange(is_closed_, true)) return;
  static_cast<void>(autocast_.end_body());
  if (threads_ && !threads_->are_here()) {
    static_cast<void>(schedule_.release());  // leaked: its destructor would wait for the threads
    // Leaked as well: the parent's threads write these, and may have been doing so during the fork.
    static_cast<void>(new std::tuple(std::move(memory_), std::move(moved_), std::move(calls_),
                                     std::move(failures_)));
    return;
  }
  if (threads_) {
    const GilRelease unlocked;
    // The thread of the copy may be waiting for a batch, and stop() waits for that thread.
    input_.interrupt();
    schedule_->stop();
  }
  for (std::size_t slot = 0; slot < values_.size(); ++slot) clear(slot);
  is_ending_ = true;
  schedule_->end();
  threads_.reset();
  input_.end();
}

bool StagedLoop::input_ready(std::uint64_t) { return input_.ready(); }

void StagedLoop::run(std::size_t lane, std::uint64_t batch, std::size_t slot) {
  ++begun_[lane];
  {
    const std::lock_guard keeping(keeping_);
    memory_[lane].add(batch);
  }
  const bool is_loaders = lane == 0 && input_.has_failed();
  try {
    if (!failures_[slot]) with_python_errors([&] { run_lane(lane, batch, slot); });
  } catch (const py::error_already_set& error) {
    if (ends_loop_at_once(error)) throw;
    const GilAcquire locked;
    keep_failure(lane, slot, is_loaders);
    // Stored as a Python object instead of a C++ exception, so that traverse() can show it to
    // Python's garbage collector.
    failures_[slot].raised = error.value();
    if (error.trace()) PyException_SetTraceback(error.value().ptr(), error.trace().ptr());
    failures_[slot].error = nullptr;
  } catch (const LoopCheckFailed&) {
    throw;
  } catch (const std::exception&) {
    keep_failure(lane, slot, is_loaders);
  }
}

/// Stores an error in place of its batch, so that earlier batches are returned first.
void StagedLoop::keep_failure(std::size_t lane, std::size_t slot, bool is_loaders) {
  std::string stage = lane > 0 ? stages_[lane - 1].name : std::string();
  // prepare_call() and value() call Python functions of other stages than the stage of `lane`, and
  // leave the stage's name in failed_. Only the caller's thread may use failed_.
  if (!schedule_->is_on_thread(lane) && !failed_.empty()) stage = std::exchange(failed_, {});
  failures_[slot] = {std::current_exception(), {}, std::move(stage), is_loaders};
}

void StagedLoop::run_lane(std::size_t lane, std::uint64_t batch, std::size_t slot) {
  if (schedule_->is_on_thread(lane)) return lane == 0 ? move(slot) : run_script(lane, slot);
  const GilAcquire locked;
  const LaneScope on(*lanes_[lane], device_);
  py::object made = lane == 0 ? copied() : staged(lane - 1, batch, value(slot, lane - 1));
  keep_own(lane, made);
  values_[slot][lane] = std::move(made);
  if (schedule_->is_on_thread(lane + 1)) prepare_call(lane + 1, slot);
}

void StagedLoop::move(std::size_t slot) {
  const LaneScope on(*lanes_.front(), device_);
  // The number of OpenMP threads is a setting of each thread. This applies PyTorch's setting to the
  // new thread.
  if (begun_.front() == 1) at::init_num_threads();
  // Without the caller's modes, a loop in inference mode would get tensors that are not of
  // inference mode.
  const at::ThreadLocalStateGuard modes(*modes_);
  moved_[slot] = input_.move(*lanes_.front());
  for (const at::Tensor& tensor : moved_[slot]) keep_own(0, tensor);
}

void StagedLoop::run_script(std::size_t lane, std::size_t slot) {
  const LaneScope on(*lanes_[lane], device_);
  if (begun_[lane] == 1) at::init_num_threads();
  ScriptStage::Call& call = *calls_[slot][lane];
  stages_[lane - 1].script->run(call);
  ScriptStage::for_each_tensor(call, [&](const at::Tensor& tensor) { keep_own(lane, tensor); });
}

void StagedLoop::prepare_call(std::size_t lane, std::size_t slot) {
  const LoopStage& stage = stages_[lane - 1];
  failed_ = stage.name;
  if (sees_operations())
    throw LoopCheckFailed("stage '" + stage.name +
                          "' is TorchScript and runs on a thread to which a mode that is entered "
                          "inside the loop does not apply. Remedy: enter it before the loop");
  const py::object& input = values_[slot][lane - 1];
  const py::tuple arguments = in_python(stage, input, [&] {
    const at::NoGradGuard no_gradients;
    return py::tuple(call_python(stage.arguments, py::make_tuple(input)));
  });
  for_each_leaf(arguments, [&](const at::Tensor& tensor) { refuse_computed(lane, tensor); }, {});
  calls_[slot][lane] = stage.script->call(arguments);
  failed_.clear();
}

/// Refuses a batch that computes a tensor at each access: the tensor would be neither computed in
/// advance nor kept for its stream.
void StagedLoop::refuse_computed(std::size_t lane, const at::Tensor& tensor) {
  const bool is_subclass = !THPVariable_CheckExact(py::cast(tensor).ptr());
  const std::lock_guard keeping(keeping_);
  bool is_kept = false;
  for (std::size_t before = 0; before < lane && tensor.has_storage(); ++before)
    is_kept = is_kept || memory_[before].has(tensor.storage());
  if (is_kept && !is_subclass) return;
  throw Error("stage '" + stages_[lane - 1].name + "' is TorchScript, but its input is " +
              (is_subclass ? "of a subclass of torch.Tensor"
                           : "computed by the batch when it is read (a property)") +
              ". Remedy: give a function that calls it, such as lambda images: encoder(images)");
}

const py::object& StagedLoop::value(std::size_t slot, std::size_t lane) {
  py::object& value = values_[slot][lane];
  // A lane's thread creates no Python objects. The caller's thread creates them when they are
  // needed first.
  if (!schedule_->is_on_thread(lane) || value) return value;
  if (lane == 0) return value = py::tuple(py::cast(moved_[slot]));
  const LoopStage& stage = stages_[lane - 1];
  failed_ = stage.name;
  const py::object& input = values_[slot][lane - 1];
  value = in_python(stage, input, [&] {
    const at::NoGradGuard no_gradients;
    return call_python(stage.placed,
                       py::make_tuple(input, ScriptStage::result(*calls_[slot][lane])));
  });
  failed_.clear();
  return value;
}

py::object StagedLoop::copied() {
  // Such a batch was created by work on the caller's stream, which the copy lane must not overtake.
  if (input_.is_on_device()) {
    body_->record(*entry_);
    lanes_.front()->wait(*entry_);
  }
  return input_.moved(*lanes_.front());
}

py::object StagedLoop::staged(std::size_t index, std::uint64_t batch, const py::object& from) {
  const LoopStage& stage = stages_[index];
  const std::string who = "stage '" + stage.name + "'";
  const at::NoGradGuard no_gradients;
  draws_.begin();
  py::object made;
  {
    std::optional<KeyedDraws> keyed;
    if (stage.seed) keyed.emplace(device_, *stage.seed, first_ + batch);
    const bool is_watched = autocast_.is_on() && !stage.chooses_autocast;
    if (is_watched) autocast_.begin_stage();
    made = in_python(stage, from, [&] { return applied(stage, from, first_ + batch); });
    if (is_watched) autocast_.end_stage(stage.name);
  }
  draws_.end(who, {batch, index + 1});
  return made;
}

void StagedLoop::check_stages(bool is_at_end) {
  for (LoopStage& stage : stages_)
    if (const std::string change = stage.watch.change(is_at_end); !change.empty())
      throw LoopCheckFailed("stage '" + stage.name + "' runs ahead of the loop body, but " +
                            change +
                            " since the loop began. Remedy: do not change the stage in the loop "
                            "body (no optimizer, no running average, no train() of a model that it "
                            "is part of), or call it in the loop body");
}

void StagedLoop::keep_own(std::size_t lane, const py::object& made) {
  for_each_leaf(
      made, [&](const at::Tensor& tensor) { keep_own(lane, tensor); },
      [&](py::handle object) {
        const std::lock_guard keeping(keeping_);
        memory_[lane].keep(object);
      });
}

void StagedLoop::keep_own(std::size_t lane, const at::Tensor& tensor) {
  if (tensor.device().type() != device_.type()) return;
  const std::lock_guard keeping(keeping_);
  if (tensor.has_storage()) {
    for (std::size_t before = 0; before < lane; ++before)
      if (memory_[before].has(tensor.storage())) return;
    if (memory_[lane].newest_has(tensor.storage())) return;
    refuse_same_memory(lane, tensor);
  }
  memory_[lane].keep(tensor);
}

/// Refuses a batch that overwrites an earlier one. Batches may share memory, but only unchanged.
void StagedLoop::refuse_same_memory(std::size_t lane, const at::Tensor& tensor) {
  if (tensor.numel() == 0) return;  // an empty tensor cannot be overwritten
  // A CUDA graph that computes a stage's output does not increment PyTorch's version counter.
  if (!memory_[lane].is_overwritten_by(tensor, /*is_strict=*/lane > 0)) return;
  if (lane > 0)
    throw LoopCheckFailed(
        "stage '" + stages_[lane - 1].name +
        "' returned the same memory for two batches, so the later one overwrites the earlier one. "
        "Remedy: return a clone() of memory that the stage keeps, such as outputs of CUDA graphs "
        "(torch.compile(mode=\"reduce-overhead\"))");
  throw LoopCheckFailed(
      "the loader returned the same memory for two batches, and changed it while the earlier batch "
      "was still in use. Remedy: return a clone(), or new memory for each batch");
}

void StagedLoop::drop(std::size_t lane, std::size_t slot) {
  std::optional<GilAcquire> locked;
  // A lane's thread must not wait for the GIL. What belongs to it in values_ was cleared by the
  // caller's thread, in restore_lanes().
  if (is_ending_ || !schedule_->is_on_thread(lane)) {
    locked.emplace();
    values_[slot][lane] = {};
  }
  // Destroyed after keeping_ is unlocked, because freeing it may need the GIL.
  std::vector<LaneMemory::BatchMemory> gone;
  const std::lock_guard keeping(keeping_);
  if (is_ending_) {
    if (stream_) memory_[lane].hand_to_holders(std::nullopt, *stream_);
    gone = memory_[lane].take(std::numeric_limits<std::uint64_t>::max());
    return;
  }
  // The lane has waited for the end of the loop body for this batch. The next loop body may still
  // use the batch.
  const std::uint64_t reach = lanes_.size() - lane;
  if (begun_[lane] >= reach + 1) gone = memory_[lane].take(begun_[lane] - reach - 1);
}

}  // namespace slipstream
