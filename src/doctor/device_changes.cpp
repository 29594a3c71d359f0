#include <algorithm>

#include "core/text.h"
#include "doctor/changes.h"
#include "doctor/wording.h"

namespace slipstream {
namespace {

constexpr double kNotOverlapped = 0.5;  ///< share of the time that a separate lane does not hide

}  // namespace

/// The transforms then share the device with the training stage. On a separate lane they overlap
/// with it only in part, because the kernels of both fill the device (docs/doctor-method.md).
void Changes::device_transforms() {
  const PipelineModel::Step* from = now_.find(situation_.on_device_from);
  if (!situation_.on_gpu || from == nullptr) return;
  if (situation_.plan.schedule.loader.on_device == situation_.on_device_from) return;
  const auto first = static_cast<std::size_t>(from - now_.steps.data());
  const bool is_serial = situation_.plan.schedule.lanes.size() == 1;
  const double more = situation_.augment_s ? situation_.augment_s->value : 0;
  Change change;
  change.id = "device_transforms";
  change.effort = Effort::option;
  change.description = "run the transforms from '" + from->name + "' to the last one on the device";
  change.action = "--transforms-device cuda";
  change.bottleneck = Bottleneck::transforms;
  change.is_upper_bound = !situation_.augment_s;
  change.apply = [name = from->name](Plan& plan) { put_transforms_on_device(plan, name); };
  change.model = [=](PipelineModel& model) {
    for (std::size_t i = first; i + 1 < model.steps.size(); ++i) make_free(model.steps[i]);
    const double line = model.line_waiting_s + model.line_working_s;
    model.line_waiting_s += is_serial ? more : std::max(kNotOverlapped * more, more - line);
  };
  add(std::move(change));
}

/// Whether each device step was measured. If one was not, it may be the slowest.
bool Changes::is_all_measured() const {
  std::size_t steps = 0;
  for (const LanePlan& lane : situation_.plan.schedule.lanes) steps += lane.steps.size();
  return observed_.device.size() == steps;
}

void Changes::pinning() {
  if (!situation_.on_gpu || situation_.plan.schedule.loader.pin_memory) return;
  const auto pinned = level_rate(observed_, kPinnedLevel);
  const auto pageable = level_rate(observed_, kPageableLevel);
  if (!pinned || !pageable || pinned->value <= pageable->value) return;
  const double less = 1 / pageable->value - 1 / pinned->value;
  Change change;
  change.id = "pinning";
  change.effort = Effort::option;
  change.description = "keep batches in page-locked memory";
  change.action = "\"pin_memory\": true in the plan";
  change.bottleneck = Bottleneck::copy;
  change.apply = [](Plan& plan) { plan.schedule.loader.pin_memory = true; };
  change.model = [less](PipelineModel& model) {
    model.line_waiting_s = std::max(0.0, model.line_waiting_s - less);
  };
  add(std::move(change));
}

/// With pipelined lanes, a step takes as long as the slowest device step.
void Changes::pipelining() {
  if (situation_.plan.schedule.lanes.size() != 1 || observed_.device.size() < 2) return;
  if (!is_all_measured()) return;
  double longest = 0, sum = 0;
  for (const DeviceCost& cost : observed_.device) {
    longest = std::max(longest, cost.seconds.value);
    sum += cost.seconds.value;
  }
  if (sum <= 0) return;
  const double by = longest / sum;
  Change change;
  change.id = "pipelining";
  change.effort = Effort::option;
  change.description = "run the copy and the stages before training on separate lanes";
  change.action = "--plan pipelined";
  // With other stages than training, the device's own work becomes faster, too.
  change.bottleneck = observed_.device.size() > 2 ? Bottleneck::device : Bottleneck::copy;
  change.is_upper_bound = true;
  change.apply = [on_gpu = situation_.on_gpu](Plan& plan) { pipeline_lanes(plan, on_gpu); };
  change.model = [by](PipelineModel& model) {
    model.line_waiting_s *= by;
    model.line_working_s *= by;
  };
  add(std::move(change));
}

void Changes::unused_fields() {
  if (situation_.unused_fields.empty()) return;
  std::string how;
  for (const std::string& field : situation_.unused_fields)
    how += (how.empty() ? "--wire " : " --wire ") + field + "=host";
  Change change;
  change.id = "unused_fields";
  change.effort = Effort::option;
  change.description =
      "keep on the host the fields that no stage reads: " + joined(situation_.unused_fields);
  change.action = how;
  change.bottleneck = Bottleneck::copy;
  change.is_upper_bound = true;
  change.apply = [fields = situation_.unused_fields](Plan& plan) {
    for (const std::string& field : fields) plan.schedule.loader.wire[field] = Wire::host;
  };
  PipelineModel without = now_;
  take_copy_out(observed_, without);
  change.model = [waiting_s = without.line_waiting_s](PipelineModel& model) {
    model.line_waiting_s = std::min(model.line_waiting_s, waiting_s);
  };
  add(std::move(change));
}

void Changes::wires() {
  for (const WireChoice& choice : situation_.wires)
    choice.wire == Wire::jpeg ? send_files(choice) : pack(choice);
}

/// The time of the copy shrinks with its bytes. The time to expand them on the device is ignored.
void Changes::pack(const WireChoice& choice) {
  const std::string format(to_string(choice.wire));
  Change change;
  change.id = "wire_" + choice.field;
  change.effort = Effort::option;
  change.description = "send '" + choice.field + "' as " + format + ": " +
                       whole_percent(choice.less) + " fewer bytes to copy" +
                       (is_exact(choice.wire) ? "" : ", with rounded values");
  change.action = "--wire " + choice.field + "=" + format;
  change.bottleneck = Bottleneck::copy;
  change.is_upper_bound = true;
  if (is_exact(choice.wire))  // rounding would change the numerics, which is the user's decision
    change.apply = [choice](Plan& plan) { plan.schedule.loader.wire[choice.field] = choice.wire; };
  PipelineModel without = now_;
  take_copy_out(observed_, without);
  const double less_s = choice.less * (now_.line_waiting_s - without.line_waiting_s);
  change.model = [less_s](PipelineModel& model) {
    model.line_waiting_s = std::max(0.0, model.line_waiting_s - less_s);
  };
  add(std::move(change));
}

/// The JPEG engines do not slow kernels down, so a lane that runs ahead of training hides their
/// time.
void Changes::send_files(const WireChoice& choice) {
  if (!choice.decode_s || now_.steps.size() < 3) return;
  const bool is_serial = situation_.plan.schedule.lanes.size() == 1;
  const bool is_moved = !choice.on_device_from.empty();
  const double decode_s = choice.decode_s->value;
  const double augment_s = is_moved && situation_.augment_s ? situation_.augment_s->value : 0;
  Change change;
  change.id = "wire_" + choice.field;
  change.effort = Effort::option;
  change.description =
      "send '" + choice.field + "' as JPEG files, which the device's engines decode";
  if (is_moved)
    change.description +=
        ", and run the transforms from '" + choice.on_device_from + "' to the last one there";
  change.description += "; pixel values differ slightly";
  change.action = "--wire " + choice.field + "=jpeg";
  if (is_moved) change.action += " --transforms-device cuda";
  change.bottleneck = Bottleneck::decode;
  change.is_upper_bound = is_moved && !situation_.augment_s;
  change.model = [=](PipelineModel& model) {
    for (std::size_t i = 1; i + 1 < model.steps.size(); ++i) make_free(model.steps[i]);
    const double line = model.line_waiting_s + model.line_working_s;
    const double shown =
        is_serial ? decode_s + augment_s : std::max(decode_s - line, kNotOverlapped * augment_s);
    model.line_waiting_s += std::max(0.0, shown);
  };
  add(std::move(change));
}

/// The frozen stages compute the same results in every epoch. If these are stored, only training
/// runs.
void Changes::feature_cache() {
  if (!situation_.has_frozen_stage || !situation_.frozen_input_is_fixed) return;
  if (observed_.device.empty() || !is_all_measured()) return;
  const double trained_s = observed_.device.back().seconds.value;
  Change change;
  change.id = "feature_cache";
  change.effort = Effort::data;
  change.description =
      "store the results of the frozen stages for each sample once, and train on these: nothing "
      "before the stages is random";
  change.action = "in your code: run the frozen stages over the data set and train from the result";
  change.bottleneck = Bottleneck::device;
  change.is_upper_bound = true;
  change.model = [trained_s](PipelineModel& model) {
    for (PipelineModel::Step& step : model.steps) make_free(step);
    model.line_waiting_s = std::min(model.line_waiting_s, trained_s);
  };
  add(std::move(change));
}

}  // namespace slipstream
