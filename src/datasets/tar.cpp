#include "datasets/tar.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>

#include "core/bytes.h"
#include "datasets/pax.h"
#include "slipstream/core/error.h"

namespace slipstream {
namespace {

using Block = std::span<const std::byte>;

constexpr std::uint64_t kWindow = 32 * kTarBlock;
constexpr std::uint64_t kMaxHeader = 1 << 20;

constexpr std::size_t kNameAt = 0, kNameBytes = 100;
constexpr std::size_t kSizeAt = 124, kSizeBytes = 12;
constexpr std::size_t kChecksumAt = 148, kChecksumBytes = 8;
constexpr std::size_t kTypeAt = 156;
constexpr std::size_t kMagicAt = 257;
constexpr std::size_t kPrefixAt = 345, kPrefixBytes = 155;

std::string_view text_at(Block block, std::size_t at, std::size_t bytes) {
  const std::string_view text(reinterpret_cast<const char*>(block.data()) + at, bytes);
  return text.substr(0, text.find('\0'));
}

bool is_zero(Block block) {
  return std::all_of(block.begin(), block.end(), [](std::byte b) { return b == std::byte{0}; });
}

/// Checks the sum of all bytes, with the checksum itself counted as spaces. Old programs summed
/// signed bytes, so both sums are accepted.
bool has_good_checksum(Block header) {
  std::int64_t plain = 0;
  std::int64_t with_sign = 0;
  for (std::size_t i = 0; i < kTarBlock; ++i) {
    const bool is_sum = i >= kChecksumAt && i < kChecksumAt + kChecksumBytes;
    const auto value = static_cast<std::uint8_t>(is_sum ? ' ' : u8_at(header, i));
    plain += value;
    with_sign += static_cast<std::int8_t>(value);
  }
  const auto stored = tar_number(header.subspan(kChecksumAt, kChecksumBytes));
  if (!stored) return false;
  const auto sum = static_cast<std::int64_t>(*stored);
  return sum == plain || sum == with_sign;
}

std::string stored_name(Block header) {
  std::string name(text_at(header, kNameAt, kNameBytes));
  // GNU's own magic ends with spaces, and its headers store other data where ustar has its prefix.
  if (std::memcmp(header.data() + kMagicAt, "ustar", 6) != 0) return name;
  const std::string prefix(text_at(header, kPrefixAt, kPrefixBytes));
  return prefix.empty() ? name : prefix + "/" + name;
}

TarMember::Kind parse_member_kind(char type, const std::string& name) {
  if (type == '1' || type == '2') return TarMember::Kind::link;
  const bool is_file = type == '0' || type == '7' || (type == '\0' && !name.ends_with('/'));
  return is_file ? TarMember::Kind::file : TarMember::Kind::other;
}

/// Returns true if a member of this type has data. Links, devices, folders and pipes have none,
/// even if their header has a size.
bool has_bytes(char type) { return type < '1' || type > '6'; }

}  // namespace

std::optional<TarMember> TarReader::next() {
  ExtendedHeader extended;
  bool is_extended = false;
  std::uint64_t first = at_;
  while (at_ < source_.size()) {
    const Block header = block();
    if (is_zero(header)) {
      if (is_extended) fail("an extended header has no member after it");
      at_ += kTarBlock;
      first = at_;
      ended_ = true;
      continue;
    }
    if (!has_good_checksum(header)) fail_without_header();
    ended_ = false;
    const char type = static_cast<char>(header[kTypeAt]);
    const bool is_pax = type == 'x' || type == 'X' || type == 'g';
    if (!is_pax && type != 'L' && type != 'K') return member(header, first, extended);
    const std::uint64_t size = member_size(header, {});
    at_ += kTarBlock;
    if (is_pax) {
      read_pax(size, type == 'g', extended);
    } else if (type == 'L') {
      const std::string text = read_text(size);
      if (!extended.path) extended.path = text.substr(0, text.find('\0'));
    }
    skip(size);
    // A global header describes the archive, such as that of git archive.
    is_extended |= type != 'g';
  }
  if (is_extended) fail("it ends after an extended header");
  if (ended_) return std::nullopt;
  fail("it ends without the blocks that mark the end of an archive");
}

std::span<const std::byte> TarReader::block() {
  if (source_.size() - at_ < kTarBlock) fail("it ends inside a header");
  const bool is_there = at_ >= window_at_ && at_ + kTarBlock <= window_at_ + window_.size();
  if (!is_there) {
    // Small members have adjacent headers: one larger read serves several of them.
    window_.resize(std::min(kWindow, source_.size() - at_));
    source_.read(at_, window_);
    window_at_ = at_;
  }
  return Block(window_).subspan(at_ - window_at_, kTarBlock);
}

std::uint64_t TarReader::member_size(Block header, const ExtendedHeader& extended) const {
  const auto stored = tar_number(header.subspan(kSizeAt, kSizeBytes));
  if (!stored && !extended.size) fail("a member's size is not a number");
  return extended.size ? *extended.size : *stored;
}

std::string TarReader::read_text(std::uint64_t size) {
  if (size > kMaxHeader) fail("an extended header has " + std::to_string(size) + " bytes");
  if (size > source_.size() - at_) fail("it ends inside an extended header");
  std::string text(size, '\0');
  source_.read(at_, std::as_writable_bytes(std::span(text)));
  return text;
}

void TarReader::read_pax(std::uint64_t size, bool is_global, ExtendedHeader& extended) {
  const std::string text = read_text(size);
  std::string_view rest = text;
  while (!rest.empty() && rest.front() != '\0') {
    const std::optional<PaxRecord> record = next_pax_record(rest);
    if (!record) fail("an extended header is damaged");
    if (record->key.starts_with("GNU.sparse.") || record->key == "SCHILY.realsize") {
      fail("a member is sparse; write the archive without --sparse");
    }
    const bool is_used = record->key == "path" || record->key == "size";
    if (is_used && is_global) fail("a global header gives every member one name or size");
    if (record->key == "path" && !record->value.empty()) extended.path = record->value;
    if (record->key == "size") {
      extended.size = decimal_number(record->value);
      if (!extended.size) fail("an extended header's size is not a number");
    }
  }
}

TarMember TarReader::member(Block header, std::uint64_t first, const ExtendedHeader& extended) {
  const char type = static_cast<char>(header[kTypeAt]);
  if (type == 'S') fail("a member is sparse; write the archive without --sparse");
  if (type == 'M') fail("a member continues another volume; write the archive in one");
  TarMember member;
  member.name = extended.path ? *extended.path : stored_name(header);
  if (member.name.empty() || member.name.find('\0') != std::string::npos) {
    fail("a member has no valid name");
  }
  member.kind = parse_member_kind(type, member.name);
  member.header = first;
  member.offset = at_ + kTarBlock;
  const std::uint64_t stored_size = has_bytes(type) ? member_size(header, extended) : 0;
  if (member.kind == TarMember::Kind::file) member.size = stored_size;
  at_ += kTarBlock;
  if (stored_size > source_.size() - at_) {
    fail("it ends inside '" + printable_name(member.name) + "', which has " +
         std::to_string(stored_size) + " bytes from there");
  }
  skip(stored_size);
  return member;
}

void TarReader::skip(std::uint64_t size) {
  // The padding of the last member may be missing; then the end mark is missing as well.
  if (size > source_.size() - at_) fail("it ends inside an extended header");
  const std::uint64_t padding = (kTarBlock - size % kTarBlock) % kTarBlock;
  at_ += size;
  at_ += std::min(padding, source_.size() - at_);
}

void TarReader::fail_without_header() const {
  // Magic numbers of old and new ASCII cpio, and of zip with and without members.
  constexpr std::array<std::string_view, 5> kOthers = {"070707", "070701", "070702", "PK\3\4",
                                                       "PK\5\6"};
  const std::string_view start = text_at(window_, 0, kNameBytes);
  const bool is_other = at_ == 0 && std::any_of(kOthers.begin(), kOthers.end(), [&](auto magic) {
                          return start.starts_with(magic);
                        });
  if (is_other) fail("it is a zip or cpio archive; pack the files as .tar");
  fail("there is no tar header (is it an uncompressed and complete .tar?)");
}

void TarReader::fail(const std::string& what) const {
  throw Error("broken archive at byte " + std::to_string(at_) + ": " + what);
}

std::string tar_member_name(const ByteSource& source, std::uint64_t header) {
  return TarReader(source, header).next().value().name;
}

}  // namespace slipstream
