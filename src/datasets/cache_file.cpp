#include "datasets/cache_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "core/file_bytes.h"
#include "datasets/read_chunk.h"

namespace slipstream {

CacheFile::~CacheFile() {
  if (is_open()) ::close(fd_);
}

int CacheFile::open(const std::filesystem::path& path, bool is_writable) {
  const int mode = is_writable ? O_RDWR | O_CREAT : O_RDONLY;
  // O_NOFOLLOW: a link in a shared folder could name any file of the user. O_NONBLOCK: opening a
  // pipe would wait.
  const int fd = ::open(path.c_str(), mode | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW, 0666);
  if (fd < 0) return errno;
  struct ::stat status {};
  const int error = ::fstat(fd, &status) != 0 ? errno : S_ISREG(status.st_mode) ? 0 : EINVAL;
  if (error != 0) {
    ::close(fd);
    return error;
  }
  fd_ = fd;
  return 0;
}

bool CacheFile::read(std::uint64_t offset, std::span<std::byte> to) const {
  return read_at(fd_, offset, to, ReadChunk::of(to.size())) == to.size();
}

int CacheFile::write(std::uint64_t offset, std::span<const std::byte> bytes) const {
  return write_at(fd_, offset, bytes);
}

std::optional<std::uint64_t> CacheFile::size() const {
  struct ::stat status {};
  if (::fstat(fd_, &status) != 0) return std::nullopt;
  return static_cast<std::uint64_t>(status.st_size);
}

int CacheFile::resize(std::uint64_t bytes) const {
  while (::ftruncate(fd_, static_cast<::off_t>(bytes)) != 0) {
    if (errno != EINTR) return errno;
  }
  return 0;
}

int CacheFile::try_lock(LockKind kind) const {
  const int operation = kind == LockKind::exclusive ? LOCK_EX : LOCK_SH;
  while (::flock(fd_, operation | LOCK_NB) != 0) {
    if (errno != EINTR) return errno;
  }
  return 0;
}

CacheFile::Hold::Hold(const CacheFile& file) : file_(file) {
  while (::flock(file_.fd_, LOCK_EX) != 0) {
    if (errno == EINTR) continue;
    error_ = errno;
    return;
  }
}

CacheFile::Hold::~Hold() {
  if (error_ == 0) ::flock(file_.fd_, LOCK_UN);
}

}  // namespace slipstream
