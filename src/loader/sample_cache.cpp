#include "loader/sample_cache.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <new>

#include "core/round_up.h"
#include "slipstream/core/error.h"

namespace slipstream {
namespace {

constexpr std::size_t kAlignment = 64;
constexpr std::size_t kBlockBytes = std::size_t{64} << 20;
/// Samples larger than this get a separate block, so that less than an eighth of a shared block
/// stays unused.
constexpr std::size_t kSharedBytes = kBlockBytes / 8;

/// Marks a sample in the index as being copied, so that no other thread stores the same sample.
constexpr CachedField kBeingPut;

}  // namespace

static_assert(sizeof(CachedField) == 64, "CacheOptions::bytes documents this size");
static_assert(sizeof(std::atomic<const CachedField*>) == 8,
              "CacheOptions::bytes documents this size");

SampleCache::SampleCache(std::size_t samples, std::size_t fields, const CacheOptions& options)
    : fields_(fields),
      budget_(options.bytes),
      memory_(options.memory != nullptr ? options.memory : std::pmr::get_default_resource()) {
  ensure(index_bytes(samples) <= budget_, "a cache's budget is large enough for its index");
  const Lock lock(mutex_);
  try {
    auto* slots = static_cast<Slot*>(memory_->allocate(index_bytes(samples), kAlignment));
    std::uninitialized_value_construct_n(slots, samples);
    index_ = {slots, samples};
    taken_ = index_bytes(samples);
  } catch (const std::exception&) {
    is_filling_ = false;
  }
}

SampleCache::~SampleCache() {
  for (const Block& block : blocks_) memory_->deallocate(block.data, block.bytes, kAlignment);
  if (!index_.empty()) memory_->deallocate(index_.data(), index_bytes(index_.size()), kAlignment);
}

const CachedField* SampleCache::find_fields(std::uint64_t sample) const {
  if (index_.empty()) return nullptr;
  const CachedField* const found = index_[sample].load(std::memory_order_acquire);
  return found == &kBeingPut ? nullptr : found;
}

bool SampleCache::has(std::uint64_t sample) const { return find_fields(sample) != nullptr; }

std::span<const CachedField> SampleCache::find(std::uint64_t sample) {
  const CachedField* const found = find_fields(sample);
  (found != nullptr ? hits_ : misses_).fetch_add(1, std::memory_order_relaxed);
  if (found == nullptr) return {};
  return {found, fields_};
}

void SampleCache::put(std::uint64_t sample, const Sample& from) {
  ensure(from.fields.size() == fields_, "all samples of a cache have the same number of fields");
  // Saves work if the cache is full. Relaxed order is enough, because reserve() checks again under
  // the lock.
  if (!is_filling()) return;
  Slot& slot = index_[sample];
  const CachedField* absent = nullptr;
  if (!slot.compare_exchange_strong(absent, &kBeingPut)) return;
  std::size_t bytes = fields_ * sizeof(CachedField);
  for (const Field& field : from.fields) bytes += round_up(field.array.view().bytes(), kAlignment);
  std::byte* at = reserve(bytes);
  if (at == nullptr) return;  // the cache is full from now on, so the mark of this sample can stay
  auto* const fields = reinterpret_cast<CachedField*>(at);
  at += fields_ * sizeof(CachedField);
  for (std::size_t i = 0; i < fields_; ++i) {
    ConstArray value = from.fields[i].array.view();
    if (value.bytes() > 0) std::memcpy(at, value.data, value.bytes());
    value.data = at;
    std::construct_at(fields + i, CachedField{value, from.fields[i].encoded});
    at += round_up(value.bytes(), kAlignment);
  }
  // A thread that loads this pointer with acquire order also sees the copied values, so readers
  // need no lock.
  slot.store(fields, std::memory_order_release);
  samples_.fetch_add(1, std::memory_order_relaxed);
}

CacheCounters SampleCache::counters() const {
  CacheCounters counters;
  counters.samples = samples_;
  counters.hits = hits_;
  counters.misses = misses_;
  counters.is_filling = is_filling_;
  const Lock lock(mutex_);
  counters.bytes = taken_;
  return counters;
}

std::byte* SampleCache::reserve(std::size_t bytes) {
  const Lock lock(mutex_);
  if (!is_filling_) return nullptr;
  std::byte* reserved = nullptr;
  try {
    reserved = bytes > kSharedBytes ? add_block(bytes) : take_from_block(bytes);
  } catch (const std::exception&) {
  }
  // As CacheOptions promises, nothing is added after the first sample that does not fit.
  if (reserved == nullptr) is_filling_ = false;
  return reserved;
}

std::byte* SampleCache::take_from_block(std::size_t bytes) {
  if (bytes > left_) {
    const std::size_t size = std::min(kBlockBytes, budget_ - taken_);
    if (size < bytes) return nullptr;
    next_ = add_block(size);
    left_ = size;
  }
  left_ -= bytes;
  std::byte* const taken = next_;
  next_ += bytes;
  return taken;
}

std::byte* SampleCache::add_block(std::size_t bytes) {
  if (bytes > budget_ - taken_) return nullptr;
  blocks_.reserve(blocks_.size() + 1);
  blocks_.push_back({memory_->allocate(bytes, kAlignment), bytes});
  taken_ += bytes;
  return static_cast<std::byte*>(blocks_.back().data);
}

}  // namespace slipstream
