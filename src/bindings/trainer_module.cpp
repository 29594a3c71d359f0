#include <pybind11/stl.h>

#include "bindings/interrupts.h"
#include "bindings/trainer.h"
#include "training/resume.h"

namespace slipstream {
namespace {

namespace py = pybind11;

TrainingOptions make_training_options(unsigned accumulate, double clip_grad, double ema_decay,
                                      const std::string& on_nan) {
  if (on_nan != "stop" && on_nan != "skip")
    throw Refused(unknown_name("choice", on_nan, {"stop", "skip"}));
  TrainingOptions options;
  options.accumulate = accumulate;
  options.clip_grad_norm = clip_grad;
  options.ema_decay = ema_decay;
  options.on_nan = on_nan == "skip" ? OnNonFinite::skip : OnNonFinite::stop;
  return options;
}

using S = TrainerSettings;

void add_values(py::class_<S>& settings) {
  settings.def(py::init<>())
      .def_readonly("kept", &S::kept)
      .def_readwrite("module", &S::module)
      .def_readwrite("forward", &S::forward)
      .def_readwrite("loss", &S::loss)
      .def_readwrite("inputs", &S::inputs)
      .def_readwrite("targets", &S::targets)
      .def_readwrite("optimizer", &S::optimizer)
      .def_readwrite("lr", &S::lr)
      .def_readwrite("eps", &S::eps)
      .def_readwrite("momentum", &S::momentum)
      .def_readwrite("weight_decay", &S::weight_decay)
      .def_readwrite("nesterov", &S::nesterov)
      .def_readwrite("betas", &S::betas)
      .def_readwrite("no_weight_decay_on", &S::no_weight_decay_on)
      .def_readwrite("label_smoothing", &S::label_smoothing)
      .def_readwrite("steps", &S::steps)
      .def_readwrite("metrics", &S::metrics)
      .def_readwrite("own_metrics", &S::own_metrics)
      .def_readwrite("num_classes", &S::num_classes)
      .def_readwrite("precision", &S::precision)
      .def_readwrite("plan", &S::plan)
      .def_readwrite("transforms_device", &S::transforms_device)
      .def_readwrite("deterministic", &S::deterministic)
      .def_readwrite("channels_last", &S::channels_last)
      .def_readwrite("in_one_thread", &S::in_one_thread)
      .def_readwrite("shows_progress", &S::shows_progress)
      .def_readwrite("threads", &S::threads)
      .def_readwrite("checkpoint", &S::checkpoint)
      .def_readwrite("save_every", &S::save_every)
      .def_readwrite("keep_last", &S::keep_last)
      .def_readwrite("command", &S::command);
}

void add_parts(py::class_<S>& settings) {
  settings
      .def("add_stage",
           [](S& made, std::string name, py::object of, py::object function, bool takes_number) {
             made.stages.push_back(
                 {std::move(name), std::move(of), std::move(function), takes_number});
           })
      .def("set_order",
           [](S& made, py::object order, std::uint64_t batches_per_epoch, std::size_t batch_size) {
             made.order = {std::move(order), batches_per_epoch, batch_size};
           })
      .def("add_group",
           [](S& made, std::vector<at::Tensor> parameters, std::optional<double> lr,
              std::optional<double> weight_decay) {
             made.groups.push_back({std::move(parameters), lr, weight_decay});
           })
      .def("set_training",
           [](S& made, unsigned accumulate, double clip_grad, double ema_decay,
              const std::string& on_nan) {
             made.training = make_training_options(accumulate, clip_grad, ema_decay, on_nan);
           })
      .def("set_schedule",
           [](S& made, std::string schedule, std::optional<double> warmup_epochs,
              std::optional<std::uint64_t> warmup_steps, std::optional<double> step_size,
              std::optional<double> gamma, std::optional<double> lr_min) {
             made.schedule = {std::move(schedule), warmup_epochs, step_size, gamma, lr_min,
                              warmup_steps};
           })
      .def("set_log",
           [](S& made, std::string dir, std::uint64_t every) {
             made.log = {std::move(dir), every};
           })
      .def("record_options",
           [](S& made, std::string name,
              std::vector<
                  std::pair<std::string, std::variant<bool, std::int64_t, double, std::string>>>
                  options) {
             made.workload = {std::move(name), std::move(options)};
           });
}

/// Destroys an object with threads only in the process that created it, and leaks it in a fork.
struct OwnerProcessDeleter {
  ProcessGuard made_in;
  template <typename Made>
  void operator()(Made* made) const {
    if (made_in.is_this_process()) delete made;
  }
};

struct InterruptsBlock {
  std::unique_ptr<Interrupts> taken = nullptr;
};

void add_results(py::module_& module) {
  py::class_<FitResult>(module, "FitResult")
      .def_property_readonly("losses", [](const FitResult& fit) { return fit.run.losses; })
      .def_property_readonly("seconds", [](const FitResult& fit) { return fit.run.wall_s; })
      .def_property_readonly("steps_per_second",
                             [](const FitResult& fit) {
                               const Measured rate = reportable_rate(fit.run.steps_per_second);
                               return rate.n > 0 ? std::optional(rate.value) : std::nullopt;
                             })
      .def_readonly("ended", &FitResult::ended)
      .def_readonly("is_saved", &FitResult::is_saved);
  py::class_<InterruptsBlock>(module, "Interrupts")
      .def(py::init<>())
      .def("__enter__",
           [](InterruptsBlock& block) { block.taken = std::make_unique<Interrupts>(); })
      .def("__exit__", [](InterruptsBlock& block, const py::args&) { block.taken.reset(); });
  module.def("interrupted", [] { return Interrupts::count() > 0; });
}

}  // namespace

void add_trainer(py::module_& module) {
  module.def("seed_of_resumed", [](const std::string& folder, const std::string& resume) {
    return seed_of_resumed(folder, resume);
  });
  py::class_<S> settings(module, "TrainerSettings");
  add_values(settings);
  add_parts(settings);
  add_results(module);
  using T = NativeTrainer;
  py::class_<T, std::shared_ptr<T>>(module, "NativeTrainer", py::dynamic_attr())
      .def(py::init([](const std::shared_ptr<NativeLoader>& loader, const S& given) {
        return std::shared_ptr<T>(new T(loader, given), OwnerProcessDeleter{});
      }))
      .def("position", &T::position)
      .def("digest", &T::digest)
      .def("select_criterion", &T::select_criterion)
      .def("open", &T::open)
      .def("begin", &T::begin)
      .def("end", &T::end)
      .def("restore", &T::restore)
      .def("fit",
           [](T& trainer, py::handle calls, bool calls_on_step, bool ends_epochs, bool evaluates,
              std::optional<std::uint64_t> early_stop) {
             return trainer.fit(
                 calls, calls_on_step,
                 {.ends_epochs = ends_epochs, .evaluates = evaluates, .early_stop = early_stop});
           })
      .def("stop", &T::stop)
      .def("finish", &T::finish)
      .def("averages", [](const T& trainer) {
        std::vector<std::pair<std::string, at::Tensor>> all;
        for (NamedTensor& each : trainer.averages()) all.emplace_back(each.name, each.tensor);
        return all;
      });
  using E = NativeEvaluator;
  py::class_<E, std::shared_ptr<E>>(module, "NativeEvaluator", py::dynamic_attr())
      .def(py::init([](std::shared_ptr<T> trainer, std::shared_ptr<NativeLoader> loader,
                       bool counts_scores, bool may_differ) {
        return std::shared_ptr<E>(
            new E(std::move(trainer), std::move(loader), counts_scores, may_differ),
            OwnerProcessDeleter{});
      }))
      .def("evaluate",
           [](E& evaluator) {
             const EvaluationResult result = evaluator.evaluate();
             return std::tuple(result.interrupted, result.samples, result.scores);
           })
      .def("predict", &E::predict)
      .def("stop", &E::stop);
}

}  // namespace slipstream
