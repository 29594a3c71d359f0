#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "bindings/native_loader.h"
#include "bindings/python_lister.h"
#include "bindings/python_steps.h"
#include "training/run_logging.h"
#include "training/schedule_settings.h"

namespace slipstream {

/// Name of the training stage.
inline constexpr const char* kTrainName = "model";

/// Parameters with separate optimizer settings.
struct GroupSettings {
  std::vector<at::Tensor> parameters;
  std::optional<double> lr, weight_decay;
};

/// A stage before training: its module, or None, and the function to call.
struct StageSettings {
  std::string name;
  pybind11::object module, function;
  bool takes_number = false;  ///< whether the function uses the number of the batch
};

/// The arguments of slipstream.Trainer.
struct TrainerSettings {
  pybind11::list kept;  ///< receives the called objects; must live as long as the trainer
  pybind11::object module, forward;
  pybind11::object loss;  ///< None: cross entropy
  std::vector<std::string> inputs, targets;
  std::optional<OrderSettings> order;  ///< no value: the loader computes the order
  std::vector<StageSettings> stages;
  std::string optimizer = "sgd";
  double lr = 1e-3;
  std::optional<double> momentum, weight_decay, eps;
  bool nesterov = false;
  std::optional<std::array<double, 2>> betas;
  std::vector<std::string> no_weight_decay_on;
  std::vector<GroupSettings> groups;
  TrainingOptions training;
  ScheduleSettings schedule;
  double label_smoothing = 0;
  std::uint64_t steps = 0;                          ///< number of steps of the whole training
  std::optional<std::vector<std::string>> metrics;  ///< empty: those that fit the target
  std::vector<std::pair<std::string, pybind11::object>> own_metrics;
  std::int64_t num_classes = 0;  ///< classes for metrics; 0: as many as the data set has
  std::string precision = "tf32", plan = "pipelined";
  std::optional<std::string> transforms_device;  ///< empty: the value of the loader
  bool deterministic = false, channels_last = true, in_one_thread = false, shows_progress = false;
  unsigned threads = 1;  ///< threads inside an operation, on a CPU
  std::string checkpoint;
  std::uint64_t save_every = 0;
  std::size_t keep_last = 3;
  RunLogOptions log;
  WorkloadInfo workload;             ///< only for records
  std::vector<std::string> command;  ///< the program and its arguments, only for records
};

/// Creates a pipeline with a loader's data, transforms and order, without stages. If
/// `is_evaluated`, evaluation also runs the functions in Python, which it otherwise leaves out.
/// `batch_size`: that of the pipeline, without a value that of the loader. Throws Refused for a
/// loader that loads the share of one of several processes.
Pipeline make_data_pipeline(const NativeLoader& loader, bool is_evaluated,
                            std::optional<std::size_t> batch_size = std::nullopt);
/// Creates the pipeline of make_data_pipeline() with stages, model, loss and metrics. Adds the
/// options of the schedule to `workload`. Needs the GIL. Throws Refused for invalid settings.
Pipeline build_pipeline(const NativeLoader& loader, const TrainerSettings& settings,
                        WorkloadInfo& workload);

}  // namespace slipstream
