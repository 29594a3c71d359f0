#pragma once

#include <cstddef>
#include <cstdint>

#include "slipstream/transforms/drawn.h"
#include "slipstream/transforms/pixel.h"
#include "transforms/color_math.h"

namespace slipstream::augment {

enum class StepKind : std::uint8_t {
  // Where a pixel comes from.
  crop,         ///< DrawnCrop; 0 outside of the image
  flip_across,  ///< DrawnFlip
  flip_down,    ///< DrawnFlip
  warp,         ///< DrawnWarp
  resize,       ///< all of the image
  resize_crop,  ///< DrawnCrop
  // Where it is `fill` instead.
  erase,  ///< DrawnErasing
  mask,   ///< DrawnMask
  // What becomes of it.
  to_float,
  normalize,
  scale,
  convert_color,
  grayscale,  ///< DrawnGrayscale
  jitter,     ///< DrawnJitter
  function,   ///< a user's, or that drawn of it; in float32
  // From its neighbors.
  blur,  ///< DrawnBlur
};

/// What values are divided by.
struct Divisor {
  float value;
  float inverse;   ///< rounded; 0 where `value` is too large, too small or negative to use it
  float rest;      ///< of the inverse, rounded
  bool is_exact;   ///< see is_exact()
  bool is_usual;   ///< whether all values are usual ones, see is_usual()
  bool is_signed;  ///< whether a value may be -0
};

/// One operation, as a kernel sees it: what is the same for all samples, and where in a sample's
/// block the rest lies.
struct ProgramStep {
  StepKind kind;
  Range range;        ///< of the values before it
  bool is_rigid;      ///< warp: a rotation
  bool interpolates;  ///< warp: bilinear; resize: always
  bool antialias;
  bool pads;            ///< crop: may reach beyond the image
  std::int32_t radius;  ///< of blur
  std::uint32_t drawn;  ///< offset in a sample's block, in bytes
  std::int32_t in_height;
  std::int32_t in_width;
  std::int32_t out_height;
  std::int32_t out_width;
  float fill;
  std::uint32_t threshold;  ///< of mask
  bool dilates;             ///< of mask
  std::int8_t contrast;   ///< of jitter: its place among those of the pass that need a mean, or -1
  std::int32_t function;  ///< its place among AugmentPlan::Program::functions
  float subtracted[4];    ///< of normalize, before the division
  Divisor divisor[4];     ///< of normalize and scale
  ColorMatrix matrix;
};

inline constexpr int kMostSteps = 24;
/// Steps of a pass that need the mean of the image before them.
inline constexpr int kMostContrasts = 4;

/// What one kernel does to every image of a batch: moves, at most one interpolation, moves, at most
/// one stencil, and then what needs no other pixel; pixels' own arithmetic anywhere.
struct PassProgram {
  ProgramStep steps[kMostSteps];
  std::int32_t count;
  std::int32_t interpolation;  ///< its step, or -1
  std::int32_t stencil;        ///< its step, or count
  std::int32_t contrasts;      ///< all of them before the stencil
  std::int32_t mask;           ///< the first masking step of plain_steps, or -1
  /// Whether the moves before the interpolation (before the stencil, where there is none) never
  /// leave the image: crops without padding and flips, none behind an erasing or masking step. They
  /// are then one step, see Prepared.
  bool has_plain_moves;
  bool has_plain_flips;      ///< whether flips are among them
  bool has_plain_blots;      ///< whether erasing or masking steps are among plain_steps
  std::int32_t plain_count;  ///< of the steps before it that change values
  std::int8_t plain_steps[kMostSteps];
  /// Whether what moves between the interpolation and the stencil are crops without padding, flips
  /// and at most one warp, which is step `turn` (or -1). The kernels then read the pixels before
  /// the interpolation through shared memory.
  bool is_staged;
  std::int32_t turn;
  bool moves_after;    ///< whether there are crops and flips
  bool turns_rigidly;  ///< or not at all: the pixels stay as far apart as they are
  bool changes_after;  ///< whether any step there changes values
  std::int32_t in_height;
  std::int32_t in_width;
  std::int32_t out_height;
  std::int32_t out_width;
};

}  // namespace slipstream::augment
