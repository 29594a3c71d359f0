#include "datasets/shard_index_cache.h"

#include <cstdlib>
#include <utility>

#include "core/files.h"
#include "core/fingerprint.h"
#include "slipstream/core/error.h"

namespace slipstream {
namespace {

namespace fs = std::filesystem;
using Bytes = StoredShardIndex::Bytes;

const char* const kSuffix = ".slipstream-index";

class InMemory final : public Bytes {
 public:
  explicit InMemory(std::vector<std::byte> bytes) : bytes_(std::move(bytes)) {}
  std::span<const std::byte> view() const override { return bytes_; }

 private:
  std::vector<std::byte> bytes_;
};

/// Reads an index file; empty if it cannot be read. It is not mapped, because shortening a mapped
/// file would kill the process (SIGBUS). It allocates no more memory than the index of a shard of
/// `shard_bytes` can need.
std::vector<std::byte> read_index_bytes(const fs::path& path, std::uint64_t shard_bytes) {
  try {
    const StampedFile file(path);
    if (file.size() > most_index_bytes(shard_bytes)) return {};
    std::vector<std::byte> bytes(file.size());
    file.read(0, bytes);
    return bytes;
  } catch (const Error&) {
    return {};
  }
}

std::optional<StoredShardIndex> load(const fs::path& path, const FileStamp& stamp) {
  auto bytes = std::make_unique<InMemory>(read_index_bytes(path, stamp.size));
  const std::optional<ShardIndex> index = ShardIndex::parse(bytes->view(), stamp);
  if (!index) return std::nullopt;
  return StoredShardIndex(std::move(bytes), *index);
}

bool keep(const fs::path& path, std::span<const std::byte> bytes) {
  try {
    std::error_code ignored;
    fs::create_directories(path.parent_path(), ignored);
    write_own_file(path, bytes);
  } catch (const Error&) {
    return false;
  }
  return true;
}

fs::path absolute_variable(const char* name) {
  const char* value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): no thread changes it
  const fs::path path = value == nullptr ? "" : value;
  return path.is_absolute() ? path : fs::path();
}

fs::path cache_dir() {
  if (const fs::path cache = absolute_variable("XDG_CACHE_HOME"); !cache.empty()) {
    return cache / "slipstream";
  }
  const fs::path home = absolute_variable("HOME");
  return home.empty() ? home : home / ".cache" / "slipstream";
}

}  // namespace

std::vector<fs::path> index_paths(const fs::path& shard, const fs::path& index_dir) {
  std::error_code ignored;
  const std::string whole = fs::absolute(shard, ignored).lexically_normal().string();
  const std::string name = shard.filename().string() + kSuffix;
  // Shards with the same name from different folders may share one folder of indexes.
  const std::string unique = to_hex(fingerprint(whole.data(), whole.size())) + "-" + name;
  if (!index_dir.empty()) return {index_dir / unique};
  std::vector<fs::path> paths = {shard.parent_path() / name};
  if (const fs::path cache = cache_dir(); !cache.empty()) paths.push_back(cache / unique);
  return paths;
}

StoredShardIndex load_shard_index(const fs::path& shard, const StampedFile& file,
                                  const std::vector<fs::path>& paths) {
  for (const fs::path& path : paths) {
    if (auto index = load(path, file.stamp())) return std::move(*index);
  }
  std::vector<std::byte> built;
  try {
    built = build_shard_index(file, file.stamp());
  } catch (const Error& error) {
    throw Error("shard '" + shard.string() + "': " + error.what());
  }
  for (const fs::path& path : paths) {
    if (!keep(path, built)) continue;
    if (auto index = load(path, file.stamp())) return std::move(*index);
  }
  auto bytes = std::make_unique<InMemory>(std::move(built));
  const std::optional<ShardIndex> index = ShardIndex::parse(bytes->view(), file.stamp());
  ensure(index.has_value(), "an index that was just built can be read");
  return {std::move(bytes), *index};
}

}  // namespace slipstream
