#include <algorithm>
#include <string>
#include <utility>

#include "core/number_text.h"
#include "core/text.h"
#include "datasets/class_names.h"
#include "datasets/field_values.h"
#include "datasets/folders.h"
#include "datasets/npy_manifest.h"
#include "datasets/pax.h"
#include "datasets/scan_watch.h"
#include "datasets/shard_files.h"
#include "datasets/shard_index_cache.h"
#include "datasets/storage_error.h"
#include "datasets/tar.h"
#include "slipstream/core/error.h"
#include "slipstream/datasets/datasets.h"

namespace slipstream {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMaxMemberBytes = std::size_t{1} << 40;

/// Decompressors that no thread uses at the moment. A pool instead of one per thread, because the
/// threads that call read() are not known.
class DecompressorPool {
 public:
  std::unique_ptr<Decompressor> take() const SLIPSTREAM_EXCLUDES(mutex_) {
    const Lock lock(mutex_);
    if (free_.empty()) return std::make_unique<Decompressor>();
    std::unique_ptr<Decompressor> taken = std::move(free_.back());
    free_.pop_back();
    return taken;
  }
  void return_decompressor(std::unique_ptr<Decompressor> taken) const SLIPSTREAM_EXCLUDES(mutex_) {
    const Lock lock(mutex_);
    free_.push_back(std::move(taken));
  }

 private:
  mutable Mutex mutex_;
  mutable std::vector<std::unique_ptr<Decompressor>> free_ SLIPSTREAM_GUARDED_BY(mutex_);
};

std::string to_text(ShardField field) {
  ShardFieldSet one;
  one.add(field);
  return one.text();
}

std::span<std::byte> as_writable_bytes(const MutableArray& array) {
  return {array.data, array.bytes()};
}

std::int64_t parse_label(const ConstArray& file) {
  const std::string_view text =
      without_blanks({reinterpret_cast<const char*>(file.data), file.bytes()});
  if (const auto label = decimal_number(text)) return static_cast<std::int64_t>(*label);
  constexpr std::size_t kShown = 20;
  throw Error("'" + printable_name(text.substr(0, kShown)) +
              "' is not a class index; write it in decimal digits");
}

class TarShards final : public Dataset {
 public:
  TarShards(TarShardOptions options, std::vector<std::string> names)
      : options_(std::move(options)), names_(std::move(names)), files_(options_.max_open_shards) {
    if (!names_.empty()) options_.classes = static_cast<std::int64_t>(names_.size());
  }

  void add(const fs::path& path) {
    ScanWatch::poll();
    const StampedFile file(path);
    StoredShardIndex index = load_shard_index(path, file, index_paths(path, options_.index_dir));
    const UnreadFormats unread = index->unread();
    count_skipped(path, file, index->skipped());
    if (index->size() == 0) {
      const std::string passed_over = unread.text("member");
      throw Error("shard '" + path.string() + "' has no sample: it needs members KEY" +
                  kImageNames + ", KEY without a dot" +
                  (passed_over.empty() ? "" : "; " + passed_over));
    }
    if (indexes_.empty()) field_set_ = index->fields();
    if (index->fields() != field_set_) {
      throw Error("the samples of shard '" + path.string() + "' have " + index->fields().text() +
                  ", those of '" + files_.path(0).string() + "' " + field_set_.text() +
                  "; all need the same");
    }
    files_.add(path, file.stamp());
    if (unread.total() > 0 && unread_.total() == 0) first_unread_ = path;
    shards_unread_ += unread.total() > 0;
    unread_.add(unread.counts());
    firsts_.push_back(size_);
    size_ += index->size();
    indexes_.push_back(std::move(index));
  }

  std::size_t size() const override { return size_; }

  std::vector<FieldSpec> fields() const override {
    std::vector<FieldSpec> specs = {image_field()};
    const bool has_label = field_set_.has(ShardField::label);
    if (has_label) specs.push_back(label_field(options_.classes));
    if (field_set_.has(ShardField::mask)) {
      const bool is_named = !has_label && !names_.empty();
      specs.push_back(mask_field(has_label ? "mask" : "label",
                                 is_named ? options_.classes : options_.mask_classes));
    }
    return specs;
  }

  void read(std::size_t index, Sample& out) const override {
    const auto [shard, sample] = find(index);
    const auto file = files_.open(shard);
    out.fields.resize(field_set_.count());
    std::size_t at = 0;
    for (const ShardField field : kAllShardFields) {
      if (!field_set_.has(field)) continue;
      try {
        read_field(*file, field, sample.members[static_cast<std::size_t>(field)], out.fields[at++]);
        // Not the fault of this sample, which must not be skipped for it.
      } catch (const StorageError&) {
        throw;
      } catch (const Error& error) {
        throw Error("the " + to_text(field) + " of '" + printable_name(name(index)) +
                    "': " + error.what());
      }
    }
    if (!field_set_.has(ShardField::mask)) return;
    check_same_size(out.fields.front(), out.fields.back(), [&](FieldKind kind) {
      return (kind == FieldKind::image ? "" : "the mask of ") + name(index);
    });
  }

  bool decodes_by_default() const override { return true; }
  const std::vector<std::string>& class_names() const override { return names_; }
  std::vector<std::string> remarks() const override {
    std::vector<std::string> remarks;
    if (unread_.total() > 0) {
      const std::string others =
          shards_unread_ == 1 ? "" : " and " + format_count(shards_unread_ - 1, "other shard");
      remarks.push_back("'" + first_unread_.string() + "'" + others + ": " +
                        unread_.text("member"));
    }
    if (skipped_.images > 0)
      remarks.push_back(format_count(skipped_.images, "image") + " skipped, the first '" +
                        first_skipped_image_ +
                        "': a sample's name ends at the first dot of its member's name, as in "
                        "WebDataset, so replace other dots in the names, by _ for example");
    if (skipped_.members > skipped_.images)
      remarks.push_back(format_count(skipped_.members - skipped_.images, "member") + " that " +
                        (skipped_.members - skipped_.images == 1 ? "is" : "are") +
                        " no image, label or mask skipped, the first '" + first_skipped_ + "'");
    if (skipped_.hidden > 0)
      remarks.push_back(format_count(skipped_.hidden, "hidden member") + " skipped, the first '" +
                        first_hidden_ + "'");
    return remarks;
  }
  std::uint64_t identity() const override { return files_.identity(); }
  std::string name(std::size_t index) const override {
    const auto [shard, sample] = find(index);
    const std::string path = files_.path(shard).string();
    try {
      const auto file = files_.open(shard);
      return path + ":" + tar_member_name(*file, sample.header);
    } catch (const Error&) {
    }
    return path + ": sample " + std::to_string(index - firsts_[shard]);
  }

 private:
  void count_skipped(const fs::path& path, const StampedFile& file, const SkippedMembers& found) {
    const auto name_at = [&](std::uint64_t header) {
      try {
        return path.string() + ":" + tar_member_name(file, header);
      } catch (const std::exception&) {  // an index from another source may hold a wrong offset
        return path.string();
      }
    };
    if (skipped_.images == 0 && found.images > 0) first_skipped_image_ = name_at(found.first_image);
    if (skipped_.members == 0 && found.members > 0) first_skipped_ = name_at(found.first);
    if (skipped_.hidden == 0 && found.hidden > 0) first_hidden_ = name_at(found.first_hidden);
    skipped_.hidden += found.hidden;
    skipped_.images += found.images;
    skipped_.members += found.members;
  }

  std::pair<std::size_t, ShardSample> find(std::size_t index) const {
    ensure(index < size_, "a sample's index is below the size of its data set");
    const auto after = std::upper_bound(firsts_.begin(), firsts_.end(), index);
    const auto shard = static_cast<std::size_t>(after - firsts_.begin()) - 1;
    return {shard, indexes_[shard]->sample(index - firsts_[shard])};
  }

  void read_field(const StampedFile& file, ShardField kind, const ShardMember& member,
                  Field& field) const {
    read_member(file, member, field.array);
    field.encoded = true;
    if (kind == ShardField::label) set_label(field, parse_label(field.array.view()));
  }

  void read_member(const StampedFile& file, const ShardMember& member, HostArray& out) const {
    if (member.size > options_.max_member_bytes) {
      throw Error("it has " + std::to_string(member.size) + " bytes, over the limit of " +
                  std::to_string(options_.max_member_bytes) +
                  "; remove it, or store it in smaller members (a program may raise "
                  "TarShardOptions::max_member_bytes)");
    }
    const Shape shape = {static_cast<std::int64_t>(member.size)};
    if (member.compression == Compression::none) {
      file.read(member.offset, as_writable_bytes(out.reset(DType::uint8, shape)));
      return;
    }
    std::unique_ptr<Decompressor> decompressor = pool_.take();
    const MutableArray packed = decompressor->packed.reset(DType::uint8, shape);
    file.read(member.offset, as_writable_bytes(packed));
    decompressor->run(member.compression, as_writable_bytes(packed), options_.max_member_bytes,
                      out);
    pool_.return_decompressor(std::move(decompressor));
  }

  TarShardOptions options_;
  std::vector<std::string> names_;
  ShardFiles files_;
  DecompressorPool pool_;
  std::vector<StoredShardIndex> indexes_;
  std::vector<std::size_t> firsts_;  ///< first sample of each shard
  std::size_t size_ = 0;
  ShardFieldSet field_set_;
  SkippedMembers skipped_;  ///< total of all shards
  std::string first_skipped_, first_skipped_image_, first_hidden_;
  UnreadFormats unread_;
  fs::path first_unread_;          ///< the first shard with unsupported formats
  std::size_t shards_unread_ = 0;  ///< number of shards with unsupported formats
};

void check(const std::vector<fs::path>& shards, const TarShardOptions& options) {
  std::vector<std::string> problems;
  if (shards.empty()) problems.push_back("no shards: name .tar files, or folders of them");
  if (options.classes < 0) problems.push_back("classes is negative: give their number, or 0");
  check_mask_classes("mask_classes", options.mask_classes, problems);
  if (options.max_member_bytes < 1 || options.max_member_bytes > kMaxMemberBytes) {
    problems.push_back("max_member_bytes is " + std::to_string(options.max_member_bytes) +
                       ": give 1 to 2^40");
  }
  if (options.max_open_shards < 1) problems.push_back("max_open_shards is 0: give at least 1");
  for (const fs::path& shard : shards) {
    std::error_code error;
    if (!fs::exists(shard, error)) {
      problems.push_back("no shard '" + shard.string() + "'" +
                         (error ? ": " + error.message() : std::string()));
    }
  }
  refuse(problems);
}

std::vector<fs::path> find_shard_files(const std::vector<fs::path>& shards) {
  std::vector<fs::path> files;
  for (const fs::path& shard : shards) {
    std::error_code ignored;
    if (!fs::is_directory(shard, ignored)) {
      files.push_back(shard);
      continue;
    }
    require_complete_shards(shard);
    const std::size_t before = files.size();
    for (const fs::path& path : list_folder(shard)) {
      if (lower_extension(path) == ".tar") files.push_back(path);
    }
    if (files.size() == before) throw Refused("no .tar in folder '" + shard.string() + "'");
  }
  return files;
}

/// Returns the class names from the manifests of the shards' folders, if there are any.
std::vector<std::string> shard_names(const std::vector<fs::path>& shards) {
  std::string first;
  std::vector<std::string> known;
  for (const fs::path& shard : shards) {
    std::error_code ignored;
    const bool is_folder = fs::is_directory(shard, ignored);
    const std::vector<std::string> names =
        manifest_class_names(is_folder ? shard : shard.parent_path());
    if (names.empty()) continue;
    const std::string problem = known.empty() ? "" : difference_of_names(names, known);
    if (!problem.empty())
      throw Refused(std::string("the shards '")
                        .append(shard.string())
                        .append("' and '")
                        .append(first)
                        .append("' number their classes differently: ")
                        .append(problem));
    first = shard.string();
    known = names;
  }
  return known;
}

}  // namespace

std::shared_ptr<const Dataset> tar_shards(const std::vector<fs::path>& shards,
                                          const TarShardOptions& options) {
  check(shards, options);
  auto dataset = std::make_shared<TarShards>(options, shard_names(shards));
  for (const fs::path& path : find_shard_files(shards)) dataset->add(path);
  return dataset;
}

}  // namespace slipstream
