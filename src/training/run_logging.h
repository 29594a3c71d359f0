#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "report/report.h"
#include "report/run_log.h"
#include "slipstream/engine/trainer.h"

namespace slipstream {

struct RunLogOptions {
  std::string dir;           ///< the run folder; "": none
  std::uint64_t every = 50;  ///< steps between two rows
};

/// Writes the course of a training into a run folder (docs/run-folder.md).
class RunLogging {
 public:
  /// `facts` is the content of run.json. If `resumes`, rows are added to those in the folder.
  /// Otherwise throws Refused if the folder has the rows of another run. `trainer` must outlive
  /// this object.
  RunLogging(const RunLogOptions& options, const Trainer& trainer, bool resumes,
             const RunFacts& facts);

  /// Receives the progress of a training whose first step was the trainer's position when this
  /// object was created. Adds a row every RunLogOptions::every steps; finish() adds a row for the
  /// steps after the last one.
  void update(const Progress& progress);
  /// Adds a row of scores.
  void add(const ScoreRow& row);
  /// Writes everything that has not been written yet. Returns what went wrong; "" if nothing did.
  std::string finish();

 private:
  double epoch_at(std::uint64_t step) const;
  /// Adds a row of the steps since the last one, if there are any.
  void add_steps();

  const Trainer& trainer_;
  std::uint64_t every_, first_step_;
  double steps_of_epoch_;
  RunLog log_;
  double losses_ = 0;  ///< sum of the losses since the last row
  std::uint64_t steps_ = 0, last_step_ = 0, latest_step_ = 0;
  double latest_wait_share_ = 0;
  double last_s_ = 0, now_s_ = 0;
};

/// Returns the workload as JSON.
std::string json_text(const WorkloadInfo& workload);
/// Returns the workload as JSON, with the names of classes and the JSON text `transforms`, if there
/// are any. It is stored in checkpoints.
std::string make_notes(const WorkloadInfo& workload, const std::vector<std::string>& class_names,
                       const std::string& transforms = "");

/// Returns the content of run.json. `command` is the program and its arguments.
RunFacts make_run_facts(const std::vector<std::string>& command, const Environment& environment,
                        const WorkloadInfo& workload, const Trainer& trainer, std::uint64_t steps,
                        const std::string& plan_json);

}  // namespace slipstream
