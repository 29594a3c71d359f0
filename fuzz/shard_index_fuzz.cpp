#include <cstdlib>
#include <cstring>

#include "core/fingerprint.h"
#include "datasets/shard_index.h"

/// Whatever stands in an index file, what is accepted lies within the shard. The digest is made
/// good, for the fuzzer to get behind it; the stamp is taken from the input.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace slipstream;
  std::vector<std::byte> bytes(size);
  if (size > 0) std::memcpy(bytes.data(), data, size);
  FileStamp stamp;
  if (size >= 48) {
    const std::uint64_t digest = fingerprint(bytes.data() + 16, size - 16);
    std::memcpy(bytes.data() + 8, &digest, 8);
    std::memcpy(&stamp.size, bytes.data() + 16, 8);
    std::memcpy(&stamp.mtime_ns, bytes.data() + 24, 8);
    std::memcpy(&stamp.inode, bytes.data() + 32, 8);
    std::memcpy(&stamp.ctime_ns, bytes.data() + 40, 8);
  }
  const auto index = ShardIndex::parse(bytes, stamp);
  if (!index) return 0;
  for (std::size_t i = 0; i < index->size(); ++i) {
    for (const ShardMember& member : index->sample(i).members) {
      if (member.offset > stamp.size || member.size > stamp.size - member.offset) std::abort();
    }
  }
  return 0;
}
