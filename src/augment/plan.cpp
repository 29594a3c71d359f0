#include "augment/plan.h"

#include <algorithm>
#include <optional>
#include <string>

#include "augment/values.h"
#include "slipstream/blur.h"
#include "slipstream/colour.h"
#include "slipstream/error.h"
#include "slipstream/masking.h"
#include "slipstream/resize.h"
#include "slipstream/round_up.h"
#include "slipstream/transforms.h"
#include "slipstream/warp.h"

namespace slipstream {
namespace augment {
namespace {

constexpr std::int64_t kMostPixelsASide = 16'384;
constexpr std::size_t kAlignment = 256;

Range range_of(DType dtype) { return dtype == DType::u8 ? Range::levels : Range::unit; }

void lower(const CentreCrop&, ProgramStep& step) { step.kind = StepKind::crop; }
void lower(const RandomCrop& op, ProgramStep& step) {
  step.kind = StepKind::crop;
  step.pads = op.padding > 0;
}
void lower(const HorizontalFlip&, ProgramStep& step) { step.kind = StepKind::flip_across; }
void lower(const VerticalFlip&, ProgramStep& step) { step.kind = StepKind::flip_down; }
void lower(const ToFloat&, ProgramStep& step) { step.kind = StepKind::to_float; }

void lower(const Resize& op, ProgramStep& step) {
  step.kind = StepKind::resize;
  step.interpolates = true;
  step.antialias = op.antialias;
}

void lower(const RandomResizedCrop& op, ProgramStep& step) {
  step.kind = StepKind::resize_crop;
  step.interpolates = true;
  step.antialias = op.antialias;
}

template <typename Op>
void lower_warp(const Op& op, ProgramStep& step) {
  step.kind = StepKind::warp;
  step.interpolates = op.interpolation == Interpolation::bilinear;
  step.fill = static_cast<float>(op.fill);
}

void lower(const Rotate& op, ProgramStep& step) {
  lower_warp(op, step);
  step.is_rigid = true;
}
void lower(const Affine& op, ProgramStep& step) { lower_warp(op, step); }

void lower(const GaussianBlur& op, ProgramStep& step) {
  step.kind = StepKind::blur;
  step.radius = static_cast<std::int32_t>(op.size / 2);
}

Divisor divisor_of(float value) {
  if (!(value > 0x1p-30F && value < 0x1p30F)) return {value, 0.0F, 0.0F, false};
  return {value, 1.0F / value, 0x1p-100F, false};
}

void lower(const Scale& op, ProgramStep& step) {
  step.kind = StepKind::scale;
  for (Divisor& divisor : step.divisor) divisor = divisor_of(static_cast<float>(op.divisor));
}

void lower(const ConvertColour& op, ProgramStep& step) {
  step.kind = StepKind::convert_colour;
  step.matrix = op.in_float32();
}

void lower(const Greyscale&, ProgramStep& step) { step.kind = StepKind::greyscale; }

void lower(const ColourJitter& op, ProgramStep& step) {
  step.kind = StepKind::jitter;
  step.contrast = static_cast<std::int8_t>(op.changes_contrast() ? 0 : -1);
}

void lower(const RandomErasing& op, ProgramStep& step) {
  step.kind = StepKind::erase;
  step.fill = static_cast<float>(op.value);
}

void lower(const RandomMask& op, ProgramStep& step) {
  step.kind = StepKind::mask;
  step.threshold = op.threshold();
  step.dilates = op.dilate;
}

void lower(const Normalise& op, ProgramStep& step) {
  step.kind = StepKind::normalise;
  const ChannelStatistics statistics = op.in_float32();
  for (std::size_t c = 0; c < 4; ++c) {
    step.subtracted[c] = statistics.mean[c];
    step.divisor[c] = divisor_of(statistics.std[c]);
  }
}

/// Lowers `op` where it is an Op.
template <typename Op>
bool lower_as(const AnyOp& op, ProgramStep& step) {
  const Op* held = op.get_if<Op>();
  if (held == nullptr) return false;
  lower(*held, step);
  return true;
}

template <typename... Ops>
bool lower_as_one_of(const AnyOp& op, ProgramStep& step) {
  return (lower_as<Ops>(op, step) || ...);
}

std::int32_t side(const Shape& shape, std::size_t i) { return static_cast<std::int32_t>(shape[i]); }

ProgramStep lowered(const DeviceChain::Step& step, const FieldSpec& before,
                    const FieldSpec& after) {
  ProgramStep result = {};
  result.contrast = -1;
  const AnyOp& op = step.named.op;
  if (!lower_as_one_of<CentreCrop, RandomCrop, RandomResizedCrop, Resize, HorizontalFlip,
                       VerticalFlip, Rotate, Affine, GaussianBlur, ToFloat, Normalise, Scale,
                       ConvertColour, Greyscale, ColourJitter, RandomErasing, RandomMask>(op,
                                                                                          result)) {
    throw Refused("transform '" + step.named.name + "': '" + std::string(op.name()) +
                  "' has no form for the device; run it on the loader's threads");
  }
  if (before.kind == FieldKind::mask) result.interpolates = false;
  result.range = range_of(before.dtype);
  result.drawn = static_cast<std::uint32_t>(step.drawn_offset_bytes);
  result.in_height = side(before.shape, 0);
  result.in_width = side(before.shape, 1);
  result.out_height = side(after.shape, 0);
  result.out_width = side(after.shape, 1);
  return result;
}

void require_sizes(const std::string& name, const FieldSpec& field) {
  if (std::max(field.shape[0], field.shape[1]) <= kMostPixelsASide) return;
  throw Refused("transform '" + name + "': '" + field.name + "' is " + to_string(field.shape) +
                "; the device takes at most " + std::to_string(kMostPixelsASide) +
                " pixels a side");
}

/// Whether it matters where a pixel is.
bool moves(const ProgramStep& step) {
  switch (step.kind) {
    case StepKind::crop:
    case StepKind::flip_across:
    case StepKind::flip_down:
    case StepKind::warp:
    case StepKind::resize:
    case StepKind::resize_crop:
    case StepKind::erase:
    case StepKind::mask:
      return true;
    default:
      return false;
  }
}

bool is_plain_move(const ProgramStep& step) {
  return step.kind == StepKind::flip_across || step.kind == StepKind::flip_down ||
         (step.kind == StepKind::crop && !step.pads);
}

bool blots(const ProgramStep& step) {
  return step.kind == StepKind::erase || step.kind == StepKind::mask;
}

void find_plain_moves(PassProgram& pass) {
  const std::int32_t last = pass.interpolation >= 0 ? pass.interpolation : pass.stencil;
  pass.has_plain_moves = true;
  pass.mask = -1;
  for (std::int32_t i = 0; i < last; ++i) {
    const ProgramStep& step = pass.steps[i];
    if (is_plain_move(step)) {
      if (std::any_of(pass.steps, pass.steps + i, blots)) pass.has_plain_moves = false;
      if (step.kind != StepKind::crop) pass.has_plain_flips = true;
      continue;
    }
    if (moves(step) && !blots(step)) pass.has_plain_moves = false;
    if (step.kind == StepKind::mask && pass.mask < 0) pass.mask = i;
    pass.has_plain_blots |= blots(step);
    pass.plain_steps[pass.plain_count++] = static_cast<std::int8_t>(i);
  }
}

void find_turn(PassProgram& pass) {
  pass.turn = -1;
  pass.turns_rigidly = true;
  pass.is_staged = pass.interpolation >= 0;
  for (std::int32_t i = pass.interpolation + 1; pass.is_staged && i < pass.stencil; ++i) {
    const ProgramStep& step = pass.steps[i];
    if (!moves(step)) {
      pass.changes_behind = true;
    } else if (step.kind == StepKind::warp && pass.turn < 0) {
      pass.turn = i;
      pass.turns_rigidly = step.is_rigid;
    } else {
      pass.moves_behind = true;
      pass.is_staged = is_plain_move(step);
    }
  }
}

/// Puts steps into passes.
class Passes {
 public:
  Passes(AugmentPlan::Program& program, const FieldSpec& input) : program_(program) {
    begin(range_of(input.dtype), side(input.shape, 0), side(input.shape, 1));
  }

  void add(ProgramStep step) {
    PassProgram* pass = &program_.passes.back();
    const bool has_stencil = pass->stencil >= 0;
    const bool is_stencil = step.kind == StepKind::blur;
    const bool is_contrast = step.contrast >= 0;
    const bool is_second = step.interpolates && pass->interpolation >= 0;
    if (is_second || (has_stencil && (is_stencil || is_contrast || moves(step))) ||
        pass->count == kMostSteps || (is_contrast && pass->contrasts == kMostContrasts)) {
      begin(step.range, step.in_height, step.in_width);
      pass = &program_.passes.back();
    }
    set_divisors(values_, step);
    advance(step, values_);
    if (is_contrast) step.contrast = static_cast<std::int8_t>(pass->contrasts++);
    if (step.interpolates) pass->interpolation = pass->count;
    if (is_stencil) pass->stencil = pass->count;
    pass->steps[pass->count++] = step;
    pass->out_height = step.out_height;
    pass->out_width = step.out_width;
  }

  void finish() {
    for (PassProgram& pass : program_.passes) {
      if (pass.stencil < 0) pass.stencil = pass.count;
      find_plain_moves(pass);
      find_turn(pass);
    }
  }

 private:
  void begin(Range range, std::int32_t height, std::int32_t width) {
    PassProgram pass = {};
    pass.interpolation = pass.stencil = -1;
    pass.in_height = pass.out_height = height;
    pass.in_width = pass.out_width = width;
    program_.passes.push_back(pass);
    values_ = values_of(range);
    program_.ranges.push_back(range);
  }

  AugmentPlan::Program& program_;
  Values values_ = {};
};

}  // namespace

namespace {

/// Of one image between passes, u8 or f32, channels last.
std::size_t image_bytes(const AugmentPlan::Program& program, std::size_t before_pass) {
  const PassProgram& pass = program.passes[before_pass];
  const std::size_t value = program.ranges[before_pass] == Range::levels ? 1 : sizeof(float);
  return static_cast<std::size_t>(pass.in_height) * static_cast<std::size_t>(pass.in_width) *
         static_cast<std::size_t>(program.channels) * value;
}

}  // namespace

PassMemory formats_of(const AugmentPlan::Program& program, std::size_t pass) {
  PassMemory memory = {};
  memory.range = program.ranges[pass];
  memory.drawn_bytes = static_cast<std::uint32_t>(program.drawn_bytes);
  memory.stored = Stored::u8;
  if (pass + 1 < program.passes.size()) {
    if (program.ranges[pass + 1] == Range::unit) memory.stored = Stored::f32;
    return memory;
  }
  if (program.out != DType::u8) memory.stored = program.output.bf16 ? Stored::bf16 : Stored::f32;
  memory.is_planar = program.output.layout == ImageLayout::channels_first;
  return memory;
}

std::size_t sums_bytes(const AugmentPlan::Program& program, std::size_t batch_size) {
  std::int32_t most = 0;
  for (const PassProgram& pass : program.passes) most = std::max(most, pass.contrasts);
  return round_up(static_cast<std::size_t>(most) * batch_size * sizeof(std::int64_t), kAlignment);
}

std::size_t place_bytes(const AugmentPlan::Program& program, std::size_t batch_size) {
  std::size_t most = 0;
  for (std::size_t i = 1; i < program.passes.size(); ++i) {
    most = std::max(most, image_bytes(program, i));
  }
  return round_up(batch_size * most, kAlignment);
}

}  // namespace augment

AugmentPlan::AugmentPlan(const DeviceChain& chain, std::size_t field, AugmentOutput output) {
  const FieldSpec& input = chain.inputs().at(field);
  const bool is_image = input.kind == FieldKind::image;
  auto program = std::make_shared<Program>();
  program->kind = input.kind;
  program->in = input.dtype;
  program->out = chain.outputs().at(field).dtype;
  program->channels = is_image ? augment::side(input.shape, 2) : 1;
  program->drawn_bytes = chain.drawn_bytes();
  program->output = output;
  augment::Passes passes(*program, input);
  const auto& steps = chain.steps();
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const FieldSpec& before = steps[i].before[field];
    if (!steps[i].named.op.touches(before.kind)) continue;
    const FieldSpec& after =
        i + 1 < steps.size() ? steps[i + 1].before[field] : chain.outputs()[field];
    augment::require_sizes(steps[i].named.name, before);
    augment::require_sizes(steps[i].named.name, after);
    passes.add(augment::lowered(steps[i], before, after));
  }
  passes.finish();
  program_ = std::move(program);
}

void AugmentPlan::specialise() {
  if (program_->kind == FieldKind::mask) return;
  auto program = std::make_shared<Program>(*program_);
  program->special.clear();
  for (std::size_t i = 0; i < program->passes.size(); ++i) {
    program->special.emplace_back(program->passes[i], augment::formats_of(*program, i),
                                  program->channels);
  }
  program_ = std::move(program);
}

std::size_t AugmentPlan::launches() const {
  std::size_t count = program_->passes.size();
  for (const augment::PassProgram& pass : program_->passes) {
    count += static_cast<std::size_t>(pass.contrasts);
  }
  return count;
}

std::size_t AugmentPlan::scratch_bytes(std::size_t batch_size) const {
  const std::size_t places = std::min<std::size_t>(program_->passes.size() - 1, 2);
  return augment::sums_bytes(*program_, batch_size) +
         places * augment::place_bytes(*program_, batch_size);
}

}  // namespace slipstream
