#pragma once

#include <filesystem>

namespace slipstream {

/// Locks a folder against other conversions, through a lock on DIR/.convert.lock that the system
/// releases when the process ends. On file systems without locks it does nothing.
class FolderLock {
 public:
  /// Creates the folder and locks it. Throws Refused if another conversion, of this or another
  /// process, holds the lock, or if the folder or the lock file cannot be created.
  explicit FolderLock(const std::filesystem::path& dir);
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  int fd_ = -1;
};

}  // namespace slipstream
