#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>

namespace slipstream {

/// Writes one .tar (ustar) beside its place and puts it there when it is whole; what is not
/// finished is removed.
class ShardWriter {
 public:
  /// Throws Error where the file cannot be made.
  explicit ShardWriter(std::filesystem::path path);
  ~ShardWriter();
  ShardWriter(const ShardWriter&) = delete;
  ShardWriter& operator=(const ShardWriter&) = delete;

  /// REQUIRES: `name` has at most 100 bytes
  void add(const std::string& name, std::span<const std::byte> bytes);
  /// Throws Error for what could not be written.
  void finish();

 private:
  void write(std::span<const std::byte> bytes);
  [[noreturn]] void fail() const;

  std::filesystem::path path_, part_;
  std::ofstream file_;
  bool is_finished_ = false;
};

}  // namespace slipstream
