#include <pybind11/stl.h>

#include <cmath>

#include "bindings/contexts.h"
#include "bindings/doctor.h"
#include "engine/environment.h"
#include "report/doctor_report.h"
#include "report/doctor_words.h"
#include "slipstream/engine/plan.h"

namespace slipstream {
namespace {

namespace py = pybind11;

std::string measured_text(const Measured& measured) {
  if (measured.n == 0) return "not measured";
  return figure(measured) + (measured.unit.empty() ? "" : " " + measured.unit);
}

void add_figures(py::module_& module) {
  py::options options;
  options.disable_function_signatures();  // otherwise they become docstrings of the attributes
  py::class_<Measured>(module, "Measured", R"(A measured value with its uncertainty.

Attributes:
    value (float): the value.
    low, high (float): its 95 % interval.
    unit (str): its unit, such as "steps/s".
    n (int): number of measurements; 0: not measured.)")
      .def(py::init([](double value, double low, double high, std::string unit, std::size_t n) {
             return Measured{value, low, high, std::move(unit), n};
           }),
           py::arg("value") = 0, py::arg("low") = 0, py::arg("high") = 0, py::arg("unit") = "",
           py::arg("n") = 0)
      .def_readonly("value", &Measured::value)
      .def_readonly("low", &Measured::low)
      .def_readonly("high", &Measured::high)
      .def_readonly("unit", &Measured::unit)
      .def_readonly("n", &Measured::n)
      .def("__str__", &measured_text)
      .def("__repr__", [](const Measured& measured) {
        return "Measured(" + measured_text(measured) + ", n=" + std::to_string(measured.n) + ")";
      });
  py::class_<MachineCapacity>(module, "MachineCapacity")
      .def(py::init<>())
      .def_readwrite("cores", &MachineCapacity::cores);
  py::class_<Level>(module, "Level")
      .def(py::init<>())
      .def_readwrite("name", &Level::name)
      .def_readwrite("after", &Level::after)
      .def_readwrite("items", &Level::items)
      .def_readwrite("with_training", &Level::with_training)
      .def_readwrite("loader_alone", &Level::loader_alone)
      .def_readwrite("error", &Level::error)
      .def_readwrite("loader_alone_error", &Level::loader_alone_error);
  py::class_<DeviceCost>(module, "DeviceCost")
      .def(py::init([](std::string name, Measured seconds, double enqueue_s, std::size_t bytes) {
        return DeviceCost{std::move(name), std::move(seconds), enqueue_s, bytes};
      }))
      .def_readonly("name", &DeviceCost::name)
      .def_readonly("seconds", &DeviceCost::seconds);
  py::class_<Utilization>(module, "Utilization")
      .def(py::init([] {
        Utilization use;
        use.read_bytes_per_second = NAN;
        return use;
      }))
      .def_readwrite("sm_activity", &Utilization::sm_activity)
      .def_readwrite("dram_use", &Utilization::dram_use)
      .def_readwrite("gpu_utilization", &Utilization::gpu_utilization)
      .def_readwrite("note", &Utilization::note)
      .def_readwrite("cpu_share", &Utilization::cpu_share);
}

void add_host_costs(py::module_& module) {
  py::class_<HostStepCost>(module, "HostStepCost")
      .def(py::init<>())
      .def_readwrite("name", &HostStepCost::name)
      .def_property(
          "group", [](const HostStepCost& cost) { return std::string(to_string(cost.group)); },
          [](HostStepCost& cost, const std::string& name) { cost.group = bottleneck_named(name); })
      .def_readwrite("wall_s", &HostStepCost::wall_s)
      .def_readwrite("cpu_s", &HostStepCost::cpu_s)
      .def_readwrite("wall_of_all_s", &HostStepCost::wall_of_all_s)
      .def_readwrite("cpu_of_all_s", &HostStepCost::cpu_of_all_s)
      .def_readwrite("waiting_of_all_s", &HostStepCost::waiting_of_all_s)
      .def_readwrite("bytes", &HostStepCost::bytes)
      .def_readwrite("is_random", &HostStepCost::is_random)
      .def_readwrite("is_inside", &HostStepCost::is_inside);
  module.def("part_group",
             [](const std::string& name) { return std::string(to_string(part_group(name))); });
}

/// Sets an equivalent plan of a PyTorch loop: a copy if there is a GPU, on the stream of the step
/// or on a separate one, and the step.
void set_plan(Observations& observed, bool on_gpu, bool pin_memory, std::size_t prefetch_batches,
              bool copies_ahead) {
  observed.situation.on_gpu = on_gpu;
  LoaderPlan loader;
  loader.num_workers = observed.workers;
  loader.prefetch_batches = prefetch_batches;
  const std::vector<std::string> steps =
      on_gpu ? std::vector<std::string>{"copy", "step"} : std::vector<std::string>{"step"};
  Plan& plan = observed.situation.plan;
  plan = make_plan(copies_ahead ? "pipelined" : "serial", steps,
                   on_gpu ? DeviceKind::cuda : DeviceKind::cpu, loader, {});
  plan.schedule.loader.pin_memory = pin_memory;
}

template <typename T>
auto set_in_situation(T Situation::*member) {
  return
      [member](Observations& observed, T value) { observed.situation.*member = std::move(value); };
}

void add_observations(py::module_& module) {
  py::class_<Observations>(module, "Observations")
      .def(py::init([] {
        Observations observed;
        observed.situation.is_python_loop = true;
        return observed;
      }))
      .def_readwrite("batch_size", &Observations::batch_size)
      .def_readwrite("workers", &Observations::workers)
      .def_readwrite("slabs", &Observations::slabs)
      .def_readwrite("slabs_per_worker", &Observations::slabs_per_worker)
      .def_readwrite("capacity", &Observations::capacity)
      .def_readwrite("levels", &Observations::levels)
      .def_readwrite("host", &Observations::host)
      .def_readwrite("rate_of_all_workers", &Observations::rate_of_all_workers)
      .def_readwrite("rate_of_one_worker", &Observations::rate_of_one_worker)
      .def_readwrite("rate_of_half_of_workers", &Observations::rate_of_half_of_workers)
      .def_readwrite("device", &Observations::device)
      .def_readwrite("line_cpu_s", &Observations::line_cpu_s)
      .def_readwrite("utilization", &Observations::utilization)
      .def_readwrite("warnings", &Observations::warnings)
      .def("set_plan", &set_plan)
      .def("set_has_worker_processes", set_in_situation(&Situation::has_worker_processes))
      .def("set_cores", set_in_situation(&Situation::cores))
      .def("set_free_memory_bytes", set_in_situation(&Situation::free_memory_bytes))
      .def("set_samples", set_in_situation(&Situation::samples))
      .def("set_last_fixed_step", set_in_situation(&Situation::last_fixed_step))
      .def("set_on_device_from", set_in_situation(&Situation::on_device_from))
      .def("set_late_crop", [](Observations& observed, std::string crop, std::string moved_before) {
        observed.situation.crop = std::move(crop);
        observed.situation.crop_moved_before = std::move(moved_before);
      });
}

/// Diagnoses a PyTorch loader. It has no plan, so no change can be applied to one.
Diagnosis diagnose_loader(const Observations& observed) {
  Diagnosis diagnosis = diagnose(observed);
  for (Change& change : diagnosis.changes) change.apply = nullptr;
  return diagnosis;
}

void add_verdict(py::module_& module) {
  py::class_<Change>(module, "Change")
      .def_readwrite("id", &Change::id)
      .def_readwrite("description", &Change::description)
      .def_readwrite("action", &Change::action)
      .def_readonly("step", &Change::step)
      .def_readonly("number", &Change::number)
      .def_property(
          "effort", [](const Change& change) { return std::string(to_string(change.effort)); },
          [](Change& change, const std::string& name) { change.effort = effort_named(name); })
      .def_property_readonly(
          "bottleneck",
          [](const Change& change) { return std::string(to_string(change.bottleneck)); })
      .def_readonly("predicted", &Change::predicted)
      .def_readonly("gain", &Change::gain)
      .def_readonly("is_upper_bound", &Change::is_upper_bound)
      .def_readwrite("measured", &Change::measured)
      .def_readwrite("measured_gain", &Change::measured_gain)
      .def_readwrite("code", &Change::code);
  py::class_<Diagnosis>(module, "Diagnosis")
      .def_property_readonly("verdict", &verdict_name)
      .def_readwrite("reason", &Diagnosis::reason)
      .def_property_readonly("bottlenecks", &bottleneck_names)
      .def_readonly("ceiling", &Diagnosis::ceiling)
      .def_readonly("rate", &Diagnosis::rate)
      .def_readonly("share", &Diagnosis::share)
      .def_readwrite("changes", &Diagnosis::changes);
  module.def("diagnose", &diagnose_loader);
  module.def("rank_changes", &rank_changes);
  module.attr("LEAST_GAIN") = kLeastGain;
  module.def("what_if", [](const Observations& observed, const Diagnosis& diagnosis,
                           const std::map<std::string, double>& seconds_of_steps) {
    std::vector<AssumedCost> supposed;
    for (const auto& [step, seconds] : seconds_of_steps) supposed.push_back({step, seconds});
    return what_if(observed, diagnosis, supposed);
  });
  module.def("port_to_native",
             [](const Observations& observed, const Diagnosis& diagnosis,
                const std::map<std::string, double>& seconds_of_steps, bool has_worker_processes) {
               NativePort port{{}, has_worker_processes};
               for (const auto& [step, seconds] : seconds_of_steps)
                 port.steps.push_back({step, seconds});
               return port_to_native(observed, diagnosis, port);
             });
}

void add_comparison(py::module_& module) {
  py::class_<RankResult>(module, "RankResult")
      .def(py::init<std::size_t, std::string, Measured, Measured>())
      .def_readonly("rank", &RankResult::rank)
      .def_readonly("verdict", &RankResult::verdict)
      .def_readonly("ceiling", &RankResult::ceiling)
      .def_readonly("rate", &RankResult::rate);
  py::class_<BaselineRow>(module, "BaselineRow")
      .def_readonly("name", &BaselineRow::name)
      .def_readonly("before", &BaselineRow::before)
      .def_readonly("now", &BaselineRow::now)
      .def_readonly("is_worse", &BaselineRow::is_worse);
  py::class_<BaselineComparison>(module, "BaselineComparison")
      .def_readonly("rows", &BaselineComparison::rows)
      .def_readonly("differences", &BaselineComparison::differences)
      .def("text", &baseline_text);
  module.def("is_certain", [](const Measured& measured) { return is_there(measured); });
}

using ReportOptions = decltype(WorkloadInfo::options);

void add_report(py::module_& module) {
  py::class_<DoctorReport>(module, "DoctorReport")
      .def(
          py::init([](const std::string& device, std::string name, ReportOptions options,
                      Observations observed, Diagnosis diagnosis, double seconds, double budget_s) {
            DoctorReport report;
            report.environment = collect_environment(*get_context(device));
            report.workload = {std::move(name), std::move(options)};
            report.observed = std::move(observed);
            report.diagnosis = std::move(diagnosis);
            report.seconds = seconds;
            report.budget_s = budget_s;
            return report;
          }))
      .def("set_ranks",
           [](DoctorReport& report, std::size_t rank, std::vector<RankResult> ranks) {
             report.rank = rank;
             report.ranks = std::move(ranks);
           })
      .def_readonly("rank", &DoctorReport::rank)
      .def("slowest_rank",
           [](const DoctorReport& report) -> std::optional<std::size_t> {
             const RankResult* slowest = slowest_rank(report);
             return slowest == nullptr ? std::nullopt : std::optional(slowest->rank);
           })
      .def("judge_share",
           [](const DoctorReport& report, double least) {
             return std::string(to_string(judge_share(report.diagnosis, least)));
           })
      .def("compare",
           [](const DoctorReport& report, const std::string& baseline) {
             return against_baseline(report, baseline);
           })
      .def("summary", &doctor_summary)
      .def("text", &doctor_text)
      .def("html", &doctor_html)
      .def("json", &doctor_report_json);
}

}  // namespace

void add_diagnosis(py::module_& module) {
  add_figures(module);
  add_host_costs(module);
  add_observations(module);
  add_verdict(module);
  add_comparison(module);
  add_report(module);
}

}  // namespace slipstream
