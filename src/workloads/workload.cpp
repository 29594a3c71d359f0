#include "slipstream/workload.h"

#include <ATen/Context.h>

#include "workloads/workloads.h"

namespace slipstream {
namespace {

/// What is wrong with `given`, an option of `owner`; empty where none is given.
std::string foreign(const std::string& owner, const std::string& workload,
                    const std::string& given) {
  if (given.empty()) return "";
  return given + " is of the workload " + owner + "; " + workload + " has none: leave it out";
}

void refuse(const std::string& problem) {
  if (!problem.empty()) throw Refused(problem);
}

}  // namespace

std::shared_ptr<Optimizer> make_optimizer(const Options& options) {
  if (options.optimizer == "sgd") return sgd({.lr = options.lr, .momentum = options.momentum});
  if (options.optimizer == "adamw" && options.momentum != 0)
    throw Refused("adamw has no momentum; leave --momentum out");
  if (options.optimizer == "adamw") return adamw({.lr = options.lr});
  throw Refused(unknown_name("optimiser", options.optimizer, {"sgd", "adamw"}));
}

SyntheticOptions synthetic_of(const Options& options) {
  SyntheticOptions synthetic;
  synthetic.size = options.image_size;
  synthetic.classes = options.classes;
  synthetic.seed = options.seed;
  return synthetic;
}

std::string problem_of_branches_options(const Options& options, const std::string& workload) {
  if (!options.mode.empty())
    return workload + " has no modes; leave --mode " + options.mode + " out";
  const Options none;
  return foreign("branches", workload,
                 options.fork != none.fork         ? "--fork"
                 : options.members != none.members ? "--members"
                 : options.load_ms != none.load_ms ? "--load-ms"
                 : options.step_ms != none.step_ms ? "--step-ms"
                                                   : "");
}

void refuse_options_of_starved(const Options& options, const std::string& workload) {
  refuse(foreign("starved", workload,
                 !options.transforms.empty() ? "--transforms"
                 : !options.costs.empty()    ? "--costs"
                 : options.raw_size != 0     ? "--raw-size"
                                             : ""));
}

void refuse_other_options(const Options& options, const std::string& workload) {
  refuse_options_of_starved(options, workload);
  refuse(problem_of_branches_options(options, workload));
}

Pipeline make_pipeline(const std::vector<Workload>& workloads, const std::string& name,
                       const Options& options) {
  std::vector<std::string> known;
  for (const Workload& workload : workloads) {
    known.push_back(workload.name);
    if (workload.name != name) continue;
    at::manual_seed(options.seed);
    return workload.make(options);
  }
  throw Refused(unknown_name("workload", name, known));
}

std::vector<Workload> built_in_workloads() {
  return {{"segmentation", segmentation},
          {"classification", classification},
          {"branches", branches},
          {"starved", starved, defaults_of_starved}};
}

}  // namespace slipstream
