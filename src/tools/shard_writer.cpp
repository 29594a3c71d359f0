#include "tools/shard_writer.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <system_error>

#include "core/plain_message.h"
#include "datasets/tar.h"
#include "slipstream/core/error.h"

namespace slipstream {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kSumAt = 148;

using Header = std::array<char, kTarBlock>;

void put(Header& header, std::size_t at, std::string_view text) {
  std::copy(text.begin(), text.end(), header.begin() + static_cast<std::ptrdiff_t>(at));
}

/// The header of POSIX.1-2017, pax, "ustar Interchange Format". It has no times and owners, so that
/// equal contents give equal files.
Header make_header(const std::string& name, std::uint64_t size) {
  Header header{};
  char octal[13];
  std::snprintf(octal, sizeof octal, "%011llo", static_cast<unsigned long long>(size));
  put(header, 0, name);
  put(header, 100, "0000644");
  put(header, 108, "0000000");
  put(header, 116, "0000000");
  put(header, 124, octal);
  put(header, 136, "00000000000");
  // The checksum is computed over the header with spaces in place of the checksum.
  put(header, kSumAt, "        ");
  put(header, 156, "0");
  put(header, 257, "ustar");
  put(header, 263, "00");
  unsigned sum = 0;
  for (const char byte : header) sum += static_cast<unsigned char>(byte);
  std::snprintf(octal, sizeof octal, "%06o", sum);
  put(header, kSumAt, octal);
  header[kSumAt + 6] = '\0';
  return header;
}

}  // namespace

ShardWriter::ShardWriter(fs::path path)
    : path_(std::move(path)),
      part_(path_.string() + ".part"),
      file_(part_, std::ios::binary | std::ios::trunc) {
  if (!file_) fail();
}

ShardWriter::~ShardWriter() {
  if (is_finished_) return;
  file_.close();
  std::error_code ignored;
  fs::remove(part_, ignored);
}

void ShardWriter::add(const std::string& name, std::span<const std::byte> bytes) {
  ensure(name.size() <= 100, "a member's name fits into its header");
  const Header header = make_header(name, bytes.size());
  write(std::as_bytes(std::span(header)));
  write(bytes);
  constexpr std::array<std::byte, kTarBlock> kZeros{};
  if (bytes.size() % kTarBlock != 0)
    write(std::span(kZeros).first(kTarBlock - bytes.size() % kTarBlock));
}

void ShardWriter::finish() {
  constexpr std::array<std::byte, 2 * kTarBlock> kEnd{};
  write(kEnd);
  file_.close();
  if (!file_ || std::rename(part_.c_str(), path_.c_str()) != 0) fail();
  is_finished_ = true;
}

void ShardWriter::write(std::span<const std::byte> bytes) {
  file_.write(reinterpret_cast<const char*>(bytes.data()),
              static_cast<std::streamsize>(bytes.size()));
  if (!file_) fail();
}

void ShardWriter::fail() const {
  throw Error(
      "cannot write '" + part_.string() + "': " + errno_message(errno != 0 ? errno : EIO) +
      "; complete shards are kept, and the next conversion continues where this one stopped");
}

}  // namespace slipstream
