#include "tools/npy_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <utility>
#include <vector>

#include "core/file_bytes.h"
#include "core/fingerprint.h"
#include "core/plain_message.h"
#include "datasets/npy_header.h"
#include "slipstream/core/error.h"

namespace slipstream {
namespace {

NpyForm make_npy_form(const FieldSpec& field, std::size_t samples) {
  NpyForm form{field.dtype, {static_cast<std::int64_t>(samples)}};
  for (std::size_t i = 0; i < field.shape.rank; ++i)
    form.shape.dims[form.shape.rank++] = field.shape[i];
  return form;
}

std::span<const std::byte> as_bytes(const std::string& text) {
  return std::as_bytes(std::span(text));
}

}  // namespace

NpyFile::NpyFile(std::filesystem::path path, const FieldSpec& field, std::size_t samples)
    : path_(std::move(path)),
      part_(path_.string() + ".part"),
      header_(npy_header(make_npy_form(field, samples))),
      sample_bytes_(field.shape.elements() * size_bytes(field.dtype)),
      bytes_(header_.size() + samples * sample_bytes_) {
  fd_ = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC);
  has_name_ = fd_ >= 0;
  if (fd_ < 0 && errno == ENOENT) fd_ = ::open(part_.c_str(), O_RDWR | O_CLOEXEC);
  if (fd_ < 0 && errno != ENOENT) fail("open", errno);
}

NpyFile::~NpyFile() {
  if (fd_ >= 0) ::close(fd_);
}

std::string NpyFile::problem() const {
  if (!has_name_) return "is missing";
  struct ::stat status {};
  if (::fstat(fd_, &status) != 0) fail("read", errno);
  if (static_cast<std::uint64_t>(status.st_size) != bytes_)
    return "has " + std::to_string(status.st_size) + " bytes, not " + std::to_string(bytes_);
  std::string header(header_.size(), '\0');
  const bool is_read = read(0, std::as_writable_bytes(std::span(header)));
  return is_read && header == header_ ? "" : "has changed: its header differs";
}

std::optional<std::uint64_t> NpyFile::digest(std::size_t first, std::size_t end) const {
  constexpr std::uint64_t kReadAtOnce = std::uint64_t{1} << 20;
  const std::uint64_t together = std::max<std::uint64_t>(1, kReadAtOnce / (sample_bytes_ + 1));
  std::vector<std::byte> values(std::min<std::uint64_t>(together, end - first) * sample_bytes_);
  std::uint64_t digest = 0;
  for (std::size_t sample = first; sample < end; sample += together) {
    const std::uint64_t count = std::min<std::uint64_t>(together, end - sample);
    const std::span<std::byte> part = std::span(values).first(count * sample_bytes_);
    if (!read(header_.size() + sample * sample_bytes_, part)) return std::nullopt;
    for (std::uint64_t i = 0; i < count; ++i)
      digest = chain_sample(digest, part.subspan(i * sample_bytes_, sample_bytes_));
  }
  return digest;
}

void NpyFile::begin() {
  // A complete file loses its name while it is rewritten, so that an interrupted conversion leaves
  // no file that looks complete.
  if (has_name_ && std::rename(path_.c_str(), part_.c_str()) != 0) fail("write", errno);
  has_name_ = false;
  if (fd_ >= 0) ::close(fd_);
  fd_ = ::open(part_.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0666);
  if (fd_ < 0) fail("write", errno);
  write_bytes(0, as_bytes(header_));
}

void NpyFile::write(std::size_t sample, const ConstArray& value) {
  ensure(value.bytes() == sample_bytes_, "a sample has the size of its field");
  write_bytes(header_.size() + sample * sample_bytes_, {value.data, value.bytes()});
}

void NpyFile::finish() {
  // A .part file of an earlier conversion may be longer.
  if (::ftruncate(fd_, static_cast<::off_t>(bytes_)) != 0) fail("write", errno);
  if (::close(std::exchange(fd_, -1)) != 0) fail("write", errno);
  if (std::rename(part_.c_str(), path_.c_str()) != 0) fail("write", errno);
  has_name_ = true;
}

bool NpyFile::read(std::uint64_t offset, std::span<std::byte> to) const {
  if (fd_ < 0) return false;
  const auto got = read_at(fd_, offset, to);
  if (!got) fail("read", errno);
  return *got == to.size();
}

void NpyFile::write_bytes(std::uint64_t offset, std::span<const std::byte> bytes) {
  if (const int error = write_at(fd_, offset, bytes); error != 0) fail("write", error);
}

void NpyFile::fail(const char* what, int error) const {
  throw Error(
      "cannot " + std::string(what) + " '" + (has_name_ ? path_ : part_).string() +
      "': " + errno_message(error) +
      "; data already written is kept, and the next conversion continues where this one stopped");
}

std::uint64_t chain_sample(std::uint64_t digest, std::span<const std::byte> sample) {
  return chain64(digest, fingerprint(sample.data(), sample.size()));
}

}  // namespace slipstream
