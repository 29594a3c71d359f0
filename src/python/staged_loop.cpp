#include "python/staged_loop.h"

#include <ATen/core/grad_mode.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include <algorithm>
#include <limits>

#include "cuda/cuda.h"
#include "python/tree.h"
#include "slipstream/core/error.h"

namespace slipstream {
namespace {

namespace py = pybind11;

/// Makes a lane's stream the current one.
class OnLane {
 public:
  OnLane(Lane& lane, c10::Device device) {
    if (const auto* stream = dynamic_cast<const cuda::CudaLane*>(&lane))
      guard_.emplace(c10::cuda::getStreamFromExternal(stream->stream().get(), device.index()));
  }

 private:
  std::optional<c10::cuda::CUDAStreamGuard> guard_;
};

bool has(const std::vector<c10::Storage>& storages, const c10::Storage& storage) {
  return std::any_of(storages.begin(), storages.end(),
                     [&](const c10::Storage& each) { return each.is_alias_of(storage); });
}

std::uint32_t version_of(const at::Tensor& tensor) {
  return tensor.is_inference() ? 0 : static_cast<std::uint32_t>(tensor._version());
}

}  // namespace

StagedLoop::StagedLoop(std::shared_ptr<Feed> feed, std::vector<LoopStage> stages,
                       std::vector<Lane*> lanes, c10::Device device, std::size_t run_ahead,
                       std::uint64_t epoch)
    : feed_(std::move(feed)),
      stages_(std::move(stages)),
      lanes_(std::move(lanes)),
      device_(device),
      epoch_(epoch),
      parts_(lanes_.size(), std::vector<Part>(lanes_.size())),
      entry_(lanes_.back()->make_mark()),
      draws_(device),
      stop_([this] { return is_over(); }),
      schedule_(lanes_, lanes_.size(), run_ahead, *this) {
  for (const LoopStage& stage : stages_) {
    std::vector<std::uint32_t>& versions = versions_.emplace_back();
    for (const at::Tensor& tensor : stage.reads) versions.push_back(version_of(tensor));
  }
}

StagedLoop::~StagedLoop() {
  try {
    close();
  } catch (const std::exception&) {
    // Only where the device is lost, which its next use tells.
  }
}

void StagedLoop::begin() {
  has_begun_ = true;
  // What the caller has enqueued so far may have written what the stages read.
  lanes_.back()->record(*entry_);
  for (Lane* lane : lanes_)
    if (lane != lanes_.back()) lane->wait(*entry_);
  schedule_.begin(std::numeric_limits<std::uint64_t>::max(), stop_);
}

std::optional<py::object> StagedLoop::next() {
  if (is_closed_) return std::nullopt;
  if (!has_begun_) begin();
  if (given_ > 0) take_back(given_ - 1);
  bool is_there = false;
  {
    const py::gil_scoped_release unlocked;
    is_there = schedule_.next();
  }
  if (!is_there) {
    close();
    return std::nullopt;
  }
  const std::uint64_t batch = given_++;
  if (DrawOrder::looks_at(batch)) draws_.begin();
  return parts_[batch % lanes_.size()][stages_.size()].value;
}

/// The caller is done with its batch: what nobody else holds of it are then the lanes' own
/// memories.
void StagedLoop::take_back(std::uint64_t batch) {
  if (DrawOrder::looks_at(batch)) draws_.end("the loop's body");
  for (Part& part : parts_[batch % lanes_.size()]) part.value = {};
}

void StagedLoop::close() {
  if (std::exchange(is_closed_, true)) return;
  for (auto& slot : parts_)
    for (Part& part : slot) part.value = {};
  schedule_.end();
  feed_.reset();
}

bool StagedLoop::input_ready(std::uint64_t) { return has_item_ || has_ended_ || feed_->ready(); }

bool StagedLoop::is_over() {
  if (has_item_ || has_ended_) return has_ended_;
  const bool is_looking = DrawOrder::looks_at(given_);
  if (is_looking) draws_.begin();
  has_item_ = feed_->take();
  if (is_looking) draws_.end("the loader");
  has_ended_ = !has_item_;
  return has_ended_;
}

void StagedLoop::run(std::size_t lane, std::uint64_t batch, std::size_t slot) {
  const py::gil_scoped_acquire locked;
  Part& part = parts_[slot][lane];
  if (lane == 0) {
    copy(part);
  } else {
    run_stage(lane - 1, batch, parts_[slot][lane - 1], part);
  }
  keep_own(lane, slot);
}

void StagedLoop::copy(Part& part) {
  if (feed_->is_on_device()) {
    lanes_.back()->record(*entry_);
    lanes_.front()->wait(*entry_);
  }
  const OnLane on(*lanes_.front(), device_);
  part.value = feed_->moved(*lanes_.front());
  has_item_ = false;
}

void StagedLoop::run_stage(std::size_t index, std::uint64_t batch, const Part& from, Part& part) {
  const LoopStage& stage = stages_[index];
  const std::string who = "stage '" + stage.name + "'";
  try {
    check_reads(index);
    const OnLane on(*lanes_[index + 1], device_);
    const at::NoGradGuard no_gradients;
    std::optional<KeyedDraws> keyed;
    if (stage.seed) keyed.emplace(device_, *stage.seed, (epoch_ << 32) + batch);
    const bool is_looking = !keyed && DrawOrder::looks_at(batch);
    if (is_looking) draws_.begin();
    part.value = stage.apply(from.value);
    if (is_looking) draws_.end(who);
  } catch (...) {
    failed_ = stage.name;
    throw;
  }
}

void StagedLoop::check_reads(std::size_t index) {
  const LoopStage& stage = stages_[index];
  for (std::size_t i = 0; i < stage.reads.size(); ++i)
    if (version_of(stage.reads[i]) != versions_[index][i])
      throw Error("stage '" + stage.name +
                  "' runs ahead of the loop's body, but one of its weights or buffers has been "
                  "written since the loop began. Remedy: leave the stage alone in the body (no "
                  "optimizer, no running average, no training mode), or call it in the body");
}

void StagedLoop::keep_own(std::size_t lane, std::size_t slot) {
  Part& part = parts_[slot][lane];
  for_each_tensor(part.value, [&](const at::Tensor& tensor) {
    if (!tensor.has_storage() || tensor.device().type() != device_.type()) return;
    const c10::Storage& storage = tensor.storage();
    for (std::size_t before = 0; before <= lane; ++before)
      if (has(parts_[slot][before].own, storage)) return;
    for (std::size_t other = 0; other < parts_.size(); ++other) {
      if (other == slot || lane == 0 || !has(parts_[other][lane].own, storage)) continue;
      failed_ = stages_[lane - 1].name;
      throw Error("stage '" + failed_ +
                  "' gave the same memory for two batches, so that the later one overwrites the "
                  "earlier one. Remedy: return a clone() of what it keeps (outputs of CUDA graphs, "
                  "such as those of torch.compile(mode=\"reduce-overhead\"), are such memory)");
    }
    part.own.push_back(storage);
  });
}

void StagedLoop::drop(std::size_t lane, std::size_t slot) {
  const py::gil_scoped_acquire locked;
  Part& part = parts_[slot][lane];
  part.value = {};
  if (device_.is_cuda()) {
    for (const c10::Storage& storage : part.own)
      if (storage.use_count() > 1)  // kept beyond the batch: its memory is the keeper's now
        c10::cuda::CUDACachingAllocator::recordStream(
            storage.data_ptr(), c10::cuda::getCurrentCUDAStream(device_.index()));
  }
  part.own.clear();
}

}  // namespace slipstream
