#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "datasets/shard_index.h"
#include "datasets/tar.h"

namespace slipstream {

/// Groups the members of an archive into samples, in order. Uses 16 bytes per sample.
class ShardSamples {
 public:
  explicit ShardSamples(const ByteSource& shard) : shard_(shard), reader_(shard) {}

  /// Returns the next sample, or no value at the end. Throws Error as tar_shards() does, naming the
  /// member.
  std::optional<ShardSample> next();

  std::size_t count() const { return keys_.size(); }
  ShardFieldSet fields() const { return fields_; }         ///< fields of every sample so far
  const UnreadFormats& unread() const { return unread_; }  ///< count so far
  const SkippedMembers& skipped() const { return skipped_; }

 private:
  /// Moves to the next member that is a field. Returns false at the end.
  bool advance();
  void count_unread(const TarMember& member);
  /// Returns true if a member with this key is elsewhere than in the last sample. Reads to the end.
  bool has_more_members(const std::string& key);
  void take(ShardSample& sample, ShardFieldSet& fields);
  void check_fields(ShardFieldSet fields, const std::string& key);
  /// Throws Error if two samples that are not adjacent have one key.
  void check_keys();

  const ByteSource& shard_;
  TarReader reader_;
  TarMember member_;
  std::optional<ShardName> name_;  ///< name of member_, which belongs to no sample yet
  bool is_started_ = false;
  ShardFieldSet fields_;
  UnreadFormats unread_;
  SkippedMembers skipped_;
  std::string first_key_;
  std::vector<std::pair<std::uint64_t, std::uint64_t>> keys_;  ///< hash of the key, header
};

}  // namespace slipstream
