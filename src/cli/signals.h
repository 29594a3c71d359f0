#pragma once

namespace slipstream {

/// Takes interrupt, termination and hang-up from here on, for was_interrupted() to tell; a second
/// interrupt ends the program at once. Writing to a closed pipe fails then.
void handle_signals();
bool was_interrupted();

}  // namespace slipstream
