#include <gtest/gtest.h>

#include <array>
#include <cstring>

#include "cuda/augment/chain_cases.h"
#include "cuda/augment/host_forms.h"

#include "cuda/augment/measure.h"
#include "cuda/augment/tables.h"

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

  Pixel<C>& at(std::int32_t y, std::int32_t x) { return pixels[index(y, x)]; }
  const Pixel<C>& at(std::int32_t y, std::int32_t x) const { return pixels[index(y, x)]; }

  std::size_t index(std::int32_t y, std::int32_t x) const {
    return static_cast<std::size_t>(y) * static_cast<std::size_t>(width) +
           static_cast<std::size_t>(x);
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

/// Adds the pixels of `image` before step `at` of a pass to the statistics that `step` needs.
template <int C>
void collect(const augment::Image& image, const ProgramStep& step, std::int32_t at,
             augment::Statistics& to) {
  const augment::Measure measure = augment::measured(step, image.drawn);
  augment::Collected<C> all;
  for (std::int32_t y = 0; y < step.in_height; ++y) {
    for (std::int32_t x = 0; x < step.in_width; ++x) {
      const Pixel<C> pixel = image.pass.interpolation >= 0
                                 ? augment::pixel_before<C, true>(image, at, y, x)
                                 : augment::pixel_before<C, false>(image, at, y, x);
      if (measure == augment::Measure::sum) all.sum += augment::sum_term<C>(image, step, pixel);
      all.add(pixel);
      for (int c = 0; measure == augment::Measure::counts && c < C; ++c)
        ++to.count[c][static_cast<int>(pixel.value[c])];
    }
  }
  to.sum = all.sum;
  std::copy_n(all.least, C, to.least);
  std::copy_n(all.most, C, to.most);
}

using AllStatistics = std::array<augment::Statistics, augment::kMostStatistics>;

/// Computes the statistics of all steps, and checks that the kernels for statistics would read the
/// same pixels.
template <int C>
void set_all_statistics(const augment::Image& image, augment::Prepared& prepared,
                        AllStatistics& all) {
  const PassProgram& pass = image.pass;
  const auto* const memory = reinterpret_cast<const std::byte*>(all.data());
  augment::set_statistics(pass, memory, sizeof(augment::Statistics), prepared);
  for (std::int32_t at = 0; at < pass.count; ++at) {
    const ProgramStep& step = pass.steps[at];
    if (step.statistic < 0) continue;
    augment::Statistics& of = all[static_cast<std::size_t>(step.statistic)];
    collect<C>(image, step, at, of);
    const PassProgram before = augment::before_statistics(pass, at);
    augment::Prepared before_prepared = augment::prepared_for(before, image.drawn);
    augment::set_statistics(before, memory, sizeof(augment::Statistics), before_prepared);
    augment::Statistics again = {};
    collect<C>({before, image.drawn, before_prepared, image.source, {}}, step, at, again);
    EXPECT_EQ(std::memcmp(&again, &of, sizeof(of)), 0);
    for (std::int32_t level = 0; augment::has_table(step.kind) && level < augment::kLevels; ++level)
      augment::set_table(step, image.drawn, C, level, of);
    augment::set_statistics(pass, memory, sizeof(augment::Statistics), prepared);
  }
}

template <int C>
Image<C> sharpened_image(const Image<C>& in, float weight, Range range) {
  Image<C> out = in;
  for (std::int32_t y = 1; y + 1 < in.height; ++y) {
    for (std::int32_t x = 1; x + 1 < in.width; ++x) {
      for (int c = 0; c < C; ++c) {
        float around[3][3];
        for (int i = 0; i < 9; ++i)
          around[i / 3][i % 3] = in.at(y - 1 + i / 3, x - 1 + i % 3).value[c];
        out.at(y, x).value[c] = sharpened(
            around[1][1], augment::sum_around(around[0], around[1], around[2]), weight, range);
      }
    }
  }
  return out;
}

/// Applies the stencil of a pass.
template <int C>
Image<C> after_stencil(Image<C> image, const ProgramStep& step, const std::byte* drawn) {
  if (!augment::applies(step, drawn)) return image;
  if (step.kind == augment::StepKind::sharpen)
    return sharpened_image(image, augment::sharpening_weight(step, drawn), step.range);
  const auto& blur = augment::drawn_at<DrawnBlur>(step, drawn);
  image = blurred<C>(blurred<C>(image, blur, step.radius, true), blur, step.radius, false);
  for (Pixel<C>& pixel : image.pixels) {
    if (step.range != Range::levels) continue;
    for (float& value : pixel.value) value = to_level(value);
  }
  return image;
}

template <int C>
Image<C> evaluate_pass(const PassProgram& pass, const std::byte* drawn, const Source& source) {
  augment::Prepared prepared = augment::prepared_for(pass, drawn);
  const augment::Image from{pass, drawn, prepared, source, {}};
  AllStatistics statistics{};
  set_all_statistics<C>(from, prepared, statistics);
  Image<C> image = make_blank_image<C>(pass.out_height, pass.out_width);
  for (std::int32_t y = 0; y < image.height; ++y) {
    for (std::int32_t x = 0; x < image.width; ++x) {
      image.at(y, x) = pass.interpolation >= 0
                           ? augment::pixel_before<C, true>(from, pass.stencil, y, x)
                           : augment::pixel_before<C, false>(from, pass.stencil, y, x);
    }
  }
  if (pass.stencil == pass.count) return image;
  image = after_stencil<C>(image, pass.steps[pass.stencil], drawn);
  for (Pixel<C>& pixel : image.pixels)
    pixel = augment::gone_through<C>(from, pass.stencil + 1, pass.count, pixel);
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
