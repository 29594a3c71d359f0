#pragma once

#include <filesystem>
#include <memory>
#include <vector>

#include "core/sync.h"
#include "datasets/stamped_file.h"

namespace slipstream {

/// Open shards, at most so many (and those just in use, or being opened, by other threads): the
/// least recently used one is closed for another. No thread waits while another opens one.
class ShardFiles {
 public:
  explicit ShardFiles(std::size_t limit) : limit_(limit) {}

  /// Before the first open(). Gives the shard's number.
  std::size_t add(std::filesystem::path path, const FileStamp& stamp);
  const std::filesystem::path& path(std::size_t shard) const { return shards_[shard].path; }
  /// Of all shards, as they were added.
  std::uint64_t identity() const;
  /// Shared, so that a thread may go on reading what another one closes. Throws Error where the
  /// shard is not the file that was added any more.
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
