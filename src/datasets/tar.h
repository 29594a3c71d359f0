#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "datasets/stamped_file.h"

namespace slipstream {

inline constexpr std::uint64_t kTarBlock = 512;  ///< bytes: headers and files begin at multiples

struct TarMember {
  enum class Kind { file, link, other };

  std::string name;  ///< as stored
  Kind kind = Kind::file;
  std::uint64_t header = 0;  ///< offset of the member's headers
  std::uint64_t offset = 0;  ///< offset of its bytes
  std::uint64_t size = 0;    ///< 0 for everything but files
};

/// Iterates over an uncompressed archive in the formats v7, ustar, pax and GNU (long names, numbers
/// in base 256). It reads only headers, in bounded memory. Concatenated archives count as one. Not
/// thread-safe.
class TarReader {
 public:
  /// Starts at offset `at`, where a member's headers must begin. `source` must outlive the reader.
  explicit TarReader(const ByteSource& source, std::uint64_t at = 0) : source_(source), at_(at) {}

  /// Returns the next member, or no value at the end. Throws Error with the offset for a damaged
  /// header, one that is longer than a name can be, a sparse member, a part of a volume, and an
  /// archive that ends inside a member or without its end mark.
  std::optional<TarMember> next();

 private:
  /// Values that extended headers give for the member after them.
  struct ExtendedHeader {
    std::optional<std::string> path;
    std::optional<std::uint64_t> size;
  };

  std::span<const std::byte> block();
  std::uint64_t member_size(std::span<const std::byte> header,
                            const ExtendedHeader& extended) const;
  std::string read_text(std::uint64_t size);
  void read_pax(std::uint64_t size, bool is_global, ExtendedHeader& extended);
  TarMember member(std::span<const std::byte> header, std::uint64_t first,
                   const ExtendedHeader& extended);
  void skip(std::uint64_t size);
  [[noreturn]] void fail(const std::string& what) const;

  [[noreturn]] void fail_without_header() const;

  const ByteSource& source_;
  std::uint64_t at_;
  bool ended_ = false;  ///< only zeros since the last member
  std::vector<std::byte> window_;
  std::uint64_t window_at_ = 0;
};

/// Returns the name of the member whose headers begin at `header`.
std::string tar_member_name(const ByteSource& source, std::uint64_t header);

}  // namespace slipstream
