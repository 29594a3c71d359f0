#pragma once

#include <filesystem>

namespace slipstream {

/// Holds other conversions off a folder, by a lock on DIR/.convert.lock that the system takes back
/// when the process ends. Where the file system has no locks, nothing is held off.
class FolderLock {
 public:
  /// Makes the folder. Throws Refused where another conversion, of this process or another, has it;
  /// Error where the file cannot be made.
  explicit FolderLock(const std::filesystem::path& dir);
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  int fd_ = -1;
};

}  // namespace slipstream
