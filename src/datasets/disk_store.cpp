#include "datasets/disk_store.h"

#include <system_error>
#include <utility>

#include "core/files.h"
#include "core/fingerprint.h"
#include "core/plain_message.h"
#include "datasets/disk_manifest.h"
#include "slipstream/core/error.h"

namespace slipstream {
namespace {

namespace fs = std::filesystem;

const char* const kManifest = "cache.json";
const char* const kIndex = "cache.index";
const char* const kSamples = "cache.samples";

std::span<std::byte> writable(RecordSlot& slot) {
  return std::as_writable_bytes(std::span(&slot, 1));
}

}  // namespace

DiskStore::DiskStore(const DiskCacheOptions& options, const std::string& manifest,
                     std::size_t samples, std::size_t fields)
    : dir_(options.dir),
      max_bytes_(options.max_bytes),
      index_bytes_(samples * sizeof(RecordSlot)),
      fixed_bytes_(index_bytes_ + manifest.size()),
      fields_(fields),
      // Part of each slot's checksum, so that a slot of another data set is never valid.
      seed_(fingerprint(manifest.data(), manifest.size())) {
  if (max_bytes_ < fixed_bytes_) {
    throw Refused("a disk cache of " + std::to_string(max_bytes_) +
                  " bytes is too small even for its index of " + std::to_string(fixed_bytes_) +
                  ", 32 bytes per sample: give it a higher limit, or use no disk cache");
  }
  open(manifest);
}

void DiskStore::open(const std::string& manifest) {
  std::error_code error;
  std::error_code ignored;
  fs::create_directories(dir_, error);
  if (fs::exists(dir_, ignored) && !fs::is_directory(dir_, ignored)) {
    throw Refused("the disk cache '" + dir_.string() +
                  "' is not a folder: give the path of a folder");
  }
  if (error) return stop_at("make '" + dir_.string() + "'", error.value());
  try {
    open_to_write(manifest);
    // A folder that cannot be written may still be readable, for example a cache on a shared disk.
    if (!is_storing_) open_to_read(manifest);
  } catch (const Refused&) {
    throw;
  } catch (const Error& why) {
    stop(why.what());
  }
}

void DiskStore::open_to_write(const std::string& manifest) {
  if (const int error = samples_.open(dir_ / kSamples, true); error != 0) {
    return stop_at("write '" + (dir_ / kSamples).string() + "'", error);
  }
  // One process at a time creates the manifest or compares it, so that two data sets cannot both
  // believe that they own the folder.
  const CacheFile::Hold hold(samples_);
  if (hold.error() != 0) return stop_at("lock '" + (dir_ / kSamples).string() + "'", hold.error());
  std::error_code ignored;
  if (fs::exists(dir_ / kManifest, ignored)) {
    check_disk_manifest(dir_ / kManifest, manifest);
  } else {
    write_own_file(dir_ / kManifest, manifest);
  }
  int error = index_.open(dir_ / kIndex, true);
  if (error == 0 && index_.size() < index_bytes_) error = index_.resize(index_bytes_);
  if (error != 0) stop_at("write '" + (dir_ / kIndex).string() + "'", error);
}

void DiskStore::open_to_read(const std::string& manifest) {
  std::error_code ignored;
  if (!fs::exists(dir_ / kManifest, ignored)) return;
  check_disk_manifest(dir_ / kManifest, manifest);
  if (!samples_.is_open()) samples_.open(dir_ / kSamples, false);
  if (!index_.is_open()) index_.open(dir_ / kIndex, false);
}

bool DiskStore::read(std::uint64_t sample, Sample& out) const {
  const bool is_hit = fetch(sample, out);
  ++(is_hit ? hits_ : misses_);
  return is_hit;
}

bool DiskStore::fetch(std::uint64_t sample, Sample& out) const {
  if (!index_.is_open() || !samples_.is_open()) return false;
  RecordSlot slot;
  if (!index_.read(sample * sizeof(slot), writable(slot))) return false;
  // Not yet stored (all zero), incomplete, or of another data set.
  if (slot.check != slot.expected_check(seed_, sample)) return false;
  std::array<StoredForm, kMaxRecordFields> stored;
  const auto head = std::span(stored).first(fields_);
  if (!samples_.read(slot.offset, std::as_writable_bytes(head))) return false;
  const auto form = RecordForm::parse(head, slot.bytes);
  if (!form) return false;
  RecordDigest digest(head);
  std::uint64_t at = slot.offset + head.size_bytes();
  out.fields.resize(fields_);
  for (std::size_t i = 0; i < fields_; ++i) {
    const RecordForm::FieldForm& field = form->fields[i];
    const MutableArray to = out.fields[i].array.reset(field.dtype, field.shape);
    out.fields[i].encoded = field.encoded;
    if (!samples_.read(at, {to.data, to.bytes()})) return false;
    digest.add(to);
    at += to.bytes();
  }
  // A record may be incomplete although its slot is valid: the files are not synced, so after a
  // power failure the slot may be on disk without the record.
  return digest.value() == slot.digest;
}

bool DiskStore::is_stored(std::uint64_t sample) const {
  Sample found;
  return fetch(sample, found);
}

DiskStore::Claim::Claim(DiskStore& store, std::uint64_t sample) : store_(store), sample_(sample) {
  const Lock lock(store_.mutex_);
  is_held_ = store_.being_stored_.insert(sample).second;
}

DiskStore::Claim::~Claim() {
  if (!is_held_) return;
  const Lock lock(store_.mutex_);
  store_.being_stored_.erase(sample_);
}

void DiskStore::write(std::uint64_t sample, const Sample& from) {
  if (!is_storing_ || from.fields.size() != fields_) return;
  std::array<StoredForm, kMaxRecordFields> stored;
  const auto head = std::span(stored).first(fields_);
  std::uint64_t bytes = head.size_bytes();
  for (std::size_t i = 0; i < fields_; ++i) {
    stored[i] = stored_form(from.fields[i]);
    bytes += from.fields[i].array.view().bytes();
  }
  if (!RecordForm::parse(head, bytes)) return;
  // Prevents two threads of this process from storing one sample. Two processes may still both
  // store it, which only wastes space.
  const Claim claim(*this, sample);
  if (!claim.is_held() || is_stored(sample)) return;
  const std::optional<std::uint64_t> offset = reserve(bytes);
  if (!offset) return;
  if (const int error = put(sample, *offset, head, from); error != 0) {
    release_space(*offset, bytes);
    return stop_at("write to '" + dir_.string() + "'", error);
  }
  ++stored_;
}

int DiskStore::put(std::uint64_t sample, std::uint64_t offset, std::span<const StoredForm> head,
                   const Sample& from) {
  RecordDigest digest(head);
  std::uint64_t at = offset + head.size_bytes();
  int error = samples_.write(offset, std::as_bytes(head));
  for (std::size_t i = 0; i < fields_ && error == 0; ++i) {
    const ConstArray value = from.fields[i].array.view();
    digest.add(value);
    error = samples_.write(at, as_bytes(value));
    at += value.bytes();
  }
  if (error != 0) return error;
  // The slot is written last: only from here on can other threads and processes find the record.
  RecordSlot slot = {offset, at - offset, digest.value(), 0};
  slot.check = slot.expected_check(seed_, sample);
  return index_.write(sample * sizeof(slot), writable(slot));
}

std::optional<std::uint64_t> DiskStore::reserve(std::uint64_t bytes) {
  int error = 0;
  {
    const Lock lock(mutex_);
    if (!is_storing_) return std::nullopt;
    const CacheFile::Hold hold(samples_);
    error = hold.error();
    const auto size = samples_.size();
    if (error == 0 && !size) error = EIO;
    if (error == 0 && fixed_bytes_ + *size + bytes > max_bytes_) {
      is_storing_ = false;
      stopped_ = "full: max_bytes is " + std::to_string(max_bytes_);
      return std::nullopt;
    }
    // Growing the file under the lock reserves the space, so that the write itself needs no lock.
    if (error == 0) error = samples_.resize(*size + bytes);
    if (error == 0) return size;
  }
  stop_at("write to '" + dir_.string() + "'", error);
  return std::nullopt;
}

void DiskStore::release_space(std::uint64_t offset, std::uint64_t bytes) {
  const Lock lock(mutex_);
  const CacheFile::Hold hold(samples_);
  // Space can be returned only if no other thread or process has reserved space after it.
  if (hold.error() == 0 && samples_.size() == offset + bytes) samples_.resize(offset);
}

DiskCacheState DiskStore::state() const {
  DiskCacheState state;
  state.hits = hits_;
  state.misses = misses_;
  state.stored = stored_;
  if (samples_.is_open()) state.bytes = fixed_bytes_ + samples_.size().value_or(0);
  const Lock lock(mutex_);
  state.stop_reason = stopped_;
  return state;
}

void DiskStore::stop(std::string why) {
  const Lock lock(mutex_);
  is_storing_ = false;
  if (stopped_.empty()) stopped_ = std::move(why);
}

void DiskStore::stop_at(const std::string& what, int error) {
  stop("cannot " + what + ": " + errno_message(error));
}

}  // namespace slipstream
