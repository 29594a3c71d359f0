#include "loader/sampler.h"

#include <utility>

#include "loader/draw_table.h"
#include "loader/permutation.h"
#include "slipstream/core/error.h"

namespace slipstream {

Sampler::Sampler(std::uint64_t samples, bool shuffle, std::uint64_t seed, Sampling sampling)
    : samples_(samples), shuffle_(shuffle), seed_(seed), sampling_(std::move(sampling)) {
  ensure(samples > 0, "a sampler needs a sample");
  ensure(sampling_.size().value_or(samples) == samples, "every sample has its label or weight");
}

TakenSample Sampler::take(std::uint32_t epoch, std::uint64_t position) const {
  if (sampling_.table_ != nullptr) {
    return sampling_.table_->take({seed_, shuffle_}, epoch, position);
  }
  if (!shuffle_) return {position, 0};
  return {permuted(position, samples_, {seed_, OrderPurpose::places, epoch, 0}), 0};
}

std::uint64_t Sampler::occurrences() const {
  return sampling_.table_ == nullptr ? 1 : sampling_.table_->occurrences();
}

}  // namespace slipstream
