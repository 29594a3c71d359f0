#include <CLI/CLI.hpp>
#include <algorithm>

#include "cli/common_options.h"

namespace slipstream {
namespace {

/// The name of an option in other programs, and the equivalent option and value of this one.
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

/// Returns a hint to the plan's key for an option, or "" if there is none.
std::string plan_key_hint(const std::string& option) {
  for (const PlanKey& each : kPlanKeys) {
    if (each.option != option) continue;
    return "it is a key of the plan, " + std::string(each.key) + " (" + std::string(each.value) +
           " unless a plan sets it): write a plan with train --plan-out FILE, change it, and give "
           "it with train --plan FILE";
  }
  return "";
}

/// Returns the message for an unknown option. It proposes the equivalent option, or key of a plan,
/// if PyTorch or torchvision uses this name, otherwise the option of `known`, each as "--name",
/// with the nearest name. `help`: the command that shows all options.
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
  return unknown + help + " shows all options";
}

std::vector<const CLI::App*> verbs_below(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App*) { return true; });
}

bool takes_workload(const CLI::App& verb) {
  return verb.get_option_no_throw("workload") != nullptr;
}

/// Returns the known options. If the command line names no workload, these include the options of
/// all workloads.
std::vector<std::string> known_options(const CLI::App& verb, const Cli& cli,
                                       bool is_workload_named) {
  std::vector<std::string> names;
  for (const CLI::Option* option : verb.get_options())
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  if (is_workload_named || !takes_workload(verb)) return names;
  for (const Workload& workload : cli.workloads)
    for (const Option& option : workload.options)
      if (const std::string name = "--" + option.name;
          std::find(names.begin(), names.end(), name) == names.end())
        names.push_back(name);
  return names;
}

/// The position of the check in the words of the command line.
struct OptionSite {
  const CLI::App* verb;
  std::string path;        ///< the program and the verbs before this position
  bool is_program = true;  ///< whether there was no verb before this position
  bool is_workload_named = false;
};

void take_plain_word(OptionSite& place, const std::string& word, const Cli& cli) {
  for (const CLI::App* below : verbs_below(*place.verb)) {
    if (below->get_name() != word) continue;
    place = {below, place.path + " " + word, false, false};
    return;
  }
  const bool is_workload = takes_workload(*place.verb) && !place.is_workload_named;
  if (!place.is_program && !is_workload) return;
  if (place.is_program || cli.workload_called(word) == nullptr) {
    std::vector<std::string> names =
        is_workload ? cli.workload_names() : std::vector<std::string>();
    for (const CLI::App* below : verbs_below(*place.verb)) names.push_back(below->get_name());
    throw Refused(unknown_name(is_workload ? "workload" : "verb", word, names));
  }
  place.is_workload_named = true;
  place.path += " " + word;
}

}  // namespace

std::optional<bool> option_takes_value(const CLI::App& verb, const Cli& cli,
                                       const std::string& name) {
  if (const CLI::Option* option = verb.get_option_no_throw(name))
    return option->get_items_expected_max() > 0;
  if (!takes_workload(verb)) return std::nullopt;
  for (const Workload& workload : cli.workloads)
    for (const Option& option : workload.options)
      if ("--" + option.name == name) return !std::holds_alternative<bool>(option.value);
  return std::nullopt;
}

void refuse_unknown_words(const CLI::App& app, const Cli& cli) {
  OptionSite place{&app, app.get_name()};
  for (std::size_t i = 0; i < cli.words.size(); ++i) {
    const std::string& word = cli.words[i];
    if (word == "--" || word == "-h" || word == "--help") return;
    if (word.rfind('-', 0) != 0 || word.size() == 1) {
      take_plain_word(place, word, cli);
      continue;
    }
    const std::string name = word.substr(0, word.find('='));
    const std::optional<bool> takes_value = option_takes_value(*place.verb, cli, name);
    if (!takes_value)
      throw Refused(unknown_option(name, known_options(*place.verb, cli, place.is_workload_named),
                                   place.path + " --help"));
    if (*takes_value && name.size() == word.size()) ++i;
  }
}

}  // namespace slipstream
