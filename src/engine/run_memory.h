#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "core/slot_ring.h"
#include "engine/device_slab.h"
#include "engine/device_step.h"
#include "engine/step_graphs.h"

namespace slipstream {

/// Device memory of one batch in flight.
struct Slot {
  DeviceSlab slab;
  std::vector<Fields> parts;  ///< for each lane, the tensors that it stored in this slot
  /// Held to change slab, parts or the slot's graphs, and to look at those of other lanes.
  std::mutex changing;
};

/// The slots of a run, and the graphs that read and write their memory. Under a plan with graphs,
/// a trainer keeps it for the next run.
struct RunMemory {
  /// Makes slots without slabs. `make_recorder`: empty if no step gets a graph.
  RunMemory(std::size_t depth, const std::vector<LaneBinding>& lanes, c10::Device device,
            const MakeRecorder& make_recorder);

  bool has_graphs() const { return !graphs.empty(); }
  /// Returns the graphs of a step; nullptr if it never has any.
  StepGraphs* find_graphs(std::size_t lane, std::size_t step) const;
  /// Returns all collections of a slot that hold tensors.
  std::vector<const Fields*> own(std::size_t slot);
  /// Returns true if a graph of the slot writes its results to the memory of `tensor`.
  bool is_result(std::size_t slot, const at::Tensor& tensor) const;
  GraphCounts take_counts() const;

  SlotRing<Slot> slots;
  std::vector<std::vector<std::unique_ptr<StepGraphs>>> graphs;  ///< [lane][step]
};

}  // namespace slipstream
