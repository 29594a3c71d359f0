#include <algorithm>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <string_view>

#include "codecs/formats.h"
#include "core/fingerprint.h"
#include "core/json_fields.h"
#include "core/number_text.h"
#include "core/parallel_for.h"
#include "core/sync.h"
#include "datasets/npy_manifest.h"
#include "loader/bad_samples.h"
#include "slipstream/codecs/image.h"
#include "slipstream/core/error.h"
#include "slipstream/transforms/chain.h"
#include "tools/checks.h"
#include "tools/folder_lock.h"
#include "tools/manifest.h"
#include "tools/sample_maker.h"
#include "tools/shard_writer.h"

namespace slipstream {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

std::string shard_name(std::size_t shard) {
  char name[32];
  std::snprintf(name, sizeof name, "shard-%06zu.tar", shard);
  return name;
}

std::string sample_key(std::size_t sample) {
  char key[32];
  std::snprintf(key, sizeof key, "%09zu", sample);
  return key;
}

std::int64_t number_in(const ConstArray& label) {
  switch (label.dtype) {
    case DType::uint8:
      return *label.as<std::uint8_t>();
    case DType::int32:
      return *label.as<std::int32_t>();
    default:
      return *label.as<std::int64_t>();
  }
}

bool fits_shards(const std::vector<FieldSpec>& specs) {
  std::size_t images = 0, labels = 0, masks = 0;
  for (const FieldSpec& spec : specs) {
    images += spec.kind == FieldKind::image;
    labels += spec.kind == FieldKind::label && spec.dtype != DType::float32 && spec.shape.rank == 0;
    masks += spec.kind == FieldKind::mask && spec.dtype == DType::uint8;
  }
  return images == 1 && labels <= 1 && masks <= 1 && images + labels + masks == specs.size();
}

class Conversion {
 public:
  Conversion(const Dataset& dataset, fs::path dir, const ConvertOptions& options)
      : dataset_(dataset),
        dir_(std::move(dir)),
        options_(options),
        specs_(dataset.fields()),
        shards_((dataset.size() - 1) / options.samples_per_shard + 1) {
    const std::string mine = settings();
    const bool is_there = require_settings(dir_, mine);
    const Lock lock(mutex_);
    if (is_there) manifest_ = read_manifest(dir_);
    for (const Manifest::Shard& shard : manifest_.shards) require_own(shard);
    manifest_.settings = mine;
  }

  Converted run() {
    parallel_for(shards_, options_.threads, [this]() -> ItemWork {
      const auto maker = std::make_shared<SampleMaker>(dataset_, specs_, options_,
                                                       SampleMaker::Decode::what_changes);
      return [this, maker](std::size_t shard) { return is_there(shard) || write(shard, *maker); };
    });
    const Lock lock(mutex_);
    Converted done{shards_, written_, manifest_.shards.size() == shards_, manifest_.skipped()};
    if (done.skipped.size() == dataset_.size()) fail_without_samples(done.skipped);
    return done;
  }

 private:
  void require_own(const Manifest::Shard& shard) const {
    std::size_t number = 0;
    if (std::sscanf(shard.file.c_str(), "shard-%zu.tar", &number) == 1 && number < shards_ &&
        shard_name(number) == shard.file && (shard.samples > 0 || !shard.skipped.empty()))
      return;
    throw Error("'" + manifest_path(dir_).string() + "' is damaged: it lists '" + shard.file +
                "' with " + format_count(shard.samples, "sample") +
                ", which this conversion does not write; remove the folder and convert again");
  }

  std::string settings() const {
    Json settings = {
        {"form", "shards"},
        {"source", to_hex(dataset_.identity())},
        {"samples", dataset_.size()},
        {"samples_per_shard", options_.samples_per_shard},
        {"quality", options_.quality},
        {"transforms", json::parsed(to_json_text(options_.transforms), "the transforms")}};
    add_more_settings(dataset_, options_, settings);
    return settings.dump();
  }

  bool is_there(std::size_t shard) {
    const Lock lock(mutex_);
    const Manifest::Shard* known = manifest_.find(shard_name(shard));
    if (known == nullptr) return false;
    const bool may_lack = known->skipped.empty() || skips();
    std::error_code failed;
    if (may_lack && known->samples == 0) return true;
    if (may_lack && fs::file_size(dir_ / known->file, failed) == known->bytes && !failed)
      return true;
    std::erase_if(manifest_.shards, [&](const auto& each) { return &each == known; });
    return false;
  }

  bool skips() const { return options_.on_bad_sample == OnBadSample::skip; }

  /// Writes one shard. Returns false if it was stopped before the end.
  bool write(std::size_t shard, SampleMaker& maker) {
    Manifest::Shard made{shard_name(shard)};
    const fs::path path = dir_ / made.file;
    {
      ShardWriter writer(path);
      const std::size_t first = shard * options_.samples_per_shard;
      const std::size_t last = std::min(dataset_.size(), first + options_.samples_per_shard);
      for (std::size_t i = first; i < last; ++i) {
        if (options_.stop && options_.stop()) return false;
        const Sample* const sample = good_sample(i, maker, made);
        for (std::size_t k = 0; sample != nullptr && k < specs_.size(); ++k)
          add_field(i, specs_[k], sample->fields[k], writer);
      }
      if (made.samples > 0) writer.finish();
    }
    std::error_code failed;
    if (made.samples > 0) {
      made.bytes = fs::file_size(path, failed);
      if (!failed) made.digest = file_digest(path);
    } else {
      fs::remove(path, failed);
    }
    if (failed)
      throw Error("cannot " + std::string(made.samples > 0 ? "read '" : "remove '") +
                  path.string() + "': " + failed.message());
    const Lock lock(mutex_);
    // The manifest lists a shard only after it is complete, so an interruption only repeats work.
    manifest_.shards.push_back(std::move(made));
    write_manifest(dir_, manifest_);
    ++written_;
    if (options_.progress) options_.progress(manifest_.shards.size(), shards_);
    return true;
  }

  /// Returns a sample, or nullptr if it is bad and skipped. Counts it in `shard` either way.
  const Sample* good_sample(std::size_t index, SampleMaker& maker, Manifest::Shard& shard) const {
    try {
      const Sample& sample = maker.make(index);
      check_label(index, sample);
      ++shard.samples;
      return &sample;
    } catch (const BadSample& bad) {
      if (!skips()) throw;
      shard.skipped.push_back({index, bad.what()});
      return nullptr;
    }
  }

  void check_label(std::size_t index, const Sample& sample) const {
    for (std::size_t k = 0; k < specs_.size(); ++k) {
      if (specs_[k].kind != FieldKind::label) continue;
      const std::int64_t number = number_in(sample.fields[k].array.view());
      if (number < 0)
        throw BadSample(at_sample(
            dataset_, index,
            "its label is " + std::to_string(number) + "; class indices in shards start at 0"));
    }
  }

  void add_field(std::size_t sample, const FieldSpec& spec, const Field& field,
                 ShardWriter& writer) const {
    const std::string key = sample_key(sample);
    const ConstArray value = field.array.view();
    if (spec.kind == FieldKind::label) {
      const std::string text = std::to_string(number_in(value));
      writer.add(key + ".cls", std::as_bytes(std::span(text)));
    } else if (spec.kind == FieldKind::mask) {
      writer.add(key + ".seg.png", field.encoded ? as_bytes(value) : encode_png(value));
    } else if (field.encoded) {
      const ImageFormat format = image_format(as_bytes(value));
      // A data set of the caller may decode files in a format of its own.
      const std::string_view extension =
          format == ImageFormat::unknown ? ".jpg" : image_extension(format);
      writer.add(key + std::string(extension), as_bytes(value));
    } else {
      writer.add(key + ".jpg", encode_jpeg(value, options_.quality));
    }
  }

  const Dataset& dataset_;
  const fs::path dir_;
  const ConvertOptions& options_;
  const std::vector<FieldSpec> specs_;
  const std::size_t shards_;
  Mutex mutex_;
  Manifest manifest_ SLIPSTREAM_GUARDED_BY(mutex_);
  std::size_t written_ SLIPSTREAM_GUARDED_BY(mutex_) = 0;
};

/// Returns "" if the shard is unchanged since it was written, else what is wrong.
std::string find_problem(const fs::path& dir, const Manifest::Shard& shard) {
  if (shard.samples == 0) return "";
  const fs::path path = dir / shard.file;
  const std::string what = "'" + path.string() + "' ";
  std::error_code failed;
  const std::uint64_t bytes = fs::file_size(path, failed);
  if (failed) return what + "is missing";
  if (bytes != shard.bytes)
    return what + "has " + std::to_string(bytes) + " bytes, not " + std::to_string(shard.bytes);
  return file_digest(path) == shard.digest ? "" : what + "has changed: its digest differs";
}

}  // namespace

Converted convert_to_shards(const Dataset& dataset, const fs::path& dir,
                            const ConvertOptions& options) {
  std::vector<std::string> problems = find_problems(dataset, options);
  if (options.quality < 1 || options.quality > 100)
    problems.push_back("quality is " + std::to_string(options.quality) + ", not 1 to 100");
  if (image_after(options.transforms).dtype != DType::uint8)
    problems.emplace_back("the transforms end with images that are not uint8");
  if (!fits_shards(dataset.fields()))
    problems.emplace_back(
        "shards hold one image per sample, and at most one class label and one uint8 mask");
  refuse_conversion(problems);
  const FolderLock lock(dir);
  return Conversion(dataset, dir, options).run();
}

std::vector<std::string> check_shards(const fs::path& dir, const CheckOptions& options) {
  const Manifest manifest = read_manifest(dir);
  std::vector<std::string> problems(manifest.shards.size());
  check_parts(problems.size(), options, [&](std::size_t shard) {
    problems[shard] = find_problem(dir, manifest.shards[shard]);
  });
  std::erase(problems, "");
  try {
    require_complete_shards(dir);
  } catch (const Error& error) {
    problems.emplace_back(error.what());
  }
  return problems;
}

}  // namespace slipstream
