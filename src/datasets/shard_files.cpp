#include "datasets/shard_files.h"

#include <algorithm>
#include <utility>

#include "datasets/identity.h"

namespace slipstream {

std::size_t ShardFiles::add(std::filesystem::path path, const FileStamp& stamp) {
  shards_.push_back({std::move(path), stamp});
  return shards_.size() - 1;
}

std::uint64_t ShardFiles::identity() const {
  Identity identity;
  for (const Shard& shard : shards_) identity.add(shard.path, shard.stamp);
  return identity.value();
}

std::shared_ptr<const StampedFile> ShardFiles::open(std::size_t shard) const {
  {
    const Lock lock(mutex_);
    if (auto file = use(shard)) return file;
    make_room();
  }
  // Opened without holding the lock, so that no thread waits while another opens a file.
  const Shard& wanted = shards_.at(shard);
  const auto opened = std::make_shared<StampedFile>(wanted.path, wanted.stamp);
  const Lock lock(mutex_);
  // Another thread may have opened the shard meanwhile.
  if (auto file = use(shard)) return file;
  make_room();
  open_.push_back({shard, ++uses_, opened});
  return opened;
}

std::shared_ptr<const StampedFile> ShardFiles::use(std::size_t shard) const {
  Open* const found = find(shard);
  if (found == nullptr) return nullptr;
  found->last_use = ++uses_;
  return found->file;
}

ShardFiles::Open* ShardFiles::find(std::size_t shard) const {
  for (Open& open : open_) {
    if (open.shard == shard) return &open;
  }
  return nullptr;
}

void ShardFiles::make_room() const {
  if (open_.size() < limit_) return;
  const auto oldest =
      std::min_element(open_.begin(), open_.end(),
                       [](const Open& a, const Open& b) { return a.last_use < b.last_use; });
  *oldest = std::move(open_.back());
  open_.pop_back();
}

}  // namespace slipstream
