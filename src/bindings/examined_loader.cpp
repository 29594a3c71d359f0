#include "bindings/examined_loader.h"

#include <pybind11/stl.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bindings/gil.h"
#include "bindings/interrupts.h"
#include "bindings/native_loader.h"
#include "doctor/cache_levels.h"
#include "doctor/cache_sizes.h"
#include "doctor/situation.h"
#include "engine/placement.h"

namespace slipstream {
namespace {

namespace py = pybind11;

std::shared_ptr<NativeLoader> examined(const NativeLoader& loader, const std::string& after,
                                       std::size_t items, unsigned workers,
                                       const std::shared_ptr<Dataset>& listed,
                                       std::size_t batch_size) {
  std::optional<HostCut> cut;
  if (!after.empty()) cut = {after, items};
  const GilRelease unlocked;
  return loader.examined(std::move(cut), workers, listed, batch_size);
}

/// Measures samples/s of a loader whose batches stay on the host and are discarded.
class LoaderDrain {
 public:
  explicit LoaderDrain(std::shared_ptr<NativeLoader> loader) : loader_(std::move(loader)) {}

  /// Measures for a turn. Ctrl-C ends it with KeyboardInterrupt.
  void measure(const TurnTime& time) {
    const GilRelease unlocked;
    const DataLoaderOptions& options = loader_->options();
    DataLoader made(loader_->dataset(), loader_->transforms(), options);
    const auto stop = [check_signals = SignalPoll()]() mutable {
      check_signals();
      return false;
    };
    rate_.measure(made, options.num_workers, time, stop);
  }
  Measured rate() const { return rate_.rate(); }
  /// Costs of samples. Each turn creates a new loader, so its time includes filling the cache.
  SampleCosts sample_costs() const {
    return {seconds_per_sample(rate_.laps()), bytes_per_sample(rate_.counters()),
            CacheFilling::in_turns};
  }
  std::vector<HostStepCost> costs(const LoaderDrain& all) const {
    return host_costs(rate_, all.rate_, loader_->transforms());
  }

 private:
  std::shared_ptr<NativeLoader> loader_;
  DrainedRate rate_{Plan(), std::nullopt};
};

/// Returns the first transform that could run on the device but does not; "" for none.
std::string possible_on_device(const NativeLoader& loader) {
  const DataLoaderOptions& options = loader.options();
  const std::vector<NamedOp>& chain = loader.transforms();
  if (options.on_device > 0 || chain.empty()) return "";
  try {
    const std::size_t count = transforms_on_device(*loader.dataset(), chain, options);
    return chain[chain.size() - count].name;
  } catch (const Refused&) {
    return "";
  }
}

/// Notes which results the loader could cache, and what it caches and reads in advance already.
void note_loading(Observations& observed, const NativeLoader& loader) {
  const DataLoaderOptions& options = loader.options();
  Situation& situation = observed.situation;
  situation.last_fixed_step = last_fixed_step(*loader.dataset(), loader.transforms(), options);
  situation.plan.schedule.loader.cache = options.cache;
  situation.plan.schedule.loader.read_ahead = options.read_ahead;
}

std::vector<std::string> fields_as_files(const NativeLoader& loader) {
  std::vector<std::string> names;
  for (const auto& [field, wire] : loader.options().wire)
    if (wire == Wire::jpeg) names.push_back(field);
  return names;
}

}  // namespace

void add_examined_loader(py::module_& module) {
  py::class_<LoaderDrain>(module, "LoaderDrain")
      .def(py::init<std::shared_ptr<NativeLoader>>())
      .def("measure", &LoaderDrain::measure)
      .def("rate", &LoaderDrain::rate)
      .def("sample_costs", &LoaderDrain::sample_costs)
      .def("costs", &LoaderDrain::costs);
  module.def("examined", &examined);
  module.def("possible_on_device", &possible_on_device);
  module.def("fields_as_files", &fields_as_files);
  module.def("note_loading", &note_loading);
}

}  // namespace slipstream
