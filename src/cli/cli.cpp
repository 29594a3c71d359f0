#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <iostream>

#include "cli/common_options.h"
#include "cli/signals.h"
#include "datasets/scan_watch.h"
#include "engine/message.h"
#include "report/progress_line.h"

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

/// Returns the words of the command line. "help VERB" becomes "VERB --help".
std::vector<std::string> to_words(int argc, char** argv) {
  std::vector<std::string> words(argv + std::min(argc, 1), argv + argc);
  if (words.empty() || words.front() != "help") return words;
  words.erase(words.begin());
  words.emplace_back("--help");
  return words;
}

/// The parser's words after the name of an option, and their replacement.
struct MessageRewording {
  std::string_view theirs, ours;
};
constexpr MessageRewording kReworded[] = {
    {": At Most 1 required but received ", " is given more than once: give it one time"},
    {": 1 required ", " needs a value"},
    {"A subcommand is required", "no verb is given"},
};

/// Returns the parser's message, with words that only its authors understand replaced.
std::string plain(const CLI::ParseError& error) {
  const std::string text = error.what();
  const std::string unread = "Could not convert: ";
  const std::size_t equals = text.find(" = ");
  if (text.starts_with(unread) && equals != std::string::npos)
    return text.substr(unread.size(), equals - unread.size()) + ": '" + text.substr(equals + 3) +
           "' is not a valid number";
  for (const auto& [theirs, ours] : kReworded)
    if (const std::size_t at = text.find(theirs); at != std::string::npos)
      return text.substr(0, at) + std::string(ours);
  return text;
}

/// Returns a message for the parser's exception. All words of the command line are known.
std::string explain(const CLI::App& app, const CLI::ParseError& error, const Cli& cli) {
  const CLI::App* verb = &app;
  std::string path = app.get_name();
  for (auto below = verb->get_subcommands(); !below.empty(); below = verb->get_subcommands()) {
    verb = below.front();
    path += " " + verb->get_name();
  }
  const std::string of_workload = workload_problem(*verb, cli);
  return of_workload.empty() ? plain(error) + "; see " + path + " --help" : of_workload;
}

int print_error(const Cli& cli, const std::string& message, ExitCode code) {
  std::cerr << cli.program << ": " << printable(message) << "\n";
  return code;
}

int guarded(const Cli& cli, const std::function<int()>& call) {
  try {
    return call();
  } catch (const Interrupted& e) {
    return print_error(cli, e.what(), kInterrupted);
  } catch (const Refused& e) {
    return print_error(cli, e.what(), kRefused);
  } catch (const std::exception& e) {
    return print_error(cli, describe_error(e), kFailed);
  }
}

/// Refuses empty values, which usually are shell variables that are not set.
void refuse_empty_values(CLI::App& app) {
  const auto is_there = [](const std::string& value) {
    return std::string(value.empty() ? "the value is empty" : "");
  };
  for (CLI::Option* option : app.get_options())
    if (option->get_items_expected_max() > 0) option->check(CLI::Validator(is_there, ""));
  for (CLI::App* verb : app.get_subcommands([](const CLI::App*) { return true; }))
    refuse_empty_values(*verb);
}

/// Shows only the names of flags: the parser's formatter adds "{false}" to flags that turn one off.
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

int parse_and_run(Cli& cli) {
  CLI::App app("Trains PyTorch models with a pipelined input, bit for bit as serial training does.",
               cli.program);
  app.set_version_flag("--version", "slipstream " + std::string(slipstream_version()) + " (" +
                                        std::string(slipstream_revision()) + ")");
  app.require_subcommand(1);
  app.formatter(std::make_shared<Help>());
  Verb chosen;
  add_train(app, cli, chosen);
  add_eval(app, cli, chosen);
  add_predict(app, cli, chosen);
  add_bench(app, cli, chosen);
  add_doctor(app, cli, chosen);
  add_trace(app, cli, chosen);
  if (offers_data(cli.workloads)) add_make_data(app, cli, chosen);
  add_convert(app, cli, chosen);
  add_augment(app, cli, chosen);
  add_inspect(app, cli, chosen);
  add_features(app, cli, chosen);
  add_compare(app, cli, chosen);
  refuse_empty_values(app);
  refuse_unknown_words(app, cli);
  try {
    app.parse(std::vector<std::string>(cli.words.rbegin(), cli.words.rend()));
  } catch (const CLI::Success& e) {
    return app.exit(e);
  } catch (const CLI::ParseError& e) {
    return print_error(cli, explain(app, e, cli), kRefused);
  }
  return guarded(cli, [&] {
    const ScanWatch watch([&] { cli.check_interrupt(); });
    cli.check_interrupt();
    return chosen();
  });
}

}  // namespace

int run_command_line(int argc, char** argv, std::vector<Workload> workloads) {
  handle_signals();
  Cli cli{name_of_program(argc, argv), to_words(argc, argv), std::move(workloads), was_interrupted};
  const int code = guarded(cli, [&] { return parse_and_run(cli); });
  if (std::cout.flush() || has_no_reader(STDOUT_FILENO)) return code;
  const int failed = print_error(cli, "standard output cannot be written", kFailed);
  return code == kDone ? failed : code;
}

}  // namespace slipstream
