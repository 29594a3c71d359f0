#include <cmath>
#include <iostream>

#include "report/run_log.h"
#include "report/samples.h"

namespace {

/// Logs a row after every second step, with a validation score after every tenth.
void train(slipstream::RunLog& log, std::uint64_t first_step, std::uint64_t end, double scale) {
  for (std::uint64_t step = first_step + 2; step <= end; step += 2) {
    const auto done = static_cast<double>(step);
    slipstream::NamedValues values = {{"train/loss", scale / done}, {"train/lr", 0.5 - done / 200}};
    if (step % 10 == 0) values.emplace_back("val/top1", 1 - scale / done);
    log.add(step, done / 20, done / 4, values);
  }
}

}  // namespace

// Writes the folder of a run that was killed after step 40 and resumed from step 20:
// write_run_folder FOLDER.
int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: write_run_folder FOLDER\n";
    return 2;
  }
  const slipstream::RunFacts facts = {{"command", std::vector<std::string>{"train", "sample"}},
                                      {"environment", slipstream::sample_environment()}};
  {
    slipstream::RunLog log(argv[1], 0, facts);
    train(log, 0, 40, 4);
  }
  slipstream::RunLog log(argv[1], 20, facts);
  train(log, 20, 60, 2);
  log.add(61, 3.05, 16, {{"train/loss", NAN}});
  log.finish();
  std::cout << log.problem();
}
