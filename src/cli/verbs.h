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

/// A verb of the command line: adds itself to the parser and returns what runs it.
using Verb = std::function<int()>;

/// An interrupt that comes before a verb has anything to show; the command line exits with 130.
class Interrupted : public std::runtime_error {
 public:
  Interrupted() : std::runtime_error("interrupted before anything was done") {}
};

struct Cli {
  std::string program;             ///< what it was called as
  std::vector<std::string> words;  ///< behind that
  std::vector<Workload> workloads;
  std::function<bool()> interrupted;

  /// The program and its arguments.
  std::vector<std::string> command() const;
  /// Throws Interrupted; for between the parts of what takes a while.
  void check_interrupt() const {
    if (interrupted()) throw Interrupted();
  }

  const Workload* workload_called(const std::string& name) const;  ///< nullptr: none is
  std::vector<std::string> workload_names() const;
};

/// What cli_main does.
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
void add_compare(CLI::App& app, Cli& cli, Verb& chosen);
void add_doctor(CLI::App& app, Cli& cli, Verb& chosen);
void add_trace(CLI::App& app, Cli& cli, Verb& chosen);

/// What an option's value must be: returns what is wrong with it, "" when nothing is.
using Check = std::function<std::string(const std::string&)>;
Check at_least(int least);
std::string above_zero(const std::string& text);

/// A Check of a number of loader threads.
std::string workers_problem(const std::string& text);

/// Headings of options in the help of a verb.
inline constexpr const char* kDataGroup = "Data";
inline constexpr const char* kTransformsGroup = "Transforms";
inline constexpr const char* kLoaderGroup = "Loader";
inline constexpr const char* kTrainingGroup = "Training";
inline constexpr const char* kCheckpointGroup = "Checkpoints";
inline constexpr const char* kScheduleGroup = "Schedule";
inline constexpr const char* kMeasuringGroup = "Measuring";
inline constexpr const char* kOutputGroup = "Output";

/// The options --read-ahead and --prefetch-factor. `reads` and `factor` must outlive the parser.
void add_read_ahead(CLI::App& verb, std::optional<unsigned>& reads);
void add_prefetch_factor(CLI::App& verb, std::optional<unsigned>& factor);

/// Applies the values of --read-ahead and --cache (STEP=SIZE, "": none) to `options`. Throws
/// Refused for another form of the latter.
void set_loading(LoadingOptions& options, std::optional<unsigned> read_ahead,
                 const std::string& cache);

/// The options --shuffle and --drop-last, each with its --no- form, which set those of `options`.
/// `options` must outlive the parser.
void add_order(CLI::App& verb, SampleOptions& options);

/// The option --on-bad-sample, "stop" or "skip"; `skip` says what that does. `chosen` must outlive
/// the parser.
void add_on_bad_sample(CLI::App& verb, OnBadSample& chosen, const std::string& skip);

/// The option --background. `chosen` must outlive the parser.
void add_background(CLI::App& verb, Rgb& chosen, const std::string& help);

/// Prints the number of skipped samples and the first of them on standard output; nothing for none.
void print_skipped(const std::vector<SkippedSample>& skipped);
/// The same, and for the samples that were used in spite of damage.
void print_skipped(const SkippedSamples& skipped);

/// Prints Dataset::remarks() as warnings on standard error.
void print_remarks(const Dataset& dataset);

/// What is wrong with a value of --transforms-device, "" when nothing is.
std::string transforms_device_problem(const std::string& name);

/// Writes each text to its file, also where others cannot be written. Throws Error for those. To be
/// called after the summary was printed, so that a full disk does not take the result along.
void write_all(std::initializer_list<std::pair<OutputFile*, std::string>> outputs);

/// Throws Refused when the file of a sheet of images, given as an option and a path, has the name
/// of another format than PNG and HTML.
void require_name_of_sheet(const std::pair<std::string, std::string>& sheet);

/// Throws Refused for the first word of the command line that is no verb, workload or option where
/// one must be. What stands behind --help, and options of a workload that is not named, are taken.
void refuse_unknown_words(const CLI::App& app, const Cli& cli);

/// Whether the option `name`, such as "--steps", takes a value; nothing where neither `verb` nor,
/// for a verb over workloads, any workload has it.
std::optional<bool> option_takes_value(const CLI::App& verb, const Cli& cli,
                                       const std::string& name);

/// What is wrong with an option of the command line that `verb` does not know, where a workload is
/// the reason: it is another workload's, or it is not said which workload's it is; else "".
std::string workload_problem(const CLI::App& verb, const Cli& cli);

}  // namespace slipstream
