#pragma once

#include <vector>

#include "slipstream/cli/workload.h"

namespace slipstream {

/// Runs the command line with `workloads`. The `slipstream` program only calls this function, so
/// your program gets the same verbs. Call it from main() with the arguments of main(), once. The
/// verb `make-data` exists if the built-in workload "segmentation" is one of the workloads.
///
/// Returns the exit code: 0 for success; 1 for failure; 2 if the command line or the plan was
/// refused before any sample was read; 3 if `compare`, `inspect`, or `--min-share` or `--baseline`
/// of `doctor` found a violation; 4 if `--min-share` is undecided; 130 after an interrupt. Writes
/// results to standard output, and progress and errors, with the name of the program, to standard
/// error. Never throws. SIGINT (Ctrl-C), SIGTERM and SIGHUP end a run between two batches, with its
/// report. A second interrupt ends the program at once.
int cli_main(int argc, char** argv, std::vector<Workload> workloads);

}  // namespace slipstream
