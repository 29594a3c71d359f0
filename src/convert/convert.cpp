#include "slipstream/convert.h"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <thread>

#include "convert/manifest.h"
#include "convert/shard_writer.h"
#include "slipstream/chain.h"
#include "slipstream/error.h"
#include "slipstream/image.h"
#include "slipstream/sync.h"

namespace slipstream {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

std::string shard_name(std::size_t shard) {
  char name[32];
  std::snprintf(name, sizeof name, "shard-%06zu.tar", shard);
  return name;
}

std::string key_of(std::size_t sample) {
  char key[32];
  std::snprintf(key, sizeof key, "%09zu", sample);
  return key;
}

std::span<const std::byte> bytes_of(const ConstArray& array) { return {array.data, array.bytes()}; }

std::int64_t number_in(const ConstArray& label) {
  switch (label.dtype) {
    case DType::u8:
      return *label.as<std::uint8_t>();
    case DType::i32:
      return *label.as<std::int32_t>();
    default:
      return *label.as<std::int64_t>();
  }
}

/// Nothing, or why shards cannot hold such fields.
std::string problem_of(const std::vector<FieldSpec>& specs) {
  std::size_t images = 0, labels = 0, masks = 0;
  for (const FieldSpec& spec : specs) {
    images += spec.kind == FieldKind::image;
    labels += spec.kind == FieldKind::label && spec.dtype != DType::f32 && spec.shape.rank == 0;
    masks += spec.kind == FieldKind::mask && spec.dtype == DType::u8;
  }
  if (images == 1 && labels <= 1 && masks <= 1 && images + labels + masks == specs.size())
    return "";
  return "shards hold one image a sample, and at most one class label and one mask of uint8";
}

class Conversion {
 public:
  Conversion(const Dataset& dataset, fs::path dir, const ConvertOptions& options)
      : dataset_(dataset),
        dir_(std::move(dir)),
        options_(options),
        specs_(dataset.fields()),
        shards_((dataset.size() + options.samples_per_shard - 1) / options.samples_per_shard) {
    fs::create_directories(dir_);
    Lock lock(mutex_);
    manifest_.settings = settings();
    if (!fs::exists(manifest_path(dir_))) return;
    Manifest before = read_manifest(dir_);
    if (before.settings != manifest_.settings)
      throw Refused("'" + dir_.string() + "' holds another conversion, by " + before.settings +
                    ", not " + manifest_.settings + "; give another folder, or remove this one");
    manifest_ = std::move(before);
  }

  Converted run() {
    {
      std::vector<std::jthread> threads;
      const unsigned wanted =
          options_.threads > 0 ? options_.threads : std::thread::hardware_concurrency();
      for (unsigned i = 0; i < std::max(1U, wanted); ++i) threads.emplace_back([this] { work(); });
    }
    Lock lock(mutex_);
    if (error_) std::rethrow_exception(error_);
    return {shards_, written_, manifest_.shards.size() == shards_};
  }

 private:
  std::string settings() const {
    return Json{{"samples", dataset_.size()},
                {"samples_per_shard", options_.samples_per_shard},
                {"quality", options_.quality},
                {"chain", Json::parse(to_json(options_.transforms))}}
        .dump();
  }

  void work() {
    try {
      for (std::size_t shard = next_++; shard < shards_; shard = next_++)
        if (!is_there(shard) && !write(shard)) return;
    } catch (...) {
      next_ = shards_;
      Lock lock(mutex_);
      if (!error_) error_ = std::current_exception();
    }
  }

  bool is_there(std::size_t shard) {
    Lock lock(mutex_);
    const Manifest::Shard* known = manifest_.find(shard_name(shard));
    if (known == nullptr) return false;
    std::error_code failed;
    if (fs::file_size(dir_ / known->file, failed) == known->bytes && !failed) return true;
    std::erase_if(manifest_.shards, [&](const auto& each) { return &each == known; });
    return false;
  }

  /// Whether it was written whole.
  bool write(std::size_t shard) {
    const std::string name = shard_name(shard);
    ShardWriter writer(dir_ / name);
    const std::size_t first = shard * options_.samples_per_shard;
    const std::size_t last = std::min(dataset_.size(), first + options_.samples_per_shard);
    Sample sample;
    std::vector<HostArray> spare(specs_.size());
    Scratch scratch;
    for (std::size_t i = first; i < last; ++i) {
      if (options_.stop && options_.stop()) return false;
      add(i, sample, spare, scratch, writer);
    }
    writer.finish();
    const std::uint64_t bytes = fs::file_size(dir_ / name);
    const std::string digest = file_digest(dir_ / name);
    Lock lock(mutex_);
    manifest_.shards.push_back({name, last - first, bytes, digest});
    write_manifest(dir_, manifest_);
    ++written_;
    if (options_.progress) options_.progress(manifest_.shards.size(), shards_);
    return true;
  }

  void add(std::size_t index, Sample& sample, std::vector<HostArray>& spare, Scratch& scratch,
           ShardWriter& writer) const {
    try {
      sample.fields.resize(specs_.size());
      for (Field& field : sample.fields) field.encoded = false;
      dataset_.read(index, sample);
      for (std::size_t i = 0; i < specs_.size(); ++i)
        if (sample.fields[i].encoded && is_changed(specs_[i])) {
          dataset_.decode(specs_[i], {}, sample.fields[i], spare[i]);
          sample.fields[i].encoded = false;
        }
      for (const NamedOp& each : options_.transforms)
        each.op.apply({.seed = 0, .epoch = 0, .sample = index}, specs_, sample, spare, scratch);
    } catch (const Error& error) {
      throw Error("sample " + std::to_string(index) + " (" + dataset_.name(index) +
                  "): " + error.what());
    }
    for (std::size_t i = 0; i < specs_.size(); ++i)
      add_field(key_of(index), specs_[i], sample.fields[i], writer);
  }

  bool is_changed(const FieldSpec& spec) const {
    return std::any_of(options_.transforms.begin(), options_.transforms.end(),
                       [&](const NamedOp& each) { return each.op.touches(spec.kind); });
  }

  void add_field(const std::string& key, const FieldSpec& spec, const Field& field,
                 ShardWriter& writer) const {
    const ConstArray value = field.array.view();
    if (spec.kind == FieldKind::label) {
      const std::string text = std::to_string(number_in(value));
      writer.add(key + ".cls", std::as_bytes(std::span(text)));
    } else if (spec.kind == FieldKind::mask) {
      writer.add(key + ".seg.png", field.encoded ? bytes_of(value) : encode_png(value));
    } else if (field.encoded) {
      const bool is_png = image_format(bytes_of(value)) == ImageFormat::png;
      writer.add(key + (is_png ? ".png" : ".jpg"), bytes_of(value));
    } else {
      writer.add(key + ".jpg", encode_jpeg(value, options_.quality));
    }
  }

  const Dataset& dataset_;
  const fs::path dir_;
  const ConvertOptions& options_;
  const std::vector<FieldSpec> specs_;
  const std::size_t shards_;
  std::atomic<std::size_t> next_ = 0;
  Mutex mutex_;
  Manifest manifest_ SLIPSTREAM_GUARDED_BY(mutex_);
  std::size_t written_ SLIPSTREAM_GUARDED_BY(mutex_) = 0;
  std::exception_ptr error_ SLIPSTREAM_GUARDED_BY(mutex_);
};

void check(const Dataset& dataset, const ConvertOptions& options) {
  std::string problems;
  if (options.quality < 1 || options.quality > 100)
    problems += "\n  quality is " + std::to_string(options.quality) + ", not 1 to 100";
  if (options.samples_per_shard == 0) problems += "\n  a shard holds at least 1 sample";
  for (const NamedOp& each : options.transforms)
    if (each.op.is_random())
      problems += "\n  transform '" + each.name + "' is random: it belongs into training";
  FieldSpec image{"image", FieldKind::image, DType::u8, {-1, -1, 3}, 0};
  for (const NamedOp& each : options.transforms) image = each.op.output(image);
  if (image.dtype != DType::u8) problems += "\n  the transforms end with images that are not uint8";
  const std::string fields = problem_of(dataset.fields());
  if (!fields.empty()) problems += "\n  " + fields;
  if (!problems.empty()) throw Refused("this cannot be converted:" + problems);
}

}  // namespace

Converted convert_to_shards(const Dataset& dataset, const fs::path& dir,
                            const ConvertOptions& options) {
  check(dataset, options);
  return Conversion(dataset, dir, options).run();
}

std::vector<std::string> check_shards(const fs::path& dir) {
  std::vector<std::string> problems;
  for (const Manifest::Shard& shard : read_manifest(dir).shards) {
    const fs::path path = dir / shard.file;
    std::error_code failed;
    const std::uint64_t bytes = fs::file_size(path, failed);
    if (failed)
      problems.push_back("'" + path.string() + "' is missing");
    else if (bytes != shard.bytes)
      problems.push_back("'" + path.string() + "' has " + std::to_string(bytes) + " bytes, not " +
                         std::to_string(shard.bytes));
    else if (file_digest(path) != shard.digest)
      problems.push_back("'" + path.string() + "' has changed: its digest is another");
  }
  return problems;
}

std::vector<NamedOp> take_fixed_transforms(std::vector<NamedOp>& chain) {
  const auto random = std::find_if(chain.begin(), chain.end(),
                                   [](const NamedOp& each) { return each.op.is_random(); });
  std::vector<NamedOp> fixed(chain.begin(), random);
  chain.erase(chain.begin(), random);
  return fixed;
}

}  // namespace slipstream
