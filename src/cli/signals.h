#pragma once

namespace slipstream {

/// Installs handlers of SIGINT, SIGTERM and SIGHUP, after which was_interrupted() returns true. A
/// second interrupt ends the program at once. Writing to a closed pipe fails with an error
/// afterwards.
void handle_signals();
bool was_interrupted();

/// Calls handle_signals(). early_signals.cpp, which is part of each program, calls this before
/// main() if it exists, which is so in programs that call cli_main.
void handle_early_signals();

}  // namespace slipstream
