#pragma once

#include <utility>
#include <vector>

#include "slipstream/codecs/image.h"
#include "slipstream/datasets/dataset.h"
#include "support/image_records.h"
#include "support/jpeg_writer.h"

namespace slipstream {

/// Files of images of many kinds and sizes, with masks of the same size.
class PictureSet final : public Dataset {
 public:
  PictureSet() {
    for (std::int64_t i = 0; i < 12; ++i) {
      const std::int64_t height = 40 + 7 * i;
      const std::int64_t width = 90 - 3 * i;
      const JpegKind kind = {.across = 1 + static_cast<int>(i % 2),
                             .down = 1 + static_cast<int>(i / 2 % 2),
                             .is_progressive = i % 5 == 0};
      const Levels levels = noisy_levels(height, width, 3);
      add(i == 7 ? encode_png(view_levels(levels, {height, width, 3}))
                 : write_jpeg(kind, height, width, levels));
    }
    add(image_record("exif_6.jpg").file);
    add(image_record("cmyk.jpg").file);
  }

  std::size_t size() const override { return images_.size(); }
  std::vector<FieldSpec> fields() const override {
    return {{"mask", FieldKind::mask, DType::uint8, {-1, -1}, 0},
            {"image", FieldKind::image, DType::uint8, {-1, -1, 3}, 0},
            {"again", FieldKind::image, DType::uint8, {-1, -1, 3}, 0},
            {"class", FieldKind::label, DType::int64, {}, 0}};
  }
  void read(std::size_t index, Sample& out) const override {
    put(masks_[index], out.fields[0]);
    put(images_[index], out.fields[1]);
    out.fields[2].array.assign(decoded_[index].view());
    *out.fields[3].array.reset(DType::int64, {}).as<std::int64_t>() = 3;
  }
  bool decodes_by_default() const override { return decodes_default; }

  std::vector<std::byte>& image(std::size_t index) { return images_[index]; }
  bool decodes_default = true;

 private:
  void add(std::vector<std::byte> file) {
    const Shape shape = image_shape(file);
    const Levels mask = noisy_levels(shape[0], shape[1], 1);
    masks_.push_back(encode_png(view_levels(mask, {shape[0], shape[1]})));
    decode_rgb(file, {}, decoded_.emplace_back());
    images_.push_back(std::move(file));
  }
  static void put(const std::vector<std::byte>& file, Field& field) {
    field.array.assign({file.data(), DType::uint8, {static_cast<std::int64_t>(file.size())}});
    field.encoded = true;
  }

  std::vector<std::vector<std::byte>> images_;
  std::vector<std::vector<std::byte>> masks_;
  std::vector<HostArray> decoded_;
};

}  // namespace slipstream
