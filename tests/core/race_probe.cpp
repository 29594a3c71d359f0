// Runs a threaded schedule of host lanes over plain slots and, with --skip, leaves out one wait, on
// the host too. Built under ThreadSanitizer, the race that this makes must be reported. A lane is
// held back so that the accesses really meet; nothing but the schedule orders them.
//
//   race_probe LANES [--skip handoff:K|retired:K] [--check]
//
// Exit code: 0 in order, 1 failed, 2 command line, 3 the order check objects, 66 ThreadSanitizer.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>

#include "core/order_check.h"
#include "core/payload.h"

namespace slipstream::test {
namespace {

struct Arguments {
  std::size_t lanes = 0;
  std::optional<WaitId> skip;
  bool check = false;
};

std::optional<Arguments> parse(int argc, char** argv) {
  Arguments arguments;
  if (argc < 2) return std::nullopt;
  arguments.lanes = std::strtoul(argv[1], nullptr, 10);
  for (int i = 2; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--check") {
      arguments.check = true;
    } else if (word == "--skip" && i + 1 < argc) {
      const std::string wait = argv[++i];
      const auto kind =
          wait.starts_with("handoff:") ? WaitId::Kind::handoff : WaitId::Kind::retired;
      arguments.skip = WaitId{kind, std::strtoul(wait.c_str() + wait.find(':') + 1, nullptr, 10)};
    } else {
      return std::nullopt;
    }
  }
  return arguments;
}

int probe(const Arguments& arguments) {
  const std::size_t depth = arguments.lanes + 1;
  PayloadRun run{.driver = Driver::threaded, .depth = depth};
  run.run_ahead = run.batches;  // a lane that waits for nobody overtakes no mark
  ScheduleProbe schedule_probe;
  OrderCheck check(arguments.lanes, depth, depth + run.run_ahead);
  if (arguments.check) schedule_probe.check = &check;
  if (arguments.skip) {
    schedule_probe.skip = [&](const WaitId& wait) { return wait == *arguments.skip; };
    schedule_probe.skip_gate = true;
    const auto implied = implied_waits(arguments.lanes, depth);
    if (std::find(implied.begin(), implied.end(), *arguments.skip) == implied.end())
      run.hold = hold_against(*arguments.skip, arguments.lanes, depth);
  }
  CpuRig<PlainCell> rig(Kind::host, arguments.lanes, depth);
  LaneThreads threads;
  const std::uint64_t digest = run_payload(rig, threads, run, &schedule_probe);
  std::printf("digest %s\n", digest == serial_digest(run.batches) ? "as serial" : "differs");
  for (const std::string& violation : check.violations()) std::printf("%s\n", violation.c_str());
  return check.violations().empty() ? 0 : 3;
}

}  // namespace
}  // namespace slipstream::test

int main(int argc, char** argv) {
  const auto arguments = slipstream::test::parse(argc, argv);
  if (!arguments) {
    std::fputs("usage: race_probe LANES [--skip handoff:K|retired:K] [--check]\n", stderr);
    return 2;
  }
  try {
    return slipstream::test::probe(*arguments);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
