#include <gtest/gtest.h>

#include "cuda/augment/chain_cases.h"
#include "cuda/augment/host_forms.h"

// Runs the kernels' arithmetic on the host, one pixel after another.
namespace slipstream::test {
namespace {

using augment::PassProgram;
using augment::ProgramStep;
using augment::Source;

template <int C>
struct Image {
  std::int32_t height;
  std::int32_t width;
  std::vector<Pixel<C>> pixels;

  Pixel<C>& at(std::int32_t y, std::int32_t x) {
    return pixels[static_cast<std::size_t>(y) * static_cast<std::size_t>(width) +
                  static_cast<std::size_t>(x)];
  }
};

template <int C>
Image<C> make_blank_image(std::int32_t height, std::int32_t width) {
  return {
      height, width,
      std::vector<Pixel<C>>(static_cast<std::size_t>(height) * static_cast<std::size_t>(width))};
}

template <int C>
Image<C> blurred(Image<C> in, const DrawnBlur& blur, std::int32_t radius, bool across) {
  Image<C> out = make_blank_image<C>(in.height, in.width);
  for (std::int32_t y = 0; y < in.height; ++y) {
    for (std::int32_t x = 0; x < in.width; ++x) {
      for (int c = 0; c < C; ++c) {
        float sum = 0;
        for (std::int32_t d = -radius; d <= radius; ++d) {
          const float value = across ? in.at(y, mirrored(x + d, in.width)).value[c]
                                     : in.at(mirrored(y + d, in.height), x).value[c];
          const float weight = blur.weight[d < 0 ? -d : d];
          sum = d == -radius ? weight * value : fused(weight, value, sum);
        }
        out.at(y, x).value[c] = sum;
      }
    }
  }
  return out;
}

/// Returns the sum for step `at` as the preceding pass computes it.
template <int C>
std::int64_t sum_before(const augment::Image& image, const augment::Prepared& prepared,
                        std::int32_t at) {
  const PassProgram before = augment::before_contrast(image.pass, at);
  augment::Prepared with_means = augment::prepared_for(before, image.drawn);
  std::copy(std::begin(prepared.mean), std::end(prepared.mean), with_means.mean);
  const augment::Image from{before, image.drawn, with_means, image.source, {}};
  std::int64_t sum = 0;
  for (std::int32_t y = 0; y < before.out_height; ++y) {
    for (std::int32_t x = 0; x < before.out_width; ++x) {
      const Pixel<C> pixel = before.interpolation >= 0
                                 ? augment::pixel_before<C, true>(from, before.stencil, y, x)
                                 : augment::pixel_before<C, false>(from, before.stencil, y, x);
      sum += augment::contrast_term<C>(from, image.pass.steps[at], pixel);
    }
  }
  return sum;
}

template <int C>
void set_image_means(const augment::Image& image, augment::Prepared& prepared) {
  const PassProgram& pass = image.pass;
  std::int64_t sums[augment::kMostContrasts] = {};
  for (std::int32_t at = 0; at < pass.count; ++at) {
    const ProgramStep& step = pass.steps[at];
    if (step.kind != augment::StepKind::jitter || step.contrast < 0) continue;
    for (std::int32_t y = 0; y < step.in_height; ++y) {
      for (std::int32_t x = 0; x < step.in_width; ++x) {
        const Pixel<C> pixel = pass.interpolation >= 0
                                   ? augment::pixel_before<C, true>(image, at, y, x)
                                   : augment::pixel_before<C, false>(image, at, y, x);
        sums[step.contrast] += augment::contrast_term<C>(image, step, pixel);
      }
    }
    EXPECT_EQ(sums[step.contrast], sum_before<C>(image, prepared, at));
    augment::set_means(pass, sums, 1, prepared);
  }
}

template <int C>
Image<C> evaluate_pass(const PassProgram& pass, const std::byte* drawn, const Source& source) {
  augment::Prepared prepared = augment::prepared_for(pass, drawn);
  const augment::Image from{pass, drawn, prepared, source, {}};
  set_image_means<C>(from, prepared);
  Image<C> image = make_blank_image<C>(pass.out_height, pass.out_width);
  for (std::int32_t y = 0; y < image.height; ++y) {
    for (std::int32_t x = 0; x < image.width; ++x) {
      image.at(y, x) = pass.interpolation >= 0
                           ? augment::pixel_before<C, true>(from, pass.stencil, y, x)
                           : augment::pixel_before<C, false>(from, pass.stencil, y, x);
    }
  }
  if (pass.stencil == pass.count) return image;
  const ProgramStep& step = pass.steps[pass.stencil];
  const auto& blur = augment::drawn_at<DrawnBlur>(step, drawn);
  image = blurred<C>(blurred<C>(image, blur, step.radius, true), blur, step.radius, false);
  for (Pixel<C>& pixel : image.pixels) {
    if (step.range == Range::levels) {
      for (float& value : pixel.value) value = to_level(value);
    }
    pixel = augment::gone_through<C>(from, pass.stencil + 1, pass.count, pixel);
  }
  return image;
}

template <int C>
Bytes store_image(const Image<C>& image, bool is_levels) {
  Bytes bytes;
  for (const Pixel<C>& pixel : image.pixels) {
    for (const float value : pixel.value) {
      if (is_levels) {
        bytes.push_back(static_cast<std::byte>(value));
        continue;
      }
      const auto* first = reinterpret_cast<const std::byte*>(&value);
      bytes.insert(bytes.end(), first, first + sizeof(value));
    }
  }
  return bytes;
}

template <int C>
Bytes run_all_passes(const AugmentPlan::Program& program, Bytes image, const std::byte* drawn) {
  for (std::size_t i = 0; i < program.passes.size(); ++i) {
    const Source source{image.data(), program.ranges[i], program.passes[i].in_width};
    const bool is_last = i + 1 == program.passes.size();
    const bool is_levels =
        is_last ? program.out == DType::uint8 : program.ranges[i + 1] == Range::levels;
    image = store_image<C>(evaluate_pass<C>(program.passes[i], drawn, source), is_levels);
  }
  const PassProgram& last = program.passes.back();
  return arrange_output({image.data(), program.out, {last.out_height, last.out_width, C}},
                        program.output);
}

Bytes run_image(const AugmentPlan::Program& program, const Bytes& image, const std::byte* drawn) {
  switch (program.channels) {
    case 1:
      return run_all_passes<1>(program, image, drawn);
    case 2:
      return run_all_passes<2>(program, image, drawn);
    case 3:
      return run_all_passes<3>(program, image, drawn);
    default:
      return run_all_passes<4>(program, image, drawn);
  }
}

/// Applies form(image, drawn) to each image or mask of a batch; returns the results one after
/// another.
template <typename Form>
Bytes run_each_image(const AugmentPlan::Program& program, std::size_t batch_size,
                     const Bytes& images, const Bytes& drawn, const Form& form) {
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

Bytes run_plan(const AugmentPlan& plan, std::size_t batch_size, const Bytes& images,
               const Bytes& drawn, std::size_t out_bytes) {
  const AugmentPlan::Program& program = plan.program();
  if (program.kind == FieldKind::mask) return run_masks(plan, batch_size, images, drawn, out_bytes);
  current_program = &program;
  return run_each_image(program, batch_size, images, drawn,
                        [&](const Bytes& image, const std::byte* of_image) {
                          return run_image(program, image, of_image);
                        });
}

void require_executor() {}

}  // namespace slipstream::test
