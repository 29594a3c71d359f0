#include "loader/collate.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <type_traits>

#include "datasets/field_values.h"
#include "loader/pack.h"
#include "loader/wire_layout.h"
#include "slipstream/core/error.h"

namespace slipstream {
namespace {

void check_form(const FieldSpec& spec, const ConstArray& value) {
  if (value.dtype == spec.dtype && value.shape == spec.shape) return;
  throw Error("field '" + spec.name + "' is " + std::string(to_string(value.dtype)) + " of shape " +
              to_string(value.shape) + ", not " + std::string(to_string(spec.dtype)) +
              " of shape " + to_string(spec.shape) + " as in the other samples");
}

template <typename T>
void check_classes(const FieldSpec& spec, const T* values, std::size_t count) {
  constexpr auto kLargest = static_cast<std::int64_t>(std::numeric_limits<T>::max());
  // Every value of this type is a valid class, so the values need not be read.
  if (std::is_unsigned_v<T> && spec.classes > kLargest) return;
  T low = 0;
  T high = 0;
  for (std::size_t i = 0; i < count; ++i) {
    low = std::min(low, values[i]);
    high = std::max(high, values[i]);
  }
  if (low == 0 && static_cast<std::int64_t>(high) < spec.classes) return;
  throw Error(class_problem(spec, low < 0 ? low : high));
}

template <typename To, typename T>
void narrow(const T* values, std::size_t count, std::byte* to) {
  std::transform(values, values + count, reinterpret_cast<To*>(to),
                 [](T x) { return static_cast<To>(x); });
}

template <typename To, typename T>
void write_places(const SlabField& field, const T* values, std::byte* to) {
  const std::size_t classes = one_hot_classes(field);
  const T* const end = values + field.spec.shape.elements();
  for (auto* place = reinterpret_cast<To*>(to); values != end; values += classes, ++place) {
    const T* const one = std::find(values, values + classes, T{1});
    *place = static_cast<To>(one - values);
    const auto zeros = std::count(values, values + classes, T{0});
    if (one != values + classes && static_cast<std::size_t>(zeros) == classes - 1) continue;
    throw Error("field '" + field.spec.name +
                "' has the wire format one_hot, but one of its vectors does not consist of one 1 "
                "and otherwise zeros; leave out this wire format");
  }
}

template <typename T>
void write(const SlabField& field, const ConstArray& value, std::byte* to) {
  const T* values = value.as<T>();
  const std::size_t count = value.shape.elements();
  if constexpr (std::is_integral_v<T>) {
    if (field.spec.classes > 0) check_classes(field.spec, values, count);
  }
  const Element packed = packed_element(field);
  if (field.wire == Wire::one_hot) {
    return packed == Element::u8 ? write_places<std::uint8_t>(field, values, to)
                                 : write_places<std::uint16_t>(field, values, to);
  }
  if constexpr (std::is_same_v<T, float>) {
    if (packed == Element::bf16) return pack_bf16(values, count, to);
    if (packed == Element::f16) return pack_f16(values, count, to);
  } else {
    if (bits_per_element(packed) < 8) return pack_bits(values, count, bits_per_element(packed), to);
    if (bits_per_element(packed) / 8 != sizeof(T)) {
      if (packed == Element::u8) return narrow<std::uint8_t>(values, count, to);
      if (packed == Element::u16) return narrow<std::uint16_t>(values, count, to);
      return narrow<std::int32_t>(values, count, to);
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
    case DType::uint8:
      return write<std::uint8_t>(field, value, to);
    case DType::int32:
      return write<std::int32_t>(field, value, to);
    case DType::int64:
      return write<std::int64_t>(field, value, to);
    case DType::float32:
      return write<float>(field, value, to);
  }
}

std::size_t collate_jpeg(const SlabField& field, const std::optional<JpegSlot>& file,
                         const ConstArray& value, const SamplePosition& place, std::byte* slab) {
  if (!file) check_form(field.spec, value);
  JpegSlot head = file.value_or(JpegSlot{});
  head.bytes = static_cast<std::uint32_t>(value.bytes());
  head.sample = place.sample;
  std::byte* to = slab + field.offset_bytes + place.position * field.sample_bytes;
  std::memcpy(to, &head, sizeof(head));
  std::memcpy(to + JpegSlot::kBytes, value.data, head.bytes);
  return JpegSlot::kBytes + head.bytes;
}

}  // namespace slipstream
