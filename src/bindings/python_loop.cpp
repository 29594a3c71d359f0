#include "bindings/python_loop.h"

#include <pybind11/stl.h>

#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "doctor/alternating.h"
#include "doctor/cache_levels.h"
#include "doctor/examiner.h"
#include "doctor/model_parts.h"
#include "doctor/periodic_turns.h"

namespace slipstream {
namespace {

namespace py = pybind11;

/// Converts a Python object with measure(TurnTime) and rate() to a rate. None: there is no rate.
/// The object may have restart().
RateInTurns to_rate(const py::object& rate) {
  if (rate.is_none()) return {};
  RateInTurns made = {[rate](const TurnTime& time) { rate.attr("measure")(time); },
                      [rate] { return rate.attr("rate")().cast<Measured>(); }};
  if (py::hasattr(rate, "restart")) made.restart = [rate] { rate.attr("restart")(); };
  return made;
}

const char* to_text(WorkerCount count) {
  if (count == WorkerCount::all) return "all";
  return count == WorkerCount::one ? "one" : "half";
}

ExaminedLevel to_level(const py::handle& given) {
  ExaminedLevel examined;
  examined.level.name = given.attr("name").cast<std::string>();
  examined.level.after = given.attr("after").cast<std::string>();
  examined.level.items = given.attr("items").cast<std::size_t>();
  examined.level.error = examined.level.loader_alone_error =
      given.attr("error").cast<std::string>();
  examined.is_essential = given.attr("is_essential").cast<bool>();
  examined.training = to_rate(given.attr("training"));
  examined.loader_alone = to_rate(given.attr("alone"));
  return examined;
}

/// Wraps a LevelMeasurements of the package (python/slipstream/_doctor/measurements.py). Its
/// functions need the GIL.
class PythonLoop : public ExaminedLoop {
 public:
  explicit PythonLoop(py::object loop) : loop_(std::move(loop)) {}

  double seconds() const override { return loop_.attr("seconds")().cast<double>(); }
  unsigned workers() const override { return loop_.attr("workers").cast<unsigned>(); }
  std::size_t batch_size() const override { return loop_.attr("batch_size").cast<std::size_t>(); }
  MachineCapacity capacity(unsigned cores) const override {
    return loop_.attr("capacity")(cores).cast<MachineCapacity>();
  }
  Observations describe() const override { return loop_.attr("describe")().cast<Observations>(); }
  RateInTurns loader_alone(WorkerCount count) override {
    return to_rate(loop_.attr("loader_alone")(to_text(count)));
  }
  SampleCosts sample_costs() const override {
    return loop_.attr("sample_costs")().cast<SampleCosts>();
  }
  std::vector<ExaminedLevel> make_levels(const CacheSizes& sizes) override {
    std::vector<ExaminedLevel> levels;
    for (const py::handle level : loop_.attr("make_levels")(sizes))
      levels.push_back(to_level(level));
    return levels;
  }
  std::vector<OtherRate> make_other_rates(const CacheSizes&) override {
    std::vector<OtherRate> others;
    for (const auto& [what, rate] :
         loop_.attr("other_rates")().cast<std::vector<std::pair<std::string, py::object>>>())
      others.push_back({what, to_rate(rate)});
    return others;
  }
  /// Rethrows exceptions that end the program, for example KeyboardInterrupt.
  std::string take_failure() override {
    try {
      throw;
    } catch (py::error_already_set& error) {
      if (!error.matches(PyExc_Exception)) throw;
      return py::str(error.type().attr("__name__")).cast<std::string>() + ": " +
             py::str(error.value()).cast<std::string>();
    }
  }
  void add_findings(Observations& observed) override {
    loop_.attr("add_findings")(py::cast(&observed, py::return_value_policy::reference));
  }

 private:
  py::object loop_;
};

Observations examine_loop(py::object loop, double budget_s, double budget_share) {
  PythonLoop examined(std::move(loop));
  DoctorOptions options;
  options.budget_s = budget_s;
  options.budget_share = budget_share;
  return Examiner(examined, options).run();
}

/// Measures rates in turns for about `budget_s`. A turn takes at least `turn_s`.
void measure_python_rates(const py::list& rates, double budget_s, double turn_s) {
  std::vector<RateInTurns> in_turns;
  for (const py::handle rate : rates)
    in_turns.push_back(to_rate(py::reinterpret_borrow<py::object>(rate)));
  measure_alternately(in_turns, {.budget_s = budget_s, .turn_s = turn_s});
}

void add_turns(py::module_& module) {
  py::class_<TurnTime>(module, "TurnTime");
  py::class_<PeriodicTurns>(module, "PeriodicTurns")
      .def_static("of_loader", &PeriodicTurns::of_loader)
      .def_static("of_training", &PeriodicTurns::of_training)
      .def("restart", &PeriodicTurns::restart)
      .def("begin", &PeriodicTurns::begin)
      .def("add", &PeriodicTurns::add)
      .def("counted", &PeriodicTurns::counted)
      .def("end", &PeriodicTurns::end)
      .def("rate", &PeriodicTurns::rate)
      .def("by_item", &PeriodicTurns::by_item);
  module.def("counted_batch_size", &counted_batch_size);
}

void add_levels(py::module_& module) {
  module.attr("DEVICE_LEVEL") = kDeviceLevel;
  module.attr("PINNED_LEVEL") = kPinnedLevel;
  module.attr("PAGEABLE_LEVEL") = kPageableLevel;
  module.attr("COLLATED_LEVEL") = kCollatedLevel;
  module.attr("WHOLE_LEVEL") = kWholeLevel;
  module.def("sample_levels",
             [](const std::vector<std::string>& steps, bool has_decoding, bool only_first) {
               std::vector<std::tuple<std::string, std::string, std::size_t>> levels;
               for (const SampleLevel& level : sample_levels(steps, has_decoding, only_first))
                 levels.emplace_back(level.name, level.after, level.step);
               return levels;
             });
}

}  // namespace

void add_python_loop(py::module_& module) {
  add_levels(module);
  add_turns(module);
  py::class_<SampleCosts>(module, "SampleCosts")
      .def(py::init([](std::vector<double> seconds, std::vector<double> bytes) {
        return SampleCosts{std::move(seconds), std::move(bytes), CacheFilling::at_once};
      }));
  py::class_<CacheSizes>(module, "CacheSizes")
      .def("batches", &CacheSizes::batches)
      .def("samples_after", &CacheSizes::samples_after);
  module.def("examine_loop", &examine_loop);
  module.def("measure_alternately", &measure_python_rates);
  module.def("ratio", &ratio);
}

}  // namespace slipstream
