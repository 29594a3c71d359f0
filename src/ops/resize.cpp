#include "slipstream/resize.h"

#include <cstring>
#include <string>

#include "ops/resize_kernels.h"
#include "slipstream/error.h"

namespace slipstream {
namespace {

constexpr std::int64_t kMaxSide = 65'536;

void copy(const ConstArray& in, const MutableArray& out) {
  if (in.bytes() > 0) std::memcpy(out.data, in.data, in.bytes());
}

// Rows first ... first + rows - 1, resized across.
void filter_rows(const AxisFilter& across, const ConstArray& in, std::int64_t first,
                 std::int64_t rows, std::uint8_t* out) {
  const std::int64_t in_stride = 3 * across.in();
  const std::int64_t out_stride = 3 * across.out();
  const std::int64_t bytes = in.shape[0] * in_stride;
  for (std::int64_t y = first; y < first + rows; ++y, out += out_stride) {
    const bool can_overread = (y + 1) * in_stride + fast::kOverread <= bytes;
    const auto filter_row = can_overread ? fast::filter_row : plain::filter_row;
    filter_row(across, in.as<std::uint8_t>() + y * in_stride, out);
  }
}

void filter_down(const AxisFilter& down, const std::uint8_t* in, const MutableArray& out) {
  const std::int64_t stride = 3 * out.shape[1];
  for (std::int64_t y = 0; y < down.out(); ++y) {
    fast::filter_columns(down, y, in, stride, stride, out.as<std::uint8_t>() + y * stride);
  }
}

void resize_bilinear(const ConstArray& in, const MutableArray& out, Scratch& scratch) {
  AxisFilter down(in.shape[0], out.shape[0]);
  AxisFilter across(in.shape[1], out.shape[1]);
  const std::int64_t between = across.keeps_size() ? 0 : in.shape[0] * out.shape[1] * 3;
  std::byte* memory = scratch.reset(DType::u8, {down.bytes() + across.bytes() + between}).data;
  if (!across.keeps_size()) across.place(memory);
  if (down.keeps_size()) return filter_rows(across, in, 0, in.shape[0], out.as<std::uint8_t>());

  down.place(memory + across.bytes());
  if (across.keeps_size()) return filter_down(down, in.as<std::uint8_t>(), out);

  auto* rows = reinterpret_cast<std::uint8_t*>(memory + across.bytes() + down.bytes());
  filter_rows(across, in, 0, in.shape[0], rows);
  filter_down(down, rows, out);
}

template <typename T>
void resize_nearest(const ConstArray& in, const MutableArray& out, Scratch& scratch) {
  const std::int64_t width = out.shape[1];
  auto* from = scratch.reset(DType::i64, {width}).as<std::int64_t>();
  for (std::int64_t x = 0; x < width; ++x) from[x] = (2 * x + 1) * in.shape[1] / (2 * width);
  for (std::int64_t y = 0; y < out.shape[0]; ++y) {
    const std::int64_t source = (2 * y + 1) * in.shape[0] / (2 * out.shape[0]);
    const T* row = in.as<T>() + source * in.shape[1];
    T* to = out.as<T>() + y * width;
    for (std::int64_t x = 0; x < width; ++x) to[x] = row[from[x]];
  }
}

void resize_mask(const ConstArray& in, const MutableArray& out, Scratch& scratch) {
  switch (size_bytes(in.dtype)) {
    case 1:
      return resize_nearest<std::uint8_t>(in, out, scratch);
    case 4:
      return resize_nearest<std::uint32_t>(in, out, scratch);
    default:
      return resize_nearest<std::uint64_t>(in, out, scratch);
  }
}

}  // namespace

void Resize::validate() const {
  const auto sensible = [](std::int64_t side) { return side >= 1 && side <= kMaxSide; };
  if (sensible(height) && sensible(width)) return;
  throw Refused("resize to " + std::to_string(height) + " x " + std::to_string(width) +
                ": height and width must be 1 to " + std::to_string(kMaxSide));
}

FieldSpec Resize::output(const FieldSpec& in) const {
  FieldSpec out = in;
  if (in.kind == FieldKind::mask) {
    if (in.shape.rank != 2) {
      throw Refused("resize: mask '" + in.name + "' is " + to_string(in.shape) +
                    "; it must be height x width");
    }
    out.shape = {height, width};
    return out;
  }
  if (in.dtype != DType::u8 || in.shape.rank != 3 || in.shape[2] != 3) {
    throw Refused("resize: image '" + in.name + "' is " + std::string(name_of(in.dtype)) + ", " +
                  to_string(in.shape) + "; it must be u8, height x width x 3: decode it first");
  }
  out.shape = {height, width, 3};
  return out;
}

void Resize::apply(Drawn, FieldKind kind, ConstArray in, MutableArray out, Scratch& scratch) const {
  if (in.shape[0] < 1 || in.shape[1] < 1) throw Error("resize: the field has no pixels");
  if (in.shape == out.shape) return copy(in, out);
  if (kind == FieldKind::mask) return resize_mask(in, out, scratch);
  resize_bilinear(in, out, scratch);
}

}  // namespace slipstream
