#include "data/cache_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

namespace slipstream {

CacheFile::~CacheFile() {
  if (is_open()) ::close(fd_);
}

int CacheFile::open(const std::filesystem::path& path, bool is_writable) {
  const int mode = is_writable ? O_RDWR | O_CREAT : O_RDONLY;
  const int fd = ::open(path.c_str(), mode | O_CLOEXEC | O_NONBLOCK, 0666);
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
  while (!to.empty()) {
    const ::ssize_t got = ::pread(fd_, to.data(), to.size(), static_cast<::off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    offset += static_cast<std::uint64_t>(got);
    to = to.subspan(static_cast<std::size_t>(got));
  }
  return true;
}

int CacheFile::write(std::uint64_t offset, std::span<const std::byte> bytes) const {
  while (!bytes.empty()) {
    const ::ssize_t put = ::pwrite(fd_, bytes.data(), bytes.size(), static_cast<::off_t>(offset));
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) return put < 0 ? errno : ENOSPC;
    offset += static_cast<std::uint64_t>(put);
    bytes = bytes.subspan(static_cast<std::size_t>(put));
  }
  return 0;
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
