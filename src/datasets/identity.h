#pragma once

#include <filesystem>
#include <string_view>

#include "core/fingerprint.h"
#include "datasets/stamped_file.h"

namespace slipstream {

/// Computes a Dataset::identity() from items in order.
class Identity {
 public:
  void add(std::uint64_t item) { digest_ = chain64(digest_, item); }
  void add(std::string_view text) { add(fingerprint(text.data(), text.size())); }
  /// Adds a file's path, size and modification time. (Not its inode, so a copy with the same time
  /// has the same identity.)
  void add(const std::filesystem::path& path, const FileStamp& stamp) {
    add(path.native());
    add(stamp.size);
    add(static_cast<std::uint64_t>(stamp.mtime_ns));
  }

  std::uint64_t value() const { return digest_; }

 private:
  std::uint64_t digest_ = 0;
};

}  // namespace slipstream
