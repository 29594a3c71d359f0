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

/// Returns a wire format with fewer bytes for each field that has one: the smallest that preserves
/// every bit, or else one that rounds. A format that depends on the values is tried for one step.
/// Changes the trainer's state.
std::vector<WireChoice> smaller_wires(Trials& trials, const Plan& plan);

/// Returns `plan` with images copied as JPEG files, and with transforms moved to the device if the
/// host would otherwise need decoded images. Returns nothing if the samples, the transforms or the
/// cache do not allow this.
std::optional<Plan> with_jpeg_files(const Pipeline& pipeline, const Plan& plan);

/// Measures how long the device's JPEG engines need for the images of a batch while nothing else
/// runs.
class JpegAlone {
 public:
  /// `plan`: the result of with_jpeg_files().
  explicit JpegAlone(Plan plan) : plan_(std::move(plan)) {}

  /// Throws Refused if the device has no engines, or if they cannot decode most of the files.
  void measure(const Trainer& trainer, const TurnTime& time, const std::function<bool()>& stop);
  bool is_measured() const { return !durations_s_.empty(); }
  /// Batches/s; n = 0 if nothing has been measured.
  Measured rate() const;
  /// Returns the result as a choice for `examined`. REQUIRES: is_measured()
  WireChoice choice(const Plan& examined) const;

 private:
  Plan plan_;
  std::vector<double> durations_s_;
};

}  // namespace slipstream
