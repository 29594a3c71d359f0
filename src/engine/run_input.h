#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "engine/bound_pipeline.h"
#include "engine/device_step.h"
#include "engine/jpeg_unpacking.h"
#include "engine/run_hooks.h"
#include "slipstream/engine/trainer.h"

namespace slipstream {

/// Where runs take their batches: a loader that goes on from run to run, as long as plan and
/// position do.
class RunInput {
 public:
  /// What the loader, and what unpacks its batches, have counted.
  struct Counted {
    double blocked_s = 0;
    std::vector<StepCounter> counters;
    std::uint64_t skipped_positions = 0;
    JpegResult jpeg = {};
    std::optional<CacheCounters> cache = std::nullopt;
    std::optional<DiskCacheState> disk_cache = std::nullopt;
  };
  /// Of one run.
  struct Source {
    DataLoader* loader = nullptr;  ///< nullptr where batches come from a cache on the device
    Counted before = {};           ///< for earlier runs
  };

  /// Both must outlive this.
  RunInput(const BoundPipeline& bound, const JpegUnpacking& jpeg) : bound_(bound), jpeg_(jpeg) {}

  /// For a run of `lanes` from batch `position` on.
  Source source_for(const Plan& plan, const RunOptions& options, const RunHooks& hooks,
                    const std::vector<LaneBinding>& lanes, std::uint64_t position);
  /// One a slab of the loader, for the copies of its batches.
  std::span<const std::unique_ptr<Mark>> slab_marks() const { return slab_marks_; }
  /// After steps of the training: where the loader stands.
  void move_to(std::uint64_t position) { position_ = position; }
  /// What the run of `source` made of its loader, into its result.
  void count(const Source& source, const Plan& plan, RunResult& result) const;
  /// Ends the loader, which is not where the next run begins.
  void drop() { loader_.reset(); }

 private:
  Counted so_far() const;

  const BoundPipeline& bound_;
  const JpegUnpacking& jpeg_;
  /// Outlive the loader, whose workers wait for them.
  std::vector<std::unique_ptr<Mark>> slab_marks_;
  std::unique_ptr<DataLoader> loader_;
  DataLoaderOptions options_;  ///< what loader_ was made for
  std::uint64_t position_ = 0;
};

}  // namespace slipstream
