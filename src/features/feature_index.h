#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "features/feature_slot.h"

namespace slipstream {

/// A record that a FeatureIndex knows. Records have numbers from 0, in the order in which they were
/// added.
struct FeatureRecord {
  FeatureEntry entry;
  std::int64_t index = 0;      ///< index of the sample in its data set
  std::uint64_t digest = 0;    ///< fingerprint() of the record
  std::uint64_t position = 0;  ///< position in the record file
  std::uint32_t file = 0;      ///< number of the record file
  bool is_forgotten = false;
};

/// Finds records by entry: a hash table in memory, which takes about 70 bytes for each record. Not
/// thread-safe.
class FeatureIndex {
 public:
  FeatureIndex() : table_(kLeastSlots) {}

  /// Returns the number of the entry's record, or -1 if there is none.
  std::int64_t find(const FeatureEntry& entry) const;
  /// Adds a record. Returns false, and adds nothing, if there is a record of the same entry.
  bool add(const FeatureRecord& record);
  /// Removes the entry of a record. Its number stays valid. Another record may be added for the
  /// entry.
  void forget(std::uint64_t number);

  /// Returns the number of records that find() finds.
  std::size_t size() const { return size_; }
  /// Returns all records by number, forgotten ones included.
  const std::vector<FeatureRecord>& records() const { return records_; }

 private:
  static constexpr std::size_t kLeastSlots = 1024;  ///< a power of two

  std::size_t slot_for(const FeatureEntry& entry) const;
  void grow();

  std::vector<FeatureRecord> records_;
  /// Open addressing with linear probing. Each element is the number of a record plus 1; 0 is an
  /// empty slot. An entry keeps its slot when its record is forgotten.
  std::vector<std::uint64_t> table_;
  std::size_t used_ = 0;  ///< slots that are not empty
  std::size_t size_ = 0;
};

}  // namespace slipstream
