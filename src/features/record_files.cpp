#include "features/record_files.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <string>
#include <system_error>
#include <utility>

#include "slipstream/core/error.h"

namespace slipstream {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kSlotBytes = sizeof(FeatureSlot);
constexpr std::uint64_t kSlotsAtOnce = 1 << 15;
constexpr const char* kIndexSuffix = ".index";
constexpr const char* kRecordsSuffix = ".records";
constexpr std::size_t kMostDigits = 9;

/// Returns N for "N.index" and "N.records".
std::optional<std::uint32_t> file_number(const fs::path& name) {
  const std::string stem = name.stem().string();
  const bool is_number = !stem.empty() && stem.size() <= kMostDigits &&
                         stem.find_first_not_of("0123456789") == std::string::npos;
  if (!is_number) return std::nullopt;
  return static_cast<std::uint32_t>(std::stoul(stem));
}

}  // namespace

fs::path feature_index_path(const fs::path& dir, std::uint32_t number) {
  return dir / (std::to_string(number) + kIndexSuffix);
}

fs::path feature_records_path(const fs::path& dir, std::uint32_t number) {
  return dir / (std::to_string(number) + kRecordsSuffix);
}

bool is_record_file(const fs::path& name) {
  return (name.extension() == kIndexSuffix || name.extension() == kRecordsSuffix) &&
         file_number(name).has_value();
}

void RecordFiles::open_new() {
  std::error_code failed;
  for (fs::directory_iterator at(dir_, failed), end; !failed && at != end; at.increment(failed)) {
    const fs::path name = at->path().filename();
    if (name.extension() != kIndexSuffix || !is_record_file(name)) continue;
    const std::uint32_t number = *file_number(name);
    if (sources_.contains(number)) continue;
    auto source = std::make_shared<Source>();
    if (source->index.open(feature_index_path(dir_, number), false) == 0 &&
        source->records.open(feature_records_path(dir_, number), false) == 0)
      sources_.emplace(number, std::move(source));
  }
}

std::size_t RecordFiles::scan(FeatureIndex& index) {
  open_new();
  std::size_t added = 0;
  for (const auto& [number, source] : sources_) added += scan(number, *source, index);
  return added;
}

std::size_t RecordFiles::scan(std::uint32_t number, Source& source, FeatureIndex& index) const {
  const std::uint64_t slots = source.index.size().value_or(0) / kSlotBytes;
  std::size_t added = 0;
  std::vector<std::byte> bytes;
  while (source.scanned < slots) {
    bytes.resize(std::min(slots - source.scanned, kSlotsAtOnce) * kSlotBytes);
    if (!source.index.read(source.scanned * kSlotBytes, bytes)) break;
    for (const auto& [slot, position] : parse_feature_slots(bytes, source.scanned, seed_))
      added += index.add({slot.entry, slot.index, slot.digest, position, number}) ? 1 : 0;
    source.scanned += bytes.size() / kSlotBytes;
  }
  return added;
}

void RecordFiles::erase(const FeatureRecord& record) const {
  CacheFile file;
  if (file.open(feature_index_path(dir_, record.file), true) != 0) return;
  FeatureSlot slot;
  const std::span<std::byte> bytes = std::as_writable_bytes(std::span(&slot, 1));
  if (!file.read(record.position * kSlotBytes, bytes)) return;
  if (slot.entry != record.entry || slot.digest != record.digest) return;
  slot = {};
  // If this fails, the next process finds the damaged record once more, and forgets it, too.
  static_cast<void>(file.write(record.position * kSlotBytes, bytes));
}

int RecordWriter::open(const fs::path& dir) {
  for (std::uint32_t number = 0;; ++number) {
    auto index = std::make_unique<CacheFile>();
    auto records = std::make_unique<CacheFile>();
    if (const int error = index->open(feature_index_path(dir, number), true); error != 0)
      return error;
    const int locked = index->try_lock(CacheFile::LockKind::exclusive);
    if (locked == EWOULDBLOCK) continue;
    if (locked != 0) return locked;
    if (const int error = records->open(feature_records_path(dir, number), true); error != 0)
      return error;
    index_ = std::move(index);
    records_ = std::move(records);
    if (const int error = repair(); error != 0) return error;
    process_ = ::getpid();
    return 0;
  }
}

int RecordWriter::repair() {
  const auto index_bytes = index_->size(), record_bytes = records_->size();
  if (!index_bytes || !record_bytes) return EIO;
  next_ = *index_bytes / kSlotBytes;
  if (const int error = index_->resize(next_ * kSlotBytes); error != 0) return error;
  // The file of records was truncated or removed. Without this, the slots would hide the new
  // records of their entries. They stay in the file: other processes have read up to its end.
  if (const std::uint64_t kept = *record_bytes / record_bytes_; kept < next_) {
    const std::vector<FeatureSlot> empty(next_ - kept);
    const int error = index_->write(kept * kSlotBytes, std::as_bytes(std::span(empty)));
    if (error != 0) return error;
  }
  return reserve(0);
}

bool RecordWriter::is_own() const { return process_ == ::getpid(); }

int RecordWriter::reserve(std::size_t records) const {
  return records_->resize((next_ + records) * record_bytes_);
}

int RecordWriter::write(std::size_t position, std::span<const std::byte> record) const {
  ensure(record.size() == record_bytes_, "a record has the size of its key's records");
  return records_->write((next_ + position) * record_bytes_, record);
}

int RecordWriter::publish(std::span<FeatureSlot> slots) {
  for (std::size_t i = 0; i < slots.size(); ++i)
    slots[i].check = slots[i].expected_check(seed_, next_ + i);
  // One write after all records: a reader that finds a slot also finds its record.
  const int error = index_->write(next_ * kSlotBytes, std::as_bytes(slots));
  if (error == 0)
    next_ += slots.size();
  else
    index_->resize(next_ * kSlotBytes);
  return error;
}

}  // namespace slipstream
