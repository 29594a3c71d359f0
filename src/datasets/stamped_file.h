#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>

namespace slipstream {

/// Identifies a file and its state.
struct FileStamp {
  std::uint64_t size = 0;
  std::int64_t mtime_ns = 0;
  std::uint64_t inode = 0;
  /// Time of the last change of the inode, which includes its name, links and mode.
  std::int64_t ctime_ns = 0;
  bool operator==(const FileStamp&) const = default;
  /// Returns true if everything but ctime is equal, because ctime changes without a change of the
  /// contents.
  bool has_same_contents(const FileStamp& other) const {
    return size == other.size && mtime_ns == other.mtime_ns && inode == other.inode;
  }
};

/// Bytes that can be read at any offset. Thread-safe.
class ByteSource {
 public:
  ByteSource() = default;
  virtual ~ByteSource() = default;
  ByteSource(const ByteSource&) = delete;
  ByteSource& operator=(const ByteSource&) = delete;

  virtual std::uint64_t size() const = 0;
  /// Fills `to` from `offset`.
  /// REQUIRES: the range is inside size()
  virtual void read(std::uint64_t offset, std::span<std::byte> to) const = 0;
};

/// An open regular file that must not change.
class StampedFile final : public ByteSource {
 public:
  /// Opens the file. Throws Error with the path and the reason.
  explicit StampedFile(std::filesystem::path path);
  /// Opens the file, and throws Error also if it is no longer the file of `expected`.
  StampedFile(std::filesystem::path path, const FileStamp& expected);
  ~StampedFile() override;

  const FileStamp& stamp() const { return stamp_; }
  std::uint64_t size() const override { return stamp_.size; }
  /// Reads bytes. Throws Error with the path if the file was replaced, changed or shortened since
  /// it was opened. This is checked after the bytes were read, so bytes that are returned are of
  /// the old state.
  void read(std::uint64_t offset, std::span<std::byte> to) const override;

 private:
  [[noreturn]] void throw_changed(const char* how) const;

  std::filesystem::path path_;
  int fd_ = -1;
  FileStamp stamp_;
};

}  // namespace slipstream
