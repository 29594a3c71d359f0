#include <pybind11/functional.h>
#include <pybind11/stl.h>
#include <pybind11/stl/filesystem.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <filesystem>

#include "bindings/contexts.h"
#include "bindings/doctor.h"
#include "bindings/gil.h"
#include "bindings/transform_chain.h"
#include "core/files.h"
#include "core/seconds_since.h"
#include "doctor/findings.h"
#include "doctor/free_memory.h"
#include "doctor/late_crop.h"
#include "doctor/model_parts.h"
#include "doctor/pipeline_model.h"
#include "doctor/usage.h"
#include "slipstream/core/cpu.h"

namespace slipstream {
namespace {

namespace py = pybind11;
using Clock = std::chrono::steady_clock;

/// Calls find_late_crop() for transforms that are chains of one operation each. nullptr is an
/// unknown transform.
std::optional<std::pair<std::size_t, std::size_t>> find_late_crop_in(
    const std::vector<std::shared_ptr<TransformChain>>& chain, const std::vector<double>& bytes) {
  std::vector<std::optional<AnyOp>> ops;
  for (const std::shared_ptr<TransformChain>& each : chain) {
    const bool is_known = each != nullptr && each->ops().size() == 1;
    ops.push_back(is_known ? std::optional(each->ops().front().op) : std::nullopt);
  }
  const std::optional<LateCrop> late = find_late_crop(ops, bytes);
  if (!late) return std::nullopt;
  return std::pair(late->crop, late->moved_before);
}

/// Seconds that the operations of `chain` take on one thread for an RGB image of this type and
/// size: the median of all runs that fit into about `budget_s`. Throws Refused if they reject the
/// image.
double native_seconds(const TransformChain& chain, std::int64_t height, std::int64_t width,
                      bool is_float, double budget_s) {
  const GilRelease unlocked;
  const DType dtype = is_float ? DType::float32 : DType::uint8;
  std::vector<FieldSpec> specs = {{"image", FieldKind::image, dtype, {height, width, 3}}};
  const std::vector<NamedOp>& ops = chain.ops();
  for (const NamedOp& each : ops) specs.push_back(each.op.output(specs.back()));
  std::vector<HostArray> images(specs.size());
  const MutableArray first = images.front().reset(dtype, specs.front().shape);
  std::fill_n(first.data, first.bytes(), std::byte{0});
  Scratch scratch;
  std::vector<double> seconds;
  const auto start = Clock::now();
  for (std::uint64_t sample = 0; seconds.size() < 3 || seconds_since(start) < budget_s; ++sample) {
    const auto began = Clock::now();
    for (std::size_t i = 0; i < ops.size(); ++i) {
      alignas(16) std::array<std::byte, 1024> drawn;
      const ConstArray in = images[i].view();
      ops[i].op.draw({.sample = sample}, in.shape, drawn.data());
      const MutableArray out = images[i + 1].reset(specs[i + 1].dtype, specs[i + 1].shape);
      ops[i].op.apply(drawn.data(), FieldKind::image, in, out, scratch);
    }
    seconds.push_back(seconds_since(began));
  }
  return median_interval(seconds, "s").value;
}

/// Measures how busy the device is while a Python function runs.
class DeviceUsage {
 public:
  explicit DeviceUsage(const std::string& device)
      : context_(get_context(device)), usage_(*context_) {}

  void during(const std::function<void()>& run) { usage_.during(run); }
  Utilization utilization() const { return usage_.utilization(1, std::nan("")); }
  std::string shared() const { return shares_gpu(usage_.gpu_processes()).value_or(""); }

 private:
  std::shared_ptr<Context> context_;
  Usage usage_;
};

}  // namespace

void add_measuring(py::module_& module) {
  py::class_<DeviceUsage>(module, "DeviceUsage")
      .def(py::init<const std::string&>())
      .def("during", &DeviceUsage::during)
      .def("utilization", &DeviceUsage::utilization)
      .def("shared", &DeviceUsage::shared);
  module.def("depends_on_data", [](const std::vector<std::vector<double>>& seconds_by_item) {
    return depends_on_data(seconds_by_item).value_or("");
  });
  module.def("seconds_per_event", &seconds_per_event);
  module.def("native_seconds", &native_seconds);
  module.def("write_file_atomically",
             [](const std::filesystem::path& path, const std::string& text) {
               const GilRelease unlocked;
               write_file_atomically(path, text);
             });
  module.def("find_late_crop", &find_late_crop_in);
  module.def("measure_capacity", &measure_capacity, py::call_guard<GilRelease>());
  module.def("usable_cores", [] { return usable_cores(); });
  module.def("free_memory_bytes", &free_memory_bytes);
}

}  // namespace slipstream
