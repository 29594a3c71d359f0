#include "slipstream/core/array.h"

#include <algorithm>
#include <cstring>

#include "slipstream/core/error.h"

namespace slipstream {

std::size_t size_bytes(DType dtype) {
  switch (dtype) {
    case DType::uint8:
      return 1;
    case DType::int32:
    case DType::float32:
      return 4;
    case DType::int64:
      return 8;
  }
  throw std::logic_error("not a DType");
}

std::string_view to_string(DType dtype) {
  switch (dtype) {
    case DType::uint8:
      return "uint8";
    case DType::int32:
      return "int32";
    case DType::int64:
      return "int64";
    case DType::float32:
      return "float32";
  }
  throw std::logic_error("not a DType");
}

std::string_view to_string(FieldKind kind) {
  switch (kind) {
    case FieldKind::image:
      return "image";
    case FieldKind::mask:
      return "mask";
    case FieldKind::label:
      return "label";
    case FieldKind::other:
      return "other";
    case FieldKind::boxes:
      return "boxes";
  }
  throw std::logic_error("not a FieldKind");
}

Shape::Shape(std::initializer_list<std::int64_t> list) : rank(list.size()) {
  ensure(rank <= kMaxRank, "a Shape has at most four dimensions");
  std::copy(list.begin(), list.end(), dims.begin());
}

bool Shape::is_fixed() const {
  return std::all_of(dims.begin(), dims.begin() + rank, [](std::int64_t d) { return d >= 0; });
}

std::size_t Shape::elements() const {
  ensure(is_fixed(), "only a fixed shape has a number of elements");
  std::size_t product = 1;
  for (std::size_t i = 0; i < rank; ++i) product *= static_cast<std::size_t>(dims[i]);
  return product;
}

std::string to_string(const Shape& shape) {
  if (shape.rank == 0) return "scalar";
  std::string text;
  for (std::size_t i = 0; i < shape.rank; ++i) {
    if (i > 0) text += " x ";
    text += shape[i] < 0 ? "?" : std::to_string(shape[i]);
  }
  return text;
}

MutableArray HostArray::reset(DType dtype, const Shape& shape) {
  const std::size_t bytes = shape.elements() * size_bytes(dtype);
  if (storage_.size() < bytes) {
    // Cleared first, so that growing does not copy the old values.
    storage_.clear();
    storage_.resize(bytes);
  }
  dtype_ = dtype;
  shape_ = shape;
  return span();
}

void HostArray::assign(const ConstArray& from) {
  const MutableArray to = reset(from.dtype, from.shape);
  if (to.bytes() > 0) std::memcpy(to.data, from.data, to.bytes());
}

}  // namespace slipstream
