#include <algorithm>

#include "doctor/model_parts.h"
#include "slipstream/core/error.h"

namespace slipstream {
namespace {

/// Returns the bytes of the sample that enters the first of the replaced steps.
double sent_bytes(const Observations& observed, const std::vector<AssumedCost>& replaced) {
  double bytes = 0;
  for (const HostStepCost& cost : observed.host) {
    if (cost.is_inside) continue;
    const bool is_replaced =
        std::any_of(replaced.begin(), replaced.end(),
                    [&cost](const AssumedCost& each) { return each.step == cost.name; });
    if (is_replaced) break;
    bytes = cost.bytes;
  }
  return bytes;
}

/// Returns the seconds in which the loader's threads copy a sample to its position in the batch. A
/// sample from a worker process is also copied to memory that both processes share, and out of it.
double collating_s(const Observations& observed, const NativePort& port) {
  double bytes = observed.host.back().bytes;
  if (port.has_worker_processes) bytes += 2 * sent_bytes(observed, port.steps);
  return bytes / observed.capacity.copy_bytes_per_second;
}

/// Returns the seconds of a step whose batch is ready. Batches are copied to the device in advance,
/// on a separate stream, so that the slower of the copy and the step is the limit.
double line_s(const Observations& observed, const PipelineModel& now) {
  const auto ceiling = level_rate(observed, kDeviceLevel);
  if (!ceiling || ceiling->value <= 0) return now.line_waiting_s + now.line_working_s;
  double longest_s = 1 / ceiling->value;
  for (const DeviceCost& cost : observed.device)
    if (cost.name == "copy") longest_s = std::max(longest_s, cost.seconds.value);
  return longest_s;
}

}  // namespace

Change port_to_native(const Observations& observed, const Diagnosis& diagnosis,
                      const NativePort& port) {
  const PipelineModel& now = *diagnosis.model;
  ensure(!observed.host.empty(), "a loader has host steps");
  std::vector<AssumedCost> costs;
  for (const PipelineModel::Step& step : now.steps)
    if (step.group == Bottleneck::collate) costs.push_back({step.name, 0});
  costs.push_back({now.steps.back().name, collating_s(observed, port)});
  costs.insert(costs.end(), port.steps.begin(), port.steps.end());
  Change change = what_if(observed, diagnosis, costs);
  change.id = "native_transforms";
  change.effort = Effort::code;
  change.bottleneck = Bottleneck::transforms;
  change.model = [costs = std::move(change.model), of_line_s = line_s(observed, now),
                  working_s = observed.line_cpu_s](PipelineModel& model) {
    costs(model);
    model.set_workers(std::max(1U, model.workers));
    model.slabs = std::max<std::size_t>(2, model.slabs);
    model.line_working_s = std::min(of_line_s, working_s);
    model.line_waiting_s = of_line_s - model.line_working_s;
  };
  PipelineModel then = now;
  change.model(then);
  change.predicted = predicted_rate(observed, now, then, diagnosis.model_error);
  change.gain = ratio(change.predicted, diagnosis.rate);
  return change;
}

}  // namespace slipstream
