#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "data/stamped_file.h"

namespace slipstream {

struct ArchiveMember {
  enum class Kind { file, link, other };

  std::string name;  ///< as stored
  Kind kind = Kind::file;
  std::uint64_t header = 0;  ///< for archive_member_name(): at most the archive's size
  std::uint64_t offset = 0;  ///< where its bytes begin
  std::uint64_t size = 0;    ///< 0 unless a file
  bool is_plain = true;  ///< its bytes stand at `offset` as they are, not compressed or in parts
};

/// Walks through the members of an archive in their order.
class ArchiveReader {
 public:
  ArchiveReader() = default;
  virtual ~ArchiveReader() = default;
  ArchiveReader(const ArchiveReader&) = delete;
  ArchiveReader& operator=(const ArchiveReader&) = delete;

  /// Nothing at the end. Throws Error for an archive that is damaged.
  virtual std::optional<ArchiveMember> next() = 0;
};

/// By the first bytes: cpio and zip are read by libarchive, all else as tar. `source` must outlive
/// the reader. Throws Error where libarchive is needed and not there.
std::unique_ptr<ArchiveReader> read_archive(const ByteSource& source);

/// The name of the member that has this ArchiveMember::header.
std::string archive_member_name(const ByteSource& source, std::uint64_t header);

}  // namespace slipstream
