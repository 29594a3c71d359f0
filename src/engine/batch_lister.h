#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "loader/batch_queue.h"
#include "slipstream/engine/pipeline.h"
#include "slipstream/engine/trainer.h"

namespace slipstream {

/// Lists the batches of a training whose order the library does not compute. Batches are numbered
/// through all epochs, as the steps of the trainer. One thread at a time calls it, except for
/// queue(), which may be called from any thread during a run.
class BatchLister {
 public:
  virtual ~BatchLister() = default;

  virtual std::uint64_t batches_per_epoch() const = 0;
  /// Returns the queue of the batches that have been listed and not been trained. restore()
  /// replaces it.
  virtual std::shared_ptr<BatchQueue> queue() const = 0;
  /// Lists batches up to `end`, exclusive, or up to the end of the training. `trained`: the number
  /// of trained batches, which are removed from the queue. `next`: the batch that is needed next.
  /// If a batch cannot be listed, its error is thrown when that batch is `next`.
  virtual void list(std::uint64_t trained, std::uint64_t next, std::uint64_t end) = 0;
  /// Returns the state with which restore() makes `position` the next batch. REQUIRES: `position`
  /// is that of the last restore(), or batches before it have been listed; it is not before
  /// `trained` of the last list()
  virtual std::string state(std::uint64_t position) = 0;
  /// Makes `position` the next batch. An empty `state` is only valid for position 0. Throws Refused
  /// if the state belongs to another order.
  virtual void restore(std::uint64_t position, const std::string& state) = 0;
};

/// Returns the lister of the batches of a run; nullptr if their order is computed. Runs with a cut
/// or a last step only measure and must not change the lister's position.
inline BatchLister* lister_of_run(const Pipeline& pipeline, const RunOptions& options) {
  return options.cut || !options.last_step.empty() ? nullptr : pipeline.lister().get();
}

}  // namespace slipstream
