#include <utility>

#include "cli/common_options.h"
#include "cli/signals.h"
#include "slipstream/cli/cli.h"

// This file is a separate library, which stays static even if the others are installed as a shared
// one. So only programs that call cli_main contain handle_early_signals.
namespace slipstream {

int cli_main(int argc, char** argv, std::vector<Workload> workloads) {
  return run_command_line(argc, argv, std::move(workloads));
}

void handle_early_signals() { handle_signals(); }

}  // namespace slipstream
