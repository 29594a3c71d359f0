#pragma once

#include <algorithm>
#include <cstddef>
#include <utility>

namespace slipstream {

/// While it exists, read_file(), StampedFile and CacheFile read at most `bytes` per system call in
/// this thread; 0 means without a limit. It is a property of the thread, not of a data set, so that
/// it also applies inside data sets that wrap others and in user-defined ones.
class ReadChunk {
 public:
  explicit ReadChunk(std::size_t bytes) : before_(std::exchange(of_thread, bytes)) {}
  ~ReadChunk() { of_thread = before_; }
  ReadChunk(const ReadChunk&) = delete;
  ReadChunk& operator=(const ReadChunk&) = delete;

  /// Number of bytes that the next system call may read of `missing` bytes.
  static std::size_t of(std::size_t missing) {
    return of_thread == 0 ? missing : std::min(missing, of_thread);
  }

 private:
  static inline thread_local std::size_t of_thread = 0;
  std::size_t before_;
};

}  // namespace slipstream
