#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>

namespace slipstream {

/// Writes one .tar (ustar) under a temporary name in its folder and renames it when it is complete.
/// An incomplete file is removed.
class ShardWriter {
 public:
  /// Creates the file. Throws Error if that fails.
  explicit ShardWriter(std::filesystem::path path);
  ~ShardWriter();
  ShardWriter(const ShardWriter&) = delete;
  ShardWriter& operator=(const ShardWriter&) = delete;

  /// Adds a member.
  /// REQUIRES: `name` has at most 100 bytes
  void add(const std::string& name, std::span<const std::byte> bytes);
  /// Completes the archive and gives it its name. Throws Error if anything could not be written.
  void finish();

 private:
  void write(std::span<const std::byte> bytes);
  [[noreturn]] void fail() const;

  std::filesystem::path path_, part_;
  std::ofstream file_;
  bool is_finished_ = false;
};

}  // namespace slipstream
