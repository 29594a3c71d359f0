#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>

namespace slipstream {

/// A file opened for reading. Opening a pipe does not wait for its writer (O_NONBLOCK).
class ReadableFile {
 public:
  explicit ReadableFile(const std::filesystem::path& path)
      : descriptor_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {}
  ~ReadableFile() {
    if (is_open()) ::close(descriptor_);
  }
  ReadableFile(const ReadableFile&) = delete;
  ReadableFile& operator=(const ReadableFile&) = delete;

  /// If false, errno holds the reason right after construction.
  bool is_open() const { return descriptor_ >= 0; }
  int descriptor() const { return descriptor_; }

 private:
  int descriptor_;
};

/// Reads until `to` is full or the file ends, at most `most` bytes per system call. Returns the
/// number of bytes read, or no value and errno if reading failed.
std::optional<std::size_t> read_at(int descriptor, std::uint64_t offset, std::span<std::byte> to,
                                   std::size_t most = SIZE_MAX);

/// Writes all of `bytes` at `offset`. Returns 0, or the errno of the failure.
int write_at(int descriptor, std::uint64_t offset, std::span<const std::byte> bytes);

}  // namespace slipstream
