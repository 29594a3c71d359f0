#include "loader/wire_layout.h"

#include <algorithm>
#include <limits>

#include "loader/slab_layout.h"
#include "slipstream/core/error.h"

namespace slipstream {
namespace {

constexpr std::int64_t kMostBitClasses = 16;
constexpr std::int64_t kMostOneHotClasses = 65'536;

Element dtype_element(DType dtype) {
  switch (dtype) {
    case DType::uint8:
      return Element::u8;
    case DType::int32:
      return Element::i32;
    case DType::int64:
      return Element::i64;
    case DType::float32:
      return Element::f32;
  }
  throw Error("unknown dtype");
}

/// Returns the smallest type that represents 0 ... classes - 1.
Element smallest_element(const SlabField& field) {
  const Element plain = dtype_element(field.dtype);
  if (plain == Element::u8 || field.spec.classes > std::numeric_limits<std::int32_t>::max()) {
    return plain;
  }
  return field.spec.classes <= 65'536 ? Element::u16 : Element::i32;
}

Element bits_element(const FieldSpec& spec) {
  if (spec.classes <= 2) return Element::u1;
  return spec.classes <= 4 ? Element::u2 : Element::u4;
}

/// Returns why `field` cannot travel in its wire format, with the remedy; empty if it can.
std::string find_problem(const SlabField& field) {
  const FieldSpec& spec = field.spec;
  const Shape& shape = spec.shape;
  const bool is_plain = field.wire == Wire::plain || field.wire == Wire::host;
  if (spec.kind == FieldKind::boxes && !is_plain)
    return "the field contains boxes, which are small and must stay exact; leave out this wire "
           "format";
  switch (field.wire) {
    case Wire::plain:
    case Wire::host:
      return {};
    case Wire::smallest:
      if (spec.classes > 0) return {};
      return "the field's number of classes is not declared; declare it, or leave out this wire "
             "format";
    case Wire::bits:
      if (field.dtype == DType::uint8 && spec.classes > 0 && spec.classes <= kMostBitClasses)
        return {};
      return "the format needs labels or a mask of 1 to 16 classes, but the field has " +
             std::to_string(spec.classes) + " of " + std::string(to_string(field.dtype));
    case Wire::one_hot:
      if (shape.rank > 0 && shape[shape.rank - 1] >= 1 &&
          shape[shape.rank - 1] <= kMostOneHotClasses && spec.classes == 0) {
        return {};
      }
      return "the format needs vectors of 1 to 65536 classes, but the field is " + to_string(shape);
    case Wire::jpeg:
      if (spec.kind == FieldKind::image && spec.dtype == DType::uint8 && shape.rank == 3 &&
          shape[2] == 3) {
        return {};
      }
      return "the format needs images of uint8, height x width x 3";
    case Wire::bf16:
    case Wire::fp16:
      if (field.dtype == DType::float32) return {};
      return "the format needs float32, but the field is " + std::string(to_string(field.dtype)) +
             "; leave out this wire format";
  }
  return "unknown";
}

/// Returns true if the field is not part of the batch's single copy.
bool stays(const SlabField& field) { return field.wire == Wire::host || field.wire == Wire::jpeg; }

bool is_packed(const SlabField& field) {
  if (stays(field)) return false;
  return field.wire == Wire::one_hot || packed_element(field) != dtype_element(field.dtype);
}

int layout_rank(const SlabField& field) {
  if (stays(field)) return 2;
  return is_packed(field) ? 1 : 0;
}

std::size_t packed_values(const SlabField& field) {
  const std::uint32_t classes = one_hot_classes(field);
  return field.spec.shape.elements() / (classes == 0 ? 1 : classes);
}

PackedField make_packing(const SlabField& field, std::size_t samples) {
  return {.from = packed_element(field),
          .to = dtype_element(field.dtype),
          .classes = one_hot_classes(field),
          .samples = samples,
          .values = packed_values(field),
          .from_offset_bytes = field.offset_bytes,
          .from_sample_bytes = field.sample_bytes,
          .to_offset_bytes = field.device_offset_bytes};
}

}  // namespace

Element packed_element(const SlabField& field) {
  switch (field.wire) {
    case Wire::smallest:
      return smallest_element(field);
    case Wire::bits:
      return bits_element(field.spec);
    case Wire::one_hot:
      return one_hot_classes(field) <= 256 ? Element::u8 : Element::u16;
    case Wire::bf16:
      return Element::bf16;
    case Wire::fp16:
      return Element::f16;
    case Wire::plain:
    case Wire::jpeg:
    case Wire::host:
      break;
  }
  return dtype_element(field.dtype);
}

std::uint32_t one_hot_classes(const SlabField& field) {
  const Shape& shape = field.spec.shape;
  return field.wire == Wire::one_hot ? static_cast<std::uint32_t>(shape[shape.rank - 1]) : 0;
}

void choose_wires(const WireFormats& wire, SlabLayout& layout, std::vector<std::string>& problems) {
  for (const auto& [name, format] : wire) {
    std::vector<std::string> known;
    SlabField* found = nullptr;
    for (SlabField& field : layout.fields) {
      known.push_back(field.spec.name);
      if (field.spec.name == name) found = &field;
    }
    if (found == nullptr) {
      problems.push_back("wire format " + std::string(to_string(format)) + ": " +
                         unknown_name("field", name, known));
      continue;
    }
    found->wire = format;
    const std::string problem = find_problem(*found);
    if (problem.empty()) continue;
    std::string& text = problems.emplace_back("field '" + name + "' cannot have the wire format ");
    text.append(to_string(format)).append(": ").append(problem);
  }
}

void place_fields(SlabLayout& layout) {
  std::vector<SlabField*> order;
  for (SlabField& field : layout.fields) order.push_back(&field);
  // Fields that stay on the host come last, so that the copied part of the slab is contiguous.
  std::stable_sort(order.begin(), order.end(), [](const SlabField* a, const SlabField* b) {
    return layout_rank(*a) < layout_rank(*b);
  });
  for (SlabField* field : order) {
    field->offset_bytes = field->device_offset_bytes = layout.bytes;
    if (field->wire != Wire::jpeg)
      field->sample_bytes =
          (packed_values(*field) * bits_per_element(packed_element(*field)) + 7) / 8;
    layout.bytes = round_up(layout.bytes + layout.batch_size * field->sample_bytes, kSlabAlignment);
    if (!stays(*field)) layout.copied_bytes = layout.bytes;
  }
  layout.device_bytes = layout.copied_bytes;
  std::vector<PackedField> packed;
  for (SlabField& field : layout.fields) {
    if (!is_packed(field)) continue;
    field.device_offset_bytes = layout.device_bytes;
    packed.push_back(make_packing(field, layout.batch_size));
    layout.device_bytes += packed.back().to_bytes();
  }
  if (!packed.empty())
    layout.packed = std::make_shared<const std::vector<PackedField>>(std::move(packed));
  for (SlabField& field : layout.fields) {
    if (field.wire != Wire::jpeg) continue;
    field.device_offset_bytes = layout.device_bytes;
    layout.device_bytes +=
        round_up(layout.batch_size * field.spec.shape.elements(), kSlabAlignment);
  }
}

}  // namespace slipstream
