#pragma once

#include <torch/csrc/utils/pybind.h>

#include <cstdint>
#include <exception>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/batch_lister.h"

namespace slipstream {

/// A batch that a sampler lists: for each sample, its index and how often the epoch has used it.
using ListedBatch = std::vector<std::pair<std::uint64_t, std::uint16_t>>;

/// Converts a batch to items of a queue. Throws Error for an index that a data set of `samples`
/// samples does not have.
std::vector<BatchQueue::Item> make_items(const ListedBatch& batch, std::uint64_t samples);

/// The order of a training whose loader has a sampler.
struct OrderSettings {
  pybind11::object order;  ///< a slipstream._training_order.TrainingOrder
  std::uint64_t batches_per_epoch = 1;
  std::size_t batch_size = 1;  ///< samples in the largest batch
};

/// Lists the batches of a sampler in Python. The GIL is acquired only to list more batches, and for
/// states.
class PythonLister final : public BatchLister {
 public:
  /// `kept`: the list for the called object (kept_in()). `samples`: those of the data set. `steps`:
  /// the number of batches of the whole training; no further batch is listed.
  PythonLister(const OrderSettings& settings, pybind11::handle kept, std::uint64_t samples,
               std::uint64_t steps);

  std::uint64_t batches_per_epoch() const override { return batches_per_epoch_; }
  std::shared_ptr<BatchQueue> queue() const override { return queue_; }
  void list(std::uint64_t trained, std::uint64_t next, std::uint64_t end) override;
  std::string state(std::uint64_t position) override;
  void restore(std::uint64_t position, const std::string& state) override;

 private:
  std::vector<BatchQueue::Item> make_batch(const ListedBatch& batch) const;

  pybind11::handle order_;
  const std::uint64_t batches_per_epoch_;
  const std::size_t batch_size_;
  const std::uint64_t samples_, steps_;
  std::shared_ptr<BatchQueue> queue_ = std::make_shared<BatchQueue>();
  std::exception_ptr invalid_;  ///< error of the batch after those in the queue
};

}  // namespace slipstream
