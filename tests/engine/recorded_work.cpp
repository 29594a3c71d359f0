#include "engine/recorded_work.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/from_blob.h>

#include <stdexcept>
#include <utility>

namespace slipstream::test {
namespace {

/// Returns a tensor of the same memory that does not keep it alive, as a CUDA graph does not.
at::Tensor borrow(const at::Tensor& tensor) {
  return at::from_blob(tensor.data_ptr(), tensor.sizes(), tensor.strides(),
                       tensor.options().requires_grad(false));
}

class Repeated final : public RecordedWork {
 public:
  Repeated(GraphRecorder::Work work, std::vector<at::Tensor> first,
           std::shared_ptr<Recordings> recordings)
      : work_(std::move(work)), first_(std::move(first)), recordings_(std::move(recordings)) {}

  void replay() override {
    ++recordings_->replays;
    const std::vector<at::Tensor> computed = work_();
    const at::NoGradGuard no_gradients;
    for (std::size_t i = 0; i < computed.size(); ++i) {
      if (first_[i].const_data_ptr() != computed[i].const_data_ptr()) first_[i].copy_(computed[i]);
      if (recordings_->error != 0) first_.front().add_(recordings_->error);
    }
  }

 private:
  GraphRecorder::Work work_;
  std::vector<at::Tensor> first_;
  std::shared_ptr<Recordings> recordings_;
};

}  // namespace

std::unique_ptr<RecordedWork> FakeRecorder::record(const Work& work) {
  ++recordings_->records;
  const std::function<void()> restore = recordings_->save();
  std::vector<at::Tensor> first;
  for (const at::Tensor& each : work()) first.push_back(borrow(each));
  restore();
  if (!recordings_->failure.empty()) throw std::runtime_error(recordings_->failure);
  return std::make_unique<Repeated>(work, std::move(first), recordings_);
}

}  // namespace slipstream::test
