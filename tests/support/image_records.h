#pragma once

#include <cstddef>
#include <cstdint>
#include <fstream>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "slipstream/core/array.h"
#include "support/source_folder.h"

namespace slipstream {

using Levels = std::vector<std::uint8_t>;

/// A file that golden/make_images.py wrote, and its expected contents.
struct ImageRecord {
  std::string name;
  std::vector<std::byte> file;
  Shape shape;  ///< height, width
  Levels rgb;
  Levels mask;  ///< empty: the file is not a mask

  bool is_jpeg() const { return name.ends_with(".jpg"); }
};

inline std::vector<ImageRecord> image_records(const std::string& of = "images") {
  std::ifstream in(golden_folder() / (of + ".bin"), std::ios::binary);
  std::vector<ImageRecord> records;
  std::uint32_t sizes[6];
  const auto read = [&](auto& to, std::uint32_t size) {
    to.resize(size);
    in.read(reinterpret_cast<char*>(to.data()), size);
  };
  while (in.read(reinterpret_cast<char*>(sizes), sizeof(sizes))) {
    ImageRecord& record = records.emplace_back();
    record.shape = {sizes[4], sizes[5]};
    read(record.name, sizes[0]);
    read(record.file, sizes[1]);
    read(record.rgb, sizes[2]);
    read(record.mask, sizes[3]);
  }
  return records;
}

inline ImageRecord image_record(const std::string& name) {
  for (ImageRecord& record : image_records()) {
    if (record.name == name) return record;
  }
  throw std::out_of_range("no record " + name);
}

inline Levels copy_levels(const HostArray& array) {
  const ConstArray view = array.view();
  return {view.as<std::uint8_t>(), view.as<std::uint8_t>() + view.bytes()};
}

inline ConstArray view_levels(const Levels& levels, const Shape& shape) {
  return {reinterpret_cast<const std::byte*>(levels.data()), DType::uint8, shape};
}

}  // namespace slipstream
