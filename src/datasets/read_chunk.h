#pragma once

#include <algorithm>
#include <cstddef>
#include <utility>

namespace slipstream {

/// While it lives, read_file(), StampedFile and CacheFile ask the operating system for at most
/// `bytes` at once in this thread; 0: for all they need. Of the thread, not of a data set, so that
/// it holds through data sets made of others and in a user's own.
class ReadChunk {
 public:
  explicit ReadChunk(std::size_t bytes) : before_(std::exchange(of_thread, bytes)) {}
  ~ReadChunk() { of_thread = before_; }
  ReadChunk(const ReadChunk&) = delete;
  ReadChunk& operator=(const ReadChunk&) = delete;

  /// How many of `missing` bytes the next request is for.
  static std::size_t of(std::size_t missing) {
    return of_thread == 0 ? missing : std::min(missing, of_thread);
  }

 private:
  static inline thread_local std::size_t of_thread = 0;
  std::size_t before_;
};

}  // namespace slipstream
