#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "slipstream/datasets/dataset.h"

namespace slipstream {

/// A data set with one class index for each sample, known without reading the sample.
class LabeledDataset : public Dataset {
 public:
  /// Returns the class index of sample `index`.
  virtual std::int64_t label(std::size_t index) const = 0;
  /// Returns a digest of Dataset::identity() and every label().
  std::uint64_t identity() const override;
};

/// Options of image_folder().
struct ImageFolderOptions {
  /// The classes in the order of their indices, so that a part of the data (for validation) has the
  /// same indices as the whole. If empty, every folder in DIR is a class, sorted by name.
  std::vector<std::string> classes = {};
  /// The ends of the names of the files that are samples, in upper or lower case. If empty, those
  /// of all formats that decode_rgb() knows.
  std::vector<std::string> extensions = {};
  /// Returns true for a file that is a sample. Called once for each file, also for hidden ones, in
  /// the order of the samples. An exception ends the search. Not with `extensions`.
  std::function<bool(const std::filesystem::path&)> is_valid_file = {};
  bool allow_empty = false;  ///< accepts classes without images, and a data set without any
};

/// Opens the images in a folder of class folders: DIR/CLASS/**/*.jpg, .jpeg, .jpe, .jfif, .png,
/// .ppm, .pgm, .bmp, .gif, .tif, .tiff or .webp, in upper or lower case, sorted by class and then
/// by path, both byte by byte. The fields are "image" (encoded, uint8, height x width x 3) and
/// "label" (int64, scalar).
///
/// Hidden files and folders (.NAME) and other files are skipped. Links are followed, except to a
/// folder that contains the link, which is a loop. remarks() counts the files in class folders that
/// are skipped, by reason, and the images outside of a class, and notes if there is only one class.
///
/// Throws Refused for a folder that does not exist or cannot be listed, and with
/// ImageFolderOptions::classes for folders that are not among them. Throws Error if there is no
/// class, and for a class without images unless the classes are given.
std::shared_ptr<const LabeledDataset> image_folder(const std::filesystem::path& dir,
                                                   const ImageFolderOptions& options = {});

/// An image file and its class index.
struct LabeledFile {
  std::string path;
  std::int64_t label = 0;
};

/// Creates the data set of image_folder() from files that are already known. Paths are absolute or
/// relative to the current folder. Throws Refused for an index that is not one of the classes.
std::shared_ptr<const LabeledDataset> labeled_images(std::vector<std::string> classes,
                                                     std::vector<LabeledFile> files);

/// Options of listed(). A column is a column of CSV, or a key of JSON lines.
struct ListOptions {
  std::string image = "image";  ///< column of the image's path
  std::string label = "label";  ///< column of its class, an index or a name; not used with a mask
  std::string mask = {};        ///< column of its mask's path; empty if there are no masks
  /// The names of the classes by index. If empty, they are derived from the list: its class
  /// indices, or its names in sorted order.
  std::vector<std::string> classes = {};
  std::int64_t mask_classes = 0;  ///< number of classes in masks, at most 256; 0 if unknown
};

/// Opens the samples that a UTF-8 text file lists: CSV (.csv, RFC 4180, with the names of the
/// columns in the first row) or JSON lines (.jsonl, .ndjson, .json, one object per line). Paths are
/// absolute or relative to the list's folder. The fields are "image" (encoded, uint8, height x
/// width x 3) and "label": the class (int64, scalar), or with ListOptions::mask the mask (encoded,
/// uint8, with its image's size). With classes, the result is a LabeledDataset.
///
/// Labels are all indices or all names. For indices, the number of classes is the largest index
/// plus 1, at most 1,000,000. With ListOptions::classes, labels are their names or indices below
/// their number. Other columns and empty lines are ignored.
///
/// Throws Refused for a list that does not exist, has another extension, lacks a column or has one
/// twice, and for a name that is not in ListOptions::classes. Throws Error with file and line for a
/// line that is not CSV or JSON, a path that is empty or contains a NUL, a label that is neither an
/// index nor a name, and for a list without samples.
std::shared_ptr<const Dataset> listed(const std::filesystem::path& list,
                                      const ListOptions& options = {});

/// Options of tar_shards().
struct TarShardOptions {
  std::int64_t classes = 0;       ///< number of classes of labels; 0 if unknown
  std::int64_t mask_classes = 0;  ///< number of classes in masks, at most 256; 0 if unknown
  /// Maximum size of a member. Larger ones raise Error before memory is allocated for their bytes.
  /// To count the bytes of compressed members, they are decompressed piece by piece, with 8 MiB and
  /// the codec's own memory (zstd: at most 128 MiB) per thread.
  std::size_t max_member_bytes = std::size_t{256} << 20;
  std::size_t max_open_shards = 64;  ///< maximum number of open files, at least 1
  /// The folder for index files. If empty, they are stored next to each shard or, if that is not
  /// writable, in $XDG_CACHE_HOME/slipstream or ~/.cache/slipstream.
  std::filesystem::path index_dir = {};
};

/// Opens the samples of .tar files that are not compressed as a whole, or of folders of them
/// (*.tar, sorted), one file after the other, in the convention of WebDataset. Adjacent members
/// whose names are equal up to the first dot of the last path component are one sample; that part
/// of the name is its key. The extension after the dot, in upper or lower case, names the field:
///   jpg, jpeg, jpe, jfif, png, ppm, pgm, bmp, gif, tif, tiff, webp
///                        "image" (encoded, uint8, height x width x 3); every sample has one
///   cls                  "label" (int64, scalar): a class index in decimal digits
///   seg.png, mask.png    mask of class indices (encoded, uint8, with its image's size): "label",
///                        or "mask" if the sample has a cls too
/// An extension may be followed by .zst or .lz4. All samples have the same fields. Members with
/// other extensions, hidden ones (.NAME), folders and devices are skipped. remarks() counts the
/// files among them, by reason.
///
/// Samples are found through an index of each shard, which is built when the data set is opened and
/// stored in a file NAME.tar.slipstream-index. It is rebuilt when the shard's size, inode or one of
/// its times (of the contents, of the inode) has changed. It takes 8 bytes of memory for each
/// sample and 16 for each field of a sample, and at most 220 bytes for each sample while it is
/// built.
///
/// If a folder has the manifest of convert_to_shards() with class names, "label" has these classes
/// and names. Folders with different names cannot be opened together.
///
/// Throws Refused for invalid options and paths. Throws Error with shard and member for a damaged
/// or truncated archive, samples with different fields, two members for one field, a key that
/// occurs again, and fields that are links, sparse, or have names that are absolute or contain
/// "..". read() throws Error for a shard that was replaced, changed or shortened since it was
/// indexed: it never returns other bytes.
std::shared_ptr<const Dataset> tar_shards(const std::vector<std::filesystem::path>& shards,
                                          const TarShardOptions& options = {});

/// One field of all samples, in memory, for tensor_dataset().
struct ArrayField {
  std::string name;
  FieldKind kind = FieldKind::other;
  HostArray values;          ///< the first dimension counts the samples
  std::int64_t classes = 0;  ///< FieldSpec::classes
};

/// One field of all samples, in a .npy file, for npy_maps().
struct NpyField {
  std::string name;
  FieldKind kind = FieldKind::other;
  std::filesystem::path file;
  std::int64_t classes = 0;  ///< FieldSpec::classes
};

/// Creates a data set of arrays in host memory. For N samples they are images (uint8, N x height x
/// width x channels), masks (uint8, int32 or int64, N x height x width), labels (uint8, int32 or
/// int64, N), boxes (float32, N x boxes x 4) or others (any dtype, N x up to three dimensions), all
/// in C order. Throws Refused, with all problems at once, for other shapes and dtypes, fields with
/// different N, two fields with one name, and if there is no field.
std::shared_ptr<const Dataset> tensor_dataset(std::vector<ArrayField> fields);

/// Opens a data set of arrays in .npy files (versions 1 to 3; little-endian u1, i4, i8 and f4; C
/// order), with the shapes and dtypes of tensor_dataset(). The files stay open, and read() reads
/// from them. Throws Refused, with all problems at once, under the conditions of tensor_dataset(),
/// and with the file and a remedy for another type, byte order or Fortran order, and for a file
/// that is shorter or longer than its header says. read() throws Error for a file that was
/// replaced, changed or shortened since it was opened.
std::shared_ptr<const Dataset> npy_maps(const std::vector<NpyField>& fields);

/// Concatenates the samples of `parts`. Dimensions of a field that differ between parts become -1.
/// The first part's decode() decodes encoded fields of all parts, so all must decode in the same
/// way, as the data sets of this header do. Throws Refused if fields differ in name, kind, dtype,
/// classes or number of dimensions, and if known class names differ.
std::shared_ptr<const Dataset> concat_dataset(std::vector<std::shared_ptr<const Dataset>> parts);

/// Returns the samples `indices` of `dataset`, in that order. An index may occur several times.
/// Throws Refused for an index that is not in the data set. A subset of a LabeledDataset has
/// labels, too.
std::shared_ptr<const Dataset> subset(std::shared_ptr<const Dataset> dataset,
                                      std::vector<std::size_t> indices);
std::shared_ptr<const LabeledDataset> subset(std::shared_ptr<const LabeledDataset> dataset,
                                             std::vector<std::size_t> indices);

/// Opens the data set at `path` and detects its kind:
/// - a folder that convert_to_npy() wrote;
/// - a folder of images/ and masks/, with up to 256 classes (segmentation_folder());
/// - a .tar shard or a folder of .tar shards (tar_shards());
/// - a .csv or .jsonl list with the columns "image" and "label" (listed());
/// - a .npy file, or a folder of them without subfolders (npy_maps()): fields have the names of the
///   files; uint8 of four dimensions are images, integers of three dimensions are masks and of one
///   dimension labels, and the float32 of boxes.npy are boxes;
/// - otherwise a folder of class folders (image_folder()).
/// `classes` is the number of classes of the field "label" for shards and arrays that do not
/// specify it; 0 if unknown. Throws Refused for any other path and for an unfinished conversion,
/// and throws what the function for that kind of data set throws.
std::shared_ptr<const Dataset> open_dataset(const std::filesystem::path& path,
                                            std::int64_t classes = 0);

/// Opens the data set at `path` as above, with the classes of "label" indexed as `class_names`
/// lists them; an empty list changes nothing. Class folders and names in lists get these indices.
/// Masks, indices in lists, shards and arrays must use these indices already. Throws Refused if the
/// data have a class that is not in the list or are known to use other indices, and what the other
/// open_dataset() throws.
std::shared_ptr<const Dataset> open_dataset(const std::filesystem::path& path,
                                            const std::vector<std::string>& class_names);

/// Reads class names by index from `path`. It is a data set with class_names(), such as a folder of
/// class folders or one that convert wrote (finished or not), or a text file with one name per
/// line. Throws Refused if there are no names, for a file that is larger than 16 MiB or not
/// regular, and for empty or repeated names.
std::vector<std::string> class_names_from(const std::filesystem::path& path);

}  // namespace slipstream
