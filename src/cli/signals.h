#pragma once

namespace slipstream {

/// Takes interrupt, termination and hang-up from here on, for was_interrupted() to tell; a second
/// interrupt ends the program at once. Writing to a closed pipe fails then.
void handle_signals();
bool was_interrupted();

/// handle_signals() for early_signals.cpp, a part of each program, which calls it ahead of main
/// where it is there: in programs that call cli_main.
void handle_early_signals();

}  // namespace slipstream
