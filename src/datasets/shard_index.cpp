#include "datasets/shard_index.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "core/fingerprint.h"
#include "datasets/scan_watch.h"
#include "datasets/shard_samples.h"

namespace slipstream {
namespace {

static_assert(std::endian::native == std::endian::little, "an index holds little-endian numbers");

constexpr std::uint64_t kMagic = 0x3530'5844'4950'494c;  // "LIPIDX05"
constexpr std::uint64_t kSizeMask = (std::uint64_t{1} << 62) - 1;

struct Header {
  std::uint64_t magic = kMagic;
  std::uint64_t digest = 0;  ///< digest of everything after it
  std::uint64_t shard_bytes = 0;
  std::int64_t mtime_ns = 0;
  std::uint64_t inode = 0;
  std::int64_t ctime_ns = 0;
  std::uint64_t samples = 0;
  std::uint64_t fields = 0;

  FileStamp stamp() const { return {shard_bytes, mtime_ns, inode, ctime_ns}; }
};
static_assert(sizeof(Header) == 8 * sizeof(std::uint64_t));
constexpr std::size_t kDigested = 2 * sizeof(std::uint64_t);
constexpr std::size_t kUnreadBytes = sizeof(UnreadFormats::Counts) + sizeof(SkippedMembers);

std::size_t record_words(ShardFieldSet fields) { return 1 + 2 * fields.count(); }

std::uint64_t word_at(std::span<const std::byte> bytes, std::size_t word) {
  std::uint64_t value = 0;
  std::memcpy(&value, bytes.data() + word * sizeof(value), sizeof(value));
  return value;
}

std::uint64_t compute_digest(std::span<const std::byte> index) {
  return fingerprint(index.data() + kDigested, index.size() - kDigested);
}

bool lies_within(const ShardSample& sample, ShardFieldSet fields, std::uint64_t bytes) {
  if (sample.header > bytes) return false;
  for (const ShardField field : kAllShardFields) {
    if (!fields.has(field)) continue;
    const ShardMember& member = sample.members[static_cast<std::size_t>(field)];
    if (member.offset > bytes || member.size > bytes - member.offset) return false;
    if (member.compression > Compression::lz4) return false;
  }
  return true;
}

void append(std::vector<std::byte>& bytes, std::uint64_t word) {
  const auto* first = reinterpret_cast<const std::byte*>(&word);
  bytes.insert(bytes.end(), first, first + sizeof(word));
}

}  // namespace

std::string ShardFieldSet::text() const {
  constexpr std::array<const char*, kShardFields> kNames = {"image", "label", "mask"};
  std::string text;
  for (const ShardField field : kAllShardFields) {
    if (!has(field)) continue;
    if (!text.empty()) text += ", ";
    text += kNames[static_cast<std::size_t>(field)];
  }
  return text;
}

std::vector<std::byte> build_shard_index(const ByteSource& shard, const FileStamp& stamp) {
  std::vector<std::byte> index(sizeof(Header));
  ShardSamples samples(shard);
  while (const std::optional<ShardSample> sample = samples.next()) {
    ScanWatch::poll();
    append(index, sample->header);
    for (const ShardField field : kAllShardFields) {
      if (!samples.fields().has(field)) continue;
      const ShardMember& member = sample->members[static_cast<std::size_t>(field)];
      append(index, member.offset);
      // The compression is stored in the two highest bits of the size.
      append(index, member.size | std::uint64_t{static_cast<unsigned>(member.compression)} << 62);
    }
  }
  for (const std::uint64_t count : samples.unread().counts()) append(index, count);
  const SkippedMembers& skipped = samples.skipped();
  for (const std::uint64_t word : {skipped.members, skipped.first, skipped.images,
                                   skipped.first_image, skipped.hidden, skipped.first_hidden})
    append(index, word);
  Header header;
  header.shard_bytes = stamp.size;
  header.mtime_ns = stamp.mtime_ns;
  header.inode = stamp.inode;
  header.ctime_ns = stamp.ctime_ns;
  header.samples = samples.count();
  header.fields = samples.fields().bits();
  // Written twice, because the digest also covers the rest of the header.
  std::memcpy(index.data(), &header, sizeof(header));
  header.digest = compute_digest(index);
  std::memcpy(index.data(), &header, sizeof(header));
  return index;
}

std::optional<ShardIndex> ShardIndex::parse(std::span<const std::byte> bytes,
                                            const FileStamp& stamp) {
  Header header;
  if (bytes.size() < sizeof(header) + kUnreadBytes) return std::nullopt;
  std::memcpy(&header, bytes.data(), sizeof(header));
  // ctime is compared too, unlike when reading: a tool can restore a file's mtime after changing
  // it, but not its ctime. A wrong index would return other bytes, while building a new one costs
  // little.
  if (header.magic != kMagic || header.stamp() != stamp || header.digest != compute_digest(bytes)) {
    return std::nullopt;
  }
  ShardIndex index;
  index.fields_ = ShardFieldSet(static_cast<std::uint32_t>(header.fields));
  const bool has_image = index.fields_.has(ShardField::image);
  if (header.fields >> kShardFields != 0 || has_image != (header.samples > 0)) return std::nullopt;
  const std::size_t record_bytes = record_words(index.fields_) * sizeof(std::uint64_t);
  index.unread_ = bytes.last(kUnreadBytes);
  index.records_ = bytes.subspan(sizeof(header), bytes.size() - sizeof(header) - kUnreadBytes);
  index.samples_ = index.records_.size() / record_bytes;
  if (index.samples_ != header.samples || index.records_.size() % record_bytes != 0) {
    return std::nullopt;
  }
  const SkippedMembers skipped = index.skipped();
  if (std::max({skipped.first, skipped.first_image, skipped.first_hidden}) > stamp.size)
    return std::nullopt;
  // The digest detects damage, not forgery. So every offset is checked once here, and reading needs
  // no checks.
  for (std::size_t i = 0; i < index.samples_; ++i) {
    if (!lies_within(index.sample(i), index.fields_, stamp.size)) return std::nullopt;
  }
  return index;
}

UnreadFormats ShardIndex::unread() const {
  UnreadFormats::Counts counts{};
  for (std::size_t i = 0; i < counts.size() && !unread_.empty(); ++i)
    counts[i] = word_at(unread_, i);
  UnreadFormats unread;
  unread.add(counts);
  return unread;
}

SkippedMembers ShardIndex::skipped() const {
  if (unread_.empty()) return {};
  const std::size_t at = sizeof(UnreadFormats::Counts) / sizeof(std::uint64_t);
  return {word_at(unread_, at),     word_at(unread_, at + 1), word_at(unread_, at + 2),
          word_at(unread_, at + 3), word_at(unread_, at + 4), word_at(unread_, at + 5)};
}

std::uint64_t most_index_bytes(std::uint64_t shard_bytes) {
  constexpr std::uint64_t kLeastMember = 512;  // size of its header
  constexpr std::uint64_t kMostRecord = (1 + 2 * kShardFields) * sizeof(std::uint64_t);
  return sizeof(Header) + kUnreadBytes + shard_bytes / kLeastMember * kMostRecord;
}

ShardSample ShardIndex::sample(std::size_t index) const {
  std::size_t word = index * record_words(fields_);
  ShardSample sample;
  sample.header = word_at(records_, word++);
  for (const ShardField field : kAllShardFields) {
    if (!fields_.has(field)) continue;
    ShardMember& member = sample.members[static_cast<std::size_t>(field)];
    member.offset = word_at(records_, word++);
    const std::uint64_t size = word_at(records_, word++);
    member.size = size & kSizeMask;
    member.compression = static_cast<Compression>(size >> 62);
  }
  return sample;
}

}  // namespace slipstream
