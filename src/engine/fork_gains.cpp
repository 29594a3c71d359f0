#include "engine/fork_gains.h"

#include "slipstream/engine/fork_join.h"

namespace slipstream {
namespace {

/// Adds the gains of the forks that `module`, a stage called `stage`, is or contains.
void add_forks(const std::string& stage, const torch::nn::Module* module,
               std::vector<Gain>& gains) {
  if (module == nullptr) return;
  for (const auto& item : module->named_modules()) {
    const auto* fork = dynamic_cast<const ForkJoinImpl*>(item.value().get());
    if (fork == nullptr) continue;
    gains.push_back(fork->gain());
    gains.back().part = item.key().empty() ? stage : stage + "." + item.key();
  }
}

}  // namespace

std::vector<Gain> fork_gains(const Pipeline& pipeline) {
  std::vector<Gain> gains;
  for (const auto& stage : pipeline.stages())
    add_forks(stage.name, stage.stage.module.get(), gains);
  for (const NamedModule& each : pipeline.train_step()->modules())
    add_forks(pipeline.train_name() + (each.name.empty() ? "" : "." + each.name), each.module.get(),
              gains);
  return gains;
}

}  // namespace slipstream
