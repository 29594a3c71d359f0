#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "slipstream/core/cpu.h"
#include "slipstream/core/error.h"
#include "slipstream/core/lane.h"
#include "slipstream/core/wire.h"
#include "slipstream/plan/loading.h"

namespace slipstream {

enum class Precision : std::uint8_t { tf32, fp32, bf16 };
enum class DeviceKind : std::uint8_t { cpu, cuda };

/// Device steps that share a lane, in order, and the lane's stream priority (0 lowest; clamped to
/// what the device has; no meaning on a CPU).
struct LanePlan {
  std::vector<std::string> steps;
  int priority = 0;
  bool operator==(const LanePlan&) const = default;
};

/// How the loader works. These fields never change a bit of any result.
struct LoaderPlan {
  unsigned num_workers = 1;  ///< threads, at least 1
  /// Batches that are filled ahead by all workers together, at least 1. PyTorch's prefetch_factor
  /// is that of one worker.
  std::size_t prefetch_batches = 4;
  bool pin_memory = true;  ///< page-locked batches; without, copies block the host
  WireFormats wire = {};   ///< of the fields that do not travel plain: those that are exact
  ReadAhead read_ahead = {};
  CpuList cpus = {};  ///< where its threads may run; empty: anywhere
  std::optional<CacheOptions> cache = std::nullopt;
  /// The first transform that the device does, as the step "augment", and with it all that follow;
  /// empty: none.
  std::string on_device = {};
  bool operator==(const LoaderPlan&) const = default;
};

/// How a pipeline is run. Plain data, JSON in and out (docs/plan.md).
struct Plan {
  /// What makes the order of work: these fields never change a bit of any result.
  struct Schedule {
    std::string mode = "pipelined";  ///< "serial" or "pipelined": how `lanes` was made
    /// Device steps (copy, then the stages) on lanes, in order. One lane is serial training.
    std::vector<LanePlan> lanes;
    /// Slots: batches in flight at once, at least the number of lanes. Memory grows with it.
    std::size_t depth = 1;
    /// Batches that the host enqueues beyond `depth` before it waits for the device, at least 1.
    std::size_t run_ahead = 2;
    /// Who calls the lanes: one host thread, or one a lane (CPU lanes overlap only then; on a GPU
    /// the lanes' launches do not wait for each other).
    Driver driver = Driver::threaded;
    LoaderPlan loader;
    bool operator==(const Schedule&) const = default;
  };
  /// What may change the last bits: plans are compared bit for bit, and `auto` chooses, only among
  /// plans that are equal in these.
  struct Numerics {
    Precision precision = Precision::tf32;
    bool channels_last = true;
    /// Deterministic algorithms only; nothing chosen by timing. Always on for CPU lanes.
    bool deterministic = false;
    /// cuDNN measures its algorithms on the first batch. Refused together with `deterministic`.
    bool cudnn_benchmark = true;
    /// Threads inside an operation on CPU lanes, per stage ("*": every other stage).
    std::map<std::string, unsigned> intra_op_threads = {{"*", 1}};
    WireFormats wire;  ///< those that are not exact: bf16, f16 and jpeg
    /// JPEGs that the first transform shrinks are decoded at a fraction of their size.
    bool scaled_decoding = false;
    bool operator==(const Numerics&) const = default;
  };
  Schedule schedule;
  Numerics numerics;
  bool operator==(const Plan&) const = default;
};

/// The plan of `mode` ("serial" or "pipelined") for a pipeline with these device steps ("copy"
/// first, the training stage last). serial: one lane. pipelined: a lane for each step, the training
/// lane at the highest priority, one slot more than lanes on a GPU. On a CPU lanes are threads,
/// nothing is pinned, and the numerics become deterministic; deterministic numerics never let
/// cuDNN choose by timing. Throws Refused for another mode.
Plan make_plan(const std::string& mode, const std::vector<std::string>& steps, DeviceKind device,
               const LoaderPlan& loader, const Plan::Numerics& numerics);

/// Puts the lane that ends with `step`, if there is one and another follows, onto the next: both
/// keep the next one's priority, and a slot is saved.
void join_next_lane(Plan& plan, const std::string& step);

/// Everything that is wrong with `plan` for these steps and this device, each with its remedy;
/// empty when the plan can be run.
std::vector<std::string> problems_of(const Plan& plan, const std::vector<std::string>& steps,
                                     DeviceKind device);
/// Throws Refused with all of problems_of, one a line.
void validate(const Plan& plan, const std::vector<std::string>& steps, DeviceKind device);

/// JSON with "version": 1. parse_plan throws Refused for what is not JSON, a wrong type or value,
/// another version, a missing "lanes" or an unknown key (with the nearest known one), naming the
/// key's path; all problems at once. Keys other than "lanes" may be left out.
std::string to_json(const Plan& plan);
Plan parse_plan(std::string_view json);

/// The wire formats of both parts.
WireFormats wire_formats(const Plan& plan);

std::string_view name_of(Precision precision);
Precision precision_named(const std::string& name);  ///< throws Refused

}  // namespace slipstream
