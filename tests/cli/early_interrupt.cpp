#include <csignal>

#include "cli/signals.h"

namespace {

// Where PyTorch's libraries set themselves up: ahead of main.
[[maybe_unused]] const int raised = std::raise(SIGINT);

}  // namespace

int main() { return slipstream::was_interrupted() ? 0 : 1; }
