#include "cuda/augment/plan.h"

#include <algorithm>
#include <string>

#include "core/round_up.h"
#include "cuda/augment/lower.h"
#include "cuda/augment/values.h"
#include "slipstream/core/error.h"

namespace slipstream {
namespace augment {
namespace {

constexpr std::int64_t kMostPixelsASide = 16'384;
constexpr std::size_t kAlignment = 256;

void require_sizes(const std::string& name, const FieldSpec& field) {
  if (std::max(field.shape[0], field.shape[1]) <= kMostPixelsASide) return;
  throw Refused("transform '" + name + "': '" + field.name + "' is " + to_string(field.shape) +
                "; the maximum on the device is " + std::to_string(kMostPixelsASide) +
                " pixels per side");
}

/// Returns true if the step depends on the position of a pixel.
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
      pass.changes_after = true;
    } else if (step.kind == StepKind::warp && pass.turn < 0) {
      pass.turn = i;
      pass.turns_rigidly = step.is_rigid;
    } else {
      pass.moves_after = true;
      pass.is_staged = is_plain_move(step);
    }
  }
}

/// Distributes steps over passes.
class Passes {
 public:
  Passes(AugmentPlan::Program& program, const FieldSpec& input) : program_(program) {
    begin(dtype_range(input.dtype), side(input.shape, 0), side(input.shape, 1));
  }

  void add(ProgramStep step) {
    PassProgram* pass = &program_.passes.back();
    const bool has_stencil = pass->stencil >= 0;
    const bool is_stencil = step.kind == StepKind::blur || step.kind == StepKind::sharpen;
    const bool is_measured = step.statistic >= 0;
    // A warp that is not applied to all samples cannot be composed with an interpolation.
    const bool is_switched_warp = step.kind == StepKind::warp && step.switch_count > 0;
    const bool is_second = (step.interpolates || is_switched_warp) && pass->interpolation >= 0;
    // A pass has one interpolation, then one stencil, and nothing that moves pixels after that.
    // Statistics must be known before the stencil.
    if (is_second || (has_stencil && (is_stencil || is_measured || moves(step))) ||
        pass->count == kMostSteps || (is_measured && pass->statistics == kMostStatistics)) {
      begin(step.range, step.in_height, step.in_width);
      pass = &program_.passes.back();
    }
    set_divisors(values_, step);
    advance(step, values_);
    if (is_measured) step.statistic = static_cast<std::int8_t>(pass->statistics++);
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
    values_ = initial_values(range);
    program_.ranges.push_back(range);
  }

  AugmentPlan::Program& program_;
  Values values_ = {};
};

/// Size of one image between passes (uint8 or float32, channels last) or of one mask.
std::size_t image_bytes(const AugmentPlan::Program& program, std::size_t before_pass) {
  const PassProgram& pass = program.passes[before_pass];
  const bool is_levels = program.ranges[before_pass] == Range::levels;
  const std::size_t value = program.kind == FieldKind::mask ? size_bytes(program.in)
                            : is_levels                     ? 1
                                                            : sizeof(float);
  return static_cast<std::size_t>(pass.in_height) * static_cast<std::size_t>(pass.in_width) *
         static_cast<std::size_t>(program.channels) * value;
}

/// Returns the size of the members of Statistics that a step needs.
std::uint32_t size_of_statistics(const ProgramStep& step) {
  if (step.statistic < 0) return 0;
  if (step.kind == StepKind::jitter) return offsetof(Statistics, least);
  if (step.kind == StepKind::stretch) return offsetof(Statistics, count);
  return sizeof(Statistics);
}

template <typename Use>
void visit_steps(const AugmentPlan::Program& program, const Use& use) {
  for (const PassProgram& pass : program.passes)
    std::for_each(pass.steps, pass.steps + pass.count, use);
}

/// Returns the size of an image's Statistics for one step.
std::uint32_t size_of_statistics(const AugmentPlan::Program& program) {
  std::uint32_t most = 0;
  visit_steps(program,
              [&](const ProgramStep& step) { most = std::max(most, size_of_statistics(step)); });
  return most;
}

}  // namespace

PassProgram before_statistics(const PassProgram& pass, std::int32_t at) {
  const ProgramStep& step = pass.steps[at];
  PassProgram before = {};
  std::copy_n(pass.steps, at, before.steps);
  before.count = before.stencil = at;
  before.interpolation = pass.interpolation < at ? pass.interpolation : -1;
  before.statistics = step.statistic;
  before.in_height = pass.in_height;
  before.in_width = pass.in_width;
  before.out_height = step.in_height;
  before.out_width = step.in_width;
  find_plain_moves(before);
  find_turn(before);
  return before;
}

PassMemory make_pass_memory(const AugmentPlan::Program& program, std::size_t pass) {
  PassMemory memory = {};
  memory.range = program.ranges[pass];
  memory.drawn_bytes = static_cast<std::uint32_t>(program.drawn_bytes);
  memory.statistics_bytes = size_of_statistics(program);
  memory.stored = Stored::u8;
  if (pass + 1 < program.passes.size()) {
    if (program.ranges[pass + 1] == Range::unit) memory.stored = Stored::f32;
    return memory;
  }
  if (program.out != DType::uint8) memory.stored = program.output.bf16 ? Stored::bf16 : Stored::f32;
  memory.is_planar = program.output.layout == ImageLayout::channels_first;
  return memory;
}

std::size_t statistics_bytes(const AugmentPlan::Program& program, std::size_t batch_size) {
  std::int32_t most = 0;
  for (const PassProgram& pass : program.passes) most = std::max(most, pass.statistics);
  return round_up(static_cast<std::size_t>(most) * batch_size * size_of_statistics(program),
                  kAlignment);
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
    for (auto& [step, named] : augment::lowered(steps[i], before, after)) {
      if (step.kind == augment::StepKind::function) {
        step.function = static_cast<std::int32_t>(program->functions.size());
        program->functions.push_back({*named, *named->op.device_function()});
        augment::require_compiles(program->functions.back(), program->channels);
      }
      passes.add(step);
    }
  }
  passes.finish();
  program_ = std::move(program);
}

void AugmentPlan::specialize() {
  if (program_->kind == FieldKind::mask) return;
  auto program = std::make_shared<Program>(*program_);
  program->special.clear();
  for (std::size_t i = 0; i < program->passes.size(); ++i) {
    program->special.emplace_back(*program, i);
  }
  program_ = std::move(program);
}

std::size_t AugmentPlan::launches() const {
  std::size_t count = program_->passes.size();
  augment::visit_steps(*program_, [&](const augment::ProgramStep& step) {
    if (step.statistic >= 0) count += augment::has_table(step.kind) ? 2 : 1;
  });
  return count;
}

std::size_t AugmentPlan::scratch_bytes(std::size_t batch_size) const {
  const std::size_t places = std::min<std::size_t>(program_->passes.size() - 1, 2);
  return augment::statistics_bytes(*program_, batch_size) +
         places * augment::place_bytes(*program_, batch_size);
}

}  // namespace slipstream
