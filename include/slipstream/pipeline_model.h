#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace slipstream {

/// What can hold a pipeline up, as the doctor names it.
enum class Culprit : std::uint8_t {
  gpu,                  ///< the device is busy: input keeps up with it
  copy,                 ///< batches on their way to the device
  transforms,           ///< per-sample transforms and collating, on loader threads
  decode,               ///< making pixels of file bytes
  raw_reading,          ///< getting at file bytes
  launch,               ///< the host enqueues the device's work more slowly than that is done
  lock,                 ///< workers wait for each other
  memory_bandwidth,     ///< workers wait for memory
  none,                 ///< input keeps up, and the device is not full
  not_enough_evidence,  ///< the intervals are too wide to say
};
std::string_view name_of(Culprit culprit);
/// Throws Refused for any other name.
Culprit culprit_named(std::string_view name);

/// How many threads' worth of work a machine does when `threads` of them work at once; of memory,
/// how many threads' worth of reading.
struct MachineCapacity {
  double cores = 1;
  double memory_streams = 1;
  double copy_bytes_per_second = 4e9;  ///< by one thread, between blocks larger than caches
};
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
    Culprit group = Culprit::transforms;
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
  std::size_t slabs = 4;  ///< batches that are filled or in use at once
  MachineCapacity capacity;
  /// Of a batch, once it is there, until the next may begin; none (0) where batches are thrown
  /// away.
  double line_waiting_s = 0;
  double line_working_s = 0;  ///< of it, CPU time of the thread that drives it
  /// Threads that only read ahead (the first step); 0: workers read themselves.
  unsigned readers = 0;

  const Step* find(std::string_view name) const;
};

/// Seconds a step in the steady state. `seed` chooses where in the measured values it begins.
/// REQUIRES: workers, batch_size, slabs at least 1
double simulated_step_s(const PipelineModel& model, std::uint64_t seed = 0);

}  // namespace slipstream
