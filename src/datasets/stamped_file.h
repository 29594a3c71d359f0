#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>

namespace slipstream {

/// Which file it was, and in which state.
struct FileStamp {
  std::uint64_t size = 0;
  std::int64_t mtime_ns = 0;
  std::uint64_t inode = 0;
  std::int64_t ctime_ns = 0;  ///< of the inode: also moves with a new name, link or mode
  bool operator==(const FileStamp&) const = default;
  /// The same but for ctime, which moves though the contents stay.
  bool has_same_contents(const FileStamp& other) const {
    return size == other.size && mtime_ns == other.mtime_ns && inode == other.inode;
  }
};

/// Bytes that may be read at any offset, by several threads at once.
class ByteSource {
 public:
  ByteSource() = default;
  virtual ~ByteSource() = default;
  ByteSource(const ByteSource&) = delete;
  ByteSource& operator=(const ByteSource&) = delete;

  virtual std::uint64_t size() const = 0;
  /// Fills `to` from `offset`. REQUIRES: that lies within size()
  virtual void read(std::uint64_t offset, std::span<std::byte> to) const = 0;
};

/// An open regular file that must stay as it is.
class StampedFile final : public ByteSource {
 public:
  /// Throws Error naming the path and the reason.
  explicit StampedFile(std::filesystem::path path);
  /// The same, and where the file is not the one of `expected` any more.
  StampedFile(std::filesystem::path path, const FileStamp& expected);
  ~StampedFile() override;

  const FileStamp& stamp() const { return stamp_; }
  std::uint64_t size() const override { return stamp_.size; }
  /// Throws Error, naming the path, where the file was replaced, changed or shortened since it was
  /// opened: looked for after the bytes were read, so what is returned is of the old state.
  void read(std::uint64_t offset, std::span<std::byte> to) const override;

 private:
  [[noreturn]] void throw_changed(const char* how) const;

  std::filesystem::path path_;
  int fd_ = -1;
  FileStamp stamp_;
};

}  // namespace slipstream
