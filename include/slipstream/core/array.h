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

enum class DType : std::uint8_t { u8, i32, i64, f32 };

std::size_t size_bytes(DType dtype);
std::string_view name_of(DType dtype);

/// Up to four dimensions, outermost first; rank 0 is a scalar. -1 stands for a dimension that
/// differs from sample to sample.
struct Shape {
  static constexpr std::size_t kMaxRank = 4;
  std::array<std::int64_t, kMaxRank> dims{};
  std::size_t rank = 0;

  Shape() = default;
  Shape(std::initializer_list<std::int64_t> list);
  std::int64_t operator[](std::size_t i) const { return dims[i]; }
  bool is_fixed() const;         ///< no dimension is -1
  std::size_t elements() const;  ///< REQUIRES: is_fixed()
  bool operator==(const Shape&) const = default;
};

std::string to_string(const Shape& shape);

/// Images of more pixels are refused before any memory is taken for them (decompression bombs).
inline constexpr std::int64_t kDefaultPixelLimit = 178'956'970;

/// Borrowed contiguous array in host memory. Images are height x width x channels, masks height x
/// width, labels scalars.
struct ConstArray {
  const std::byte* data = nullptr;
  DType dtype = DType::u8;
  Shape shape;

  std::size_t bytes() const { return shape.elements() * size_bytes(dtype); }
  template <typename T>
  const T* as() const {
    return reinterpret_cast<const T*>(data);
  }
};

struct MutableArray {
  std::byte* data = nullptr;
  DType dtype = DType::u8;
  Shape shape;

  std::size_t bytes() const { return shape.elements() * size_bytes(dtype); }
  template <typename T>
  T* as() const {
    return reinterpret_cast<T*>(data);
  }
  operator ConstArray() const { return {data, dtype, shape}; }
};

/// The values as they lie in memory.
inline std::span<const std::byte> bytes_of(const ConstArray& array) {
  return {array.data, array.bytes()};
}

/// Owning contiguous array that keeps its memory when it is reshaped: a worker's buffers stop
/// allocating once they have seen the largest sample.
class HostArray {
 public:
  /// Contents are unspecified afterwards. Never shrinks its memory.
  MutableArray reset(DType dtype, const Shape& shape);
  /// Copies `from` into this array.
  void assign(const ConstArray& from);
  ConstArray view() const { return {storage_.data(), dtype_, shape_}; }
  MutableArray span() { return {storage_.data(), dtype_, shape_}; }

 private:
  std::vector<std::byte> storage_;
  DType dtype_ = DType::u8;
  Shape shape_;
};

/// What a field means to an operation: geometry moves images and masks alike (masks by nearest
/// neighbor), and boxes (boxes.h) with them; pointwise operations touch images alone.
enum class FieldKind : std::uint8_t { image, mask, label, other, boxes };

std::string_view name_of(FieldKind kind);

/// One named field of every sample of a data set.
struct FieldSpec {
  std::string name;
  FieldKind kind = FieldKind::other;
  DType dtype = DType::u8;
  Shape shape;  ///< of one sample, without the batch dimension; -1 where it differs by sample
  /// Labels and masks: values are 0 ... classes-1, checked when a batch is put together; 0: not
  /// checked.
  std::int64_t classes = 0;
};

/// One field's value. While `encoded` is set, `array` holds a file's bytes (JPEG or PNG, told
/// apart by content) that the decode step replaces by pixels.
struct Field {
  HostArray array;
  bool encoded = false;
};

/// One sample on its way through the host steps: its fields, in the order of the data set's
/// FieldSpecs. Reused by a worker from sample to sample.
struct Sample {
  std::vector<Field> fields;
};

}  // namespace slipstream
