#include "report/doctor_samples.h"

#include <cmath>

#include "report/samples.h"

namespace slipstream {
namespace {

Measured rate(double value, double spread = 0.02) {
  return {value, value * (1 - spread), value * (1 + spread), "steps/s", 12};
}

Measured ms(double value) { return {value, value * 0.97, value * 1.03, "ms", 64}; }

Level level(const std::string& name, const std::string& after, std::size_t items, double training,
            std::optional<double> drained) {
  Level made = {name, after, items, rate(training), std::nullopt, "", ""};
  if (drained) made.loader_alone = rate(*drained, 0.04);
  return made;
}

CostRow cost(const std::string& name, Bottleneck group, double wall, double cpu, double without) {
  CostRow row;
  row.name = name;
  row.group = group;
  row.wall_ms = ms(wall);
  row.cpu_ms = ms(cpu);
  row.bytes = 3 * 256 * 256;
  row.variation = 0.12;
  row.p99_ms = wall * 1.6;
  row.without = rate(without);
  return row;
}

Change change(const std::string& id, const std::string& what, double predicted, double now) {
  Change made;
  made.id = id;
  made.description = what;
  made.bottleneck = Bottleneck::transforms;
  made.predicted = rate(predicted, 0.05);
  made.gain = {predicted / now, predicted / now * 0.94, predicted / now * 1.06, "1", 12};
  return made;
}

/// Training takes `step_s` for each batch and then waits for `wait_s`.
std::vector<LaneResult> lanes(double step_s, double wait_s) {
  LaneResult copy = {"copy", {"copy"}, 0, 0, {}};
  LaneResult train = {"train", {"encode", "train"}, 0, 0, {}};
  for (std::uint64_t step = 90; step < 102; ++step) {
    const double begin = static_cast<double>(step) * (step_s + wait_s);
    copy.last_intervals.push_back({step, begin - 0.03 * step_s, begin});
    train.last_intervals.push_back({step, begin, begin + step_s});
  }
  return {copy, train};
}

Observations starved_observations() {
  Observations observed;
  observed.batch_size = 256;
  observed.workers = 4;
  observed.capacity = {3.9, 2.5};
  observed.levels = {level("device batch", "train", 4, 3.45, std::nullopt),
                     level("host batch, pinned", "pin", 4, 3.33, 55),
                     level("host batch, pageable", "collate", 4, 3.32, 24),
                     level("processed sample", "scale", 512, 3.23, 14.5),
                     level("after convert_color", "convert_color", 512, 2.94, 3.02),
                     level("after random_mask", "random_mask", 512, 2.61, 2.66),
                     level("after random_crop", "random_crop", 512, 1.98, 2.01),
                     level("decoded sample", "decode", 128, 1.72, 1.74),
                     level("file bytes", "read", 128, 0.94, 0.95),
                     level("nothing cached", "", 0, 0.89, 0.9)};
  observed.rate_of_all_workers = {230, 225, 235, "samples/s", 12};
  observed.rate_of_one_worker = {58, 56, 60, "samples/s", 12};
  observed.device = {{"copy", {0.0104, 0.0102, 0.0106, "s", 12}, 0.00004, 201326592},
                     {"train", {0.2795, 0.279, 0.28, "s", 12}, 0.0081, 0}};
  observed.utilization = {0.22, 0.07, 0.94, "", 0.97, 1.9e8};
  observed.situation.plan =
      make_plan("pipelined", {"copy", "train"}, DeviceKind::cuda, {{.num_workers = 4}}, {});
  observed.situation.on_gpu = true;
  observed.situation.cores = 4;
  return observed;
}

Diagnosis starved_diagnosis() {
  Diagnosis diagnosis;
  diagnosis.verdict = Bottleneck::transforms;
  diagnosis.reason =
      "Of the 17.9 ms that a sample costs in one worker, transforms take 9.1 ms and reading "
      "8.5 ms; freeing the first alone gives more.";
  diagnosis.bottlenecks = {Bottleneck::transforms, Bottleneck::read};
  diagnosis.ceiling = rate(3.45, 0.01);
  diagnosis.rate = rate(0.89);
  diagnosis.share = {0.258, 0.251, 0.265, "1", 12};
  diagnosis.costs = {cost("read", Bottleneck::read, 8.5, 1.2, 1.63),
                     cost("decode", Bottleneck::decode, 0.3, 0.3, 0.91),
                     cost("random_crop", Bottleneck::transforms, 2.1, 2.1, 1.01),
                     cost("random_mask", Bottleneck::transforms, 5.2, 5.1, 1.26),
                     cost("convert_color", Bottleneck::transforms, 1.8, 1.8, 0.99)};
  diagnosis.costs[3].locked = 0.12;
  diagnosis.costs[4].is_memory_bound = true;
  diagnosis.changes = {
      change("device_transforms", "Move the transforms from random_crop on to the device", 1.63,
             .89),
      change("shards", "Convert the files to shards, and shrink the images to 256 x 256", 1.71,
             .89),
      change("reorder", "Crop first: PILToTensor touches the whole image", 1.12, .89),
      change("num_workers", "Use 6 workers instead of 4", 1.02, .89)};
  diagnosis.changes[0].apply = [](Plan& plan) { plan.schedule.loader.on_device = "random_crop"; };
  diagnosis.changes[1].action =
      "build/slipstream convert --data DIR --out SHARDS --to shards --resize 256x256\n"
      "build/slipstream train starved --data SHARDS";
  diagnosis.changes[1].bottleneck = Bottleneck::read;
  diagnosis.changes[1].is_upper_bound = true;
  diagnosis.changes[2].action =
      "pipeline.transforms({random_crop(256), to_tensor(), random_mask()})";
  diagnosis.changes[3].apply = [](Plan& plan) { plan.schedule.loader.num_workers = 6; };
  diagnosis.model_error = 0.03;
  diagnosis.cores_needed = 15.6;
  return diagnosis;
}

}  // namespace

DoctorReport starved_report() {
  DoctorReport report;
  report.environment = sample_environment();
  report.environment.gpu->name = "NVIDIA H200";
  report.workload = {"starved",
                     {{"batch-size", std::int64_t{256}}, {"costs", std::string("article")}}};
  report.observed = starved_observations();
  report.observed.warnings = {"the step's time depends on the data: batches differ by 8 %"};
  report.diagnosis = starved_diagnosis();
  report.lanes = lanes(0.29, 0.83);
  report.outcome = Outcome{report.observed.situation.plan,
                           {"Move the transforms from random_crop on to the device"},
                           rate(0.89),
                           rate(1.63, 0.05),
                           rate(1.58)};
  report.seconds = 57.6;
  report.budget_s = 60;
  return report;
}

DoctorReport full_speed_report() {
  DoctorReport report = starved_report();
  report.environment.warnings.clear();
  report.observed.warnings.clear();
  for (Level& level : report.observed.levels) level.with_training = rate(3.44);
  report.diagnosis = {};
  report.diagnosis.verdict = Bottleneck::device;
  report.diagnosis.reason = "The input delivers what the device can take.";
  report.diagnosis.ceiling = rate(3.45, 0.01);
  report.diagnosis.rate = rate(3.44);
  report.diagnosis.share = {0.997, 0.98, 1.01, "1", 12};
  report.lanes = lanes(0.29, 0.001);
  report.outcome.reset();
  return report;
}

DoctorReport failed_level_report() {
  DoctorReport report = starved_report();
  report.environment.gpu.reset();
  report.interrupted = true;
  report.seconds = 12.2;
  report.outcome.reset();
  report.diagnosis.verdict = Bottleneck::not_enough_evidence;
  report.diagnosis.reason = "The intervals of copy and transforms overlap; give it more time.";
  report.diagnosis.bottlenecks.clear();
  report.diagnosis.cores_needed.reset();
  report.observed.utilization = {{}, {}, {}, "no GPU", 0.5, 0};
  Level& failed = report.observed.levels[5];
  failed.with_training.reset();
  failed.loader_alone.reset();
  failed.error = "transform 'random_mask', sample 17: the image is empty";
  report.observed.levels[6].loader_alone.reset();
  report.observed.levels[6].loader_alone_error = "no time was left";
  return report;
}

DoctorReport empty_report() { return {}; }

DoctorReport report_with_text(const std::string& words) {
  DoctorReport report = starved_report();
  Environment& environment = report.environment;
  for (std::string* place :
       {&environment.time, &environment.slipstream, &environment.revision, &environment.compiler,
        &environment.libtorch, &environment.os, &environment.cpu, &environment.gpu->name,
        &environment.gpu->driver, &report.workload.name, &report.diagnosis.reason,
        &report.observed.utilization.note})
    *place = words;
  environment.warnings = report.observed.warnings = report.outcome->changes = {words};
  report.workload.options = {{words, words}};
  for (Level& level : report.observed.levels) level.name = level.after = level.error = words;
  for (CostRow& row : report.diagnosis.costs) row.name = words;
  for (DeviceCost& row : report.observed.device) row.name = words;
  for (Change& row : report.diagnosis.changes) row.id = row.description = row.action = words;
  for (LaneResult& lane : report.lanes) {
    lane.name = words;
    lane.steps = {words};
  }
  return report;
}

DoctorReport report_with_numbers(double value) {
  DoctorReport report = starved_report();
  const auto set = [value](Measured& measured) {
    measured.value = measured.low = measured.high = value;
  };
  for (Level& level : report.observed.levels) {
    set(*level.with_training);
    if (level.loader_alone) set(*level.loader_alone);
  }
  for (CostRow& row : report.diagnosis.costs) {
    for (Measured* measured : {&row.wall_ms, &row.cpu_ms, &row.without}) set(*measured);
    row.bytes = row.variation = row.p99_ms = row.locked = value;
  }
  for (DeviceCost& row : report.observed.device) {
    set(row.seconds);
    row.enqueue_s = value;
  }
  for (Change& row : report.diagnosis.changes) {
    set(row.predicted);
    set(row.gain);
  }
  Diagnosis& diagnosis = report.diagnosis;
  Outcome& outcome = *report.outcome;
  for (Measured* measured : {&diagnosis.ceiling, &diagnosis.rate, &diagnosis.share, &outcome.before,
                             &outcome.predicted, &outcome.measured})
    set(*measured);
  diagnosis.model_error = report.seconds = report.budget_s = value;
  diagnosis.cores_needed = value;
  report.observed.utilization = {value, value, value, "", value, value};
  report.observed.capacity = {value, value};
  report.workload.options = {{"lr", value}};
  for (LaneResult& lane : report.lanes) {
    lane.busy_s = lane.waiting_s = value;
    for (Interval& interval : lane.last_intervals) interval.end_s = value;
  }
  return report;
}

std::vector<NamedReport> all_doctor_reports() {
  return {{"starved", starved_report()},
          {"full_speed", full_speed_report()},
          {"failed_level", failed_level_report()},
          {"empty", empty_report()},
          {"hostile", report_with_text(kHostile)},
          {"nan", report_with_numbers(NAN)},
          {"infinite", report_with_numbers(INFINITY)},
          {"zero", report_with_numbers(0)},
          {"huge", report_with_numbers(1e300)},
          {"negative", report_with_numbers(-1)}};
}

}  // namespace slipstream
