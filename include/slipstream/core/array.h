#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace slipstream {

/// The type of an array's values: unsigned bytes, signed integers of 32 and 64 bits, float32.
enum class DType : std::uint8_t { uint8, int32, int64, float32 };

/// Returns the size of one value in bytes: 1, 4 or 8.
std::size_t size_bytes(DType dtype);
/// Returns "uint8", "int32", "int64" or "float32".
std::string_view to_string(DType dtype);

/// Up to four dimensions, outermost first. A rank of 0 is a scalar. A dimension of -1 differs from
/// sample to sample.
struct Shape {
  static constexpr std::size_t kMaxRank = 4;
  std::array<std::int64_t, kMaxRank> dims{};
  std::size_t rank = 0;

  Shape() = default;
  Shape(std::initializer_list<std::int64_t> list);
  std::int64_t operator[](std::size_t i) const { return dims[i]; }
  bool is_fixed() const;  ///< true if no dimension is -1
  /// Returns the product of all dimensions; 1 for a scalar.
  /// REQUIRES: is_fixed()
  std::size_t elements() const;
  bool operator==(const Shape&) const = default;
};

/// Formats the dimensions, such as "224 x 224 x 3", with "?" for -1; "scalar" for rank 0.
std::string to_string(const Shape& shape);

/// Larger images are refused before memory is allocated for them: a small file can claim to hold a
/// huge image (a decompression bomb).
inline constexpr std::int64_t kDefaultPixelLimit = 178'956'970;

/// A borrowed, contiguous array in host memory in row-major (C) order. Images are height x width x
/// channels, masks height x width, labels scalars. as<T>() reads the values as T, which must be the
/// C++ type of `dtype`. The caller keeps the memory alive.
struct ConstArray {
  const std::byte* data = nullptr;
  DType dtype = DType::uint8;
  Shape shape;

  std::size_t bytes() const { return shape.elements() * size_bytes(dtype); }
  template <typename T>
  const T* as() const {
    return reinterpret_cast<const T*>(data);
  }
};

/// A borrowed array like ConstArray whose values may be written.
struct MutableArray {
  std::byte* data = nullptr;
  DType dtype = DType::uint8;
  Shape shape;

  std::size_t bytes() const { return shape.elements() * size_bytes(dtype); }
  template <typename T>
  T* as() const {
    return reinterpret_cast<T*>(data);
  }
  operator ConstArray() const { return {data, dtype, shape}; }
};

/// The bytes of the values, in memory order. Borrows the array's memory.
inline std::span<const std::byte> as_bytes(const ConstArray& array) {
  return {array.data, array.bytes()};
}

/// A contiguous array that owns its host memory and keeps it when it is reshaped, so a worker's
/// buffers stop allocating once they have held the largest sample. Not thread-safe.
class HostArray {
 public:
  /// Gives this array that type and shape and returns it for writing. Its values are unspecified.
  /// The memory never shrinks. May invalidate earlier views.
  /// REQUIRES: shape.is_fixed()
  MutableArray reset(DType dtype, const Shape& shape);
  /// Takes the type and shape of `from` and copies its values.
  void assign(const ConstArray& from);
  ConstArray view() const { return {storage_.data(), dtype_, shape_}; }
  MutableArray span() { return {storage_.data(), dtype_, shape_}; }

 private:
  std::vector<std::byte> storage_;
  DType dtype_ = DType::uint8;
  Shape shape_;
};

/// Says how operations treat a field. Operations that move pixels (crops, flips, rotations) apply
/// to images, masks (with nearest-neighbor interpolation) and boxes (boxes.h) alike. Operations on
/// pixel values apply to images only.
enum class FieldKind : std::uint8_t { image, mask, label, other, boxes };

/// Returns the enumerator's name: "image", "mask", "label", "other" or "boxes".
std::string_view to_string(FieldKind kind);

/// One named field of every sample of a data set.
struct FieldSpec {
  std::string name;
  FieldKind kind = FieldKind::other;
  DType dtype = DType::uint8;
  Shape shape;  ///< shape of one sample, no batch dimension; -1 where it differs by sample
  /// Number of classes of labels and masks: values are 0 ... classes - 1, which is checked when a
  /// batch is assembled. 0 means that the number is unknown and nothing is checked.
  std::int64_t classes = 0;
};

/// One field's value. While `encoded` is true, `array` holds the bytes of an image file, which
/// the decode step replaces with pixels. The file type is detected from the bytes.
struct Field {
  HostArray array;
  bool encoded = false;
};

/// One sample while the host steps process it: its fields, in the order of the data set's
/// FieldSpecs. A worker reuses the same object for every sample.
struct Sample {
  std::vector<Field> fields;
};

}  // namespace slipstream
