#include "run/trainer_impl.h"
#include "slipstream/run/fork_join.h"

namespace slipstream {
namespace {

/// Of the forks that `module`, a stage called `stage`, is or holds.
void add_forks(const std::string& stage, const torch::nn::Module* module,
               std::vector<Gain>& gains) {
  if (module == nullptr) return;
  for (const auto& item : module->named_modules()) {
    const auto* fork = dynamic_cast<const ForkJoinImpl*>(item.value().get());
    if (fork == nullptr) continue;
    gains.push_back(fork->gain());
    gains.back().of = item.key().empty() ? stage : stage + "." + item.key();
  }
}

}  // namespace

std::vector<Gain> Trainer::Impl::gains(const std::optional<Gain>& loading) const {
  std::vector<Gain> gains;
  for (const auto& stage : pipeline.stages())
    add_forks(stage.name, stage.stage.module.get(), gains);
  add_forks(pipeline.train_name(), pipeline.train_stage().module.get(), gains);
  if (loading) gains.push_back(*loading);
  return gains;
}

}  // namespace slipstream
