#include "slipstream/cli/cli.h"

int main(int argc, char** argv) {
  return slipstream::cli_main(argc, argv, slipstream::built_in_workloads());
}
