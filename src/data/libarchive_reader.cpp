#include "data/libarchive_reader.h"

#include <archive.h>
#include <archive_entry.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <exception>
#include <new>
#include <utility>
#include <vector>

#include "slipstream/error.h"

namespace slipstream {
namespace {

constexpr std::uint64_t kBlockBytes = std::uint64_t{256} << 10;

struct Free {
  void operator()(::archive* archive) const { ::archive_read_free(archive); }
};

/// Gives libarchive the bytes of a source. What that throws is kept: no exception may pass through
/// code in C.
class Bytes {
 public:
  explicit Bytes(const ByteSource& source) : source_(source) {}

  std::span<const std::byte> next() {
    block_.resize(std::min(kBlockBytes, source_.size() - at_));
    source_.read(at_, block_);
    at_ += block_.size();
    return block_;
  }
  std::int64_t skip(std::int64_t bytes) {
    const std::uint64_t before = at_;
    seek(bytes, SEEK_CUR);
    return static_cast<std::int64_t>(at_ - before);
  }
  std::int64_t seek(std::int64_t offset, int whence) {
    const std::uint64_t from = whence == SEEK_SET ? 0 : whence == SEEK_CUR ? at_ : source_.size();
    const std::int64_t to = static_cast<std::int64_t>(from) + offset;
    at_ = static_cast<std::uint64_t>(
        std::clamp<std::int64_t>(to, 0, static_cast<std::int64_t>(source_.size())));
    return static_cast<std::int64_t>(at_);
  }
  bool has(std::uint64_t offset, std::span<const std::byte> bytes) {
    if (offset > source_.size() || bytes.size() > source_.size() - offset) return false;
    for (std::uint64_t done = 0; done < bytes.size(); done += compared_.size()) {
      compared_.resize(std::min(kBlockBytes, bytes.size() - done));
      source_.read(offset + done, compared_);
      if (std::memcmp(compared_.data(), bytes.data() + done, compared_.size()) != 0) return false;
    }
    return true;
  }

  std::exception_ptr error;

 private:
  const ByteSource& source_;
  std::uint64_t at_ = 0;
  std::vector<std::byte> block_, compared_;
};

::la_ssize_t read_block(::archive* archive, void* bytes, const void** block) {
  auto& source = *static_cast<Bytes*>(bytes);
  try {
    const auto next = source.next();
    *block = next.data();
    return static_cast<::la_ssize_t>(next.size());
  } catch (...) {
    source.error = std::current_exception();
    ::archive_set_error(archive, EIO, "cannot read");
    return ARCHIVE_FATAL;
  }
}

::la_int64_t skip_bytes(::archive*, void* bytes, ::la_int64_t count) {
  return static_cast<Bytes*>(bytes)->skip(count);
}

::la_int64_t seek_to(::archive*, void* bytes, ::la_int64_t offset, int whence) {
  return static_cast<Bytes*>(bytes)->seek(offset, whence);
}

class LibarchiveReader final : public ArchiveReader {
 public:
  LibarchiveReader(const ByteSource& source, Data data)
      : bytes_(source), data_(data), archive_(::archive_read_new()) {
    if (archive_ == nullptr) throw std::bad_alloc();
    ::archive* const archive = archive_.get();
    const bool is_open = ::archive_read_support_format_cpio(archive) == ARCHIVE_OK &&
                         ::archive_read_support_format_zip(archive) == ARCHIVE_OK &&
                         ::archive_read_set_read_callback(archive, read_block) == ARCHIVE_OK &&
                         ::archive_read_set_skip_callback(archive, skip_bytes) == ARCHIVE_OK &&
                         ::archive_read_set_seek_callback(archive, seek_to) == ARCHIVE_OK &&
                         ::archive_read_set_callback_data(archive, &bytes_) == ARCHIVE_OK &&
                         ::archive_read_open1(archive) == ARCHIVE_OK;
    if (!is_open) fail("");
  }

  std::optional<ArchiveMember> next() override {
    ::archive_entry* entry = nullptr;
    const int found = ::archive_read_next_header(archive_.get(), &entry);
    if (found == ARCHIVE_EOF) return std::nullopt;
    if (found != ARCHIVE_OK && found != ARCHIVE_WARN) fail("");
    ArchiveMember member;
    member.header = members_++;
    const char* name = ::archive_entry_pathname_utf8(entry);
    if (name == nullptr) name = ::archive_entry_pathname(entry);
    if (name == nullptr || *name == '\0')
      throw Error("broken archive: member " + std::to_string(member.header) + " has no name");
    member.name = name;
    const bool is_link =
        ::archive_entry_hardlink(entry) != nullptr || ::archive_entry_filetype(entry) == AE_IFLNK;
    const bool is_file = !is_link && ::archive_entry_filetype(entry) == AE_IFREG;
    member.kind = is_link   ? ArchiveMember::Kind::link
                  : is_file ? ArchiveMember::Kind::file
                            : ArchiveMember::Kind::other;
    if (is_file && data_ == Data::find) find_bytes(member);
    return member;
  }

 private:
  void find_bytes(ArchiveMember& member) {
    const void* data = nullptr;
    std::size_t count = 0;
    ::la_int64_t at = 0;
    int found = ARCHIVE_OK;
    while (member.is_plain) {
      found = ::archive_read_data_block(archive_.get(), &data, &count, &at);
      if (found != ARCHIVE_OK) break;
      if (count == 0) continue;
      if (member.size == 0)
        member.offset = static_cast<std::uint64_t>(::archive_filter_bytes(archive_.get(), 0));
      member.is_plain =
          static_cast<std::uint64_t>(at) == member.size &&
          bytes_.has(member.offset + member.size, {static_cast<const std::byte*>(data), count});
      member.size += count;
    }
    if (member.is_plain && found != ARCHIVE_EOF) fail("member '" + member.name + "': ");
  }

  [[noreturn]] void fail(const std::string& where) {
    if (bytes_.error) std::rethrow_exception(std::exchange(bytes_.error, nullptr));
    const char* const what = ::archive_error_string(archive_.get());
    throw Error("broken archive: " + where + (what == nullptr ? "it cannot be read" : what));
  }

  Bytes bytes_;
  Data data_;
  std::unique_ptr<::archive, Free> archive_;
  std::uint64_t members_ = 0;
};

}  // namespace

std::unique_ptr<ArchiveReader> read_by_libarchive(const ByteSource& source, Data data) {
  return std::make_unique<LibarchiveReader>(source, data);
}

}  // namespace slipstream
