#include "slipstream/bench.h"

#include <algorithm>
#include <map>
#include <optional>

#include "run/message.h"
#include "slipstream/trainer.h"

namespace slipstream {
namespace {

constexpr std::size_t kCachedBatches = 4;
constexpr std::uint64_t kFewestSteps = 8;

struct Measurement {
  std::string plan;  ///< as BenchRow::plan
  Plan how;
  RunOptions run;
  std::vector<double> durations_s;
};

std::optional<Cut> cut_of(const std::string& input) {
  if (input == "loader") return std::nullopt;
  if (input == "host") return Cut{"collate", kCachedBatches};
  if (input == "device") return Cut{"copy", kCachedBatches};
  throw Refused(unknown_name("input", input, {"loader", "host", "device"}));
}

std::vector<Measurement> measurements_of(const Trainer& trainer, const BenchOptions& options) {
  const auto steps = trainer.pipeline().device_steps(options.loader.on_device);
  const auto plan_named = [&](const std::string& name) {
    Plan plan = make_plan(name, steps, trainer.context().kind(), options.loader, options.numerics);
    if (options.joins_augment) join_next_lane(plan, kAugmentStep);
    return plan;
  };
  std::vector<Measurement> all;
  for (const std::string& name : options.plans) {
    Measurement& m = all.emplace_back();
    m.plan = name;
    m.how = plan_named(name);
    m.run.cut = cut_of(options.input);
  }
  const Plan lanes = plan_named("pipelined");
  std::string after = "collate";
  for (const LanePlan& lane : lanes.schedule.lanes) {
    Measurement& m = all.emplace_back();
    m.plan = "alone:" + lane.steps.back();
    m.how = lanes;
    m.run.cut = Cut{after, after == "collate" ? kCachedBatches : 1};
    m.run.last_step = lane.steps.back();
    after = lane.steps.back();
  }
  for (Measurement& m : all) {
    m.run.digest = false;
    m.run.stop = options.stop;
  }
  return all;
}

/// As many steps as fit into the time, by a short run that also warms everything up.
std::uint64_t steps_for(Trainer& trainer, Measurement& m, const BenchOptions& options) {
  m.run.steps = std::min(options.steps, kFewestSteps);
  trainer.run(m.how, m.run);
  const double rate = trainer.run(m.how, m.run).steps_per_second.value;
  const auto fitting = static_cast<std::uint64_t>(std::max(0.0, rate * options.seconds));
  return std::min(options.steps, std::max(fitting, m.run.steps));
}

void measure(Trainer& trainer, Measurement& m) {
  const RunResult result = trainer.run(m.how, m.run);
  const std::size_t first = std::max<std::size_t>(1, result.step_end_s.size() / 5);
  for (std::size_t i = first; i < result.step_end_s.size(); ++i)
    m.durations_s.push_back(result.step_end_s[i] - result.step_end_s[i - 1]);
}

Measured ratio(const Measured& a, const Measured& b) {
  if (b.value <= 0 || b.low <= 0) return {0, 0, 0, "1", 0};
  return {a.value / b.value, a.low / b.high, a.high / b.low, "1", std::min(a.n, b.n)};
}

std::optional<Measured> slowest_lane(const std::vector<BenchRow>& rows) {
  std::optional<Measured> slowest;
  for (const BenchRow& row : rows)
    if (row.plan.rfind("alone:", 0) == 0 && row.steps_per_second &&
        (!slowest || row.steps_per_second->value < slowest->value))
      slowest = row.steps_per_second;
  return slowest;
}

void add_comparisons(std::vector<BenchRow>& rows) {
  const auto serial = std::find_if(rows.begin(), rows.end(),
                                   [](const BenchRow& row) { return row.plan == "serial"; });
  const std::optional<Measured> slowest = slowest_lane(rows);
  for (BenchRow& row : rows) {
    if (!row.steps_per_second || row.plan.rfind("alone:", 0) == 0) continue;
    if (slowest) row.share_of_slowest_lane = ratio(*row.steps_per_second, *slowest);
    if (serial == rows.end() || !serial->steps_per_second) continue;
    row.gain = ratio(*row.steps_per_second, *serial->steps_per_second);
    if (slowest && row.plan != "serial")
      row.overlap_efficiency =
          overlap_efficiency(*serial->steps_per_second, *row.steps_per_second, *slowest);
  }
}

std::vector<BenchRow> bench_batch_size(Trainer& trainer, std::size_t batch_size,
                                       const BenchOptions& options) {
  std::vector<Measurement> all = measurements_of(trainer, options);
  const auto stopped = [&] { return options.stop && options.stop(); };
  for (Measurement& m : all)
    if (!stopped()) m.run.steps = steps_for(trainer, m, options);
  for (unsigned round = 0; round < options.repeats; ++round)
    for (Measurement& m : all) {
      if (stopped()) break;
      if (options.say)
        options.say("batch size " + std::to_string(batch_size) + ", round " +
                    std::to_string(round + 1) + "/" + std::to_string(options.repeats) + ": " +
                    m.plan);
      measure(trainer, m);
    }
  std::vector<BenchRow> rows;
  for (const Measurement& m : all) {
    BenchRow& row = rows.emplace_back();
    row.batch_size = batch_size;
    row.plan = m.plan;
    row.input = m.run.cut ? (m.run.cut->after == "collate" ? "host" : "device") : "loader";
    if (m.durations_s.empty())
      row.error = "interrupted";
    else
      row.steps_per_second = rate_from_durations(m.durations_s, "steps/s");
  }
  add_comparisons(rows);
  return rows;
}

}  // namespace

std::vector<BenchRow> run_bench(Context& context, const std::function<Pipeline(std::size_t)>& make,
                                const BenchOptions& options) {
  // What no batch size can mend is refused at once.
  cut_of(options.input);
  for (const std::string& plan : options.plans)
    make_plan(plan, {"copy"}, context.kind(), options.loader, options.numerics);
  std::vector<BenchRow> rows;
  for (std::size_t batch_size : options.batch_sizes) {
    try {
      Trainer trainer(make(batch_size), context, options.numerics);
      for (BenchRow& row : bench_batch_size(trainer, batch_size, options))
        rows.push_back(std::move(row));
    } catch (const DeviceLost&) {
      throw;
    } catch (const std::exception& e) {
      if (rows.empty() && dynamic_cast<const Refused*>(&e) != nullptr) throw;
      rows.push_back({batch_size, "", options.input, {}, {}, {}, {}, message_of(e)});
    }
  }
  return rows;
}

}  // namespace slipstream
