#include "engine/run_memory.h"

namespace slipstream {

RunMemory::RunMemory(std::size_t depth, const std::vector<LaneBinding>& lanes, c10::Device device,
                     const MakeRecorder& make_recorder)
    : slots(depth) {
  for (Slot& slot : slots) slot.parts.resize(lanes.size());
  if (!make_recorder) return;
  for (const LaneBinding& lane : lanes) {
    auto& of_lane = graphs.emplace_back();
    for (const DeviceStep& step : lane.steps) {
      auto& own = of_lane.emplace_back();
      if (!step.may_have_graph) continue;
      const bool trains = step.kind == DeviceStep::Kind::train;
      own = std::make_unique<StepGraphs>(step.name, make_recorder(device, trains), depth);
      if (step.frozen != nullptr && !step.frozen->no_graph_reason.empty())
        own->disable(step.frozen->no_graph_reason);
    }
  }
}

StepGraphs* RunMemory::find_graphs(std::size_t lane, std::size_t step) const {
  return graphs.empty() ? nullptr : graphs[lane][step].get();
}

std::vector<const Fields*> RunMemory::own(std::size_t slot) {
  std::vector<const Fields*> all = {&slots.slot(slot).slab.fields};
  for (const Fields& part : slots.slot(slot).parts) all.push_back(&part);
  for (const auto& lane : graphs)
    for (const auto& step : lane)
      if (step != nullptr)
        for (const Fields* fields : step->fields(slot)) all.push_back(fields);
  return all;
}

bool RunMemory::is_result(std::size_t slot, const at::Tensor& tensor) const {
  for (const auto& lane : graphs)
    for (const auto& step : lane)
      if (step != nullptr && step->is_result(slot, tensor)) return true;
  return false;
}

GraphCounts RunMemory::take_counts() const {
  GraphCounts all;
  for (const auto& lane : graphs)
    for (const auto& step : lane)
      if (step != nullptr) all.add(step->take_counts());
  return all;
}

}  // namespace slipstream
