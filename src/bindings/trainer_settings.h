#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "bindings/native_loader.h"
#include "bindings/python_steps.h"
#include "training/run_logging.h"
#include "training/schedule_settings.h"

namespace slipstream {

/// The name of the training stage.
inline constexpr const char* kTrainName = "model";

/// Parameters that are trained otherwise than the rest.
struct GroupSettings {
  std::vector<at::Tensor> parameters;
  std::optional<double> lr, weight_decay;
};

/// A stage ahead of training: its module, or None, and what is called.
struct StageSettings {
  std::string name;
  pybind11::object module, function;
};

/// What slipstream.Trainer was given.
struct TrainerSettings {
  pybind11::list kept;  ///< gets what is called; to be kept for as long as the trainer
  pybind11::object module, forward;
  pybind11::object loss;  ///< None: cross entropy
  std::vector<std::string> inputs, targets;
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
  std::uint64_t steps = 0;                          ///< of the whole training
  std::optional<std::vector<std::string>> metrics;  ///< no value: those that fit the target
  std::vector<std::pair<std::string, pybind11::object>> own_metrics;
  std::int64_t num_classes = 0;  ///< that metrics count; 0: as the data set says
  std::string precision = "tf32", plan = "pipelined";
  std::optional<std::string> transforms_device;  ///< no value: as the loader's
  bool deterministic = false, channels_last = true, in_one_thread = false, shows_progress = false;
  unsigned threads = 1;  ///< inside an operation, on a CPU
  std::string checkpoint;
  std::uint64_t save_every = 0;
  std::size_t keep = 3;
  RunLogOptions log;
  WorkloadInfo workload;             ///< for records alone
  std::vector<std::string> command;  ///< the program and its arguments, for records alone
};

/// The data of a loader, its transforms and its order, without stages. With `is_evaluated`
/// functions in Python are none that evaluation leaves out. Throws Refused for the share of one of
/// several processes.
Pipeline make_data_pipeline(const NativeLoader& loader, bool is_evaluated);
/// make_data_pipeline() with stages, model, loss and metrics. Adds the options of the schedule to
/// `workload`. Needs Python's lock. Throws Refused for what makes no sense.
Pipeline build_pipeline(const NativeLoader& loader, const TrainerSettings& settings,
                        WorkloadInfo& workload);

}  // namespace slipstream
