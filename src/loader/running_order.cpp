#include "loader/running_order.h"

#include <algorithm>

namespace slipstream {

RunningOrder::RunningOrder(std::uint64_t samples, const DataLoaderOptions& options)
    : listed_(options.batches),
      sampler_(samples, options.shuffle, options.seed, options.sampler),
      batch_size_(options.batch_size),
      step_(batch_size_ * options.rank.count),
      offset_(batch_size_ * options.rank.index),
      last_offset_(offset_),
      batches_(samples / step_),
      places_(batches_ * batch_size_),
      occurrences_(sampler_.occurrences()) {
  const std::uint64_t rest = samples % step_;
  if (options.drop_last) {
    places_ += std::min<std::uint64_t>(rest - std::min(rest, offset_), batch_size_);
  } else if (rest > 0) {
    ++batches_;
    const std::size_t share = options.shares_last_step ? last_share(samples, options) : batch_size_;
    last_offset_ = share * options.rank.index;
    places_ += share;
    // Samples from the beginning of the epoch that complete the last batches are taken a second
    // time.
    occurrences_ *= 2;
  }
}

std::size_t last_share(std::uint64_t samples, const DataLoaderOptions& options) {
  const std::uint64_t rest = samples % (options.batch_size * options.rank.count);
  if (rest == 0) return options.batch_size;
  return (rest + options.rank.count - 1) / options.rank.count;
}

std::uint32_t RunningOrder::epoch_at(std::uint64_t batch) const {
  return listed_ != nullptr ? static_cast<std::uint32_t>(listed_->number(batch) >> 32)
                            : static_cast<std::uint32_t>(batch / batches_);
}

std::uint64_t RunningOrder::places(std::uint64_t batch) const {
  return listed_ != nullptr ? listed_->batch_size(batch) : places_;
}

SamplePosition RunningOrder::at(std::uint64_t batch, std::size_t position,
                                std::uint16_t distance) const {
  if (listed_ != nullptr) {
    const BatchQueue::Item item = listed_->at(batch, position + distance);
    const std::uint64_t number = listed_->number(batch);
    return {batch,       position,        static_cast<std::uint32_t>(number >> 32),
            item.sample, item.occurrence, static_cast<std::uint32_t>(position),
            number};
  }
  const std::uint32_t epoch = epoch_at(batch);
  const std::uint64_t place = (batch % batches_ * batch_size_ + position + distance) % places_;
  const std::uint64_t step = place / batch_size_;
  const std::uint64_t offset = step + 1 == batches_ ? last_offset_ : offset_;
  const std::uint64_t of_all = step * step_ + offset + place % batch_size_;
  const bool again = of_all >= sampler_.size();
  const TakenSample taken = sampler_.take(epoch, again ? of_all - sampler_.size() : of_all);
  const std::uint64_t occurrence =
      taken.occurrence + (again ? sampler_.occurrences() : 0) + distance * occurrences_;
  return {batch,
          position,
          epoch,
          taken.sample,
          static_cast<std::uint16_t>(occurrence),
          static_cast<std::uint32_t>(offset_ + position),
          batch};
}

void check_order(std::uint64_t samples, const DataLoaderOptions& options,
                 std::vector<std::string>& problems) {
  if (options.batches != nullptr) return;
  const auto& [index, count] = options.rank;
  if (count == 0) {
    problems.emplace_back("0 ranks: give at least 1");
  } else if (index >= count) {
    problems.push_back("rank " + std::to_string(index) + " of " + std::to_string(count) +
                       ": ranks are counted from 0");
  }
  // A batch that is too large for one rank is reported with the layout, so it is not reported again
  // here.
  const bool fits_one = options.batch_size > 0 && options.batch_size <= samples;
  // Ranks that share the last step need only one sample each, because an epoch may be a single
  // incomplete step.
  const std::uint64_t most_ranks =
      options.shares_last_step ? samples : samples / std::max<std::size_t>(options.batch_size, 1);
  if (fits_one && count > most_ranks) {
    problems.push_back(
        std::to_string(count) + " ranks with batch size " + std::to_string(options.batch_size) +
        " need more than the " + std::to_string(samples) +
        " samples of the data set for one step: give smaller batches or fewer ranks");
  }
  const std::uint64_t given = options.sampler.size().value_or(samples);
  if (given != samples) {
    problems.push_back("the sampling has labels or weights of " + std::to_string(given) +
                       " samples, but the data set has " + std::to_string(samples) +
                       ": give one for each");
  }
}

}  // namespace slipstream
