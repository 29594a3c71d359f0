// Runs a threaded schedule of host lanes over plain slots without one wait, which is left out on
// the host as well. ThreadSanitizer must report the race. A lane is delayed so that the accesses
// collide, and neither the test nor the order check has a lock that would order them instead.
//   race_probe LANES --skip handoff:K|slot:K
// Exit code: 0 no race, 1 failed, 2 wrong command line, 66 race reported by ThreadSanitizer.
#include <cstdio>
#include <cstdlib>
#include <string>

#include "core/probe_run.h"

namespace slipstream::test {
namespace {

int probe(std::size_t lanes, const std::string& wait) {
  const auto kind = wait.starts_with("handoff:") ? WaitId::Kind::handoff : WaitId::Kind::slot;
  const WaitId skip{kind, std::strtoul(wait.c_str() + wait.find(':') + 1, nullptr, 10)};
  const bool is_serial = run_without<PlainCell>(lanes, skip, nullptr);
  std::printf("digest %s\n", is_serial ? "as serial" : "differs");
  return 0;
}

}  // namespace
}  // namespace slipstream::test

int main(int argc, char** argv) {
  if (argc != 4 || std::string(argv[2]) != "--skip") {
    std::fputs("usage: race_probe LANES --skip handoff:K|slot:K\n", stderr);
    return 2;
  }
  try {
    return slipstream::test::probe(std::strtoul(argv[1], nullptr, 10), argv[3]);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
