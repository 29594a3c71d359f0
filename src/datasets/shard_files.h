#pragma once

#include <filesystem>
#include <memory>
#include <vector>

#include "core/sync.h"
#include "datasets/stamped_file.h"

namespace slipstream {

/// Keeps at most `limit` shards open (plus those that other threads are just using or opening). To
/// open another, it closes the least recently used one. No thread waits while another opens a file.
/// Thread-safe after the last add().
class ShardFiles {
 public:
  explicit ShardFiles(std::size_t limit) : limit_(limit) {}

  /// Adds a shard and returns its index. Call it before the first open().
  std::size_t add(std::filesystem::path path, const FileStamp& stamp);
  const std::filesystem::path& path(std::size_t shard) const { return shards_[shard].path; }
  /// Identity of all shards in the order in which they were added.
  std::uint64_t identity() const;
  /// Opens a shard. The result is shared, so that a thread can continue to read a file that another
  /// thread evicts. Throws Error if the shard is no longer the file that was added.
  std::shared_ptr<const StampedFile> open(std::size_t shard) const SLIPSTREAM_EXCLUDES(mutex_);

 private:
  struct Shard {
    std::filesystem::path path;
    FileStamp stamp;
  };
  struct Open {
    std::size_t shard = 0;
    std::uint64_t last_use = 0;
    std::shared_ptr<const StampedFile> file;
  };

  std::shared_ptr<const StampedFile> use(std::size_t shard) const SLIPSTREAM_REQUIRES(mutex_);
  Open* find(std::size_t shard) const SLIPSTREAM_REQUIRES(mutex_);
  void make_room() const SLIPSTREAM_REQUIRES(mutex_);

  const std::size_t limit_;
  std::vector<Shard> shards_;
  mutable Mutex mutex_;
  mutable std::vector<Open> open_ SLIPSTREAM_GUARDED_BY(mutex_);
  mutable std::uint64_t uses_ SLIPSTREAM_GUARDED_BY(mutex_) = 0;
};

}  // namespace slipstream
