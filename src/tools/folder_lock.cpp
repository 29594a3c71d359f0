#include "tools/folder_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <system_error>

#include "core/plain_message.h"
#include "datasets/npy_manifest.h"
#include "slipstream/core/error.h"

namespace slipstream {

FolderLock::FolderLock(const std::filesystem::path& dir) {
  std::error_code failed;
  std::filesystem::create_directories(dir, failed);
  if (failed)
    throw Refused("cannot create the folder '" + dir.string() + "': " + failed.message() +
                  "; give another one");
  const std::filesystem::path path = lock_path(dir);
  // O_NOFOLLOW: a link of that name could make this create a file anywhere.
  fd_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0666);
  if (fd_ < 0)
    throw Refused("cannot write '" + path.string() + "': " + errno_message(errno) +
                  "; give another folder");
  // Other errors mean that the file system has no locks; converting without one is better than not
  // at all.
  if (::flock(fd_, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) return;
  ::close(fd_);
  throw Refused("another convert is writing to '" + dir.string() +
                "'; wait until it has ended, or give another folder");
}

FolderLock::~FolderLock() { ::close(fd_); }

}  // namespace slipstream
