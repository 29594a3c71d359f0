#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "slipstream/datasets/dataset.h"

namespace slipstream {

/// A data set with one class number a sample, known without reading it.
class LabeledDataset : public Dataset {
 public:
  virtual std::int64_t label(std::size_t index) const = 0;
  /// As Dataset::identity(), with every label().
  std::uint64_t identity() const override;
};

struct ImageFolderOptions {
  /// The classes in the order of their numbers, so that a part of the data (for validation) is
  /// numbered as the whole is; empty: every folder in DIR, sorted by name.
  std::vector<std::string> classes = {};
};

/// DIR/CLASS/**/*.jpg|jpeg|png (extensions in either case): fields "image" (encoded, height x width
/// x 3) and "label" (i64). Sorted by class and then by path, both byte by byte. Hidden files and
/// folders (.NAME) and other files are passed over. Links are followed; a folder that a class
/// reaches twice, through a link or a loop of links, counts once. Files of image formats that are
/// not read (WebP, GIF, BMP, TIFF, ...) and images outside of a class are passed over and counted
/// in remarks(), which tells of a single class, too. Throws Refused for a folder that is not there
/// or cannot be listed, and with `classes` for folders that are none of them (a class without a
/// folder or images is allowed then); Error where there is no class, and for classes without
/// images.
std::shared_ptr<const LabeledDataset> image_folder(const std::filesystem::path& dir,
                                                   const ImageFolderOptions& options = {});

struct ListOptions {
  std::string image = "image";  ///< column (or key) of the image's path
  std::string label = "label";  ///< of its class, a number or a name; not used with a mask
  std::string mask = {};        ///< of its mask's path; empty: no masks
  /// Names of the classes by number; empty: the numbers or the names that are in the list, names
  /// sorted.
  std::vector<std::string> classes = {};
  std::int64_t mask_classes = 0;  ///< at most 256; 0: any
};

/// The samples of a list: CSV (.csv, RFC 4180: quotes where needed, names of the columns in the
/// first row) or JSON lines (.jsonl, .ndjson, .json: an object a line), UTF-8. Paths are relative
/// to the list's folder, or absolute. Fields "image" (encoded) and "label": the class (i64), or
/// with ListOptions::mask the mask (encoded, of its image's size). Labels are all numbers (there
/// are as many classes then as the largest one plus 1, at most 1,000,000) or all names; with
/// ListOptions::classes, names of these or numbers below their count. Other columns and empty lines
/// are passed over. With labels, the result is a LabeledDataset. Throws Refused for a list that is
/// not there, of another extension, lacks a column or has one twice, and for a name that is none of
/// ListOptions::classes; Error, naming file and line, for what is no CSV or JSON, an empty path or
/// one that holds a NUL, a label that is none, and a list without samples.
std::shared_ptr<const Dataset> listed(const std::filesystem::path& list,
                                      const ListOptions& options = {});

struct TarShardOptions {
  std::int64_t classes = 0;       ///< of the class labels; 0: any
  std::int64_t mask_classes = 0;  ///< of the masks, at most 256; 0: any
  /// Larger members are refused, before memory is taken for their bytes; compressed ones by
  /// counting what comes out, in 8 MiB and the codec's window (zstd: at most 128 MiB) for each
  /// thread.
  std::size_t max_member_bytes = std::size_t{256} << 20;
  std::size_t max_open_shards = 64;  ///< descriptors, at least 1
  /// Where indexes are kept; empty: beside each shard or, where that cannot be written, in
  /// $XDG_CACHE_HOME/slipstream or ~/.cache/slipstream.
  std::filesystem::path index_dir = {};
};

/// Uncompressed .tar files, or folders of them (*.tar, sorted), one after the other, in the
/// convention of WebDataset: adjacent members with the same name up to the first dot of the last
/// part (the key) are one sample, and what follows the dot (the extension, in either case) names
/// the field:
///   jpg, jpeg, png       "image" (encoded); every sample has one
///   cls                  "label", i64: a class number in decimal digits
///   seg.png, mask.png    mask of class numbers (encoded), of its image's size: "label", or "mask"
///                        where there is a cls too
/// each of them plain or with .zst or .lz4 behind. All samples have the same fields. Members with
/// other extensions, hidden ones (.NAME), folders and devices are passed over; those of image
/// formats that are not read (WebP, GIF, BMP, TIFF, ...) are counted in remarks().
///
/// Samples are read at random through an index of each shard, made when the data set is, kept in a
/// file NAME.tar.slipstream-index, and made anew when the shard's size, inode or one of its times
/// (of the contents, of the inode) is another. It takes 8 bytes a sample of memory and 16 a field;
/// at most 220 bytes a sample while it is made.
///
/// Where a folder has the manifest of convert_to_shards() with names of classes, "label" has as
/// many classes and these names; folders of other names are refused together.
///
/// Throws Refused for options and paths that make no sense; Error, naming shard and member, for a
/// damaged or truncated archive, samples of different fields, two members of one field, a key that
/// comes again, and fields that are links, sparse, or have names that
/// are absolute or hold "..". read() throws for a shard that was replaced, changed or shortened
/// since: it never returns other bytes than were indexed.
std::shared_ptr<const Dataset> tar_shards(const std::vector<std::filesystem::path>& shards,
                                          const TarShardOptions& options = {});

/// One field of all samples, in memory.
struct ArrayField {
  std::string name;
  FieldKind kind = FieldKind::other;
  HostArray values;          ///< samples outermost
  std::int64_t classes = 0;  ///< as FieldSpec::classes
};

/// One field of all samples, in a file.
struct NpyField {
  std::string name;
  FieldKind kind = FieldKind::other;
  std::filesystem::path file;
  std::int64_t classes = 0;
};

/// Arrays in memory: images (u8, N x height x width x channels), masks (u8, i32 or i64, N x height
/// x width), labels (the same, N), boxes (f32, N x boxes x 4), others of any kind (N x up to three
/// dimensions). Throws Refused for other forms, fields of different N, of one name, or none: all
/// problems at once.
std::shared_ptr<const Dataset> tensor_dataset(std::vector<ArrayField> fields);

/// The same of .npy files (versions 1 to 3; little-endian u1, i4, i8 and f4, C order), which stay
/// open and are read where needed. Throws Refused as tensor_dataset() does and, naming the file and
/// what to do, for another type, byte order or Fortran order, and a file that is shorter or longer
/// than its header says. read() throws Error for a file that was replaced, changed or shortened
/// since.
std::shared_ptr<const Dataset> npy_maps(const std::vector<NpyField>& fields);

/// All samples of `parts`, one data set after the other. Their fields must be alike in name, kind,
/// type, classes and number of dimensions (Refused otherwise); dimensions that differ become -1.
/// Names of classes must agree where they are known (Refused otherwise).
/// Encoded fields are decoded by the first part: all parts must decode alike, as those of this
/// header do.
std::shared_ptr<const Dataset> concat_dataset(std::vector<std::shared_ptr<const Dataset>> parts);

/// Samples `indices` of `dataset`, in that order; one may come several times. Throws Refused for
/// an index that is not in the data set.
std::shared_ptr<const Dataset> subset(std::shared_ptr<const Dataset> dataset,
                                      std::vector<std::size_t> indices);
std::shared_ptr<const LabeledDataset> subset(std::shared_ptr<const LabeledDataset> dataset,
                                             std::vector<std::size_t> indices);

/// The data set that `path` looks like: a folder that convert_to_npy() wrote, or one of images/ and
/// masks/ (of up to 256 classes), a .tar shard or a folder of .tar shards, a
/// .csv or .jsonl list of columns "image" and "label", a .npy file or a folder of them without
/// folders (fields by the files' names, kinds by their forms: u8 of four dimensions are images,
/// integers of three masks and of one labels), else a folder of class folders. `classes`: of the
/// field "label" where shards and arrays do not say how many there are (0: any). Throws Refused for
/// anything else and for a conversion that is not finished, and what the function for that kind of
/// data set throws.
std::shared_ptr<const Dataset> open_dataset(const std::filesystem::path& path,
                                            std::int64_t classes = 0);

/// The same with the classes of "label" numbered as `class_names` lists them; none: as above. Class
/// folders and names in lists are numbered anew; masks, numbers in lists, shards and arrays are
/// taken to be numbered so already. Throws Refused too where the data have a class that is none of
/// these, or are known to be numbered otherwise.
std::shared_ptr<const Dataset> open_dataset(const std::filesystem::path& path,
                                            const std::vector<std::string>& class_names);

/// The names of the classes by number that `path` has: a data set with class_names(), such as a
/// folder of class folders or one that convert wrote (finished or not), or any other file, as text
/// with a name a line. Throws Refused where there are none, for a file of more than 16 MiB or that
/// is no regular one, and for names that are empty or come twice.
std::vector<std::string> class_names_from(const std::filesystem::path& path);

}  // namespace slipstream
