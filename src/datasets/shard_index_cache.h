#pragma once

#include <filesystem>
#include <memory>

#include "datasets/shard_index.h"

namespace slipstream {

/// A shard's index with what holds its bytes: memory.
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

/// The files where a shard's index may be, in the order in which they are tried, as
/// TarShardOptions::index_dir says.
std::vector<std::filesystem::path> index_paths(const std::filesystem::path& shard,
                                               const std::filesystem::path& index_dir);

/// Takes the index from one of `paths`, or builds it and keeps it in the first that can be written,
/// or in memory. Throws Error naming the shard.
StoredShardIndex load_shard_index(const std::filesystem::path& shard, const StampedFile& file,
                                  const std::vector<std::filesystem::path>& paths);

}  // namespace slipstream
