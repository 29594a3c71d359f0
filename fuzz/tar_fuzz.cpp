#include "byte_source.h"
#include "datasets/shard_index.h"
#include "slipstream/core/error.h"

/// An archive is refused, or its index is one that may be read.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace slipstream;
  const InputSource shard({reinterpret_cast<const std::byte*>(data), size});
  const FileStamp stamp{size, 1, 2};
  std::vector<std::byte> index;
  try {
    index = build_shard_index(shard, stamp);
  } catch (const Error&) {
    return 0;
  }
  if (!ShardIndex::parse(index, stamp)) std::abort();
  return 0;
}
