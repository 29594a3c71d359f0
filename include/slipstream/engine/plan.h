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

/// The arithmetic of the device steps. docs/plan.md explains each value.
enum class Precision : std::uint8_t { tf32, fp32, bf16, fp16 };
/// The kind of device that trains.
enum class DeviceKind : std::uint8_t { cpu, cuda };

/// The device steps of one lane. A lane executes its work in order: on a GPU it is a CUDA stream,
/// on a CPU a host thread.
struct LanePlan {
  std::vector<std::string> steps;  ///< in the pipeline's order
  /// Priority of the CUDA stream: 0 is lowest, clamped to the device's range; unused on a CPU.
  int priority = 0;
  bool operator==(const LanePlan&) const = default;
};

/// How the loader works. No field changes a bit of any result: `wire` contains only exact formats.
/// The others are in Plan::Numerics::wire.
struct LoaderPlan : LoadingOptions {
  bool pin_memory = true;  ///< whether host batches are page-locked; if not, copies block the host
  /// The name of the first transform that the device applies. It applies this one and all that
  /// follow, as the step "augment". Empty: the loader applies all of them.
  std::string on_device = {};
  bool operator==(const LoaderPlan&) const = default;
};

/// How a pipeline is run. A plan is plain data that can be written as JSON (docs/plan.md).
struct Plan {
  /// The schedule of the work. No field changes a bit of any result.
  struct Schedule {
    /// "serial", "pipelined" or "graph": how `lanes` was made.
    std::string mode = "pipelined";
    /// The lanes, with all device steps (copy, then the stages) in order. With one lane, training
    /// is serial.
    std::vector<LanePlan> lanes;
    /// The number of batches in flight at once, at least the number of lanes. Device memory grows
    /// with it.
    std::size_t depth = 1;
    /// Batches that the host enqueues beyond `depth` before it waits for the device, at least 1.
    std::size_t run_ahead = 2;
    /// Which host threads enqueue the lanes' work: one thread for all lanes, or one for each. On a
    /// CPU, lanes overlap only with one thread for each. On a GPU, one thread for each lane means
    /// that launching the work of one lane does not delay another.
    Driver driver = Driver::threaded;
    /// Whether stages and the training step are recorded as CUDA graphs after a few batches, and
    /// then replayed. The host launches a graph with one call, so the device does not wait for
    /// launches. Must be false on a CPU.
    bool graphs = false;
    LoaderPlan loader;
    bool operator==(const Schedule&) const = default;
  };
  /// Settings that may change the last bits of a result. Results can be compared bit for bit only
  /// between plans with equal numerics, and `auto` chooses only among such plans.
  struct Numerics {
    Precision precision = Precision::tf32;
    bool channels_last = true;  ///< whether weights are stored channels-last; images always are
    /// Whether only deterministic algorithms are used, and no algorithm is chosen by timing. Must
    /// be true on a CPU.
    bool deterministic = false;
    /// Whether cuDNN chooses algorithms by timing them on the first batch. A plan that also asks
    /// for `deterministic` is refused.
    bool cudnn_benchmark = true;
    /// Number of threads inside an operation on CPU lanes, by step. "*" applies to every step that
    /// is not named.
    std::map<std::string, unsigned> intra_op_threads = {{"*", 1}};
    WireFormats wire;  ///< wire formats that change values: bf16, fp16, jpeg
    /// Whether JPEG files that the first transform shrinks are decoded at reduced resolution.
    bool scaled_decoding = false;
    bool operator==(const Numerics&) const = default;
  };
  Schedule schedule;
  Numerics numerics;
  bool operator==(const Plan&) const = default;
};

/// Returns true if `name` is a mode, the name of a plan that make_plan() makes: "serial",
/// "pipelined" or "graph".
bool is_plan_mode(const std::string& name);
/// Returns the error message for a name that is neither a mode nor one of `others`. It contains all
/// names that are accepted.
std::string unknown_plan(const std::string& name, std::vector<std::string> others = {});

/// Makes the plan of `mode` for a pipeline with these device steps ("copy" first, the training
/// stage last). "serial" has one lane. "pipelined" has a lane for each step, the training lane at
/// the highest priority, and on a GPU one more batch in flight than lanes. "graph" has the lanes of
/// "pipelined", with CUDA graphs; for a CPU, which has no graphs, it is "pipelined". For a CPU
/// nothing is page-locked, and the numerics become deterministic. Deterministic numerics never let
/// cuDNN choose by timing. Throws Refused for another mode.
Plan make_plan(const std::string& mode, const std::vector<std::string>& steps, DeviceKind device,
               const LoaderPlan& loader, const Plan::Numerics& numerics);

/// Merges the lane that ends with `step` and the lane that follows it. The merged lane has the
/// priority of the second one, and `depth` decreases by one. Does nothing if no lane ends with
/// `step` or no lane follows.
void join_next_lane(Plan& plan, const std::string& step);

/// Returns all problems of `plan` for these device steps and this device, each with its remedy.
/// Empty if the plan can be run.
std::vector<std::string> find_problems(const Plan& plan, const std::vector<std::string>& steps,
                                       DeviceKind device);
/// Throws Refused with all problems that find_problems() returns, one on each line, if there are
/// any.
void validate(const Plan& plan, const std::vector<std::string>& steps, DeviceKind device);

/// Returns the plan as JSON with "version": 1.
std::string to_json_text(const Plan& plan);
/// Parses a plan from JSON. Keys other than "lanes" may be omitted. Throws Refused, with all
/// problems at once and the path of each key, if the text is not JSON, a type or value is wrong,
/// the version is another one, "lanes" is missing, or a key is unknown (with the nearest known
/// one).
Plan parse_plan(std::string_view json);

/// Returns the wire formats of all fields, from schedule and numerics together.
WireFormats wire_formats(const Plan& plan);

/// Returns the enumerator's name: "tf32", "fp32", "bf16" or "fp16".
std::string_view to_string(Precision precision);
/// Returns the precision of that name. Throws Refused for any other name.
Precision precision_named(const std::string& name);

}  // namespace slipstream
