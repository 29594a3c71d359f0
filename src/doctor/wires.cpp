#include "doctor/wires.h"

#include <c10/core/DeviceGuard.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include "core/seconds_since.h"
#include "cuda/cuda.h"
#include "doctor/model_parts.h"
#include "engine/device_memory.h"
#include "engine/device_slab.h"
#include "engine/jpeg_unpacker.h"
#include "slipstream/engine/pipeline.h"

namespace slipstream {
namespace {

using Clock = std::chrono::steady_clock;

/// If the device can decode a smaller share of the files, the workers have too much left to decode.
constexpr double kMostOfThem = 0.9;
constexpr std::size_t kPages = 2;  ///< batches that are decoded at the same time
constexpr std::size_t kFewestBatches = 4;

std::optional<SlabLayout> find_layout(const Pipeline& pipeline, const Plan& plan) {
  try {
    return DataLoader::plan_layout(*pipeline.dataset(), pipeline.transforms(),
                                   pipeline.loader_options(plan));
  } catch (const Refused&) {
    return std::nullopt;
  }
}

Plan with_wire(Plan plan, const std::string& field, Wire wire) {
  (is_exact(wire) ? plan.schedule.loader.wire : plan.numerics.wire)[field] = wire;
  return plan;
}

/// Returns the smallest exact format, or else the rounding one.
std::optional<WireChoice> smaller_wire(Trials& trials, const Plan& plan, const SlabLayout& now,
                                       const FieldSpec& field) {
  const Wire rounding = plan.numerics.precision == Precision::bf16 ? Wire::bf16 : Wire::fp16;
  for (const Wire wire : {Wire::one_hot, Wire::bits, Wire::smallest, rounding}) {
    if (wire == Wire::one_hot && field.kind == FieldKind::image) continue;
    const Plan changed = with_wire(plan, field.name, wire);
    const auto then = find_layout(trials.trainer().pipeline(), changed);
    if (!then || then->copied_bytes >= now.copied_bytes) continue;
    const std::string what = "sending '" + field.name + "' as " + std::string(to_string(wire));
    if (wire == Wire::one_hot && !trials.trains(changed, what)) continue;
    const auto before = static_cast<double>(now.copied_bytes);
    WireChoice choice;
    choice.field = field.name;
    choice.wire = wire;
    choice.less = (before - static_cast<double>(then->copied_bytes)) / before;
    return choice;
  }
  return std::nullopt;
}

}  // namespace

std::vector<WireChoice> smaller_wires(Trials& trials, const Plan& plan) {
  std::vector<WireChoice> choices;
  const auto now = find_layout(trials.trainer().pipeline(), plan);
  const WireFormats wire = wire_formats(plan);
  if (!now || now->copied_bytes == 0) return choices;
  for (const SlabField& field : now->fields) {
    const std::string& name = field.spec.name;
    if (wire.contains(name) || name == kDrawnField || name == kMixField) continue;
    if (auto choice = smaller_wire(trials, plan, *now, field.spec)) choices.push_back(*choice);
  }
  return choices;
}

std::optional<Plan> with_jpeg_files(const Pipeline& pipeline, const Plan& plan) {
  const std::vector<FieldSpec> fields = pipeline.dataset()->fields();
  const auto image = std::find_if(fields.begin(), fields.end(), [](const FieldSpec& field) {
    return field.kind == FieldKind::image;
  });
  const LoaderPlan& loader = plan.schedule.loader;
  if (image == fields.end() || wire_formats(plan).contains(image->name)) return std::nullopt;
  if (loader.cache && loader.cache->after != "read") return std::nullopt;
  Plan files = with_wire(plan, image->name, Wire::jpeg);
  if (find_layout(pipeline, files)) return files;
  const std::string first = first_worth_doing_on_device(pipeline, wire_formats(files));
  if (first.empty()) return std::nullopt;
  files.schedule.loader.on_device = first;
  return files;
}

void JpegAlone::measure(const Trainer& trainer, const TurnTime& time,
                        const std::function<bool()>& stop) {
  const c10::Device device = trainer.context().device();
  const c10::DeviceGuard guard(device);
  const auto loader = trainer.make_loader(plan_, std::nullopt);
  const SlabLayout& layout = loader->layout();
  DeviceMemory memory;
  const cuda::Stream stream(device.index());
  // The slab is created before the unpacker, so it is destroyed after it. The unpacker's destructor
  // waits for the device. So nothing writes to the slab when its memory is freed, even after an
  // exception.
  const DeviceSlab slab = DeviceSlab::make(layout, device);
  JpegUnpacker::Options options;
  options.device = device.index();
  options.memory = &memory;
  options.decode = trainer.pipeline().options().decode;
  options.name = [&](std::uint64_t sample) { return trainer.pipeline().dataset()->name(sample); };
  JpegUnpacker jpeg(layout, options);
  if (!jpeg.uses_engines()) throw Refused("the device has no JPEG engines");
  const HostBatch batch = loader->next();
  std::size_t files = 0;
  for (std::size_t i = 0; i < layout.batch_size; ++i)
    files += jpeg_slot(jpeg.field(), batch.data, i).holds == JpegSlot::Holds::file ? 1 : 0;
  if (static_cast<double>(files) < kMostOfThem * static_cast<double>(layout.batch_size))
    throw Refused("the device's JPEG engines cannot decode most of the images");
  auto* block = static_cast<std::byte*>(slab.fields.front().second.storage().mutable_data());
  const auto start = Clock::now();
  std::vector<double> ends_s;
  while (!(stop && stop())) {
    jpeg.unpack_async(batch.data, block, stream);
    ends_s.push_back(seconds_since(start));
    // unpack_async() blocks only when this number of batches is in flight, so the first calls
    // return too early.
    if (ends_s.size() <= kPages) continue;
    durations_s_.push_back(ends_s.back() - ends_s[ends_s.size() - 2]);
    const bool is_enough =
        ends_s.size() > kPages + kFewestBatches && ends_s.back() >= time.wanted_s;
    if (is_enough || ends_s.back() >= time.most_s) break;
  }
  stream.synchronize();
}

Measured JpegAlone::rate() const {
  if (!is_measured()) return {0, 0, 0, "batches/s", 0};
  return rate_from_durations(durations_s_, "batches/s");
}

WireChoice JpegAlone::choice(const Plan& examined) const {
  const bool is_moved = plan_.schedule.loader.on_device != examined.schedule.loader.on_device;
  WireChoice choice;
  for (const auto& [field, wire] : plan_.numerics.wire)
    if (wire == Wire::jpeg) choice.field = field;
  choice.wire = Wire::jpeg;
  choice.decode_s = seconds_per_event(rate());
  if (is_moved) choice.on_device_from = plan_.schedule.loader.on_device;
  return choice;
}

}  // namespace slipstream
