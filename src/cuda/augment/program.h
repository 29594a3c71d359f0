#pragma once

#include <cstddef>
#include <cstdint>

#include "slipstream/transforms/drawn.h"
#include "slipstream/transforms/pixel.h"
#include "transforms/color_math.h"
#include "transforms/interpolation.h"

namespace slipstream::augment {

enum class StepKind : std::uint8_t {
  // Steps that move pixels.
  crop,         ///< DrawnCrop; pixels outside of the image are `fill`
  flip_across,  ///< DrawnFlip
  flip_down,    ///< DrawnFlip
  warp,         ///< DrawnWarp
  resize,       ///< all of the image
  resize_crop,  ///< DrawnCrop
  // Steps that replace pixels with `fill`.
  erase,  ///< DrawnErasing
  mask,   ///< DrawnMask
  // Steps that change the values of single pixels.
  to_float,
  normalize,
  scale,
  convert_color,
  grayscale,  ///< DrawnGrayscale
  jitter,     ///< DrawnJitter
  // The operations of adjust.h.
  invert,
  posterize,
  solarize,
  stretch,  ///< RandomAutocontrast
  equalize,
  augment,   ///< DrawnAugmentations::Step, unless it moves pixels or changes the sharpness
  function,  ///< user-defined, with fixed or random parameters; in float32
  // Steps that read neighboring pixels.
  blur,     ///< DrawnBlur
  sharpen,  ///< RandomAdjustSharpness, or a DrawnAugmentations::Step
};

/// A condition on the parameters of a sample: the integer at offset `at` in its block is `least` to
/// `most`.
struct Switch {
  std::uint32_t at;  ///< in bytes
  std::int32_t least;
  std::int32_t most;
};

inline constexpr int kMostSwitches = 4;

/// A divisor with the precomputed values for a fast division.
struct Divisor {
  float value;
  float inverse;   ///< 1 / value, rounded; 0 if `value` is too large, too small or negative
  float rest;      ///< error of the inverse, rounded
  bool is_exact;   ///< see is_exact()
  bool is_usual;   ///< true if all dividends are usual, see is_usual()
  bool is_signed;  ///< true if a dividend may be -0
};

/// One operation in the form that kernels use: what all samples share, and the offset of the rest
/// in a sample's block.
struct ProgramStep {
  StepKind kind;
  Range range;                  ///< range of the values before it
  bool is_rigid;                ///< warp: a rotation
  bool interpolates;            ///< warp: bilinear; resize: bilinear or bicubic
  Interpolation interpolation;  ///< resize
  bool antialias;               ///< resize
  bool pads;                    ///< crop: may extend beyond the image
  PaddingMode padding_mode;     ///< crop
  std::int32_t radius;          ///< blur: radius of the kernel
  std::uint32_t drawn;          ///< offset in a sample's block, in bytes
  /// The step is applied to the samples for which all switches are true.
  Switch switches[kMostSwitches];
  std::int32_t switch_count;
  std::int32_t in_height;
  std::int32_t in_width;
  std::int32_t out_height;
  std::int32_t out_width;
  float fill[4];            ///< value of each channel
  std::uint64_t mask_fill;  ///< crop: bits of the value in a mask
  std::uint32_t threshold;  ///< mask: RandomMask::threshold()
  bool dilates;             ///< mask: RandomMask::dilate
  std::int8_t statistic;    ///< index of its Statistics in the pass, or -1 if it needs none
  std::int32_t bits;        ///< posterize
  float amount;             ///< solarize: threshold; sharpen: weight
  bool draws_amount;        ///< sharpen: a DrawnAugmentations::Step gives the weight instead
  std::int32_t function;    ///< index in AugmentPlan::Program::functions
  float subtracted[4];      ///< normalize: subtracted before the division
  Divisor divisor[4];       ///< for normalize and scale
  ColorMatrix matrix;
};

inline constexpr int kMostSteps = 24;
/// Maximum number of steps of a pass that need Statistics.
inline constexpr int kMostStatistics = 4;

/// The steps that one kernel applies to every image of a batch: moves, at most one interpolation,
/// moves, at most one stencil, and then steps that need no other pixel. Arithmetic on single pixels
/// may be anywhere.
struct PassProgram {
  ProgramStep steps[kMostSteps];
  std::int32_t count;
  std::int32_t interpolation;  ///< index of the interpolation's step, or -1
  std::int32_t stencil;        ///< index of the stencil's step, or count
  std::int32_t statistics;     ///< number of steps with Statistics, all before the stencil
  std::int32_t mask;           ///< the first masking step of plain_steps, or -1
  /// True if the moves before the interpolation (before the stencil, if there is none) never leave
  /// the image: crops without padding and flips, none after an erasing or masking step. They are
  /// then composed into one move, see Prepared.
  bool has_plain_moves;
  bool has_plain_flips;  ///< true if these moves include flips
  bool has_plain_blots;  ///< true if plain_steps include erasing or masking steps
  /// Number of plain_steps: the steps that change values and come before the interpolation (before
  /// the stencil, if there is none).
  std::int32_t plain_count;
  std::int8_t plain_steps[kMostSteps];
  /// True if the moves between the interpolation and the stencil are crops without padding, flips
  /// and at most one warp, which is step `turn` (or -1). The kernels then read the pixels before
  /// the interpolation through shared memory.
  bool is_staged;
  std::int32_t turn;
  bool moves_after;    ///< true if these moves include crops or flips
  bool turns_rigidly;  ///< true if the warp is a rotation or missing: distances of pixels do not
                       ///< change
  bool changes_after;  ///< true if any step between changes values
  std::int32_t in_height;
  std::int32_t in_width;
  std::int32_t out_height;
  std::int32_t out_width;
};

}  // namespace slipstream::augment
