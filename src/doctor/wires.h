#pragma once

#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "doctor/trials.h"
#include "doctor/turn_time.h"
#include "slipstream/doctor/diagnosis.h"
#include "slipstream/engine/trainer.h"

namespace slipstream {

/// Formats in which fields would travel in fewer bytes than they do, the smallest that keeps every
/// bit; where none does, one that rounds. Formats that depend on the values are tried for one step.
/// Changes the trainer's state.
std::vector<WireChoice> smaller_wires(Trials& trials, const Plan& plan);

/// `plan` with its images as JPEG files, and as many transforms on the device as then must be
/// there; nothing where the samples, the chain or the cache do not allow it.
std::optional<Plan> with_jpeg_files(const Pipeline& pipeline, const Plan& plan);

/// How long the device's JPEG engines take for the images of a batch, alone.
class JpegAlone {
 public:
  /// `plan`: as with_jpeg_files() makes it.
  explicit JpegAlone(Plan plan) : plan_(std::move(plan)) {}

  /// Throws Refused where the device has no engines, or they do not take most of the files.
  void measure(const Trainer& trainer, const TurnTime& time, const std::function<bool()>& stop);
  bool is_measured() const { return !durations_s_.empty(); }
  /// Batches/s; n = 0 where nothing is measured.
  Measured rate() const;
  /// What it would be in place of `examined`. REQUIRES: is_measured()
  WireChoice choice(const Plan& examined) const;

 private:
  Plan plan_;
  std::vector<double> durations_s_;
};

}  // namespace slipstream
