#include "features/feature_index.h"

#include "core/fingerprint.h"

namespace slipstream {

std::size_t FeatureIndex::slot_for(const FeatureEntry& entry) const {
  const std::size_t mask = table_.size() - 1;
  std::size_t slot = chain64(mix64(entry.sample), entry.version) & mask;
  // The table is at most half full, so the loop always ends at an empty slot.
  while (table_[slot] != 0 && records_[table_[slot] - 1].entry != entry) slot = (slot + 1) & mask;
  return slot;
}

std::int64_t FeatureIndex::find(const FeatureEntry& entry) const {
  const std::uint64_t number = table_[slot_for(entry)];
  if (number == 0 || records_[number - 1].is_forgotten) return -1;
  return static_cast<std::int64_t>(number - 1);
}

bool FeatureIndex::add(const FeatureRecord& record) {
  if (2 * (used_ + 1) > table_.size()) grow();
  std::uint64_t& number = table_[slot_for(record.entry)];
  if (number != 0 && !records_[number - 1].is_forgotten) return false;
  if (number == 0) ++used_;
  records_.push_back(record);
  number = records_.size();
  ++size_;
  return true;
}

void FeatureIndex::forget(std::uint64_t number) {
  if (records_[number].is_forgotten) return;
  records_[number].is_forgotten = true;
  --size_;
}

void FeatureIndex::grow() {
  const std::vector<std::uint64_t> before = std::move(table_);
  table_.assign(2 * before.size(), 0);
  for (const std::uint64_t number : before)
    if (number != 0) table_[slot_for(records_[number - 1].entry)] = number;
}

}  // namespace slipstream
