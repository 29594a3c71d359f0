#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "slipstream/doctor/diagnosis.h"

namespace slipstream {

/// Measures how much `threads` threads do at the same time, for about 0.2 s. The number of cores is
/// not enough: control groups, hyperthreads and clock rates change it. Any thread may call this.
MachineCapacity measure_capacity(unsigned threads);

/// A model of a pipeline: measured costs, from which a simulation computes the time of a step.
/// Workers take samples in order, run the host steps one after the other and share the cores. The
/// line, which is the thread that trains, takes full batches in order and returns their slabs. If
/// costs vary little, the result is T = max(line, sum of the steps / workers, sum of CPU times /
/// cores).
struct PipelineModel {
  /// Cost of one host step for each sample if nothing else runs: the time that it waits without a
  /// core (for storage, asleep), and the time that it works. Sample i has the values at index i
  /// modulo their number. The two vectors have the same length and are not empty.
  struct Step {
    std::string name;
    Bottleneck group = Bottleneck::transforms;
    std::vector<float> waiting_s;
    std::vector<float> working_s;
    /// Share of the step that only one worker at a time can execute, because it holds a lock.
    double locked = 0;
    /// Whether the work is limited by the memory bandwidth, which all workers share.
    bool is_memory_bound = false;
  };
  std::vector<Step> steps;
  unsigned workers = 1;
  std::size_t batch_size = 1;
  std::size_t slabs = 4;             ///< batches that are filled or in use at once
  std::size_t slabs_per_worker = 0;  ///< number of slabs that each additional worker adds
  MachineCapacity capacity;
  /// Seconds from the time when a batch is ready until the next one may begin, without
  /// line_working_s. 0 if batches are discarded.
  double line_waiting_s = 0;
  double line_working_s = 0;  ///< CPU time that the line uses for a batch
  /// Number of threads that only run the first step, in advance; 0: workers run it.
  unsigned readers = 0;

  const Step* find(std::string_view name) const;
  /// Sets the number of workers, and the number of slabs if it depends on that.
  void set_workers(unsigned n);
};

/// Returns the model that was fitted to the measurements, with any contention between workers.
PipelineModel fitted_model(const Observations& observed);

/// Predicts the rate, in steps/s, of the pipeline if its model changes from `now` to `then`. The
/// interval includes the noise of the measurements and `model_error`. n = 0 if the pipeline was not
/// measured.
Measured predicted_rate(const Observations& observed, const PipelineModel& now,
                        const PipelineModel& then, double model_error);

/// Seconds per step in the steady state. `seed` selects the first measured value that is used, so
/// that several seeds show how much the result depends on chance.
/// REQUIRES: workers, batch_size and slabs are at least 1
double simulated_step_s(const PipelineModel& model, std::uint64_t seed = 0);

}  // namespace slipstream
