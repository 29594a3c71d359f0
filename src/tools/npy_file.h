#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>

#include "slipstream/core/array.h"

namespace slipstream {

/// One field of all samples: PATH.npy.part while several threads write samples in any order, or the
/// complete PATH.npy.
class NpyFile {
 public:
  /// Opens the existing file, complete or not, if there is one. Throws Error.
  NpyFile(std::filesystem::path path, const FieldSpec& field, std::size_t samples);
  ~NpyFile();
  NpyFile(const NpyFile&) = delete;
  NpyFile& operator=(const NpyFile&) = delete;

  /// Returns "" if PATH.npy exists with the expected header and size, else what is wrong.
  std::string problem() const;
  /// Returns the digest of samples first to end-1 in the file, or no value if the file is too
  /// short.
  std::optional<std::uint64_t> digest(std::size_t first, std::size_t end) const;

  /// Call it before write(). Creates PATH.npy.part, or renames an existing PATH.npy to it.
  void begin();
  /// Writes one sample. Thread-safe for different samples.
  /// REQUIRES: `value` has the field's type and shape
  void write(std::size_t sample, const ConstArray& value);
  /// Gives the file its final name.
  /// REQUIRES: every sample is written
  void finish();

 private:
  bool read(std::uint64_t offset, std::span<std::byte> to) const;
  void write_bytes(std::uint64_t offset, std::span<const std::byte> bytes);
  [[noreturn]] void fail(const char* what, int error) const;

  std::filesystem::path path_, part_;
  std::string header_;
  std::uint64_t sample_bytes_;
  std::uint64_t bytes_;
  bool has_name_ = false;
  int fd_ = -1;
};

/// Digest of a block of samples: chain64 over the fingerprint of each, starting with 0.
std::uint64_t chain_sample(std::uint64_t digest, std::span<const std::byte> sample);

}  // namespace slipstream
