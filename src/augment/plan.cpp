#include "augment/plan.h"

#include <algorithm>
#include <optional>
#include <string>

#include "slipstream/blur.h"
#include "slipstream/error.h"
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

void lower(const Rotate& op, ProgramStep& step) { lower_warp(op, step); }
void lower(const Affine& op, ProgramStep& step) { lower_warp(op, step); }

void lower(const GaussianBlur& op, ProgramStep& step) {
  step.kind = StepKind::blur;
  step.radius = static_cast<std::int32_t>(op.size / 2);
}

void lower(const Normalise& op, ProgramStep& step) {
  step.kind = StepKind::normalise;
  for (std::size_t c = 0; c < op.mean.size(); ++c) {
    step.mean[c] = static_cast<float>(op.mean[c]);
    step.std[c] = static_cast<float>(op.std[c]);
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
  const AnyOp& op = step.named.op;
  if (!lower_as_one_of<CentreCrop, RandomCrop, RandomResizedCrop, Resize, HorizontalFlip,
                       VerticalFlip, Rotate, Affine, GaussianBlur, ToFloat, Normalise>(op,
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

bool moves(const ProgramStep& step) {
  switch (step.kind) {
    case StepKind::crop:
    case StepKind::flip_across:
    case StepKind::flip_down:
    case StepKind::warp:
    case StepKind::resize:
    case StepKind::resize_crop:
      return true;
    default:
      return false;
  }
}

void find_plain_moves(PassProgram& pass) {
  const std::int32_t last = pass.interpolation >= 0 ? pass.interpolation : pass.stencil;
  pass.has_plain_moves = true;
  for (std::int32_t i = 0; i < last; ++i) {
    const ProgramStep& step = pass.steps[i];
    if (!moves(step)) {
      pass.plain_steps[pass.plain_count++] = static_cast<std::int8_t>(i);
    } else if (step.kind == StepKind::warp || step.pads) {
      pass.has_plain_moves = false;
    }
  }
}

/// Puts steps into passes.
class Passes {
 public:
  Passes(AugmentPlan::Program& program, const FieldSpec& input) : program_(program) {
    begin(range_of(input.dtype), side(input.shape, 0), side(input.shape, 1));
  }

  void add(const ProgramStep& step) {
    PassProgram* pass = &program_.passes.back();
    const bool has_stencil = pass->stencil >= 0;
    const bool is_stencil = step.kind == StepKind::blur;
    const bool is_second = step.interpolates && pass->interpolation >= 0;
    if (is_second || (has_stencil && (is_stencil || moves(step))) || pass->count == kMostSteps) {
      begin(step.range, step.in_height, step.in_width);
      pass = &program_.passes.back();
    }
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
    }
  }

 private:
  void begin(Range range, std::int32_t height, std::int32_t width) {
    PassProgram pass = {};
    pass.interpolation = pass.stencil = -1;
    pass.in_height = pass.out_height = height;
    pass.in_width = pass.out_width = width;
    program_.passes.push_back(pass);
    program_.ranges.push_back(range);
  }

  AugmentPlan::Program& program_;
};

}  // namespace

std::size_t image_bytes(const AugmentPlan::Program& program, std::size_t before_pass) {
  const PassProgram& pass = program.passes[before_pass];
  const std::size_t value = program.ranges[before_pass] == Range::levels ? 1 : sizeof(float);
  return static_cast<std::size_t>(pass.in_height) * static_cast<std::size_t>(pass.in_width) *
         static_cast<std::size_t>(program.channels) * value;
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

std::size_t AugmentPlan::launches() const { return program_->passes.size(); }

// What passes hand on takes turns in two places.
std::size_t AugmentPlan::scratch_bytes(std::size_t batch_size) const {
  std::size_t most = 0;
  for (std::size_t i = 1; i < program_->passes.size(); ++i) {
    most = std::max(most, augment::image_bytes(*program_, i));
  }
  const std::size_t places = std::min<std::size_t>(program_->passes.size() - 1, 2);
  return places * round_up(batch_size * most, augment::kAlignment);
}

}  // namespace slipstream
