#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "slipstream/doctor/diagnosis.h"

namespace slipstream {

/// Measures it for about 0.2 s: control groups, hyperthreads and clocks included. From any thread.
MachineCapacity measure_capacity(unsigned threads);

/// How a pipeline's parts share its time: costs that were measured, put together by simulation.
/// Workers take samples in order, go through the host steps one after the other and share the
/// cores; the training line takes full batches in order and gives their slabs back. With costs that
/// vary little this is T = max(line, sum of the steps / workers, sum of CPU times / cores).
struct PipelineModel {
  /// What a sample costs in one host step, nothing else running: waiting (for storage, sleeping)
  /// and working. Sample i has the i-th values, taken in turn. Not empty, of one length each.
  struct Step {
    std::string name;
    Bottleneck group = Bottleneck::transforms;
    std::vector<float> waiting_s;
    std::vector<float> working_s;
    /// Share of the step that only one worker is in at once.
    double locked = 0;
    /// Of work that is bound by memory, which all workers share.
    bool is_memory_bound = false;
  };
  std::vector<Step> steps;
  unsigned workers = 1;
  std::size_t batch_size = 1;
  std::size_t slabs = 4;             ///< batches that are filled or in use at once
  std::size_t slabs_per_worker = 0;  ///< more workers bring so many more each
  MachineCapacity capacity;
  /// Of a batch, once it is there, until the next may begin; none (0) where batches are thrown
  /// away.
  double line_waiting_s = 0;
  double line_working_s = 0;  ///< of it, CPU time of the thread that drives it
  /// Threads that only read ahead (the first step); 0: workers read themselves.
  unsigned readers = 0;

  const Step* find(std::string_view name) const;
  /// With the slabs that they bring.
  void set_workers(unsigned n);
};

/// The model that explains what was measured: also where workers wait for each other.
PipelineModel fitted_model(const Observations& observed);

/// The rate, steps/s, that `change` makes of the observed one, with an interval that holds those of
/// the measurements and the model's own error.
Measured predicted_rate(const Observations& observed, const PipelineModel& now,
                        const PipelineModel& then, double model_error);

/// Seconds a step in the steady state. `seed` chooses where in the measured values it begins.
/// REQUIRES: workers, batch_size, slabs at least 1
double simulated_step_s(const PipelineModel& model, std::uint64_t seed = 0);

}  // namespace slipstream
