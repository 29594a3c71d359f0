#include "data/archive.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "data/libarchive_reader.h"
#include "data/tar.h"

namespace slipstream {
namespace {

/// Old and new ASCII cpio, binary cpio of either byte order, zip with members and without.
constexpr std::array<std::string_view, 7> kMagics = {"070707",   "070701", "070702", "\x71\xc7",
                                                     "\xc7\x71", "PK\3\4", "PK\5\6"};

bool is_of_libarchive(const ByteSource& source) {
  constexpr std::uint64_t kLongest = 6;
  std::string start(std::min(kLongest, source.size()), '\0');
  source.read(0, std::as_writable_bytes(std::span(start)));
  const bool is_other = std::any_of(kMagics.begin(), kMagics.end(), [&](std::string_view magic) {
    return std::string_view(start).starts_with(magic);
  });
  return is_other && !begins_with_tar_header(source);  // the first member may be called 070707.jpg
}

}  // namespace

std::unique_ptr<ArchiveReader> read_archive(const ByteSource& source) {
  if (is_of_libarchive(source)) return read_by_libarchive(source);
  return std::make_unique<TarReader>(source);
}

std::string archive_member_name(const ByteSource& source, std::uint64_t header) {
  if (!is_of_libarchive(source)) return TarReader(source, header).next().value().name;
  const auto reader = read_by_libarchive(source, Data::skip);
  while (const auto member = reader->next()) {
    if (member->header == header) return member->name;
  }
  return "member " + std::to_string(header);
}

}  // namespace slipstream
