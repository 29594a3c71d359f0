#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "slipstream/loader/data_loader.h"

namespace slipstream {

struct ConvertOptions {
  std::vector<NamedOp> transforms = {};  ///< of the operations of transforms.h and resize.h
  int quality = 90;                      ///< of JPEG files that are encoded anew, 1 to 100; shards
  Rgb background = {0, 0, 0};  ///< what is seen through transparent pixels of images decoded
  /// A part: a shard, or a block of samples in maps. What is interrupted in a part is done again.
  std::size_t samples_per_shard = 1024;
  OnBadSample on_bad_sample = OnBadSample::stop;  ///< skip: bad samples are left out
  unsigned threads = 0;                           ///< 0: one a core; each writes a part
  std::function<bool()> stop = {};  ///< asked before each sample; true ends after those at hand
  /// Of parts; from threads, but one call at a time.
  std::function<void(std::size_t done, std::size_t all)> progress = {};
  /// Of samples, while they are all read to find the bad ones; from the threads that read.
  std::function<void(std::size_t done, std::size_t all)> searched = {};
};

struct Converted {
  std::size_t parts = 0;               ///< of the whole data set
  std::size_t written = 0;             ///< by this call; the others were there
  bool is_complete = false;            ///< false after a stop
  std::vector<SkippedSample> skipped;  ///< of the whole data set so far, by number
};

/// Writes `dataset` to DIR/shard-NNNNNN.tar, which tar_shards() reads, and DIR/manifest.json: the
/// settings, and of each shard size, digest and the samples that were skipped. Images of which no
/// transform changes anything are decoded once, and copied as the files they are; the others become
/// JPEG. Masks become PNG, class labels text. The bytes are a pure function of data set and
/// options.
///
/// Where bad samples are skipped, a shard is that much shorter, or not there; all others are what
/// they would be. So it goes on where a conversion that stopped at one ended, and the other way
/// about that one is met again.
///
/// May be interrupted at any time, and called again: shards in the manifest are kept, all others
/// written anew. A shard appears under its name only when it is whole.
///
/// Throws Refused for options that make no sense, a random transform, fields that shards cannot
/// hold, a manifest of other settings, and a folder that another conversion writes to; Error for an
/// empty data set, a bad sample (naming it), and a file that cannot be written (a full disk), and
/// where all samples are bad.
Converted convert_to_shards(const Dataset& dataset, const std::filesystem::path& dir,
                            const ConvertOptions& options = {});

/// The same as one DIR/FIELD.npy for each field, of decoded values, which open_dataset(DIR) reads
/// (and numpy): images uint8, N x height x width x channels; labels and masks uint8 where there are
/// up to 256 classes; all else in its type. Every sample must have one shape then: Refused, with
/// the remedy, unless the transforms see to that. DIR/manifest.json holds the settings, the fields
/// with their kinds and classes, and the digests of each block of samples.
///
/// Blocks whose values are as the manifest says are kept when it is called again. Files have .part
/// behind their names until all blocks are written.
///
/// Where bad samples are skipped, all are read first to find them, and the arrays hold the others,
/// one behind the other; what a conversion that stopped at one wrote is another conversion then.
///
/// Throws what convert_to_shards() throws, and Error for a class out of range.
Converted convert_to_npy(const Dataset& dataset, const std::filesystem::path& dir,
                         const ConvertOptions& options = {});

struct CheckOptions {
  unsigned threads = 0;             ///< 0: one a core
  std::function<bool()> stop = {};  ///< asked ahead of each part; true: no more of them are read
  /// Of parts; from the threads that read.
  std::function<void(std::size_t done, std::size_t all)> progress = {};
};

/// What differs from DIR/manifest.json, of either form: files that are missing, of another size, or
/// changed, and parts that are not written. Reads all of them. Nothing where there is not a
/// manifest, or somebody else's. Throws Error for one that is damaged.
std::vector<std::string> check_converted(const std::filesystem::path& dir,
                                         const CheckOptions& options = {});

/// Takes the transforms off the front of `chain` that are not random nor done to whole batches, and
/// returns them.
std::vector<NamedOp> take_fixed_transforms(std::vector<NamedOp>& chain);

}  // namespace slipstream
