#pragma once

#include <cstring>

#include "augment/executor.h"
#include "augment/plan.h"

// What executors on the host share.
namespace slipstream::test {
namespace {
thread_local const AugmentPlan::Program* program_at_hand = nullptr;
}
}  // namespace slipstream::test

// Users' functions by their CPU form.
#define SLIPSTREAM_FUNCTIONS
namespace slipstream::augment {
namespace {

template <int C>
Pixel<C> call_function(std::int32_t function, const std::byte* drawn, Pixel<C> pixel) {
  const UserFunction& user =
      test::program_at_hand->functions.at(static_cast<std::size_t>(function));
  HostArray out;
  Scratch scratch;
  user.named.op.apply(drawn, FieldKind::image,
                      {reinterpret_cast<const std::byte*>(pixel.value), DType::f32, {1, 1, C}},
                      out.reset(DType::f32, {1, 1, C}), scratch);
  std::memcpy(pixel.value, out.view().data, sizeof(pixel.value));
  return pixel;
}

}  // namespace
}  // namespace slipstream::augment

#include "augment/evaluate.h"

namespace slipstream::test {
namespace {

Bytes one_mask(const AugmentPlan::Program& program, const Bytes& mask, const std::byte* drawn) {
  const augment::PassProgram& pass = program.passes.front();
  const std::size_t bytes = size_bytes(program.in);
  Bytes out;
  for (std::int32_t y = 0; y < pass.out_height; ++y) {
    for (std::int32_t x = 0; x < pass.out_width; ++x) {
      const augment::Origin at = augment::mask_origin(pass, drawn, y, x);
      const std::int64_t pixel = std::int64_t{at.y} * pass.in_width + at.x;
      for (std::size_t i = 0; i < bytes; ++i) {
        out.push_back(at.is_filled ? std::byte{0}
                                   : mask.at(static_cast<std::size_t>(pixel) * bytes + i));
      }
    }
  }
  return out;
}

/// What form(image, drawn) makes of each image of a batch, or mask, one behind the other.
template <typename Form>
Bytes of_each(const AugmentPlan::Program& program, std::size_t batch_size, const Bytes& images,
              const Bytes& drawn, const Form& form) {
  const std::size_t each = images.size() / batch_size;
  Bytes all;
  for (std::size_t i = 0; i < batch_size; ++i) {
    const auto first = images.begin() + static_cast<std::ptrdiff_t>(i * each);
    const Bytes image(first, first + static_cast<std::ptrdiff_t>(each));
    const Bytes out = form(image, drawn.data() + i * program.drawn_bytes);
    all.insert(all.end(), out.begin(), out.end());
  }
  return all;
}

}  // namespace
}  // namespace slipstream::test
