#include <utility>

#include "cli/common_options.h"
#include "cli/signals.h"
#include "slipstream/cli/cli.h"

// A library of its own, which stays static where the others are installed as a shared one: so only
// a program that calls cli_main has handle_early_signals.
namespace slipstream {

int cli_main(int argc, char** argv, std::vector<Workload> workloads) {
  return run_command_line(argc, argv, std::move(workloads));
}

void handle_early_signals() { handle_signals(); }

}  // namespace slipstream
