#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>

#include "cli/common_options.h"
#include "cli/input.h"
#include "cli/option_text.h"
#include "slipstream/transforms/chain.h"

namespace slipstream {
namespace {

bool is_flag(const Option& option) { return std::holds_alternative<bool>(option.value); }

const Option* declared(const Workload& workload, const std::string& name) {
  for (const Option& option : workload.options)
    if ("--" + option.name == name) return &option;
  return nullptr;
}

/// Returns the name of the workload on the command line, or "". This must be known before parsing,
/// because the workload determines the valid options. Unknown options are refused elsewhere.
std::string name_in(const CLI::App& verb, const Cli& cli) {
  const std::vector<std::string>& words = cli.words;
  if (words.empty() || words.front() != verb.get_name()) return "";
  for (std::size_t i = 1; i < words.size(); ++i) {
    const std::string& word = words[i];
    if (word.rfind('-', 0) != 0) return word;
    if (option_takes_value(verb, cli, word).value_or(false)) ++i;
  }
  return "";
}

std::string listed(const std::vector<std::string>& names, const char* last) {
  std::string text;
  for (std::size_t i = 0; i < names.size(); ++i)
    text += (i == 0 ? "" : i + 1 == names.size() ? last : ", ") + names[i];
  return text;
}

std::string option_key(std::string name) {
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

void refuse_clashes(const CLI::App& verb, const Cli& cli) {
  std::vector<std::string> problems;
  for (const Workload& workload : cli.workloads) {
    static_cast<void>(Options(workload.options));
    for (const Option& option : workload.options)
      if (verb.get_option_no_throw("--" + option.name) != nullptr)
        problems.push_back("the workload " + workload.name + " declares --" + option.name +
                           ", which " + verb.get_name() + " has itself: give it another name");
  }
  refuse(problems);
}

}  // namespace

std::vector<std::string> Cli::command() const {
  std::vector<std::string> all = {program};
  all.insert(all.end(), words.begin(), words.end());
  return all;
}

const Workload* Cli::workload_called(const std::string& name) const {
  for (const Workload& workload : workloads)
    if (workload.name == name) return &workload;
  return nullptr;
}

std::vector<std::string> Cli::workload_names() const {
  std::vector<std::string> names;
  for (const Workload& workload : workloads) names.push_back(workload.name);
  return names;
}

std::string workload_problem(const CLI::App& verb, const Cli& cli) {
  if (verb.get_option_no_throw("workload") == nullptr) return "";
  const std::string name = name_in(verb, cli);
  for (std::string word : cli.words) {
    word = word.substr(0, word.find('='));
    if (word.rfind("--", 0) != 0 || verb.get_option_no_throw(word) != nullptr) continue;
    std::vector<std::string> owners;
    for (const Workload& workload : cli.workloads)
      if (declared(workload, word) != nullptr) owners.push_back(workload.name);
    if (owners.empty()) return "";
    const std::string of =
        word + " is an option of the workload" + (owners.size() == 1 ? " " : "s ");
    if (name.empty())
      return of + listed(owners, " or ") + ": give the workload as the first argument of " +
             verb.get_name();
    return of + listed(owners, " and ") + "; " + name + " does not have it: leave it out";
  }
  return "";
}

void CommonOptions::add_workloads_own_to(CLI::App& verb) {
  refuse_clashes(verb, *cli_);
  const std::string name = name_in(verb, *cli_);
  verb.parse_complete_callback([this, &verb, name] {
    given_precision = verb.count("--precision") > 0;
    given_seed = verb.count("--seed") > 0;
    const auto is_given = [&verb](const char* each) {
      const CLI::Option* option = verb.get_option_no_throw(each);
      return option != nullptr && option->count() > 0;
    };
    given_batch_size_ = is_given("--batch-size");
    given_transforms_device_ = is_given("--transforms-device");
    given_shuffle_ = is_given("--shuffle");
    given_drop_last_ = is_given("--drop-last");
    if (!workload.empty() && workload != name)
      throw Refused("name the workload first: " + verb.get_name() + " " + workload + " ...");
  });
  const Workload* own = cli_->workload_called(name);
  if (own == nullptr) {
    verb.footer(
        "Each workload also has its own options: '" + verb.get_name() +
        " WORKLOAD --help' lists them.\nWorkloads: " + listed(cli_->workload_names(), ", "));
    return;
  }
  options = find_options(cli_->workloads, name);
  defaults = own->defaults;
  if (CLI::Option* option = verb.get_option_no_throw("--batch-size"); option && defaults.batch_size)
    option->default_str(std::to_string(*defaults.batch_size));
  for (const Option& option : own->options) add_own(verb, option);
}

void CommonOptions::add_own(CLI::App& verb, const Option& option) {
  const std::string name = "--" + option.name;
  const std::string group =
      option.group.empty() ? "Options of the workload " + name_in(verb, *cli_) : option.group;
  if (is_flag(option)) {
    verb.add_flag_callback(
            name, [this, option] { options.give(option.name, true); }, option.help)
        ->group(group);
    return;
  }
  const auto take = [this, option, name](const std::string& text) {
    const OptionValue value = value_in(option, text);
    // A text with a check is one of a few words, not a path.
    if (std::holds_alternative<std::string>(value) && !option.check)
      given_texts_.emplace_back(name, text);
    options.give(option.name, value);
  };
  const auto problem = [option](const std::string& text) -> std::string {
    if (text.empty()) return "the value is empty";
    try {
      static_cast<void>(value_in(option, text));
      return "";
    } catch (const Refused& refused) {
      return refused.what();
    }
  };
  constexpr const char* kTypes[] = {"", "INT", "FLOAT", "TEXT"};
  verb.add_option_function<std::string>(name, take, option.help)
      ->check(problem)
      ->type_name(kTypes[option.value.index()])
      ->default_str(default_text(option))
      ->group(group);
}

std::string CommonOptions::transforms_json() const {
  if (!options.is_given("transforms")) return "";
  const OptionValue value = options.value("transforms");
  const auto* text = std::get_if<std::string>(&value);
  return text == nullptr ? "" : to_json_text(chain_in(*text));
}

NamedPaths CommonOptions::output_folders() const {
  if (!options.is_given("disk-cache")) return {};
  const OptionValue value = options.value("disk-cache");
  const auto* text = std::get_if<std::string>(&value);
  return folder_of_disk_cache(text == nullptr ? "" : *text);
}

NamedPaths CommonOptions::inputs(const std::string& plan) const {
  NamedPaths paths;
  std::error_code failed;
  // Without a slash, the value may be the name of a plan, for example "serial".
  if (plan.find('/') != std::string::npos || std::filesystem::is_regular_file(plan, failed))
    paths.emplace_back("--plan", plan);
  for (const auto& given : given_texts_)
    if (std::filesystem::exists(given.second, failed)) paths.push_back(given);
  return paths;
}

void CommonOptions::check_made(const Pipeline& made, const Options& asked,
                               bool asked_for_size) const {
  const SampleOptions& in_force = made.options();
  std::vector<std::string> problems;
  if (asked_for_size && in_force.batch_size != asked.batch_size)
    problems.push_back("batch size " + std::to_string(asked.batch_size) + ": " + workload +
                       " trains on batches of " + std::to_string(in_force.batch_size));
  const auto check = [&](const char* name, bool given, bool is_asked, bool is_in_force) {
    if (given && is_asked != is_in_force)
      problems.push_back((is_asked ? "--" : "--no-") + std::string(name) + " has no effect on " +
                         workload + ", which sets this itself; leave it out");
  };
  check("shuffle", given_shuffle_, asked.shuffle, in_force.shuffle);
  check("drop-last", given_drop_last_, asked.drop_last, in_force.drop_last);
  refuse(problems);
}

Pipeline CommonOptions::declare_on(const std::string& data) const {
  if (!options.has("data"))
    throw Refused("--val: the workload " + workload + " has no option --data");
  Options asked = options;
  asked.give("data", data);
  return make_pipeline(cli_->workloads, workload, asked);
}

void check_same_classes(const Dataset& trained, const Dataset& other) {
  const std::vector<std::string> ours = trained.class_names(), theirs = other.class_names();
  if (ours == theirs || ours.empty() || theirs.empty()) return;
  std::string message = "--val has other classes than the training data";
  const auto add = [&message](const char* what, const auto& of, const auto& in) {
    for (const std::string& name : of)
      if (std::find(in.begin(), in.end(), name) == in.end()) {
        message += std::string("; ") + what + ": " + printable_name(name);
        return;
      }
  };
  add("it does not have", ours, theirs);
  add("only --val has", theirs, ours);
  throw Refused(message + ". Name all of them with --classes-from");
}

Declared CommonOptions::declare(std::optional<std::size_t> batch_size) const {
  cli_->check_interrupt();
  Options asked = options;
  asked.batch_size = batch_size.value_or(options.batch_size);
  Pipeline made = make_pipeline(cli_->workloads, workload, asked);
  check_made(made, asked, batch_size || given_batch_size_);
  const SampleOptions& in_force = made.options();
  WorkloadInfo info{workload,
                    {{"batch_size", static_cast<std::int64_t>(in_force.batch_size)},
                     {"seed", static_cast<std::int64_t>(asked.seed)},
                     {"shuffle", in_force.shuffle},
                     {"drop_last", in_force.drop_last}}};
  for (auto& [name, value] : asked.in_force())
    info.options.emplace_back(option_key(name), std::move(value));
  cli_->check_interrupt();
  made = training.applied(std::move(made), info);
  return {std::move(made), std::move(info)};
}

}  // namespace slipstream
