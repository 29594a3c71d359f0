#include "core/file_bytes.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace slipstream {

std::optional<std::size_t> read_at(int descriptor, std::uint64_t offset, std::span<std::byte> to,
                                   std::size_t most) {
  std::size_t done = 0;
  while (done < to.size()) {
    const ::ssize_t got = ::pread(descriptor, to.data() + done, std::min(most, to.size() - done),
                                  static_cast<::off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return std::nullopt;
    if (got == 0) break;
    done += static_cast<std::size_t>(got);
  }
  return done;
}

int write_at(int descriptor, std::uint64_t offset, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ::ssize_t put =
        ::pwrite(descriptor, bytes.data(), bytes.size(), static_cast<::off_t>(offset));
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) return put < 0 ? errno : ENOSPC;
    offset += static_cast<std::uint64_t>(put);
    bytes = bytes.subspan(static_cast<std::size_t>(put));
  }
  return 0;
}

}  // namespace slipstream
