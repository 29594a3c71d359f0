#include <pybind11/stl.h>

#include "bindings/gil.h"
#include "bindings/interrupts.h"
#include "bindings/python_steps.h"
#include "bindings/trainer.h"

namespace slipstream {
namespace {

namespace py = pybind11;

/// Calls a slipstream._fit.FitCalls. All functions except show() need the GIL.
class PythonSteps final : public FitSteps {
 public:
  PythonSteps(NativeTrainer& trainer, py::handle calls, bool calls_on_step)
      : trainer_(trainer), calls_(calls), calls_on_step_(calls_on_step) {}

  RunResult train(RunOptions options) override {
    call("wait_for_closed");
    RunResult result = trainer_.train(std::move(options), raised_);
    call("warn_of_skipped");
    if (Interrupts::count() > 0) is_interrupted_ = result.interrupted = true;
    return result;
  }

  EvaluationResult evaluate() override {
    const py::object scores = call("evaluate");
    EvaluationResult result;
    if (scores.is_none())
      is_interrupted_ = result.interrupted = true;
    else
      result.scores = scores.cast<decltype(result.scores)>();
    return result;
  }

  bool save(const std::optional<CheckpointScore>& score) override {
    call("wait_for_closed");
    return trainer_.save(score);
  }

  void report_problem() override {
    const std::string problem = trainer_.problem();
    if (!problem.empty()) call("warn", py::make_tuple(problem));
  }

  void show(const Progress& progress) override {
    trainer_.show(progress);
    if (!calls_on_step_ || raised_ || !progress.measuring.empty()) return;
    const std::uint64_t step = trainer_.first_step() + progress.step;
    const GilAcquire locked;
    try {
      call_in_run(calls_.attr("end_step"),
                  py::make_tuple(step, progress.loss, trainer_.lr(step - 1), progress.elapsed_s,
                                 progress.input_wait_share));
    } catch (const py::error_already_set&) {
      raised_ = std::current_exception();
    }
  }

  void end_epoch(const EpochResult& epoch) override {
    call("end_epoch", py::make_tuple(epoch.row.step, epoch.row.epoch, epoch.losses.mean(),
                                     epoch.row.scores, epoch.is_best));
  }

  bool is_interrupted() const { return is_interrupted_; }

 private:
  py::object call(const char* name, const py::tuple& arguments = py::tuple()) const {
    return call_python(calls_.attr(name), arguments);
  }

  NativeTrainer& trainer_;
  py::handle calls_;
  bool calls_on_step_;
  std::exception_ptr raised_;  ///< exception of on_step
  bool is_interrupted_ = false;
};

}  // namespace

FitResult NativeTrainer::fit(py::handle calls, bool calls_on_step, FitOptions options) {
  options.steps = steps_;
  options.saves = checkpoints_ != nullptr;
  options.criterion = criterion_;
  options.criterion_option = "keep_best='" + criterion_ + "'";
  PythonSteps steps(*this, calls, calls_on_step);
  FitResult result =
      Fit(*trainer_, std::move(options), history_, steps, log_ ? &*log_ : nullptr).run();
  if (steps.is_interrupted()) {
    PyErr_SetNone(PyExc_KeyboardInterrupt);
    throw py::error_already_set();
  }
  if (result.run.interrupted) result.ended = "stopped";
  return result;
}

}  // namespace slipstream
