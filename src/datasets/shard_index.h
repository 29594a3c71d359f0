#pragma once

#include <array>
#include <bit>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "datasets/decompressor.h"
#include "datasets/folders.h"
#include "datasets/stamped_file.h"

namespace slipstream {

enum class ShardField : std::uint8_t { image, label, mask };
inline constexpr std::array kAllShardFields = {ShardField::image, ShardField::label,
                                               ShardField::mask};
inline constexpr std::size_t kShardFields = kAllShardFields.size();

/// A set of ShardFields.
class ShardFieldSet {
 public:
  ShardFieldSet() = default;
  explicit ShardFieldSet(std::uint32_t bits) : bits_(bits) {}
  bool has(ShardField field) const { return (bits_ >> static_cast<unsigned>(field) & 1) != 0; }
  void add(ShardField field) { bits_ |= 1U << static_cast<unsigned>(field); }
  std::uint32_t bits() const { return bits_; }
  std::size_t count() const { return static_cast<std::size_t>(std::popcount(bits_)); }
  std::string text() const;  ///< "image, label"
  bool operator==(const ShardFieldSet&) const = default;

 private:
  std::uint32_t bits_ = 0;
};

struct ShardMember {
  std::uint64_t offset = 0;
  std::uint64_t size = 0;
  Compression compression = Compression::none;
};

struct ShardSample {
  std::uint64_t header = 0;  ///< offset of the image's header, to read its name
  std::array<ShardMember, kShardFields> members{};
};

/// Counts members that belong to no sample, except images in unsupported formats.
struct SkippedMembers {
  std::uint64_t members = 0;  ///< that are not hidden
  std::uint64_t first = 0;    ///< offset of the first member's header
  std::uint64_t images = 0;   ///< images among these, whose names have an additional dot
  std::uint64_t first_image = 0;
  std::uint64_t hidden = 0;
  std::uint64_t first_hidden = 0;

  bool operator==(const SkippedMembers&) const = default;
};

/// The parts of a member's name.
struct ShardName {
  std::string key;
  ShardField field = ShardField::image;
  Compression compression = Compression::none;
};
std::optional<ShardName> parse_shard_name(std::string_view name);

/// Reads a shard's headers and returns its index as bytes, for a shard with this stamp. Throws
/// Error as tar_shards() does, but without the shard's name.
std::vector<std::byte> build_shard_index(const ByteSource& shard, const FileStamp& stamp);

/// Maximum size of the index of a shard of this size.
std::uint64_t most_index_bytes(std::uint64_t shard_bytes);

/// A view of an index: a header, then records of fixed size, then UnreadFormats::Counts and
/// SkippedMembers. Borrows the bytes.
class ShardIndex {
 public:
  ShardIndex() = default;
  /// Returns no value unless `bytes`, which must outlive the result, are a complete and undamaged
  /// index of the shard with this stamp and all members are inside the shard.
  static std::optional<ShardIndex> parse(std::span<const std::byte> bytes, const FileStamp& stamp);

  std::size_t size() const { return samples_; }
  ShardFieldSet fields() const { return fields_; }
  ShardSample sample(std::size_t index) const;
  /// Counts of members in unsupported image formats.
  UnreadFormats unread() const;
  SkippedMembers skipped() const;

 private:
  std::span<const std::byte> records_, unread_;
  std::size_t samples_ = 0;
  ShardFieldSet fields_;
};

}  // namespace slipstream
