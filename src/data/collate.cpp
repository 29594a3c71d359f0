#include "data/collate.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <type_traits>

#include "slipstream/error.h"

namespace slipstream {
namespace {

void check_form(const FieldSpec& spec, const ConstArray& value) {
  if (value.dtype == spec.dtype && value.shape == spec.shape) return;
  throw Error("field '" + spec.name + "' is " + std::string(name_of(value.dtype)) + " of shape " +
              to_string(value.shape) + ", not " + std::string(name_of(spec.dtype)) + " of shape " +
              to_string(spec.shape) + " as in the other samples");
}

template <typename T>
void check_classes(const FieldSpec& spec, const T* values, std::size_t count) {
  constexpr auto kLargest = static_cast<std::int64_t>(std::numeric_limits<T>::max());
  if (std::is_unsigned_v<T> && spec.classes > kLargest) return;
  T low = 0;
  T high = 0;
  for (std::size_t i = 0; i < count; ++i) {
    low = std::min(low, values[i]);
    high = std::max(high, values[i]);
  }
  if (low == 0 && static_cast<std::int64_t>(high) < spec.classes) return;
  throw Error("field '" + spec.name + "' holds class " + std::to_string(low < 0 ? low : high) +
              ", but there are " + std::to_string(spec.classes) + " classes, 0 to " +
              std::to_string(spec.classes - 1));
}

template <typename T>
void write(const SlabField& field, const ConstArray& value, std::byte* to) {
  const T* values = value.as<T>();
  const std::size_t count = value.shape.elements();
  if constexpr (std::is_integral_v<T>) {
    if (field.spec.classes > 0) check_classes(field.spec, values, count);
    if (field.wire != field.spec.dtype) {
      std::transform(values, values + count, reinterpret_cast<std::uint8_t*>(to),
                     [](T x) { return static_cast<std::uint8_t>(x); });
      return;
    }
  }
  if (count > 0) std::memcpy(to, values, count * sizeof(T));
}

}  // namespace

void collate(const SlabField& field, const ConstArray& value, std::size_t position,
             std::byte* slab) {
  check_form(field.spec, value);
  std::byte* to = slab + field.offset_bytes + position * field.sample_bytes;
  switch (value.dtype) {
    case DType::u8:
      return write<std::uint8_t>(field, value, to);
    case DType::i32:
      return write<std::int32_t>(field, value, to);
    case DType::i64:
      return write<std::int64_t>(field, value, to);
    case DType::f32:
      return write<float>(field, value, to);
  }
}

}  // namespace slipstream
