#include "slipstream/cli/workload.h"

#include <ATen/Context.h>

#include "cli/option_lists.h"
#include "cli/workloads.h"
#include "core/text.h"

namespace slipstream {
namespace {

OptionList options_of_segmentation() {
  return data_options() +
         OptionList{image_size_option("Height and width of the images, a power of two"),
                    transforms_option()} +
         optimizer_options();
}

void refuse_unread(const Options& options, const std::string& workload) {
  std::vector<std::string> problems;
  for (const std::string& name : options.unread())
    problems.push_back("--" + name + " has no effect on " + workload +
                       " with these options; leave it out");
  refuse(problems);
}

}  // namespace

std::shared_ptr<Optimizer> make_optimizer(const Options& options) {
  const double lr = options.number("lr");
  const auto decay_or = [&options](double otherwise) {
    return options.has_value("weight-decay") ? options.number("weight-decay") : otherwise;
  };
  std::vector<ParameterGroup> groups;
  if (options.has_value("no-weight-decay-on"))
    groups.push_back(no_weight_decay_on(split(options.text("no-weight-decay-on"), ',')));
  if (options.text("optimizer") == "sgd")
    return sgd({.lr = lr,
                .momentum = options.number("momentum"),
                .weight_decay = decay_or(SgdOptions().weight_decay),
                .nesterov = options.flag("nesterov"),
                .groups = std::move(groups)});
  for (const char* of_sgd : {"momentum", "nesterov"})
    if (options.is_given(of_sgd))
      throw Refused("adamw has no " + std::string(of_sgd) + "; leave --" + of_sgd + " out");
  return adamw({.lr = lr,
                .weight_decay = decay_or(AdamWOptions().weight_decay),
                .groups = std::move(groups)});
}

const Workload& workload_named(const std::vector<Workload>& workloads, const std::string& name) {
  std::vector<std::string> known;
  for (const Workload& workload : workloads) {
    if (workload.name == name) return workload;
    known.push_back(workload.name);
  }
  throw Refused(unknown_name("workload", name, known));
}

Options find_options(const std::vector<Workload>& workloads, const std::string& name) {
  const Workload& workload = workload_named(workloads, name);
  Options options(workload.options);
  options.batch_size = workload.defaults.batch_size.value_or(options.batch_size);
  return options;
}

Pipeline make_pipeline(const std::vector<Workload>& workloads, const std::string& name,
                       Options& options) {
  const Workload& workload = workload_named(workloads, name);
  at::manual_seed(options.seed);
  Pipeline made = workload.make(options);
  refuse_unread(options, name);
  return made;
}

std::vector<Workload> built_in_workloads() {
  return {{"segmentation", segmentation, options_of_segmentation()},
          {"classification", classification, options_of_classification()},
          {"branches", branches, options_of_branches()},
          {"starved", starved, options_of_starved(), {.batch_size = 256, .num_workers = 4}}};
}

}  // namespace slipstream
