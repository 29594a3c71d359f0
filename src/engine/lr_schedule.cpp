#include <algorithm>
#include <cmath>
#include <numbers>

#include "core/enum_names.h"
#include "slipstream/engine/optimizer.h"

namespace slipstream {
namespace {

using Kind = LrSchedule::Kind;

constexpr EnumNames<Kind, 5> kNames = {{{Kind::constant, "constant"},
                                        {Kind::step, "step"},
                                        {Kind::cosine, "cosine"},
                                        {Kind::linear, "linear"},
                                        {Kind::one_cycle, "one-cycle"}}};

constexpr double kShareThatRises = 0.3;
constexpr double kBeginOfCycle = 1.0 / 25;
constexpr double kEndOfCycle = kBeginOfCycle / 1e4;

double half_cosine(double from, double to, double share) {
  return to + (from - to) * (1 + std::cos(std::numbers::pi * share)) / 2;
}

/// Counts as OneCycleLR does: update 0 has the lowest rate, and the last update has the final rate.
double one_cycle(double update, double updates) {
  const double top = kShareThatRises * updates - 1;
  const double last = updates - 1;
  if (update <= top) return half_cosine(kBeginOfCycle, 1, update / top);
  return half_cosine(1, kEndOfCycle, std::min(1.0, (update - top) / (last - top)));
}

bool is_share(double value) { return value >= 0 && value <= 1; }

}  // namespace

double LrSchedule::factor(std::uint64_t update) const {
  if (kind == Kind::one_cycle)
    return one_cycle(static_cast<double>(update), static_cast<double>(updates));
  if (update < warmup)
    return warmup_factor +
           (1 - warmup_factor) * static_cast<double>(update) / static_cast<double>(warmup);
  const std::uint64_t behind = update - warmup;
  if (kind == Kind::constant) return 1;
  if (kind == Kind::step) return std::pow(gamma, static_cast<double>(behind / step_size));
  const double share =
      std::min(1.0, static_cast<double>(behind) /
                        static_cast<double>(std::max<std::uint64_t>(1, updates - warmup)));
  return kind == Kind::cosine ? half_cosine(1, end_factor, share) : 1 + (end_factor - 1) * share;
}

void LrSchedule::validate() const {
  std::vector<std::string> problems;
  const auto need = [&](bool holds, const std::string& problem) {
    if (!holds) problems.push_back("learning rate schedule: " + problem);
  };
  const bool has_end = kind != Kind::constant && kind != Kind::step;
  need(!has_end || updates > 0, "it needs the number of updates of the training");
  need(!has_end || warmup < updates, "the warm-up of " + std::to_string(warmup) +
                                         " updates is not shorter than the training, which has " +
                                         std::to_string(updates));
  need(kind != Kind::step || step_size > 0, "step needs a step size of at least 1");
  need(kind != Kind::one_cycle || updates >= 4, "one-cycle needs at least 4 updates");
  need(kind != Kind::one_cycle || warmup == 0, "one-cycle already has a warm-up");
  need(std::isfinite(gamma) && gamma > 0, "gamma must be above 0");
  need(is_share(end_factor) && is_share(warmup_factor), "factors must be from 0 to 1");
  refuse(problems);
}

LrSchedule::Kind schedule_named(const std::string& name) {
  return enum_named(kNames, "schedule", name);
}

}  // namespace slipstream
