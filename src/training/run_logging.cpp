#include "training/run_logging.h"

#include <filesystem>

#include "core/fingerprint.h"
#include "core/json_fields.h"
#include "report/json.h"

namespace slipstream {
namespace {

const RunLogOptions& checked(const RunLogOptions& options, bool resumes) {
  std::error_code failed;
  if (!resumes && std::filesystem::exists(std::filesystem::path(options.dir) / "run.json", failed))
    throw Refused("the run folder " + options.dir +
                  " contains another run: give a new folder, or resume that run");
  return options;
}

}  // namespace

RunLogging::RunLogging(const RunLogOptions& options, const Trainer& trainer, bool resumes,
                       const RunFacts& facts)
    : trainer_(trainer),
      every_(options.every),
      first_step_(trainer.position()),
      steps_of_epoch_(static_cast<double>(trainer.pipeline().batches_per_epoch())),
      log_(checked(options, resumes).dir, first_step_, facts) {}

double RunLogging::epoch_at(std::uint64_t step) const {
  return static_cast<double>(step) / steps_of_epoch_;
}

void RunLogging::update(const Progress& progress) {
  now_s_ = progress.elapsed_s;
  if (!progress.measuring.empty()) return;
  losses_ += progress.loss;
  ++steps_;
  latest_step_ = first_step_ + progress.step;
  latest_wait_share_ = progress.input_wait_share;
  if (latest_step_ % every_ == 0) add_steps();
}

void RunLogging::add_steps() {
  if (steps_ == 0) return;
  const std::uint64_t step = latest_step_;
  NamedValues values = {{"train/loss", losses_ / static_cast<double>(steps_)},
                        {"train/input_wait_share", latest_wait_share_}};
  if (const double took = now_s_ - last_s_; took > 0 && last_step_ > 0)
    values.emplace_back("train/steps_per_second", static_cast<double>(step - last_step_) / took);
  if (const auto lr = trainer_.pipeline().train_step()->lr(step - 1))
    values.emplace_back("train/lr", *lr);
  log_.add(step, epoch_at(step), now_s_, values);
  losses_ = 0;
  steps_ = 0;
  last_step_ = step;
  last_s_ = now_s_;
}

void RunLogging::add(const ScoreRow& row) {
  NamedValues values;
  for (const auto& [name, value] : row.scores) values.emplace_back("val/" + name, value);
  log_.add(row.step, row.epoch, now_s_, values);
}

std::string RunLogging::finish() {
  add_steps();
  log_.finish();
  return log_.problem();
}

std::string json_text(const WorkloadInfo& workload) { return to_json(workload).dump(); }

std::string make_notes(const WorkloadInfo& workload, const std::vector<std::string>& class_names,
                       const std::string& transforms) {
  Json notes = to_json(workload);
  if (!transforms.empty()) notes["transforms"] = json::parsed(transforms, "the transforms");
  if (!class_names.empty()) notes["class_names"] = class_names;
  return notes.dump(-1, ' ', false, Json::error_handler_t::replace);
}

RunFacts make_run_facts(const std::vector<std::string>& command, const Environment& environment,
                        const WorkloadInfo& workload, const Trainer& trainer, std::uint64_t steps,
                        const std::string& plan_json) {
  RunFacts facts = {{"command", command},
                    {"folder", std::filesystem::current_path().string()},
                    {"environment", environment},
                    {"workload", JsonText{json_text(workload)}},
                    {"steps", steps},
                    {"seed", trainer.pipeline().options().seed},
                    {"data_identity", to_hex(trainer.pipeline().dataset()->identity())},
                    {"samples", static_cast<std::uint64_t>(trainer.pipeline().dataset()->size())}};
  if (!plan_json.empty()) facts.emplace_back("plan", JsonText{plan_json});
  return facts;
}

}  // namespace slipstream
