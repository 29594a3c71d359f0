#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "cli/named_paths.h"
#include "core/files.h"
#include "slipstream/codecs/image.h"
#include "slipstream/datasets/dataset.h"
#include "slipstream/loader/loading.h"
#include "slipstream/loader/sample_options.h"

namespace CLI {
class App;
}

namespace slipstream {

struct Workload;

enum ExitCode : int {
  kDone = 0,
  kFailed = 1,
  kRefused = 2,
  kNo = 3,
  kUndecided = 4,
  kInterrupted = 130
};

/// Runs a verb of the command line and returns the exit code. A verb adds itself to the parser and
/// returns this function.
using Verb = std::function<int()>;

/// Thrown after an interrupt if a verb has no results yet. The command line exits with 130.
class Interrupted : public std::runtime_error {
 public:
  Interrupted() : std::runtime_error("interrupted before anything was done") {}
};

struct Cli {
  std::string program;             ///< the name by which the program was called
  std::vector<std::string> words;  ///< its arguments
  std::vector<Workload> workloads;
  std::function<bool()> interrupted;

  /// Returns the program and its arguments.
  std::vector<std::string> command() const;
  /// Throws Interrupted after an interrupt. Call it between the parts of long work.
  void check_interrupt() const {
    if (interrupted()) throw Interrupted();
  }

  const Workload* workload_called(const std::string& name) const;  ///< nullptr: there is none
  std::vector<std::string> workload_names() const;
};

/// Does the work of cli_main(), with the same result.
int run_command_line(int argc, char** argv, std::vector<Workload> workloads);

void add_augment(CLI::App& app, Cli& cli, Verb& chosen);
void add_train(CLI::App& app, Cli& cli, Verb& chosen);
void add_eval(CLI::App& app, Cli& cli, Verb& chosen);
void add_predict(CLI::App& app, Cli& cli, Verb& chosen);
void add_bench(CLI::App& app, Cli& cli, Verb& chosen);
void add_make_data(CLI::App& app, Cli& cli, Verb& chosen);
void add_bench_loader(CLI::App& bench, Cli& cli, Verb& chosen);
void add_convert(CLI::App& app, Cli& cli, Verb& chosen);
void add_inspect(CLI::App& app, Cli& cli, Verb& chosen);
void add_features(CLI::App& app, Cli& cli, Verb& chosen);
void add_compare(CLI::App& app, Cli& cli, Verb& chosen);
void add_doctor(CLI::App& app, Cli& cli, Verb& chosen);
void add_trace(CLI::App& app, Cli& cli, Verb& chosen);

/// Checks an option's value. Returns the problem, or "" if the value is valid.
using Check = std::function<std::string(const std::string&)>;
Check at_least(int least);
std::string above_zero(const std::string& text);

/// Checks a number of loader threads, as a Check.
std::string workers_problem(const std::string& text);

/// Headings of groups of options in the help of a verb.
inline constexpr const char* kDataGroup = "Data";
inline constexpr const char* kTransformsGroup = "Transforms";
inline constexpr const char* kLoaderGroup = "Loader";
inline constexpr const char* kTrainingGroup = "Training";
inline constexpr const char* kCheckpointGroup = "Checkpoints";
inline constexpr const char* kScheduleGroup = "Schedule";
inline constexpr const char* kMeasuringGroup = "Measuring";
inline constexpr const char* kOutputGroup = "Output";

/// Adds --read-ahead and --prefetch-factor. `reads` and `factor` must outlive the parser.
void add_read_ahead(CLI::App& verb, std::optional<unsigned>& reads);
void add_prefetch_factor(CLI::App& verb, std::optional<unsigned>& factor);

/// Applies the values of --read-ahead and --cache (STEP=SIZE, "": none) to `options`. Throws
/// Refused if the value of --cache has another form.
void set_loading(LoadingOptions& options, std::optional<unsigned> read_ahead,
                 const std::string& cache);

/// Adds --shuffle and --drop-last, each also with --no-, which set members of `options`. `options`
/// must outlive the parser.
void add_order(CLI::App& verb, SampleOptions& options);

/// Adds --on-bad-sample, "stop" or "skip". `skip`: the help text of "skip". `chosen` must outlive
/// the parser.
void add_on_bad_sample(CLI::App& verb, OnBadSample& chosen, const std::string& skip);

/// Adds --background. `chosen` must outlive the parser.
void add_background(CLI::App& verb, Rgb& chosen, const std::string& help);

/// Prints the number of skipped samples and the first of them on standard output, if there are any.
void print_skipped(const std::vector<SkippedSample>& skipped);
/// Prints this, and also the samples that were used although they are damaged.
void print_skipped(const SkippedSamples& skipped);

/// Prints Dataset::remarks() as warnings on standard error.
void print_remarks(const Dataset& dataset);

/// Returns the problem with a value of --transforms-device, or "".
std::string transforms_device_problem(const std::string& name);

/// Writes each text to its file, even if others cannot be written, and then throws Error for those.
/// Call it after the summary was printed, so that the result is not lost if the disk is full.
void write_all(std::initializer_list<std::pair<OutputFile*, std::string>> outputs);

/// Throws Refused if the file of a sheet of images, given as an option and a path, is neither named
/// as a PNG nor as an HTML file.
void require_name_of_sheet(const std::pair<std::string, std::string>& sheet);

/// Throws Refused for the first word of the command line that should be a verb, a workload or an
/// option but is not. Words after --help, and options of a workload that is not named, are
/// accepted.
void refuse_unknown_words(const CLI::App& app, const Cli& cli);

/// Whether the option `name`, for example "--steps", takes a value. Returns nothing if neither
/// `verb` nor, for a verb with workloads, any workload has the option.
std::optional<bool> option_takes_value(const CLI::App& verb, const Cli& cli,
                                       const std::string& name);

/// Returns the problem with an option that `verb` does not know if a workload is the reason: the
/// option belongs to another workload, or no workload is named. Otherwise returns "".
std::string workload_problem(const CLI::App& verb, const Cli& cli);

}  // namespace slipstream
