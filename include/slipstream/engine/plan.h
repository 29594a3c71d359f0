#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "slipstream/core/error.h"
#include "slipstream/core/lane.h"
#include "slipstream/loader/loading.h"

namespace slipstream {

/// The arithmetic of the device steps. docs/plan.md says what each value means.
enum class Precision : std::uint8_t { tf32, fp32, bf16, fp16 };
/// The kind of device that trains.
enum class DeviceKind : std::uint8_t { cpu, cuda };

/// The device steps that one lane does. A lane is a place where work is done in order: on a GPU a
/// CUDA stream, on a CPU a host thread.
struct LanePlan {
  std::vector<std::string> steps;  ///< in the pipeline's order
  int priority = 0;  ///< the stream's: 0 lowest, clamped to what the device has; unused on a CPU
  bool operator==(const LanePlan&) const = default;
};

/// How the loader works. No field changes a bit of any result, for `wire` holds exact forms only;
/// Plan::Numerics::wire has the others.
struct LoaderPlan : LoadingOptions {
  bool pin_memory = true;  ///< whether batches are page-locked; otherwise copies block the host
  /// The name of the first transform that the device applies. It applies this one and all that
  /// follow, as the step "augment". Empty: the loader applies all of them.
  std::string on_device = {};
  bool operator==(const LoaderPlan&) const = default;
};

/// How a pipeline is run. A plan is plain data that can be written as JSON (docs/plan.md).
struct Plan {
  /// The order of work. No field changes a bit of any result.
  struct Schedule {
    std::string mode = "pipelined";  ///< "serial" or "pipelined": how `lanes` was made
    /// The lanes, with all device steps (copy, then the stages) in order. With one lane, training
    /// is serial.
    std::vector<LanePlan> lanes;
    /// Batches in flight at once, at least the number of lanes. Memory grows with it.
    std::size_t depth = 1;
    /// Batches that the host enqueues beyond `depth` before it waits for the device, at least 1.
    std::size_t run_ahead = 2;
    /// Which host threads enqueue the lanes' work: one for all, or one for each lane. Lanes on a
    /// CPU overlap only with one for each. On a GPU the lanes' launches then do not wait for each
    /// other.
    Driver driver = Driver::threaded;
    LoaderPlan loader;
    bool operator==(const Schedule&) const = default;
  };
  /// What may change the last bits of a result. Results can be compared bit for bit only between
  /// plans that are equal here, and `auto` chooses only among such plans.
  struct Numerics {
    Precision precision = Precision::tf32;
    bool channels_last = true;  ///< whether weights are channels-last in memory; images always are
    /// Whether only deterministic algorithms are used, and none is chosen by timing. Must be true
    /// on a CPU.
    bool deterministic = false;
    /// Whether cuDNN chooses algorithms by timing them on the first batch. A plan that also asks
    /// for `deterministic` is refused.
    bool cudnn_benchmark = true;
    /// Threads inside an operation on CPU lanes, by step; "*" stands for every step not named.
    std::map<std::string, unsigned> intra_op_threads = {{"*", 1}};
    WireFormats wire;  ///< the forms that change values, in which fields travel: bf16, fp16, jpeg
    /// Whether JPEGs that the first transform shrinks are decoded at a fraction of their size.
    bool scaled_decoding = false;
    bool operator==(const Numerics&) const = default;
  };
  Schedule schedule;
  Numerics numerics;
  bool operator==(const Plan&) const = default;
};

/// Makes the plan of `mode` for a pipeline with these device steps ("copy" first, the training
/// stage last). "serial" has one lane. "pipelined" has a lane for each step, the training lane at
/// the highest priority, and on a GPU one more batch in flight than lanes. For a CPU nothing is
/// page-locked, and the numerics become deterministic. Deterministic numerics never let cuDNN
/// choose by timing. Throws Refused for another mode.
Plan make_plan(const std::string& mode, const std::vector<std::string>& steps, DeviceKind device,
               const LoaderPlan& loader, const Plan::Numerics& numerics);

/// Joins the lane that ends with `step` with the lane that follows it. The joined lane has the
/// priority of the second one, and `depth` is one less. Does nothing where no lane ends with `step`
/// or none follows.
void join_next_lane(Plan& plan, const std::string& step);

/// All that is wrong with `plan` for these device steps and this device, each with its remedy.
/// Empty where the plan can be run.
std::vector<std::string> find_problems(const Plan& plan, const std::vector<std::string>& steps,
                                       DeviceKind device);
/// Throws Refused with all of find_problems(), one in each line, where there are any.
void validate(const Plan& plan, const std::vector<std::string>& steps, DeviceKind device);

/// The plan as JSON with "version": 1.
std::string to_json_text(const Plan& plan);
/// The plan that JSON text holds. Keys other than "lanes" may be left out. Throws Refused, with all
/// problems at once and the path of each key, for text that is not JSON, a wrong type or value,
/// another version, a missing "lanes" or an unknown key (with the nearest known one).
Plan parse_plan(std::string_view json);

/// The forms in which fields travel, of schedule and numerics together.
WireFormats wire_formats(const Plan& plan);

/// The enumerator's name: "tf32", "fp32", "bf16" or "fp16".
std::string_view to_string(Precision precision);
/// The precision of that name. Throws Refused for another name.
Precision precision_named(const std::string& name);

}  // namespace slipstream
