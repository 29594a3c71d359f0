#include <algorithm>
#include <set>
#include <utility>

#include "core/number_text.h"
#include "core/text.h"
#include "datasets/class_names.h"
#include "datasets/field_values.h"
#include "datasets/folders.h"
#include "datasets/scan_watch.h"
#include "slipstream/core/error.h"
#include "slipstream/datasets/datasets.h"

namespace slipstream {
namespace {

namespace fs = std::filesystem;

const char* const kRemedy = "a data set is a folder with one folder of images for each class";

struct Found {
  std::vector<LabeledFile> files;
  SkippedFiles skipped;
  std::uint64_t outside = 0;  ///< images of any format that are in no class
};

std::vector<std::string> find_remarks(const fs::path& dir, const std::vector<std::string>& classes,
                                      const Found& found) {
  std::vector<std::string> remarks = found.skipped.remarks(dir);
  if (found.outside > 0)
    remarks.push_back("'" + dir.string() + "': " + format_count(found.outside, "image") +
                      " outside of the class folders " +
                      (found.outside == 1 ? "is ignored: move it" : "are ignored: move them") +
                      " into one of these");
  const std::vector<LabeledFile>& files = found.files;
  if (!files.empty() && files.front().label == files.back().label)
    remarks.push_back(one_class_remark(classes.at(static_cast<std::size_t>(files.front().label))));
  return remarks;
}

class ImageFolder final : public LabeledDataset {
 public:
  /// The paths of `files` are relative to `dir`, or to the current folder if it is empty.
  ImageFolder(fs::path dir, std::vector<std::string> classes, std::vector<LabeledFile> files,
              std::vector<std::string> remarks)
      : dir_(std::move(dir)),
        classes_(std::move(classes)),
        files_(std::move(files)),
        remarks_(std::move(remarks)) {}

  std::size_t size() const override { return files_.size(); }
  bool decodes_by_default() const override { return true; }
  std::string name(std::size_t index) const override { return path(index).string(); }
  const std::vector<std::string>& class_names() const override { return classes_; }
  std::vector<std::string> remarks() const override { return remarks_; }
  std::int64_t label(std::size_t index) const override { return files_.at(index).label; }

  std::vector<FieldSpec> fields() const override {
    return {image_field(), label_field(static_cast<std::int64_t>(classes_.size()))};
  }

  void read(std::size_t index, Sample& out) const override {
    out.fields.resize(2);
    read_file(path(index), out.fields[0].array);
    out.fields[0].encoded = true;
    set_label(out.fields[1], label(index));
  }

 private:
  fs::path path(std::size_t index) const { return dir_ / files_.at(index).path; }

  fs::path dir_;
  std::vector<std::string> classes_;
  std::vector<LabeledFile> files_;
  std::vector<std::string> remarks_;
};

/// The entries of DIR itself.
struct FolderSummary {
  std::vector<std::string> folders;
  std::uint64_t images = 0;  ///< number of images of any format
  UnreadFormats unread;
};

FolderSummary scan_top(const fs::path& dir) {
  FolderSummary top;
  std::error_code ignored;
  for (const fs::path& path : list_folder(dir)) {
    ScanWatch::poll();
    if (fs::is_directory(path, ignored))
      top.folders.push_back(path.filename().string());
    else
      top.images += is_image_name(path) || top.unread.add(path);
  }
  return top;
}

/// Describes images in DIR itself, or "" if there are none.
std::string images_beside(const FolderSummary& top) {
  if (top.images == 0) return "";
  const std::string text = top.unread.text();
  return ", but " + format_count(top.images, "image") + (text.empty() ? "" : "; " + text);
}

void check_classes(const fs::path& dir, const std::vector<std::string>& classes,
                   const std::vector<std::string>& folders) {
  const std::set<std::string> known(classes.begin(), classes.end());
  if (known.size() != classes.size() || known.contains("")) {
    throw Refused("the classes given for '" + dir.string() +
                  "' must be different names, none of them empty");
  }
  const std::string given =
      classes.size() == 1 ? " not the class given"
                          : " none of the " + std::to_string(classes.size()) + " classes given";
  NamedProblem unknown("folder that is" + given, "folders that are" + given);
  for (const std::string& folder : folders) {
    if (!known.contains(folder)) unknown.add(folder);
  }
  if (unknown.text().empty()) return;
  throw Refused("'" + dir.string() + "' has" + unknown.text() +
                "\nadd them to the classes, or move them away");
}

/// Says which files a class needs.
std::string wanted_files(const ImageFolderOptions& options) {
  if (options.is_valid_file != nullptr)
    return "add files for which is_valid_file returns true, or remove the folders";
  std::string names = kImageNames;
  if (!options.extensions.empty()) names = joined(options.extensions);
  return "add images (" + names + "), or remove the folders";
}

/// Decides which files are samples, and counts the others.
class Selection {
 public:
  Selection(const ImageFolderOptions& options, Found& found) : options_(options), found_(found) {}

  /// Hidden folders are searched only for the caller's function, which gets every file.
  bool has_hidden() const { return options_.is_valid_file != nullptr; }

  bool takes(const fs::path& dir, const std::string& path) {
    if (options_.is_valid_file != nullptr) return options_.is_valid_file(dir / path);
    const bool is_taken = !is_hidden(path) && has_extension(path);
    if (!is_taken) found_.skipped.add(path, path);
    return is_taken;
  }

 private:
  bool has_extension(const std::string& path) const {
    if (options_.extensions.empty()) return is_image_name(path);
    const std::string name = lower_case(path);
    return std::any_of(options_.extensions.begin(), options_.extensions.end(),
                       [&](const std::string& end) { return name.ends_with(lower_case(end)); });
  }

  const ImageFolderOptions& options_;
  Found& found_;
};

Found find_files(const fs::path& dir, const std::vector<std::string>& classes,
                 const std::vector<std::string>& folders, const ImageFolderOptions& options) {
  Found found;
  Selection selection(options, found);
  NamedProblem empty("class without images", "classes without images");
  for (std::size_t k = 0; k < classes.size(); ++k) {
    const std::size_t first = found.files.size();
    if (std::find(folders.begin(), folders.end(), classes[k]) != folders.end())
      for (std::string& path : files_below(dir, dir / classes[k], selection.has_hidden()))
        if (selection.takes(dir, path))
          found.files.push_back({std::move(path), static_cast<std::int64_t>(k)});
    if (found.files.size() == first) empty.add(classes[k]);
  }
  const bool may_lack_some = !options.classes.empty() && !found.files.empty();
  if (empty.text().empty() || options.allow_empty || may_lack_some) return found;
  const std::string unread = found.skipped.unread().text();
  throw Error("'" + dir.string() + "' has" + empty.text() + "\n" + wanted_files(options) +
              (unread.empty() ? "" : "\n" + unread));
}

}  // namespace

std::shared_ptr<const LabeledDataset> image_folder(const fs::path& dir,
                                                   const ImageFolderOptions& options) {
  require_folder(dir, kRemedy);
  if (options.is_valid_file != nullptr && !options.extensions.empty())
    throw Refused("extensions and is_valid_file are both given: give one of them");
  const FolderSummary top = scan_top(dir);
  if (top.folders.empty()) {
    throw Error("no class in '" + dir.string() + "': it contains no folder" + images_beside(top) +
                "; " + kRemedy);
  }
  const bool given = !options.classes.empty();
  std::vector<std::string> classes = given ? options.classes : top.folders;
  if (given) check_classes(dir, classes, top.folders);
  Found found = find_files(dir, classes, top.folders, options);
  found.outside = top.images;
  std::vector<std::string> remarks = find_remarks(dir, classes, found);
  return std::make_shared<ImageFolder>(dir, std::move(classes), std::move(found.files),
                                       std::move(remarks));
}

std::shared_ptr<const LabeledDataset> labeled_images(std::vector<std::string> classes,
                                                     std::vector<LabeledFile> files) {
  const auto count = static_cast<std::int64_t>(classes.size());
  for (const LabeledFile& file : files) {
    if (file.label < 0 || file.label >= count)
      throw Refused("'" + file.path + "' has class " + std::to_string(file.label) +
                    ", but there are " + std::to_string(count) + " classes, counted from 0");
  }
  return std::make_shared<ImageFolder>(fs::path(), std::move(classes), std::move(files),
                                       std::vector<std::string>());
}

}  // namespace slipstream
