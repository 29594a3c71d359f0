#include "slipstream/cli.h"

#include <CLI/CLI.hpp>
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <iostream>

#include "cli/verbs.h"

namespace slipstream {
namespace {

std::atomic<int> interrupts = 0;
static_assert(std::atomic<int>::is_always_lock_free);

void on_interrupt(int) {
  if (interrupts.fetch_add(1) > 0) std::_Exit(kInterrupted);
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

/// What the parser's exception means, with the nearest known name where one is unknown.
std::string explain(const CLI::App& app, const CLI::ParseError& error, int argc, char** argv) {
  const auto verbs = app.get_subcommands();
  if (verbs.empty()) {
    for (int i = 1; i < argc; ++i)
      if (argv[i][0] != '-') return unknown_name("verb", argv[i], names_of(app, false));
    return std::string(error.what()) + "; see slipstream --help";
  }
  const auto known = names_of(*verbs.front(), true);
  for (int i = 1; i < argc; ++i) {
    const std::string argument = std::string(argv[i]).substr(0, std::string(argv[i]).find('='));
    if (argument.rfind("--", 0) == 0 &&
        std::find(known.begin(), known.end(), argument) == known.end())
      return unknown_name("option", argument, known);
  }
  return std::string(error.what()) + "; see slipstream " + verbs.front()->get_name() + " --help";
}

int guarded(const Verb& verb) {
  try {
    return verb();
  } catch (const Refused& e) {
    std::cerr << "slipstream: " << e.what() << "\n";
    return kRefused;
  } catch (const std::exception& e) {
    std::cerr << "slipstream: " << e.what() << "\n";
    return kFailed;
  }
}

int parse_and_run(int argc, char** argv, Cli& cli) {
  CLI::App app("Trains on GPUs that do not wait: pipelined over streams, bit for bit as serial.",
               "slipstream");
  app.set_version_flag("--version", "slipstream " + std::string(slipstream_version()) + " (" +
                                        std::string(slipstream_revision()) + ")");
  app.require_subcommand(1);
  Verb chosen;
  add_train(app, cli, chosen);
  add_bench(app, cli, chosen);
  add_make_data(app, cli, chosen);
  add_compare(app, cli, chosen);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& e) {
    return app.exit(e);
  } catch (const CLI::ParseError& e) {
    std::cerr << "slipstream: " << explain(app, e, argc, argv) << "\n";
    return kRefused;
  }
  return guarded(chosen);
}

}  // namespace

int cli_main(int argc, char** argv, std::vector<Workload> workloads) {
  // cuBLAS is deterministic only with a workspace of fixed size; read when its first handle is
  // made.
  setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", 0);
  std::signal(SIGINT, on_interrupt);
  std::signal(SIGTERM, on_interrupt);
  Cli cli{std::move(workloads), [] { return interrupts.load() > 0; }};
  try {
    return parse_and_run(argc, argv, cli);
  } catch (const std::exception& e) {
    std::cerr << "slipstream: " << e.what() << "\n";
    return kFailed;
  }
}

}  // namespace slipstream
