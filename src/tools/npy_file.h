#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>

#include "slipstream/core/array.h"

namespace slipstream {

/// One field of all samples, being written as PATH.npy.part in any order of samples by several
/// threads, or whole as PATH.npy.
class NpyFile {
 public:
  /// The file that is there, whole or not; none yet is all right. Throws Error.
  NpyFile(std::filesystem::path path, const FieldSpec& field, std::size_t samples);
  ~NpyFile();
  NpyFile(const NpyFile&) = delete;
  NpyFile& operator=(const NpyFile&) = delete;

  /// "" where PATH.npy is there, has its header and its length; else what is wrong.
  std::string problem() const;
  /// Of samples first to end-1, as they are in the file; nothing where it does not reach so far.
  std::optional<std::uint64_t> digest(std::size_t first, std::size_t end) const;

  /// Ahead of write(): makes PATH.npy.part, or takes the name away from what is there.
  void begin();
  /// REQUIRES: `value` has the field's type and shape
  void write(std::size_t sample, const ConstArray& value);
  /// Gives the file its name. REQUIRES: every sample is written
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

/// Of a block of samples: chain64 of the fingerprints of each, from 0.
std::uint64_t chain_sample(std::uint64_t digest, std::span<const std::byte> sample);

}  // namespace slipstream
