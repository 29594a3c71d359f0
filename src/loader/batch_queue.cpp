#include "loader/batch_queue.h"

#include <utility>

#include "slipstream/core/error.h"

namespace slipstream {

void BatchQueue::add(std::uint64_t number, std::vector<Item> items) {
  ensure(!items.empty(), "a batch has at least one sample");
  const Lock lock(mutex_);
  batches_.push_back({number, std::move(items)});
}

std::uint64_t BatchQueue::size() const {
  const Lock lock(mutex_);
  return dropped_ + batches_.size();
}

bool BatchQueue::has(std::uint64_t batch) const {
  const Lock lock(mutex_);
  return batch >= dropped_ && batch - dropped_ < batches_.size();
}

std::size_t BatchQueue::batch_size(std::uint64_t batch) const {
  const Lock lock(mutex_);
  return get(batch).items.size();
}

std::uint64_t BatchQueue::number(std::uint64_t batch) const {
  const Lock lock(mutex_);
  return get(batch).number;
}

BatchQueue::Item BatchQueue::at(std::uint64_t batch, std::size_t position) const {
  const Lock lock(mutex_);
  const std::vector<Item>& all = get(batch).items;
  Item item = all[position % all.size()];
  // A sample that is repeated to fill a batch, or that replaces a bad one, gets other random
  // numbers than at its own position.
  item.occurrence = static_cast<std::uint16_t>(item.occurrence + position / all.size() * 1024);
  return item;
}

void BatchQueue::drop_before(std::uint64_t batch) {
  const Lock lock(mutex_);
  for (; dropped_ < batch && !batches_.empty(); ++dropped_) batches_.pop_front();
}

const BatchQueue::Batch& BatchQueue::get(std::uint64_t batch) const {
  ensure(batch >= dropped_ && batch - dropped_ < batches_.size(), "the batch is in the queue");
  return batches_[batch - dropped_];
}

}  // namespace slipstream
