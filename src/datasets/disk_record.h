#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "slipstream/core/array.h"

namespace slipstream {

inline constexpr std::size_t kMaxRecordFields = 32;

/// A sample's entry in the index of a disk cache: the position of its record. All zero if it is not
/// stored.
struct RecordSlot {
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
  std::uint64_t digest = 0;  ///< digest of the record
  std::uint64_t check = 0;   ///< checksum of the entry, the sample and the data set

  /// Computes the checksum of this entry. `seed` identifies the data set.
  std::uint64_t expected_check(std::uint64_t seed, std::uint64_t sample) const;
};
static_assert(sizeof(RecordSlot) == 32);

/// One field as stored in a record's header. The values of all fields follow without gaps.
struct StoredForm {
  std::uint32_t dtype = 0;
  std::uint16_t encoded = 0;
  std::uint16_t rank = 0;
  std::array<std::int64_t, Shape::kMaxRank> dims{};
};
static_assert(sizeof(StoredForm) == 40);

struct RecordForm {
  struct FieldForm {
    DType dtype = DType::uint8;
    bool encoded = false;
    Shape shape;
  };
  std::array<FieldForm, kMaxRecordFields> fields;

  /// Parses the header of a record of `bytes` bytes. Returns no value unless the fields are
  /// well-formed and exactly fill the record.
  /// REQUIRES: at most kMaxRecordFields
  static std::optional<RecordForm> parse(std::span<const StoredForm> head, std::uint64_t bytes);
};

StoredForm stored_form(const Field& field);

/// Computes the digest of a record from its header, then each field's values.
class RecordDigest {
 public:
  explicit RecordDigest(std::span<const StoredForm> head);
  void add(const ConstArray& values);
  std::uint64_t value() const { return digest_; }

 private:
  std::uint64_t digest_;
};

}  // namespace slipstream
