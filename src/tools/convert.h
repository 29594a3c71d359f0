#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "slipstream/loader/data_loader.h"

namespace slipstream {

struct ConvertOptions {
  std::vector<NamedOp> transforms = {};  ///< operations of transforms.h and resize.h
  int quality = 90;                      ///< JPEG quality of images that shards encode, 1 to 100
  Rgb background = {0, 0, 0};            ///< color that transparent pixels are composited over
  /// Samples per part: a shard, or a block of samples in .npy files. A part that was interrupted is
  /// written again.
  std::size_t samples_per_shard = 1024;
  OnBadSample on_bad_sample = OnBadSample::stop;  ///< skip: bad samples are not converted
  unsigned threads = 0;                           ///< 0: one per core; each thread writes a part
  /// Called before each sample; true stops after the current ones.
  std::function<bool()> stop = {};
  /// Progress in parts. Called from threads, but one call at a time.
  std::function<void(std::size_t done, std::size_t all)> progress = {};
  /// Progress in samples while all are read to find the bad ones. Called from the reading threads.
  std::function<void(std::size_t done, std::size_t all)> searched = {};
};

struct Converted {
  std::size_t parts = 0;               ///< number of parts of the whole data set
  std::size_t written = 0;             ///< parts that this call wrote; the others existed
  bool is_complete = false;            ///< false after a stop
  std::vector<SkippedSample> skipped;  ///< in the whole data set so far, sorted by index
};

/// Writes `dataset` to DIR/shard-NNNNNN.tar, which tar_shards() reads, and DIR/manifest.json: the
/// settings, and for each shard its size, digest and skipped samples. Images that no transform
/// changes are decoded once as a check and copied as files; the others are encoded as JPEG. Masks
/// become PNG, class labels text. The bytes are a pure function of data set and options.
///
/// If bad samples are skipped, their shard is shorter, or missing if all of its samples are bad;
/// all other shards are the same as without skipping. So a conversion that stopped at a bad sample
/// can be continued with skipping, and one with skipped samples can be continued without it, which
/// fails at the bad sample again.
///
/// May be interrupted at any time and called again: shards in the manifest are kept, all others are
/// written again. A shard gets its name only when it is complete.
///
/// Throws Refused for invalid options, a random transform, fields that shards cannot hold, a
/// manifest with other settings, and a folder that another conversion writes to. Throws Error for
/// an empty data set, a bad sample (naming it), a file that cannot be written (a full disk), and if
/// all samples are bad.
Converted convert_to_shards(const Dataset& dataset, const std::filesystem::path& dir,
                            const ConvertOptions& options = {});

/// Writes `dataset` as one DIR/FIELD.npy of decoded values for each field, which open_dataset(DIR)
/// and numpy can read: images uint8, N x height x width x channels; labels and masks uint8 if there
/// are up to 256 classes; all others in their dtype. All samples must have one shape: Refused, with
/// the remedy, unless the transforms guarantee that. DIR/manifest.json holds the settings, the
/// fields with their kinds and classes, and the digests of each block of samples.
///
/// When it is called again, blocks whose values match the manifest are kept. File names end in
/// .part until all blocks are written.
///
/// If bad samples are skipped, all samples are read first to find them, and the arrays hold the
/// others contiguously. A conversion that stopped at a bad sample cannot be continued with
/// skipping.
///
/// Throws what convert_to_shards() throws, and Error for a class that is out of range.
Converted convert_to_npy(const Dataset& dataset, const std::filesystem::path& dir,
                         const ConvertOptions& options = {});

struct CheckOptions {
  unsigned threads = 0;             ///< 0: one per core
  std::function<bool()> stop = {};  ///< called before each part; true stops
  /// Progress in parts. Called from the reading threads.
  std::function<void(std::size_t done, std::size_t all)> progress = {};
};

/// Returns the differences from DIR/manifest.json of either format: files that are missing, have
/// another size, or changed, and parts that are not written. Reads all files. Returns nothing if
/// there is no manifest, or one of another program. Throws Error for a damaged manifest.
std::vector<std::string> check_converted(const std::filesystem::path& dir,
                                         const CheckOptions& options = {});

/// Removes the transforms at the front of `chain` that are neither random nor over batches, and
/// returns them.
std::vector<NamedOp> take_fixed_transforms(std::vector<NamedOp>& chain);

}  // namespace slipstream
