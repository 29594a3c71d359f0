#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <iostream>

#include "cli/signals.h"
#include "cli/verbs.h"
#include "run/message.h"

namespace slipstream {
namespace {

std::string name_of_program(int argc, char** argv) {
  const std::string name = argc > 0 ? std::filesystem::path(argv[0]).filename().string() : "";
  return name.empty() ? "slipstream" : name;
}

bool offers_data(const std::vector<Workload>& workloads) {
  const std::string name = built_in_workloads().front().name;
  return std::any_of(workloads.begin(), workloads.end(),
                     [&](const Workload& workload) { return workload.name == name; });
}

std::vector<std::string> names_of(const CLI::App& app, bool options) {
  std::vector<std::string> names;
  if (options)
    for (const CLI::Option* option : app.get_options())
      for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  else
    for (const CLI::App* verb : app.get_subcommands([](const CLI::App*) { return true; }))
      names.push_back(verb->get_name());
  return names;
}

/// The parser's words behind the name of an option, and ours.
struct Reworded {
  std::string_view theirs, ours;
};
constexpr Reworded kReworded[] = {
    {": At Most 1 required but received ", " is given more than once: give it one time"},
    {": 1 required ", " needs a value behind it"},
    {"A subcommand is required", "no verb is given"},
};

/// The parser's words, but for those that only its authors understand.
std::string plain(const CLI::ParseError& error) {
  const std::string text = error.what();
  const std::string unread = "Could not convert: ";
  const std::size_t equals = text.find(" = ");
  if (text.starts_with(unread) && equals != std::string::npos)
    return text.substr(unread.size(), equals - unread.size()) + ": '" + text.substr(equals + 3) +
           "' is no number that it takes";
  for (const auto& [theirs, ours] : kReworded)
    if (const std::size_t at = text.find(theirs); at != std::string::npos)
      return text.substr(0, at) + std::string(ours);
  return text;
}

/// What the parser's exception means, with the nearest known name where one is unknown.
std::string explain(const CLI::App& app, const CLI::ParseError& error, const Cli& cli, int argc,
                    char** argv) {
  const auto verbs = app.get_subcommands();
  if (verbs.empty()) {
    for (int i = 1; i < argc; ++i)
      if (argv[i][0] != '-') return unknown_name("verb", argv[i], names_of(app, false));
    return plain(error) + "; see " + app.get_name() + " --help";
  }
  const CLI::App* verb = verbs.front();
  std::string path = app.get_name() + " " + verb->get_name();
  int first = 1;
  for (auto below = verb->get_subcommands(); !below.empty(); below = verb->get_subcommands()) {
    verb = below.front();
    path += " " + verb->get_name();
    while (first < argc && argv[first++] != verb->get_name()) continue;
  }
  const std::string of_workload = workload_problem(*verb, cli);
  if (!of_workload.empty()) return of_workload;
  const auto known = names_of(*verb, true);
  for (int i = first; i < argc; ++i) {
    const std::string argument = std::string(argv[i]).substr(0, std::string(argv[i]).find('='));
    if (argument.rfind("--", 0) == 0 &&
        std::find(known.begin(), known.end(), argument) == known.end())
      return unknown_name("option", argument, known);
  }
  return plain(error) + "; see " + path + " --help";
}

int say(const Cli& cli, const std::string& message, ExitCode code) {
  std::cerr << cli.program << ": " << printable(message) << "\n";
  return code;
}

int guarded(const Cli& cli, const std::function<int()>& call) {
  try {
    return call();
  } catch (const Interrupted& e) {
    return say(cli, e.what(), kInterrupted);
  } catch (const Refused& e) {
    return say(cli, e.what(), kRefused);
  } catch (const std::exception& e) {
    return say(cli, message_of(e), kFailed);
  }
}

/// An empty value, as of a variable that is not set, is none of any option's.
void refuse_empty_values(CLI::App& app) {
  const auto is_there = [](const std::string& value) {
    return std::string(value.empty() ? "the value is empty" : "");
  };
  for (CLI::Option* option : app.get_options())
    if (option->get_items_expected_max() > 0) option->check(CLI::Validator(is_there, ""));
  for (CLI::App* verb : app.get_subcommands([](const CLI::App*) { return true; }))
    refuse_empty_values(*verb);
}

/// Shows the names of flags alone: the parser's own adds "{false}" to those that turn one off.
class Help : public CLI::Formatter {
 public:
  std::string make_option_name(const CLI::Option* option, bool is_positional) const override {
    constexpr std::string_view kOff = "{false}";
    std::string name = CLI::Formatter::make_option_name(option, is_positional);
    if (const std::size_t at = name.find(kOff); at != std::string::npos)
      name.erase(at, kOff.size());
    return name;
  }
};

int parse_and_run(int argc, char** argv, Cli& cli) {
  CLI::App app("Trains on GPUs that do not wait: pipelined over streams, bit for bit as serial.",
               cli.program);
  app.set_version_flag("--version", "slipstream " + std::string(slipstream_version()) + " (" +
                                        std::string(slipstream_revision()) + ")");
  app.require_subcommand(1);
  app.formatter(std::make_shared<Help>());
  Verb chosen;
  add_train(app, cli, chosen);
  add_bench(app, cli, chosen);
  add_doctor(app, cli, chosen);
  add_trace(app, cli, chosen);
  if (offers_data(cli.workloads)) add_make_data(app, cli, chosen);
  add_convert(app, cli, chosen);
  add_augment(app, cli, chosen);
  add_inspect(app, cli, chosen);
  add_compare(app, cli, chosen);
  refuse_empty_values(app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& e) {
    return app.exit(e);
  } catch (const CLI::ParseError& e) {
    return say(cli, explain(app, e, cli, argc, argv), kRefused);
  }
  return guarded(cli, [&] {
    cli.check_interrupt();
    return chosen();
  });
}

}  // namespace

int run_command_line(int argc, char** argv, std::vector<Workload> workloads) {
  handle_signals();
  Cli cli{name_of_program(argc, argv),
          std::vector<std::string>(argv + std::min(argc, 1), argv + argc), std::move(workloads),
          was_interrupted};
  const int code = guarded(cli, [&] { return parse_and_run(argc, argv, cli); });
  if (std::cout.flush()) return code;
  const int failed = say(cli, "standard output cannot be written", kFailed);
  return code == kDone ? failed : code;
}

}  // namespace slipstream
