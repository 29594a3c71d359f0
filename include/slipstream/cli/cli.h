#pragma once

#include <vector>

#include "slipstream/cli/workload.h"

namespace slipstream {

/// Runs the command line over `workloads`. The `slipstream` program does nothing else, so a program
/// of your own gets the same verbs. Call it from main with what main was given. The verb
/// `make-data` is there where the built-in workload "segmentation" is among the workloads.
///
/// Returns the exit code: 0 done; 1 failed; 2 command line or plan refused before any sample was
/// read; 3 `compare`, `inspect`, or `--min-share` or `--baseline` of `doctor` says no; 4
/// `--min-share` cannot say; 130 interrupted. It writes results to standard output, and progress
/// and errors to standard error under the name of the program. It never throws. Interrupt (Ctrl-C),
/// termination and hang-up end a run between two batches, with its report. A second interrupt ends
/// the program at once.
int cli_main(int argc, char** argv, std::vector<Workload> workloads);

}  // namespace slipstream
