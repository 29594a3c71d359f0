#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "slipstream/datasets/dataset.h"

namespace slipstream {

/// A data set with one class number for each sample, known without reading the sample.
class LabeledDataset : public Dataset {
 public:
  /// The class number of sample `index`.
  virtual std::int64_t label(std::size_t index) const = 0;
  /// A digest of Dataset::identity() and every label().
  std::uint64_t identity() const override;
};

/// Options of image_folder().
struct ImageFolderOptions {
  /// The classes in the order of their numbers, so that a part of the data (for validation) is
  /// numbered as the whole is. Empty: every folder in DIR is a class, sorted by name.
  std::vector<std::string> classes = {};
};

/// The images in a folder of class folders: DIR/CLASS/**/*.jpg, .jpeg, .jpe, .jfif, .png, .ppm or
/// .pgm, in letters of either case, sorted by class and then by path, both byte by byte. Its fields
/// are "image" (encoded, uint8, height x width x 3) and "label" (int64, scalar).
///
/// Hidden files and folders (.NAME) and other files are skipped. Links are followed; a folder that
/// a class reaches twice, through a link or a loop of links, counts once. remarks() counts files of
/// image formats that are not read (WebP, GIF, BMP, TIFF, ...) and images outside of a class, and
/// tells of a single class.
///
/// Throws Refused for a folder that does not exist or cannot be listed, and with
/// ImageFolderOptions::classes for folders that are none of them. Throws Error where there is no
/// class, and for a class without images, which is allowed where the classes are given.
std::shared_ptr<const LabeledDataset> image_folder(const std::filesystem::path& dir,
                                                   const ImageFolderOptions& options = {});

/// Options of listed(). A column is that of CSV, or a key of JSON lines.
struct ListOptions {
  std::string image = "image";  ///< column of the image's path
  std::string label = "label";  ///< column of its class, a number or a name; unused with a mask
  std::string mask = {};        ///< column of its mask's path; empty: no masks
  /// The names of the classes by number. Empty: the numbers that are in the list, or the names,
  /// which are sorted.
  std::vector<std::string> classes = {};
  std::int64_t mask_classes = 0;  ///< number of classes in masks, at most 256; 0: unknown
};

/// The samples of a list in UTF-8: CSV (.csv, RFC 4180, with the names of the columns in the first
/// row) or JSON lines (.jsonl, .ndjson, .json, an object in each line). Paths are absolute or
/// relative to the list's folder. Its fields are "image" (encoded, uint8, height x width x 3) and
/// "label": the class (int64, scalar), or with ListOptions::mask the mask (encoded, uint8, of its
/// image's size). With classes, the result is a LabeledDataset.
///
/// Labels are all numbers or all names. For numbers there are as many classes as the largest one
/// plus 1, at most 1,000,000. With ListOptions::classes, labels are names of these or numbers below
/// their count. Other columns and empty lines are ignored.
///
/// Throws Refused for a list that does not exist, has another extension, lacks a column or has one
/// twice, and for a name that is none of ListOptions::classes. Throws Error, naming file and line,
/// for a line that is not CSV or JSON, a path that is empty or holds a NUL, a label that is neither
/// number nor name, and a list without samples.
std::shared_ptr<const Dataset> listed(const std::filesystem::path& list,
                                      const ListOptions& options = {});

/// Options of tar_shards().
struct TarShardOptions {
  std::int64_t classes = 0;       ///< number of classes of labels; 0: unknown
  std::int64_t mask_classes = 0;  ///< number of classes in masks, at most 256; 0: unknown
  /// The size of the largest member that is read. Larger ones are an Error before memory is taken
  /// for their bytes. Compressed members are decompressed piece by piece to count their bytes, in
  /// 8 MiB and what the codec needs itself (zstd: at most 128 MiB) for each thread.
  std::size_t max_member_bytes = std::size_t{256} << 20;
  std::size_t max_open_shards = 64;  ///< files open at once, at least 1
  /// The folder in which indexes are kept. Empty: beside each shard or, where that cannot be
  /// written, in $XDG_CACHE_HOME/slipstream or ~/.cache/slipstream.
  std::filesystem::path index_dir = {};
};

/// The samples of .tar files that are not compressed as a whole, or of folders of them (*.tar,
/// sorted), one file after the other, in the convention of WebDataset. Adjacent members with the
/// same name up to the first dot of the last part are one sample; that name is its key. The
/// extension after the dot, in letters of either case, names the field:
///   jpg, jpeg, jpe, jfif, png, ppm, pgm
///                        "image" (encoded, uint8, height x width x 3); every sample has one
///   cls                  "label" (int64, scalar): a class number in decimal digits
///   seg.png, mask.png    mask of class numbers (encoded, uint8, of its image's size): "label", or
///                        "mask" where the sample has a cls too
/// An extension may be followed by .zst or .lz4. All samples have the same fields. Members with
/// other extensions, hidden ones (.NAME), folders and devices are skipped. remarks() counts members
/// of image formats that are not read (WebP, GIF, BMP, TIFF, ...).
///
/// Samples are found through an index of each shard. It is made with the data set and kept in a
/// file NAME.tar.slipstream-index. It is made again when the shard's size, inode or one of its
/// times (of the contents, of the inode) has changed. In memory it takes 8 bytes for each sample
/// and 16 for each field of a sample, and at most 220 bytes for each sample while it is made.
///
/// Where a folder has the manifest of convert_to_shards() with names of classes, "label" has these
/// classes and names. Folders whose names differ cannot be opened together.
///
/// Throws Refused for options and paths that make no sense. Throws Error, naming shard and member,
/// for a damaged or truncated archive, samples of different fields, two members of one field, a key
/// that comes again, and fields that are links, sparse, or have names that are absolute or hold
/// "..". read() throws Error for a shard that was replaced, changed or shortened since it was
/// indexed: it never returns other bytes.
std::shared_ptr<const Dataset> tar_shards(const std::vector<std::filesystem::path>& shards,
                                          const TarShardOptions& options = {});

/// One field of all samples, in memory, for tensor_dataset().
struct ArrayField {
  std::string name;
  FieldKind kind = FieldKind::other;
  HostArray values;          ///< the samples are the first dimension
  std::int64_t classes = 0;  ///< FieldSpec::classes
};

/// One field of all samples, in a .npy file, for npy_maps().
struct NpyField {
  std::string name;
  FieldKind kind = FieldKind::other;
  std::filesystem::path file;
  std::int64_t classes = 0;  ///< FieldSpec::classes
};

/// A data set of arrays in memory. For N samples they are images (uint8, N x height x width x
/// channels), masks (uint8, int32 or int64, N x height x width), labels (uint8, int32 or int64, N),
/// boxes (float32, N x boxes x 4) or others (any dtype, N x up to three dimensions). Throws
/// Refused, with all problems at once, for other forms, fields with different N, two fields of one
/// name, and where there is no field.
std::shared_ptr<const Dataset> tensor_dataset(std::vector<ArrayField> fields);

/// A data set of arrays in .npy files (versions 1 to 3; little-endian u1, i4, i8 and f4; C order),
/// with the forms that tensor_dataset() takes. The files stay open, and read() reads from them.
/// Throws Refused, with all problems at once, for what tensor_dataset() refuses and, naming the
/// file and what to do, for another type, byte order or Fortran order, and a file that is shorter
/// or longer than its header says. read() throws Error for a file that was replaced, changed or
/// shortened since it was opened.
std::shared_ptr<const Dataset> npy_maps(const std::vector<NpyField>& fields);

/// All samples of `parts`, one data set after the other. Dimensions of a field that differ between
/// parts become -1. The first part's decode() decodes encoded fields of all parts, so all must
/// decode in the same way, as the data sets of this header do. Throws Refused where fields differ
/// in name, kind, dtype, classes or number of dimensions, and where known names of classes differ.
std::shared_ptr<const Dataset> concat_dataset(std::vector<std::shared_ptr<const Dataset>> parts);

/// The samples `indices` of `dataset`, in that order. One may come several times. Throws Refused
/// for an index that is not in the data set. A subset of a LabeledDataset has labels, too.
std::shared_ptr<const Dataset> subset(std::shared_ptr<const Dataset> dataset,
                                      std::vector<std::size_t> indices);
std::shared_ptr<const LabeledDataset> subset(std::shared_ptr<const LabeledDataset> dataset,
                                             std::vector<std::size_t> indices);

/// Opens the data set that `path` looks like:
/// - a folder that convert_to_npy() wrote;
/// - a folder of images/ and masks/, with up to 256 classes (segmentation_folder());
/// - a .tar shard or a folder of .tar shards (tar_shards());
/// - a .csv or .jsonl list with the columns "image" and "label" (listed());
/// - a .npy file, or a folder of them without folders (npy_maps()): fields are called as the files
///   are; uint8 of four dimensions are images, integers of three are masks and of one labels, and
///   the float32 of boxes.npy are boxes;
/// - else a folder of class folders (image_folder()).
/// `classes` is the number of classes of the field "label" for shards and arrays that do not say
/// it; 0: unknown. Throws Refused for any other path and for a conversion that is not finished, and
/// throws what the function for that kind of data set throws.
std::shared_ptr<const Dataset> open_dataset(const std::filesystem::path& path,
                                            std::int64_t classes = 0);

/// Opens the data set that `path` looks like, with the classes of "label" numbered as `class_names`
/// lists them; an empty list changes nothing. Class folders and names in lists get these numbers.
/// Masks, numbers in lists, shards and arrays must have these numbers already. Throws Refused where
/// the data have a class that is none of these or are known to be numbered in another way, and what
/// the other open_dataset() throws.
std::shared_ptr<const Dataset> open_dataset(const std::filesystem::path& path,
                                            const std::vector<std::string>& class_names);

/// The names of classes by number that `path` gives. It is a data set with class_names(), such as a
/// folder of class folders or one that convert wrote (finished or not), or a text file with a name
/// in each line. Throws Refused where there are no names, for a file that has more than 16 MiB or
/// is not a regular one, and for names that are empty or come twice.
std::vector<std::string> class_names_from(const std::filesystem::path& path);

}  // namespace slipstream
