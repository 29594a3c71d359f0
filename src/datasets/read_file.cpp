#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <string>

#include "core/file_bytes.h"
#include "datasets/read_chunk.h"
#include "datasets/storage_error.h"
#include "slipstream/codecs/image.h"

namespace slipstream {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kMostBytes = std::int64_t{1} << 30;

}  // namespace

void read_file(const fs::path& path, HostArray& out) {
  const ReadableFile file(path);
  if (!file.is_open()) throw_errno("cannot open", path, errno);
  struct ::stat status {};
  if (::fstat(file.descriptor(), &status) != 0) throw_errno("cannot read", path, errno);
  if (S_ISDIR(status.st_mode)) throw_errno("cannot read", path, EISDIR);
  if (!S_ISREG(status.st_mode))
    throw Error("cannot read '" + path.string() + "': not a regular file");

  if (status.st_size > kMostBytes)
    throw Error("'" + path.string() + "' has " + std::to_string(status.st_size) +
                " bytes; files of up to " + std::to_string(kMostBytes) + " bytes (1 GiB) are read");

  const MutableArray to = out.reset(DType::uint8, {status.st_size});
  std::size_t done = 0;
  while (done < to.bytes()) {
    const ::ssize_t got =
        ::read(file.descriptor(), to.data + done, ReadChunk::of(to.bytes() - done));
    if (got < 0 && errno != EINTR) throw_errno("cannot read", path, errno);
    // Not a bad sample: the file was complete when fstat() returned its size.
    if (got == 0) throw StorageError("'" + path.string() + "' became shorter while it was read");
    if (got > 0) done += static_cast<std::size_t>(got);
  }
}

}  // namespace slipstream
