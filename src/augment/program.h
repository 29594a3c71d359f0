#pragma once

#include <cstddef>
#include <cstdint>

#include "slipstream/pixel.h"

namespace slipstream::augment {

enum class StepKind : std::uint8_t {
  // Where a pixel comes from.
  crop,         ///< DrawnCrop; 0 outside of the image
  flip_across,  ///< HorizontalFlip::Drawn
  flip_down,    ///< VerticalFlip::Drawn
  warp,         ///< DrawnWarp
  resize,       ///< all of the image
  resize_crop,  ///< DrawnCrop
  // What becomes of it.
  to_float,
  normalise,
  // From its neighbours.
  blur,  ///< DrawnBlur
};

/// One operation, as a kernel sees it: what is the same for all samples, and where in a sample's
/// block the rest lies.
struct ProgramStep {
  StepKind kind;
  Range range;        ///< of the values before it
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
  float mean[4];
  float std[4];
};

inline constexpr int kMostSteps = 32;

/// What one kernel does to every image of a batch: moves, at most one interpolation, moves, at most
/// one stencil, and then what needs no other pixel; pixels' own arithmetic anywhere.
struct PassProgram {
  ProgramStep steps[kMostSteps];
  std::int32_t count;
  std::int32_t interpolation;  ///< its step, or -1
  std::int32_t stencil;        ///< its step, or count
  /// Whether the moves before the interpolation (before the stencil, where there is none) never
  /// leave the image: crops without padding and flips. They are then one step, see Prepared.
  bool has_plain_moves;
  std::int32_t plain_count;  ///< of the steps before it that change values
  std::int8_t plain_steps[kMostSteps];
  std::int32_t in_height;
  std::int32_t in_width;
  std::int32_t out_height;
  std::int32_t out_width;
};

}  // namespace slipstream::augment
