#include <algorithm>
#include <set>
#include <utility>

#include "core/number_text.h"
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

struct LabeledFile {
  std::string path;  ///< relative to DIR
  std::int64_t label = 0;
};

struct Found {
  std::vector<LabeledFile> files;
  UnreadFormats unread;
  std::uint64_t outside = 0;  ///< images of any format that are in no class
};

class ImageFolder final : public LabeledDataset {
 public:
  ImageFolder(fs::path dir, std::vector<std::string> classes, Found found)
      : dir_(std::move(dir)),
        classes_(std::move(classes)),
        files_(std::move(found.files)),
        remarks_(found.unread.remarks(dir_)) {
    if (found.outside > 0)
      remarks_.push_back("'" + dir_.string() + "': " + format_count(found.outside, "image") +
                         " outside of the class folders " +
                         (found.outside == 1 ? "is ignored: move it" : "are ignored: move them") +
                         " into one of these");
    if (files_.front().label == files_.back().label)
      remarks_.push_back(one_class_remark(classes_.at(static_cast<std::size_t>(label(0)))));
  }

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

Found find_files(const fs::path& dir, const std::vector<std::string>& classes,
                 const std::vector<std::string>& folders, bool may_be_empty) {
  Found found;
  std::vector<LabeledFile>& files = found.files;
  NamedProblem empty(std::string("class without ") + kImageNames,
                     std::string("classes without ") + kImageNames);
  for (std::size_t k = 0; k < classes.size(); ++k) {
    const std::size_t first = files.size();
    if (std::find(folders.begin(), folders.end(), classes[k]) != folders.end())
      for (std::string& path : images_below(dir, dir / classes[k], found.unread))
        files.push_back({std::move(path), static_cast<std::int64_t>(k)});
    if (files.size() == first) empty.add(classes[k]);
  }
  if (empty.text().empty() || (may_be_empty && !files.empty())) return found;
  const std::string unread = found.unread.text();
  throw Error("'" + dir.string() + "' has" + empty.text() + "\n" +
              (unread.empty() ? "add images, or remove the folders" : unread));
}

}  // namespace

std::shared_ptr<const LabeledDataset> image_folder(const fs::path& dir,
                                                   const ImageFolderOptions& options) {
  require_folder(dir, kRemedy);
  const FolderSummary top = scan_top(dir);
  if (top.folders.empty()) {
    throw Error("no class in '" + dir.string() + "': it contains no folder" + images_beside(top) +
                "; " + kRemedy);
  }
  const bool given = !options.classes.empty();
  std::vector<std::string> classes = given ? options.classes : top.folders;
  if (given) check_classes(dir, classes, top.folders);
  Found found = find_files(dir, classes, top.folders, given);
  found.outside = top.images;
  return std::make_shared<ImageFolder>(dir, std::move(classes), std::move(found));
}

}  // namespace slipstream
