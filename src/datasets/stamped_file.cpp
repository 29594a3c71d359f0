#include "datasets/stamped_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <utility>

#include "core/file_bytes.h"
#include "datasets/read_chunk.h"
#include "datasets/storage_error.h"

namespace slipstream {
namespace {

FileStamp make_stamp(const struct ::stat& status) {
  constexpr std::int64_t kNsPerS = 1'000'000'000;
  return {static_cast<std::uint64_t>(status.st_size),
          status.st_mtim.tv_sec * kNsPerS + status.st_mtim.tv_nsec, status.st_ino,
          status.st_ctim.tv_sec * kNsPerS + status.st_ctim.tv_nsec};
}

}  // namespace

StampedFile::StampedFile(std::filesystem::path path)
    // O_NONBLOCK: opening a pipe would wait for its writer.
    : path_(std::move(path)), fd_(::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
  if (fd_ < 0) throw_errno("cannot open", path_, errno);
  struct ::stat status {};
  const int error = ::fstat(fd_, &status) != 0 ? errno : S_ISDIR(status.st_mode) ? EISDIR : 0;
  if (error != 0 || !S_ISREG(status.st_mode)) {
    ::close(fd_);
    if (error != 0) throw_errno("cannot read", path_, error);
    throw Error("cannot read '" + path_.string() + "': not a regular file");
  }
  stamp_ = make_stamp(status);
}

StampedFile::StampedFile(std::filesystem::path path, const FileStamp& expected)
    : StampedFile(std::move(path)) {
  if (!stamp_.has_same_contents(expected))
    throw_changed("is not the file it was when the data set was opened");
}

StampedFile::~StampedFile() { ::close(fd_); }

void StampedFile::read(std::uint64_t offset, std::span<std::byte> to) const {
  const auto got = read_at(fd_, offset, to, ReadChunk::of(to.size()));
  if (!got) throw_errno("cannot read", path_, errno);
  // Everything is checked after the bytes were read: a change before that moved the stamp, and a
  // later one cannot affect them.
  if (*got < to.size()) throw_changed("became shorter while it was in use");
  struct ::stat status {};
  if (::fstat(fd_, &status) != 0) throw_errno("cannot read", path_, errno);
  // Replacing a file by renaming another one leaves the open file without a name.
  if (status.st_nlink == 0) throw_changed("was replaced or removed while it was in use");
  if (!make_stamp(status).has_same_contents(stamp_))
    throw_changed("was changed while it was in use");
}

void StampedFile::throw_changed(const char* how) const {
  throw StorageError("'" + path_.string() + "' " + how +
                     "; leave data in place while it is read, and start again");
}

}  // namespace slipstream
