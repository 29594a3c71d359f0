#pragma once

#include <cmath>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "slipstream/codecs/image.h"
#include "slipstream/datasets/dataset.h"
#include "support/jpeg_writer.h"

namespace slipstream {

/// A different photo-like picture for each `seed`: waves, edges and a little noise.
inline std::vector<std::uint8_t> photo_levels(std::uint32_t seed, std::int64_t height,
                                              std::int64_t width) {
  std::mt19937 random(seed);
  const auto draw = [&](double from, double to) {
    return from + (to - from) * static_cast<double>(random()) / 4294967296.0;
  };
  double speed[3][2];
  for (auto& each : speed) {
    for (double& one : each) one = draw(0.01, 0.08);
  }
  const double edge_x = draw(0.2, 0.8) * static_cast<double>(width);
  const double edge_y = draw(0.2, 0.8) * static_cast<double>(height);
  std::vector<std::uint8_t> levels;
  for (std::int64_t y = 0; y < height; ++y) {
    for (std::int64_t x = 0; x < width; ++x) {
      const auto [fx, fy] = std::pair(static_cast<double>(x), static_cast<double>(y));
      const double edge = (fx > edge_x) == (fy > edge_y) ? 35 : -35;
      for (const auto& each : speed) {
        const double wave = 55 * std::sin(fx * each[0]) * std::cos(fy * each[1]);
        const double noise = static_cast<double>(random() % 9) - 4;
        levels.push_back(static_cast<std::uint8_t>(128 + wave + edge + noise));
      }
    }
  }
  return levels;
}

/// JPEG and other files in memory, each with a mask of the same size, two boxes and a label.
class JpegSet final : public Dataset {
 public:
  void add(std::vector<std::byte> file) {
    const Shape shape = image_shape(file);
    std::vector<std::byte> mask(static_cast<std::size_t>(shape[0] * shape[1]));
    for (std::size_t i = 0; i < mask.size(); ++i) mask[i] = static_cast<std::byte>(i % 5);
    masks.push_back(encode_png({mask.data(), DType::uint8, {shape[0], shape[1]}}));
    files.push_back(std::move(file));
  }

  std::size_t size() const override { return files.size(); }
  std::vector<FieldSpec> fields() const override {
    return {{"image", FieldKind::image, DType::uint8, {-1, -1, 3}, 0},
            {"label", FieldKind::mask, DType::uint8, {-1, -1}, 5},
            {"number", FieldKind::label, DType::int64, {}, 1000},
            {"boxes", FieldKind::boxes, DType::float32, {2, 4}, 0}};
  }
  void read(std::size_t index, Sample& out) const override {
    put(files[index], out.fields[0]);
    put(masks[index], out.fields[1]);
    *out.fields[2].array.reset(DType::int64, {}).as<std::int64_t>() =
        static_cast<std::int64_t>(index);
    const float at = static_cast<float>(index % 10);
    const float boxes[] = {at, 5, 20 + at, 30, 10, at, 35, 21};
    std::memcpy(out.fields[3].array.reset(DType::float32, {2, 4}).data, boxes, sizeof(boxes));
  }
  bool decodes_by_default() const override { return decodes_default; }
  std::string name(std::size_t index) const override {
    return "picture " + std::to_string(index) + ".jpg";
  }

  std::vector<std::vector<std::byte>> files;
  std::vector<std::vector<std::byte>> masks;  ///< PNG
  bool decodes_default = true;

 private:
  static void put(const std::vector<std::byte>& file, Field& field) {
    const Shape shape = {static_cast<std::int64_t>(file.size())};
    std::memcpy(field.array.reset(DType::uint8, shape).data, file.data(), file.size());
    field.encoded = true;
  }
};

/// Returns a set of `count` baseline pictures in several sizes and subsamplings. The files at `odd`
/// are of kinds that only the CPU decodes.
inline std::shared_ptr<JpegSet> jpeg_set(std::size_t count,
                                         const std::vector<std::size_t>& odd = {},
                                         std::int64_t side = 40) {
  auto set = std::make_shared<JpegSet>();
  for (std::size_t i = 0; i < count; ++i) {
    const std::int64_t height = side + 7 * static_cast<std::int64_t>(i % 9);
    const std::int64_t width = 2 * side - 3 * static_cast<std::int64_t>(i % 7);
    JpegKind kind = {.across = 1 + static_cast<int>(i % 2),
                     .down = 1 + static_cast<int>(i / 2 % 2)};
    for (const std::size_t each : odd) kind.is_progressive |= each == i;
    set->add(write_jpeg(kind, height, width,
                        photo_levels(static_cast<std::uint32_t>(i), height, width)));
  }
  return set;
}

}  // namespace slipstream
