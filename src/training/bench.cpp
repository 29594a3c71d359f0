#include "training/bench.h"

#include <algorithm>
#include <map>
#include <optional>

#include "engine/message.h"
#include "engine/steady_rate.h"
#include "slipstream/engine/trainer.h"
#include "training/input.h"

namespace slipstream {
namespace {

constexpr std::uint64_t kFewestSteps = 8;

/// A plan and the device of its transforms, named as in BenchRow.
struct Variant {
  std::string plan, transforms_device;
  bool operator==(const Variant&) const = default;
};

struct Measurement {
  Variant variant;
  Plan how;
  RunOptions run = {};
  SteadyRate steady = SteadyRate();  ///< rate of steps whose batches come from a loader
  /// Durations of all steps except the first ones of each round.
  std::vector<double> durations_s = {};
};

void refuse_repeated(const std::string& what, const std::vector<std::string>& names) {
  if (names.empty()) throw Refused("give at least one " + what);
  for (std::size_t i = 0; i < names.size(); ++i)
    if (std::find(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(i), names[i]) !=
        names.begin() + static_cast<std::ptrdiff_t>(i))
      throw Refused(what + " '" + names[i] + "' is named twice");
}

std::vector<Variant> list_variants(const BenchOptions& options) {
  std::vector<Variant> variants;
  for (const std::string& plan : options.plans)
    for (const std::string& device : options.transforms_devices) variants.push_back({plan, device});
  return variants;
}

std::vector<Measurement> plan_measurements(const Trainer& trainer, const BenchOptions& options) {
  const auto build_plan = [&](const Variant& variant) {
    return placed_plan(trainer.pipeline(), variant.plan, variant.transforms_device,
                       trainer.context().kind(), options.loader, options.numerics);
  };
  std::vector<Measurement> all;
  for (const Variant& variant : list_variants(options)) {
    all.push_back({variant, build_plan(variant)});
    all.back().run.cut = parse_cut(options.input);
  }
  for (const std::string& device : options.transforms_devices) {
    const Plan lanes = build_plan({"pipelined", device});
    std::string after = "collate";
    for (const LanePlan& lane : lanes.schedule.lanes) {
      const std::string& last = lane.steps.back();
      all.push_back({{"alone:" + last, device}, lanes});
      all.back().run.cut = Cut{after, after == "collate" ? kCachedBatches : 1};
      all.back().run.last_step = last;
      after = last;
    }
  }
  for (Measurement& m : all) {
    m.run.digest = false;
    m.run.check_loss = false;
    m.run.stop = options.stop;
  }
  return all;
}

/// Returns the smallest number of steps for a valid rate. If prefetched batches may have been the
/// input of `run`, more steps are needed, so that some are left after those batches have been used
/// up.
std::uint64_t fewest_steps(const Measurement& m, const RunResult& run, std::size_t batch_size) {
  SteadyRate rate(m.run.cut);
  if (m.run.cut || (rate.add(run, batch_size) && rate.is_conclusive())) return kFewestSteps;
  return batches_ahead(m.how.schedule) + m.how.schedule.lanes.size() + kFewestSteadySteps;
}

/// Returns the number of steps that fit into the time. Measures this in a short run, after one that
/// warms everything up.
std::uint64_t steps_for(Trainer& trainer, Measurement& m, const BenchOptions& options) {
  m.run.steps = std::min(options.steps, kFewestSteps);
  trainer.run(m.how, m.run);
  const RunResult run = trainer.run(m.how, m.run);
  const double fitting = std::clamp(run.steps_per_second.value * options.seconds, 0.0,
                                    static_cast<double>(options.steps));
  const std::uint64_t fewest = fewest_steps(m, run, trainer.pipeline().options().batch_size);
  return std::min(options.steps, std::max(static_cast<std::uint64_t>(fitting), fewest));
}

void measure(Trainer& trainer, Measurement& m) {
  const RunResult result = trainer.run(m.how, m.run);
  if (!m.run.cut) m.steady.add(result, trainer.pipeline().options().batch_size);
  // The first fifth of a run's steps is left out, because the run has not reached its steady state.
  const std::size_t first = std::max<std::size_t>(1, result.step_end_s.size() / 5);
  for (std::size_t i = first; i < result.step_end_s.size(); ++i)
    m.durations_s.push_back(result.step_end_s[i] - result.step_end_s[i - 1]);
}

/// Returns the rate. If prefetched batches may have been the input of nearly all steps, the
/// interval reaches down to 0.
Measured measured_rate(const Measurement& m) {
  if (m.steady.steps() >= kFewestSteadySteps) return m.steady.rate();
  Measured rate = rate_from_durations(m.durations_s, "steps/s");
  if (!m.run.cut) rate.low = 0;
  return rate;
}

bool is_alone(const BenchRow& row) { return row.plan.starts_with("alone:"); }

std::optional<Measured> slowest_lane(const std::vector<BenchRow>& rows, const BenchRow& of) {
  std::optional<Measured> slowest;
  for (const BenchRow& row : rows) {
    const bool same = row.transforms_device == of.transforms_device;
    if (is_alone(row) && same && row.steps_per_second &&
        (!slowest || row.steps_per_second->value < slowest->value))
      slowest = row.steps_per_second;
  }
  return slowest;
}

std::optional<Measured> find_rate(const std::vector<BenchRow>& rows, const Variant& variant) {
  for (const BenchRow& row : rows)
    if (Variant{row.plan, row.transforms_device} == variant) return row.steps_per_second;
  return std::nullopt;
}

void add_comparisons(std::vector<BenchRow>& rows) {
  for (BenchRow& row : rows) {
    if (!row.steps_per_second || is_alone(row)) continue;
    const auto over = [&](const std::optional<Measured>& base) -> std::optional<Measured> {
      if (!base) return std::nullopt;
      return ratio(*row.steps_per_second, *base);
    };
    const auto slowest = slowest_lane(rows, row);
    const auto serial = find_rate(rows, {"serial", row.transforms_device});
    row.share_of_slowest_lane = over(slowest);
    row.gain = over(serial);
    if (row.transforms_device == "cuda")
      row.offloading_gain = over(find_rate(rows, {row.plan, "cpu"}));
    if (slowest && serial && row.plan != "serial")
      row.overlap_efficiency = overlap_efficiency(*serial, *row.steps_per_second, *slowest);
  }
}

/// Returns the text that describes a measurement in progress messages.
std::string variant_name(const Variant& variant, const BenchOptions& options) {
  const bool one = options.transforms_devices.size() == 1;
  return one ? variant.plan : variant.plan + ", transforms " + variant.transforms_device;
}

std::vector<BenchRow> bench_batch_size(Trainer& trainer, std::size_t batch_size,
                                       const BenchOptions& options) {
  std::vector<Measurement> all = plan_measurements(trainer, options);
  const auto stopped = [&] { return options.stop && options.stop(); };
  for (Measurement& m : all)
    if (!stopped()) m.run.steps = steps_for(trainer, m, options);
  for (unsigned round = 0; round < options.repeats; ++round)
    for (Measurement& m : all) {
      if (stopped()) break;
      if (options.log_line)
        options.log_line("batch size " + std::to_string(batch_size) + ", round " +
                         std::to_string(round + 1) + "/" + std::to_string(options.repeats) + ": " +
                         variant_name(m.variant, options));
      measure(trainer, m);
    }
  std::vector<BenchRow> rows;
  for (const Measurement& m : all) {
    BenchRow& row = rows.emplace_back();
    row.batch_size = batch_size;
    row.plan = m.variant.plan;
    row.transforms_device = m.variant.transforms_device;
    row.input = m.run.cut ? (m.run.cut->after == "collate" ? "host" : "device") : "loader";
    if (m.durations_s.empty())
      row.error = kInterruptedRow;
    else
      row.steps_per_second = measured_rate(m);
  }
  add_comparisons(rows);
  return rows;
}

}  // namespace

std::vector<BenchRow> run_bench(Context& context, const std::function<Pipeline(std::size_t)>& make,
                                const BenchOptions& options) {
  // Options that are invalid for every batch size are refused before anything is measured.
  parse_cut(options.input);
  refuse_repeated("plan", options.plans);
  refuse_repeated("transforms device", options.transforms_devices);
  for (const std::string& plan : options.plans)
    make_plan(plan, {"copy"}, context.kind(), options.loader, options.numerics);
  for (const std::string& device : options.transforms_devices)
    check_transforms_device(device, DeviceKind::cuda);
  std::vector<BenchRow> rows;
  for (std::size_t batch_size : options.batch_sizes) {
    try {
      Trainer trainer(make(batch_size), context, options.numerics);
      for (BenchRow& row : bench_batch_size(trainer, batch_size, options))
        rows.push_back(std::move(row));
    } catch (const std::exception& e) {
      // After a stop, an exception only means that this batch size was not measured.
      if (options.stop && options.stop()) break;
      if (rows.empty() && dynamic_cast<const Refused*>(&e) != nullptr) throw;
      BenchRow& row = rows.emplace_back();
      row.batch_size = batch_size;
      row.transforms_device.clear();
      row.input = options.input;
      row.error = describe_error(e);
      if (dynamic_cast<const DeviceLost*>(&e) != nullptr) break;
    }
  }
  return rows;
}

}  // namespace slipstream
