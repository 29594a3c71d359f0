#pragma once

#include <vector>

#include "slipstream/workloads/workload.h"

namespace slipstream {

/// The command line over these workloads: everything the `slipstream` program does is in here, so a
/// program of your own gets the same verbs. Call it from main, with what main was given.
/// Returns the exit code: 0 done; 1 failed; 2 command line or plan refused before any sample
/// was read; 3 a comparison says no; 130 interrupted. Writes results to standard output, progress
/// and errors to standard error under the name it was called by, and never throws. Interrupt
/// (Ctrl-C), termination and hang-up end a run at a batch border, with its report; a second
/// interrupt ends the program at once. `make-data` is there where the built-in workload is.
int cli_main(int argc, char** argv, std::vector<Workload> workloads);

}  // namespace slipstream
