#include "datasets/unlabeled_images.h"

#include <utility>

#include "datasets/field_values.h"
#include "datasets/folders.h"

namespace slipstream {
namespace {

namespace fs = std::filesystem;

class UnlabeledImages final : public Dataset {
 public:
  UnlabeledImages(fs::path dir, std::vector<std::string> paths,
                  std::vector<std::string> class_names, const SkippedFiles& skipped)
      : dir_(std::move(dir)),
        paths_(std::move(paths)),
        class_names_(std::move(class_names)),
        remarks_(skipped.remarks(dir_)) {}

  std::size_t size() const override { return paths_.size(); }
  bool decodes_by_default() const override { return true; }
  std::string name(std::size_t index) const override { return path(index).string(); }
  const std::vector<std::string>& class_names() const override { return class_names_; }
  std::vector<std::string> remarks() const override { return remarks_; }
  std::vector<FieldSpec> fields() const override { return {image_field()}; }

  void read(std::size_t index, Sample& out) const override {
    out.fields.resize(1);
    read_file(path(index), out.fields[0].array);
    out.fields[0].encoded = true;
  }

 private:
  fs::path path(std::size_t index) const { return dir_ / paths_.at(index); }

  fs::path dir_;
  std::vector<std::string> paths_, class_names_, remarks_;
};

}  // namespace

std::shared_ptr<const Dataset> unlabeled_images(const fs::path& dir,
                                                std::vector<std::string> class_names) {
  SkippedFiles skipped;
  std::vector<std::string> paths = images_below(dir, dir, skipped);
  if (paths.empty()) return nullptr;
  return std::make_shared<UnlabeledImages>(dir, std::move(paths), std::move(class_names), skipped);
}

}  // namespace slipstream
