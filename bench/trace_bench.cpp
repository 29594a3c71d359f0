// Measures what recording a trace costs: steps/s of traced runs divided by steps/s of untraced
// runs, which alternate.
//   trace_bench [--device cpu] [--image-size 64] [--batch-size 8] [--input loader] [--steps 100]
//   [--repeats 10] [--json FILE]
#include <CLI/CLI.hpp>
#include <iostream>

#include "core/files.h"
#include "engine/environment.h"
#include "report/json.h"
#include "slipstream/cli/workload.h"
#include "slipstream/core/statistics.h"
#include "training/input.h"
#include "training/trace_run.h"

namespace {

using namespace slipstream;
struct Arguments {
  std::string device = "cpu", input = "loader", json_file;
  Options workload = find_options(built_in_workloads(), "segmentation");
  std::int64_t image_size = 64;
  std::uint64_t steps = 100;
  unsigned repeats = 10;
};

class Bench {
 public:
  explicit Bench(Arguments& arguments)
      : arguments_(arguments),
        context_(arguments.device),
        trainer_(make_pipeline(built_in_workloads(), "segmentation", arguments.workload), context_,
                 {}),
        plan_(make_plan("pipelined", trainer_.pipeline().device_steps(), context_.kind(), {}, {})) {
  }

  Json environment() const { return to_json(collect_environment(context_)); }

  Json measured() {
    std::vector<double> plain, traced;
    for (unsigned i = 0; i < arguments_.repeats; ++i) {
      keep(trainer_.run(plan_, run_options()), plain);
      TraceOptions options;
      options.input = arguments_.input;
      options.steps = arguments_.steps;
      keep(run_trace(trainer_, plan_, options).run, traced);
    }
    const Measured without = rate_from_durations(plain, "steps/s");
    const Measured with = rate_from_durations(traced, "steps/s");
    const Measured share = ratio(with, without);
    return {{"plain", to_json(without)}, {"traced", to_json(with)}, {"ratio", to_json(share)}};
  }

 private:
  RunOptions run_options() const {
    RunOptions options;
    options.steps = arguments_.steps;
    options.cut = parse_cut(arguments_.input);
    options.digest = false;
    return options;
  }

  /// Keeps the durations of the steps after those that fill the pipeline.
  static void keep(const RunResult& result, std::vector<double>& durations_s) {
    constexpr std::size_t kFirst = 8;
    for (std::size_t i = kFirst; i < result.step_end_s.size(); ++i)
      durations_s.push_back(result.step_end_s[i] - result.step_end_s[i - 1]);
  }

  const Arguments& arguments_;
  Context context_;
  Trainer trainer_;
  Plan plan_;
};

}  // namespace

int main(int argc, char** argv) {
  Arguments arguments;
  CLI::App app("What recording a trace costs");
  app.add_option("--device", arguments.device);
  app.add_option("--image-size", arguments.image_size);
  app.add_option("--batch-size", arguments.workload.batch_size);
  app.add_option("--input", arguments.input);
  app.add_option("--steps", arguments.steps);
  app.add_option("--repeats", arguments.repeats);
  app.add_option("--json", arguments.json_file);
  CLI11_PARSE(app, argc, argv);
  try {
    arguments.workload.give("image-size", arguments.image_size);
    Bench bench(arguments);
    const Json report = {
        {"environment", bench.environment()}, {"device", arguments.device},
        {"input", arguments.input},           {"batch_size", arguments.workload.batch_size},
        {"image_size", arguments.image_size}, {"steps_per_second", bench.measured()}};
    std::cout << report["steps_per_second"].dump(2) << std::endl;
    if (!arguments.json_file.empty())
      write_file_atomically(arguments.json_file, report.dump(2) + "\n");
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
  return 0;
}
