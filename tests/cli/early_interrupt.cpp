#include <csignal>

#include "cli/signals.h"
#include "slipstream/cli/cli.h"

namespace {

// PyTorch's libraries are initialized at this time, too: before main.
[[maybe_unused]] const int raised = std::raise(SIGINT);

}  // namespace

int main(int argc, char** argv) {
  return slipstream::was_interrupted() ? 0 : slipstream::cli_main(argc, argv, {});
}
