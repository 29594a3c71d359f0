#include "cli/option_hints.h"

#include <CLI/CLI.hpp>
#include <algorithm>

#include "slipstream/core/error.h"

namespace slipstream {
namespace {

/// An option by a name that other programs give it, and ours with the value that it stands for.
struct Synonym {
  std::string_view theirs, ours, value;
};
constexpr Synonym kSynonyms[] = {{"--learning-rate", "--lr", ""},
                                 {"--batch", "--batch-size", ""},
                                 {"--bs", "--batch-size", ""},
                                 {"--workers", "--num-workers", ""},
                                 {"--wd", "--weight-decay", ""},
                                 {"--amp", "--precision", " bf16"},
                                 {"--bf16", "--precision", " bf16"},
                                 {"--fp16", "--precision", " fp16"},
                                 {"-v", "--version", ""},
                                 {"-V", "--version", ""}};

struct PlanKey {
  std::string_view option, key, value;
};
constexpr PlanKey kPlanKeys[] = {
    {"--pin-memory", "schedule.loader.pin_memory", "true on a GPU"},
    {"--cudnn-benchmark", "numerics.cudnn_benchmark", "true on a GPU without --deterministic,"},
    {"--channels-last", "numerics.channels_last", "true"}};

/// "" for an option that no key of a plan stands for.
std::string plan_key_hint(const std::string& option) {
  for (const PlanKey& each : kPlanKeys) {
    if (each.option != option) continue;
    return "it is a key of the plan, " + std::string(each.key) + " (" + std::string(each.value) +
           " unless a plan says otherwise): write a plan with train --plan-out FILE, change it, "
           "and give it with train --plan FILE";
  }
  return "";
}

}  // namespace

std::string unknown_option(const std::string& option, const std::vector<std::string>& known,
                           const std::string& help) {
  const std::string unknown = "unknown option '" + option + "'; ";
  const auto is_known = [&known](std::string_view name) {
    return std::find(known.begin(), known.end(), name) != known.end();
  };
  for (const Synonym& each : kSynonyms)
    if (each.theirs == option && is_known(each.ours))
      return unknown + "did you mean '" + std::string(each.ours) + std::string(each.value) + "'?";
  if (const std::string hint = plan_key_hint(option); !hint.empty() && is_known("--precision"))
    return unknown + hint;
  if (const std::string nearest = nearest_name(option, known); !nearest.empty())
    return unknown + "did you mean '" + nearest + "'? " + help + " shows all";
  return unknown + help + " shows those that there are";
}

}  // namespace slipstream
