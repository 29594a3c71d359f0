#include <algorithm>
#include <atomic>
#include <memory>
#include <nlohmann/json.hpp>

#include "core/fingerprint.h"
#include "core/json_fields.h"
#include "core/parallel_for.h"
#include "core/sync.h"
#include "loader/bad_samples.h"
#include "slipstream/core/error.h"
#include "slipstream/datasets/datasets.h"
#include "slipstream/transforms/chain.h"
#include "tools/checks.h"
#include "tools/folder_lock.h"
#include "tools/manifest.h"
#include "tools/npy_file.h"
#include "tools/npy_values.h"
#include "tools/sample_maker.h"

namespace slipstream {
namespace {

namespace fs = std::filesystem;

using Files = std::vector<std::unique_ptr<NpyFile>>;
using Digests = std::vector<std::uint64_t>;

Files open_block_files(const fs::path& dir, const NpyManifest& manifest) {
  Files files;
  for (const FieldSpec& field : manifest.fields)
    files.push_back(std::make_unique<NpyFile>(npy_path(dir, field.name), field, manifest.samples));
  return files;
}

/// Returns true if the block in this file has the digest of the manifest.
bool is_good(const NpyFile& file, const NpyManifest& manifest, std::size_t block,
             std::size_t field) {
  return file.digest(manifest.block_begin(block), manifest.block_end(block)) ==
         manifest.blocks[block][field];
}

ConstArray read_value(const Dataset& dataset, std::size_t sample, const FieldSpec& spec,
                      const Field& field, HostArray& spare) {
  try {
    return npy_value(spec, field.array.view(), spare);
  } catch (const Error& error) {
    throw BadSample(at_sample(dataset, sample, error.what()));
  }
}

class NpyConversion {
 public:
  NpyConversion(const Dataset& dataset, fs::path dir, const ConvertOptions& options,
                std::vector<FieldSpec> fields, std::vector<SkippedSample> skipped)
      : dataset_(dataset), dir_(std::move(dir)), options_(options), specs_(dataset.fields()) {
    manifest_.samples = dataset.size();
    manifest_.samples_per_block = options.samples_per_shard;
    manifest_.fields = std::move(fields);
    manifest_.skipped = std::move(skipped);
    manifest_.blocks.resize((dataset.size() - 1) / options.samples_per_shard + 1);
    nlohmann::ordered_json more = {
        {"source", to_hex(dataset.identity())},
        {"transforms", json::parsed(to_json_text(options.transforms), "the transforms")}};
    add_more_settings(dataset, options, more);
    manifest_.settings = npy_settings(manifest_, more.dump());
  }

  Converted run() {
    const bool resumes = require_settings(dir_, manifest_.settings);
    if (resumes) manifest_ = find_npy_manifest(dir_).value();
    files_ = open_block_files(dir_, manifest_);
    if (resumes) forget_bad_blocks();
    const std::size_t blocks = manifest_.blocks.size();
    if (manifest_.is_complete() && are_complete()) return {blocks, 0, true, manifest_.skipped};
    write_npy_manifest(dir_, manifest_);
    for (const auto& file : files_) file->begin();
    const std::size_t before = manifest_.written();
    write_missing_blocks();
    if (manifest_.is_complete())
      for (const auto& file : files_) file->finish();
    return {blocks, manifest_.written() - before, manifest_.is_complete(), manifest_.skipped};
  }

 private:
  bool are_complete() const {
    return std::all_of(files_.begin(), files_.end(),
                       [](const auto& file) { return file->problem().empty(); });
  }

  /// Forgets blocks whose values do not match the manifest. The files are not synced, so after a
  /// power failure the manifest may list blocks that did not reach the disk.
  void forget_bad_blocks() {
    parallel_for(manifest_.blocks.size(), options_.threads, [this]() -> ItemWork {
      return [this](std::size_t block) {
        Digests& digests = manifest_.blocks[block];
        for (std::size_t i = 0; i < files_.size() && !digests.empty(); ++i)
          if (!is_good(*files_[i], manifest_, block, i)) digests.clear();
        return !(options_.stop && options_.stop());
      };
    });
  }

  void write_missing_blocks() {
    std::vector<std::size_t> missing;
    for (std::size_t block = 0; block < manifest_.blocks.size(); ++block)
      if (manifest_.blocks[block].empty()) missing.push_back(block);
    parallel_for(missing.size(), options_.threads, [&]() -> ItemWork {
      const auto maker =
          std::make_shared<SampleMaker>(dataset_, specs_, options_, SampleMaker::Decode::all);
      return [&, maker](std::size_t item) { return write(missing[item], *maker); };
    });
  }

  /// Writes one block. Returns false if it was stopped before the end.
  bool write(std::size_t block, SampleMaker& maker) {
    Digests digests(files_.size());
    HostArray spare;
    for (std::size_t i = manifest_.block_begin(block); i < manifest_.block_end(block); ++i) {
      if (options_.stop && options_.stop()) return false;
      const Sample& sample = maker.make(i);
      for (std::size_t k = 0; k < files_.size(); ++k) {
        const ConstArray value =
            read_value(dataset_, i, manifest_.fields[k], sample.fields[k], spare);
        files_[k]->write(i, value);
        digests[k] = chain_sample(digests[k], as_bytes(value));
      }
    }
    const Lock lock(mutex_);
    // The block is listed only after all its values were written. A conversion that ends earlier
    // writes it again when it is resumed.
    manifest_.blocks[block] = std::move(digests);
    write_npy_manifest(dir_, manifest_);
    if (options_.progress) options_.progress(manifest_.written(), manifest_.blocks.size());
    return true;
  }

  const Dataset& dataset_;
  const fs::path dir_;
  const ConvertOptions& options_;
  const std::vector<FieldSpec> specs_;
  Files files_;
  NpyManifest manifest_;
  Mutex mutex_;  ///< guards manifest_ while blocks are written
};

/// Converts every sample once to find the bad ones: the size of the arrays must be known before
/// they are written.
class BadSampleSearch {
 public:
  BadSampleSearch(const Dataset& dataset, const std::vector<FieldSpec>& fields,
                  const ConvertOptions& options)
      : dataset_(dataset), fields_(fields), options_(options), specs_(dataset.fields()) {}

  std::vector<SkippedSample> run() {
    parallel_for(dataset_.size(), options_.threads, [this]() -> ItemWork {
      const auto maker =
          std::make_shared<SampleMaker>(dataset_, specs_, options_, SampleMaker::Decode::all);
      return [this, maker](std::size_t index) {
        check(index, *maker);
        const std::size_t so_far = ++done_;
        if (options_.searched) options_.searched(so_far, dataset_.size());
        return !(options_.stop && options_.stop());
      };
    });
    const Lock lock(mutex_);
    return std::move(bad_.samples);
  }

 private:
  void check(std::size_t index, SampleMaker& maker) {
    HostArray spare;
    try {
      const Sample& sample = maker.make(index);
      for (std::size_t k = 0; k < fields_.size(); ++k)
        read_value(dataset_, index, fields_[k], sample.fields[k], spare);
    } catch (const BadSample& bad) {
      const Lock lock(mutex_);
      bad_.add({0, {{index, bad.what()}}});
    }
  }

  const Dataset& dataset_;
  const std::vector<FieldSpec>& fields_;
  const ConvertOptions& options_;
  const std::vector<FieldSpec> specs_;
  std::atomic<std::size_t> done_ = 0;
  Mutex mutex_;
  SkippedSamples bad_ SLIPSTREAM_GUARDED_BY(mutex_);
};

/// Returns the bad samples that an earlier conversion in `dir` found, if it had the same number of
/// samples. Its settings are compared later.
std::vector<SkippedSample> skipped_before(const fs::path& dir, std::size_t samples) {
  const auto manifest = find_npy_manifest(dir);
  if (!manifest || manifest->samples + manifest->skipped.size() != samples) return {};
  return manifest->skipped;
}

/// Returns `dataset` without the samples in `bad`.
/// REQUIRES: `dataset` outlives the result
std::shared_ptr<const Dataset> without(const Dataset& dataset,
                                       const std::vector<SkippedSample>& bad) {
  std::shared_ptr<const Dataset> all(std::shared_ptr<void>(), &dataset);
  if (bad.empty()) return all;
  std::vector<std::size_t> good;
  auto next = bad.begin();
  for (std::size_t i = 0; i < dataset.size(); ++i) {
    if (next != bad.end() && next->sample == i)
      ++next;
    else
      good.push_back(i);
  }
  return subset(all, std::move(good));
}

}  // namespace

Converted convert_to_npy(const Dataset& dataset, const fs::path& dir,
                         const ConvertOptions& options) {
  std::vector<std::string> problems = find_problems(dataset, options);
  std::vector<FieldSpec> fields = npy_fields(dataset.fields(), options.transforms, problems);
  refuse_conversion(problems);
  const FolderLock lock(dir);
  if (options.on_bad_sample == OnBadSample::stop)
    return NpyConversion(dataset, dir, options, std::move(fields), {}).run();

  std::vector<SkippedSample> bad = skipped_before(dir, dataset.size());
  if (bad.empty()) bad = BadSampleSearch(dataset, fields, options).run();
  if (options.stop && options.stop()) return {};
  if (bad.size() == dataset.size()) fail_without_samples(bad);
  const auto good = without(dataset, bad);
  return NpyConversion(*good, dir, options, std::move(fields), std::move(bad)).run();
}

std::vector<std::string> check_npy(const fs::path& dir, const NpyManifest& manifest,
                                   const CheckOptions& options) {
  std::vector<std::string> problems;
  if (!manifest.is_complete())
    problems.push_back("'" + dir.string() +
                       "' is not finished: " + std::to_string(manifest.written()) + " of " +
                       std::to_string(manifest.blocks.size()) + " blocks are written");
  const Files files = open_block_files(dir, manifest);
  const std::size_t fields = files.size();
  std::vector<char> is_bad(manifest.blocks.size() * fields);
  check_parts(is_bad.size(), options, [&](std::size_t part) {
    const std::size_t block = part / fields, field = part % fields;
    is_bad[part] =
        !manifest.blocks[block].empty() && !is_good(*files[field], manifest, block, field);
  });
  for (std::size_t field = 0; field < fields; ++field) {
    const std::string path = "'" + npy_path(dir, manifest.fields[field].name).string() + "' ";
    const std::string problem = files[field]->problem();
    if (!problem.empty() && manifest.is_complete()) problems.push_back(path + problem);
    for (std::size_t block = 0; block < manifest.blocks.size() && problem.empty(); ++block)
      if (is_bad[block * fields + field])
        problems.push_back(path + "has changed: samples " +
                           std::to_string(manifest.block_begin(block)) + " to " +
                           std::to_string(manifest.block_end(block) - 1) + " are others");
  }
  return problems;
}

}  // namespace slipstream
