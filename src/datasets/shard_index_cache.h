#pragma once

#include <filesystem>
#include <memory>

#include "datasets/shard_index.h"

namespace slipstream {

/// A shard's index together with the memory of its bytes.
class StoredShardIndex {
 public:
  class Bytes {
   public:
    Bytes() = default;
    virtual ~Bytes() = default;
    Bytes(const Bytes&) = delete;
    Bytes& operator=(const Bytes&) = delete;
    virtual std::span<const std::byte> view() const = 0;
  };

  StoredShardIndex(std::unique_ptr<const Bytes> bytes, const ShardIndex& index)
      : bytes_(std::move(bytes)), index_(index) {}
  const ShardIndex& operator*() const { return index_; }
  const ShardIndex* operator->() const { return &index_; }

 private:
  std::unique_ptr<const Bytes> bytes_;
  ShardIndex index_;
};

/// Returns the candidate files for a shard's index, in the order in which they are tried, as
/// specified by TarShardOptions::index_dir.
std::vector<std::filesystem::path> index_paths(const std::filesystem::path& shard,
                                               const std::filesystem::path& index_dir);

/// Loads the index from one of `paths`, or builds it and stores it in the first that is writable,
/// or keeps it only in memory. Throws Error with the shard's name.
StoredShardIndex load_shard_index(const std::filesystem::path& shard, const StampedFile& file,
                                  const std::vector<std::filesystem::path>& paths);

}  // namespace slipstream
