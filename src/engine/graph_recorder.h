#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <functional>
#include <memory>
#include <vector>

namespace slipstream {

/// Work of a lane that was recorded once and can be repeated.
class RecordedWork {
 public:
  virtual ~RecordedWork() = default;
  /// Enqueues the work on the current stream.
  virtual void replay() = 0;
};

/// Records the work of one device step. One thread at a time may use it.
class GraphRecorder {
 public:
  virtual ~GraphRecorder() = default;
  /// Returns the tensors that it computed. May be called during the lifetime of the RecordedWork.
  using Work = std::function<std::vector<at::Tensor>()>;
  /// Calls `work` and records what it enqueues on the current stream, without running it. The
  /// memory of tensors that `work` creates belongs to the result: each replay() writes to it. If
  /// `work` throws or needs what cannot be recorded, throws, and no tensor has changed.
  virtual std::unique_ptr<RecordedWork> record(const Work& work) = 0;
};

/// Returns a recorder of CUDA graphs on `device`.
///
/// for_training = false: each graph has separate memory, so that its results stay valid while other
/// graphs are replayed. The work must not use PyTorch's default generator, whose state another lane
/// may use at the same time.
/// for_training = true: all graphs share memory, so the results of one are valid until the next
/// replay of another. The work may use PyTorch's default generator.
std::unique_ptr<GraphRecorder> make_cuda_recorder(c10::Device device, bool for_training);

/// Makes the recorder of a step, as make_cuda_recorder() does.
using MakeRecorder = std::function<std::unique_ptr<GraphRecorder>(c10::Device, bool for_training)>;

}  // namespace slipstream
