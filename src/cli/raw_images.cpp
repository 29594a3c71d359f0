#include "cli/raw_images.h"

#include <utility>
#include <vector>

namespace slipstream {
namespace {

class RawImages final : public Dataset {
 public:
  explicit RawImages(std::shared_ptr<const Dataset> images) : images_(std::move(images)) {}

  std::size_t size() const override { return images_->size(); }
  std::vector<FieldSpec> fields() const override {
    std::vector<FieldSpec> fields = images_->fields();
    fields.front().shape = {-1, -1, 3};
    return fields;
  }
  void read(std::size_t index, Sample& out) const override { images_->read(index, out); }
  std::uint64_t identity() const override { return images_->identity(); }

 private:
  std::shared_ptr<const Dataset> images_;
};

}  // namespace

std::shared_ptr<const Dataset> raw_images(const SyntheticOptions& options) {
  return std::make_shared<RawImages>(synthetic_classification(options));
}

}  // namespace slipstream
