#include "features/feature_store.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <set>
#include <system_error>
#include <tuple>
#include <utility>

#include "core/files.h"
#include "core/fingerprint.h"
#include "core/number_text.h"
#include "core/parallel_for.h"
#include "core/plain_message.h"
#include "features/feature_folder.h"
#include "slipstream/core/error.h"

namespace slipstream {
namespace {

namespace fs = std::filesystem;

/// Starting a thread takes about as long as reading this much from memory.
constexpr std::uint64_t kLeastBytesPerThread = std::uint64_t{1} << 19;

}  // namespace

FeatureStore::FeatureStore(fs::path folder, const std::string& key, std::string_view fields,
                           std::optional<std::uint64_t> budget_bytes)
    : folder_(std::move(folder)),
      manifest_(make_feature_manifest(key, fields)),
      dir_(folder_ / manifest_.folder_name()),
      record_bytes_(manifest_.record_bytes()),
      seed_(manifest_.seed()),
      budget_bytes_(budget_bytes),
      files_(dir_, record_bytes_, seed_) {
  open();
}

FeatureStore::~FeatureStore() { close(); }

void FeatureStore::open() {
  std::error_code ignored;
  if (folder_.empty()) throw Refused("features on disk need a folder: name one");
  if (fs::exists(folder_, ignored) && !fs::is_directory(folder_, ignored))
    throw Refused("'" + folder_.string() + "' is not a folder: name another one for the features");
  // The user chose the folder, which may be a link. The files in it may be those of another user.
  if (fs::is_symlink(dir_, ignored))
    throw Refused("'" + dir_.string() +
                  "' is a symbolic link, not a folder of features: remove it");
  open_to_write();
  // Features that cannot be written may still be readable, for example on a shared disk.
  if (lease_ == nullptr && fs::exists(dir_ / kFeatureManifest, ignored)) {
    check_manifest(read_feature_manifest(dir_));
    take_lease();
  }
  touch();
  refresh();
}

void FeatureStore::open_to_write() {
  std::error_code failed;
  fs::create_directories(folder_, failed);
  if (failed) return end_filling("create '" + folder_.string() + "'", failed.value());
  const FeatureFolderLock lock(folder_);
  if (lock.error() != 0)
    return end_filling("lock '" + FeatureFolderLock::path(folder_).string() + "'", lock.error());
  fs::create_directories(dir_, failed);
  if (failed) return end_filling("create '" + dir_.string() + "'", failed.value());
  const fs::path path = dir_ / kFeatureManifest;
  try {
    if (fs::exists(path, failed))
      check_manifest(read_feature_manifest(dir_));
    else
      write_own_file(path, manifest_.to_json());
  } catch (const Refused&) {
    throw;
  } catch (const Error& error) {
    return end_filling(error.what());
  }
  if (const int error = take_lease(); error != 0)
    end_filling("read '" + path.string() + "'", error);
}

/// Prevents prune_features() from removing this key. Returns 0, or the errno of the failure.
int FeatureStore::take_lease() {
  auto manifest = std::make_unique<CacheFile>();
  const int error = manifest->open(dir_ / kFeatureManifest, false);
  if (error != 0) return error;
  // A file system may have no locks. Features that are removed while they are used are computed
  // again.
  manifest->try_lock(CacheFile::LockKind::shared);
  lease_ = std::move(manifest);
  return 0;
}

void FeatureStore::check_manifest(const FeatureManifest& found) const {
  if (found.key == manifest_.key && found.fields == manifest_.fields) return;
  throw Refused("'" + dir_.string() + "' holds features of " +
                (found.key == manifest_.key
                     ? "the same key with other fields: " + fields_text(found.fields) + ", not " +
                           fields_text(manifest_.fields)
                     : "another key") +
                "; name another folder, or remove them: slipstream features prune '" +
                folder_.string() + "' --key " + manifest_.folder_name());
}

/// Sets the time of the last use. In a folder that cannot be written, nothing changes.
void FeatureStore::touch() const {
  ::utimensat(AT_FDCWD, (dir_ / kFeatureManifest).c_str(), nullptr, AT_SYMLINK_NOFOLLOW);
}

void FeatureStore::require_open() const {
  if (!is_open_) throw Refused("these features are closed: open the folder again");
}

std::vector<std::int64_t> FeatureStore::find(std::span<const FeatureEntry> entries) {
  const Lock lock(mutex_);
  require_open();
  std::vector<std::int64_t> numbers;
  numbers.reserve(entries.size());
  for (const FeatureEntry& entry : entries) {
    numbers.push_back(index_.find(entry));
    ++(numbers.back() < 0 ? counts_.misses : counts_.hits);
  }
  return numbers;
}

std::vector<FeatureStore::Reading> FeatureStore::look_up(std::span<const std::int64_t> numbers) {
  const Lock lock(mutex_);
  require_open();
  std::vector<Reading> readings;
  readings.reserve(numbers.size());
  for (const std::int64_t number : numbers) {
    if (number < 0 || static_cast<std::size_t>(number) >= index_.records().size())
      throw Refused("there is no record " + std::to_string(number) +
                    ": read records whose numbers find() returns");
    const FeatureRecord& record = index_.records()[static_cast<std::size_t>(number)];
    readings.push_back({record, files_.sources().at(record.file)});
  }
  return readings;
}

std::vector<bool> FeatureStore::read(std::span<const std::int64_t> numbers,
                                     std::span<std::byte> into, unsigned threads) {
  ensure(into.size() == numbers.size() * record_bytes_, "the buffer has the size of the records");
  const std::vector<Reading> readings = look_up(numbers);
  std::vector<char> is_good(numbers.size());
  const auto enough = static_cast<unsigned>(
      std::min<std::uint64_t>(into.size() / kLeastBytesPerThread + 1, std::max(threads, 1U)));
  parallel_for(numbers.size(), enough, [&]() -> ItemWork {
    return [&](std::size_t i) {
      const auto& [record, source] = readings[i];
      const std::span<std::byte> to = into.subspan(i * record_bytes_, record_bytes_);
      is_good[i] = !record.is_forgotten &&
                   source->records.read(record.position * record_bytes_, to) &&
                   fingerprint(to.data(), to.size()) == record.digest;
      return true;
    };
  });
  for (std::size_t i = 0; i < numbers.size(); ++i)
    if (is_good[i] == 0) forget(numbers[i]);
  return {is_good.begin(), is_good.end()};
}

void FeatureStore::forget(std::int64_t number) {
  const Lock lock(mutex_);
  if (!is_open_) return;
  const FeatureRecord record = index_.records()[static_cast<std::size_t>(number)];
  if (record.is_forgotten) return;
  index_.forget(static_cast<std::uint64_t>(number));
  ++counts_.damaged;
  files_.erase(record);
}

/// Returns the positions of the first occurrences of entries without a record.
std::vector<std::size_t> FeatureStore::new_rows(std::span<const FeatureEntry> entries) const {
  const Lock lock(mutex_);
  std::vector<std::size_t> rows;
  if (!filling_ended_.empty()) return rows;
  std::set<std::pair<std::uint64_t, std::uint64_t>> seen;
  for (std::size_t i = 0; i < entries.size(); ++i)
    if (index_.find(entries[i]) < 0 && seen.emplace(entries[i].sample, entries[i].version).second)
      rows.push_back(i);
  return rows;
}

std::size_t FeatureStore::write(std::span<const FeatureEntry> entries,
                                std::span<const std::int64_t> indices,
                                std::span<const std::byte> records) {
  ensure(entries.size() == indices.size() && records.size() == entries.size() * record_bytes_,
         "one index and one record for each entry");
  const Lock writing(writing_);
  refresh();
  std::vector<std::size_t> rows = new_rows(entries);
  if (!rows.empty()) rows.resize(reserve(rows.size()));
  if (rows.empty()) return 0;
  const std::size_t written = append(rows, entries, indices, records);
  refresh();
  return written;
}

/// Reserves space for up to `records` records. Returns for how many.
std::size_t FeatureStore::reserve(std::size_t records) {
  int error = 0;
  std::size_t fit = records;
  std::uint64_t used = 0;
  {
    const FeatureFolderLock lock(folder_);
    error = lock.error();
    if (error == 0 && !(writer_ && writer_->is_own()))
      error = writer_.emplace(record_bytes_, seed_).open(dir_);
    if (error == 0 && budget_bytes_) {
      used = feature_folder_bytes(folder_);
      const std::uint64_t left = *budget_bytes_ - std::min(*budget_bytes_, used);
      fit = std::min<std::uint64_t>(records, left / (record_bytes_ + sizeof(FeatureSlot)));
    }
    // The record file grows while the lock is held, so that other processes count the space as
    // used. The records are written without the lock.
    if (error == 0) error = writer_->reserve(fit);
  }
  if (error != 0) end_filling("write features to '" + dir_.string() + "'", error);
  if (error == 0 && fit < records) end_filling(budget_message(used));
  return error == 0 ? fit : 0;
}

std::size_t FeatureStore::append(std::span<const std::size_t> rows,
                                 std::span<const FeatureEntry> entries,
                                 std::span<const std::int64_t> indices,
                                 std::span<const std::byte> records) {
  std::vector<FeatureSlot> slots;
  int error = 0;
  for (const std::size_t row : rows) {
    const std::span<const std::byte> record = records.subspan(row * record_bytes_, record_bytes_);
    error = writer_->write(slots.size(), record);
    if (error != 0) break;
    slots.push_back({entries[row], indices[row], fingerprint(record.data(), record.size())});
  }
  const int unpublished = writer_->publish(slots);
  if (unpublished != 0) slots.clear();
  if (error == 0) error = unpublished;
  if (error != 0) {
    writer_->reserve(0);
    end_filling("write features to '" + dir_.string() + "'", error);
  }
  return slots.size();
}

std::size_t FeatureStore::refresh() {
  const Lock lock(mutex_);
  require_open();
  return files_.scan(index_);
}

void FeatureStore::end_filling(std::string why) {
  const Lock lock(mutex_);
  if (filling_ended_.empty()) filling_ended_ = std::move(why);
}

void FeatureStore::end_filling(const std::string& what, int error) {
  end_filling("cannot " + what + ": " + errno_message(error));
}

std::string FeatureStore::budget_message(std::uint64_t folder_bytes) const {
  const std::uint64_t others = folder_bytes - std::min(folder_bytes, feature_key_bytes(dir_));
  std::string message = "the budget of " + size_text(static_cast<double>(*budget_bytes_)) +
                        " for '" + folder_.string() + "' is used up";
  if (others > 0)
    message += "; other keys use " + size_text(static_cast<double>(others)) +
               " of it, which slipstream features prune can release";
  return message;
}

std::string FeatureStore::filling_ended() const {
  const Lock lock(mutex_);
  return filling_ended_;
}

FeatureStats FeatureStore::stats() const {
  const std::uint64_t bytes = feature_key_bytes(dir_);
  const Lock lock(mutex_);
  FeatureStats stats = counts_;
  stats.records = index_.size();
  stats.bytes = bytes;
  return stats;
}

std::vector<std::pair<std::int64_t, FeatureRecord>> FeatureStore::ordered_records() const {
  const Lock lock(mutex_);
  require_open();
  std::vector<std::pair<std::int64_t, FeatureRecord>> ordered;
  const std::vector<FeatureRecord>& records = index_.records();
  for (std::size_t i = 0; i < records.size(); ++i)
    if (!records[i].is_forgotten) ordered.emplace_back(static_cast<std::int64_t>(i), records[i]);
  std::sort(ordered.begin(), ordered.end(), [](const auto& a, const auto& b) {
    const auto order = [](const FeatureRecord& record) {
      return std::tuple(record.index, record.entry.version, record.entry.sample);
    };
    return order(a.second) < order(b.second);
  });
  return ordered;
}

void FeatureStore::close() {
  const Lock writing(writing_);
  const Lock lock(mutex_);
  if (!is_open_) return;
  is_open_ = false;
  writer_.reset();
  index_ = FeatureIndex();
  files_.close();
  lease_.reset();
  touch();
}

}  // namespace slipstream
