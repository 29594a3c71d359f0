#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>

namespace slipstream {

/// A regular file that several threads and processes read and write at any offset. Functions that
/// return an int return 0, or the errno of the failure.
class CacheFile {
 public:
  CacheFile() = default;
  ~CacheFile();
  CacheFile(const CacheFile&) = delete;
  CacheFile& operator=(const CacheFile&) = delete;

  /// Opens the file, or creates it if it may be written.
  /// REQUIRES: not open
  int open(const std::filesystem::path& path, bool is_writable);
  bool is_open() const { return fd_ >= 0; }

  /// Fills `to`, or returns false if the file ends before or cannot be read.
  bool read(std::uint64_t offset, std::span<std::byte> to) const;
  int write(std::uint64_t offset, std::span<const std::byte> bytes) const;
  std::optional<std::uint64_t> size() const;
  int resize(std::uint64_t bytes) const;

  /// Who may hold a lock at the same time: one holder, or any number of holders.
  enum class LockKind : std::uint8_t { exclusive, shared };
  /// Takes a lock (flock) without waiting, and holds it until the file is closed. Returns
  /// EWOULDBLOCK if a lock of another process or another CacheFile does not allow it. A process
  /// that was forked meanwhile holds the lock, too.
  int try_lock(LockKind kind) const;

  /// Holds an exclusive lock (flock) against other processes and other CacheFiles for a scope.
  /// Threads that share a CacheFile share the lock, so they need a mutex as well.
  class Hold {
   public:
    explicit Hold(const CacheFile& file);
    ~Hold();
    Hold(const Hold&) = delete;
    Hold& operator=(const Hold&) = delete;
    int error() const { return error_; }

   private:
    const CacheFile& file_;
    int error_ = 0;
  };

 private:
  int fd_ = -1;
};

}  // namespace slipstream
