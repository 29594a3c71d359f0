#include "ops/pixel_field.h"

#include <string>

#include "ops/best_code.h"
#include "slipstream/error.h"
#include "slipstream/pixel.h"

namespace slipstream {

void require_pixels(std::string_view op, const FieldSpec& in, std::int64_t least,
                    std::int64_t most) {
  const bool is_number = in.dtype == DType::u8 || in.dtype == DType::f32;
  if (is_number && in.shape.rank == 3 && in.shape[2] >= least && in.shape[2] <= most) return;
  std::string channels = std::to_string(least);
  if (most > least) channels += (most == least + 1 ? " or " : " to ") + std::to_string(most);
  throw Refused(std::string(op) + ": image '" + in.name + "' is " + std::string(name_of(in.dtype)) +
                ", " + to_string(in.shape) + "; it must be u8 or f32, height x width x " +
                channels);
}

void require_range(std::string_view op, std::string_view what, double low, double high,
                   double least, double most) {
  if (low >= least && low <= high && high <= most) return;
  throw Refused(std::string(op) + ": the " + std::string(what) + " is " + std::to_string(low) +
                " to " + std::to_string(high) + "; it must be " + std::to_string(least) + " to " +
                std::to_string(most) + ", the first at most the second");
}

FieldSpec as_f32(const FieldSpec& in) {
  FieldSpec out = in;
  out.dtype = DType::f32;
  return out;
}

std::size_t pixels_of(const ConstArray& array) {
  return static_cast<std::size_t>(array.shape[0] * array.shape[1]);
}

void store_levels(float* values, std::int64_t count, std::uint8_t* levels) {
  with_best_code([=] {
    // Copies: for all the compiler knows, the bytes that are written could be what is captured.
    float* const from = values;
    std::uint8_t* const to = levels;
    const std::int64_t n = count;
    for (std::int64_t i = 0; i < n; ++i) from[i] = to_level(from[i]);
    for (std::int64_t i = 0; i < n; ++i) to[i] = static_cast<std::uint8_t>(from[i]);
  });
}

}  // namespace slipstream
