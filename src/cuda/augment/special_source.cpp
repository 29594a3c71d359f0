#include <algorithm>
#include <array>
#include <cstdio>
#include <sstream>

#include "cuda/augment/kernels.h"
#include "cuda/augment/special_kernel.h"

namespace slipstream::augment {
namespace {

/// Builds an initializer list in the order of the members.
class Initializer {
 public:
  Initializer& add(std::int32_t value) { return put(std::to_string(value)); }
  Initializer& add(std::uint32_t value) { return put(std::to_string(value) + "U"); }
  Initializer& add(std::uint64_t value) { return put(std::to_string(value) + "ULL"); }
  Initializer& add(std::int8_t value) { return add(std::int32_t{value}); }
  Initializer& add(bool value) { return put(value ? "true" : "false"); }
  Initializer& add(float value) {
    std::array<char, 48> text{};
    // Hexadecimal floats are exact.
    std::snprintf(text.data(), text.size(), "%aF", static_cast<double>(value));
    return put(text.data());
  }
  Initializer& add(StepKind value) { return put(cast("StepKind", static_cast<int>(value))); }
  Initializer& add(Interpolation value) {
    return put(cast("Interpolation", static_cast<int>(value)));
  }
  Initializer& add(PaddingMode value) { return put(cast("PaddingMode", static_cast<int>(value))); }
  Initializer& add(Range value) { return put(cast("Range", static_cast<int>(value))); }
  template <typename T, std::size_t N>
  Initializer& add(const T (&values)[N], std::size_t count = N) {
    Initializer list;
    for (std::size_t i = 0; i < count; ++i) list.add(values[i]);
    return put(list.text());
  }
  Initializer& add(const Divisor& by) {
    return put(Initializer()
                   .add(by.value)
                   .add(by.inverse)
                   .add(by.rest)
                   .add(by.is_exact)
                   .add(by.is_usual)
                   .add(by.is_signed)
                   .text());
  }
  Initializer& add(const ColorMatrix& matrix) {
    return put(Initializer().add(matrix.row).add(matrix.offset).text());
  }
  Initializer& add(const Switch& by) {
    return put(Initializer().add(by.at).add(by.least).add(by.most).text());
  }
  Initializer& add(const ProgramStep& step);

  std::string text() const { return "{" + text_ + "}"; }

 private:
  Initializer& put(const std::string& value) {
    text_ += (text_.empty() ? "" : ", ") + value;
    return *this;
  }
  static std::string cast(const char* type, int value) {
    return std::string("static_cast<") + type + ">(" + std::to_string(value) + ")";
  }

  std::string text_;
};

Initializer& Initializer::add(const ProgramStep& step) {
  Initializer list;
  list.add(step.kind).add(step.range).add(step.is_rigid).add(step.interpolates);
  list.add(step.interpolation).add(step.antialias).add(step.pads).add(step.padding_mode);
  list.add(step.radius).add(step.drawn).add(step.switches).add(step.switch_count);
  list.add(step.in_height).add(step.in_width).add(step.out_height).add(step.out_width);
  list.add(step.fill).add(step.mask_fill).add(step.threshold).add(step.dilates).add(step.statistic);
  list.add(step.bits)
      .add(step.amount)
      .add(step.draws_amount)
      .add(step.function)
      .add(step.subtracted)
      .add(step.divisor)
      .add(step.matrix);
  return put(list.text());
}

std::string to_source(const PassProgram& pass) {
  Initializer list;
  list.add(pass.steps, static_cast<std::size_t>(pass.count));
  list.add(pass.count).add(pass.interpolation).add(pass.stencil).add(pass.statistics);
  list.add(pass.mask)
      .add(pass.has_plain_moves)
      .add(pass.has_plain_flips)
      .add(pass.has_plain_blots)
      .add(pass.plain_count);
  list.add(pass.plain_steps)
      .add(pass.is_staged)
      .add(pass.turn)
      .add(pass.moves_after)
      .add(pass.turns_rigidly);
  list.add(pass.changes_after).add(pass.in_height).add(pass.in_width);
  list.add(pass.out_height).add(pass.out_width);
  return list.text();
}

std::string to_source(const ProgramStep& step) {
  const std::string list = Initializer().add(step).text();
  return list.substr(1, list.size() - 2);
}

std::string to_source(const LaunchShape& shape) {
  Initializer grid;
  grid.add(shape.grid.across).add(shape.grid.tiles).add(shape.grid.width).add(shape.grid.height);
  Initializer room;
  room.add(shape.room.floats).add(shape.room.pitch).add(shape.room.entries).add(shape.room.taps);
  Initializer rest;
  rest.add(shape.always_fits).add(shape.stores_at).add(shape.planes_at).add(shape.shared_bytes);
  return "{" + grid.text() + ", " + room.text() + ", " + rest.text().substr(1);
}

/// Returns the radius, or 0 if the loops over the weights are too long to unroll.
std::int32_t unrolled_radius(const PassProgram& pass) {
  constexpr std::int32_t kMost = 7;
  const std::int32_t radius = pass.steps[pass.stencil].radius;
  return radius <= kMost ? radius : 0;
}

bool has_switches(const SpecialPurpose& purpose) {
  const auto is_switched = [](const ProgramStep& step) { return step.switch_count > 0; };
  const PassProgram& pass = purpose.pass;
  return std::any_of(pass.steps, pass.steps + pass.count, is_switched) ||
         (purpose.measured && is_switched(*purpose.measured));
}

const char* to_string(Way way) {
  switch (way) {
    case Way::direct:
      return "Way::direct";
    case Way::linear:
      return "Way::linear";
    case Way::warp:
      return "Way::warp";
    case Way::filter:
      return "Way::filter";
  }
  return "";
}

}  // namespace

std::string special_source(const SpecialPurpose& purpose) {
  const PassProgram& pass = purpose.pass;
  const PassMemory& formats = purpose.formats;
  const bool is_plain = pass.stencil == pass.count;
  const std::string kind = purpose.measured ? "statistics" : (is_plain ? "plain" : "blur");
  std::ostringstream text;
  text << "#define SLIPSTREAM_SPECIALIZED\n"
       << (has_switches(purpose) ? "" : "#define SLIPSTREAM_UNSWITCHED\n")
       << "#include \"cuda/augment/launch_shape.h\"\n"
       << "#include \"cuda/augment/program.h\"\n"
       << purpose.functions << "namespace slipstream::augment {\n"
       << "__device__ constexpr PassProgram kPass = " << to_source(pass) << ";\n";
  if (purpose.measured) {
    text << "__device__ constexpr ProgramStep kMeasured = " << to_source(*purpose.measured)
         << ";\n";
  }
  text << "__device__ constexpr LaunchShape kShape = " << to_source(purpose.shape) << ";\n}\n"
       << "#include \"cuda/augment/" << kind << "_kernel.h\"\nnamespace slipstream::augment {\n"
       << "extern \"C\" __global__ void __launch_bounds__("
       << (is_plain ? std::to_string(kPlainThreads)
                    : std::to_string(kBlurThreads) + ", " + std::to_string(kBlurBlocks))
       << ") special_pass(PassMemory memory) {\n"
       << "memory.drawn_bytes = " << formats.drawn_bytes << ";\n"
       << "memory.statistics_bytes = " << formats.statistics_bytes << ";\n"
       << "memory.range = static_cast<Range>(" << static_cast<int>(formats.range) << ");\n"
       << "memory.stored = static_cast<Stored>(" << static_cast<int>(formats.stored) << ");\n"
       << "memory.is_planar = " << (formats.is_planar ? "true" : "false") << ";\n"
       << kind << "_block<" << purpose.channels << ", " << to_string(choose_way(pass));
  if (!is_plain) text << ", " << unrolled_radius(pass);
  text << ">(kPass, " << (purpose.measured ? "kMeasured, " : "") << "memory, kShape);\n}\n}\n";
  return text.str();
}

}  // namespace slipstream::augment
