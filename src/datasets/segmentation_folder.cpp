#include <string>
#include <utility>
#include <vector>

#include "datasets/field_values.h"
#include "datasets/named_pairs.h"
#include "slipstream/core/error.h"
#include "slipstream/datasets/dataset.h"

namespace slipstream {
namespace {

namespace fs = std::filesystem;

class SegmentationFolder final : public Dataset {
 public:
  SegmentationFolder(NamedPairs found, std::int64_t classes)
      : pairs_(std::move(found.pairs)), remarks_(std::move(found.remarks)), classes_(classes) {}

  std::size_t size() const override { return pairs_.size(); }
  bool decodes_by_default() const override { return true; }
  std::vector<std::string> remarks() const override { return remarks_; }
  std::string name(std::size_t index) const override { return pairs_[index].image.string(); }

  std::vector<FieldSpec> fields() const override {
    return {{"image", FieldKind::image, DType::uint8, {-1, -1, 3}, 0},
            {"label", FieldKind::mask, DType::uint8, {-1, -1}, classes_}};
  }

  void read(std::size_t index, Sample& out) const override {
    const NamedPair& pair = pairs_.at(index);
    out.fields.resize(2);
    for (Field& field : out.fields) field.encoded = true;
    read_file(pair.image, out.fields[0].array);
    read_file(pair.mask, out.fields[1].array);
    check_same_size(out.fields[0], out.fields[1], [&](FieldKind kind) {
      return (kind == FieldKind::image ? pair.image : pair.mask).string();
    });
  }

 private:
  std::vector<NamedPair> pairs_;
  std::vector<std::string> remarks_;
  std::int64_t classes_;
};

}  // namespace

std::shared_ptr<const Dataset> segmentation_folder(const fs::path& dir, std::int64_t classes) {
  std::vector<std::string> problems;
  check_mask_classes("classes", classes, problems);
  refuse(problems);
  return std::make_shared<SegmentationFolder>(find_named_pairs(dir), classes);
}

}  // namespace slipstream
