#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "core/files.h"
#include "report/environment.h"
#include "report/report.h"
#include "slipstream/datasets/skipped_samples.h"
#include "slipstream/run/context.h"
#include "slipstream/workloads/workload.h"

namespace CLI {
class App;
}

namespace slipstream {

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
inline constexpr const char* kScheduleGroup = "Schedule";
inline constexpr const char* kMeasuringGroup = "Measuring";
inline constexpr const char* kOutputGroup = "Output";

/// The options --read-ahead and --prefetch-factor. `reads` and `factor` must outlive the parser.
/// `batches`: how many are filled ahead in all without the latter.
void add_read_ahead(CLI::App& verb, std::optional<unsigned>& reads);
void add_prefetch_factor(CLI::App& verb, std::optional<unsigned>& factor, std::size_t batches);

/// The options --shuffle and --drop-last, each with its --no- form. Both must outlive the parser.
void add_order(CLI::App& verb, bool& shuffle, bool& drop_last);

/// The option --on-bad-sample, "stop" or "skip"; `skip` says what that does. `chosen` must outlive
/// the parser.
void add_on_bad_sample(CLI::App& verb, OnBadSample& chosen, const std::string& skip);

/// The help of --classes-from.
inline constexpr const char* kClassesFromHelp =
    "A data set, or a text file with a name in each line, that numbers the classes";

/// The option --background. `chosen` must outlive the parser.
void add_background(CLI::App& verb, Rgb& chosen, const std::string& help);

/// Prints the number of skipped samples and the first of them on standard output; nothing for none.
void print_skipped(const std::vector<SkippedSample>& skipped);

/// Prints Dataset::remarks() as warnings on standard error.
void print_remarks(const Dataset& dataset);

/// What is wrong with the name of a placement, "" when nothing is.
std::string placement_problem(const std::string& name);

/// Writes each text to its file, also where others cannot be written. Throws Error for those. To be
/// called after the summary was printed, so that a full disk does not take the result along.
void write_all(std::initializer_list<std::pair<OutputFile*, std::string>> outputs);

/// Options and the paths that they name; a path "" is not given.
using NamedPaths = std::vector<std::pair<std::string, std::string>>;
/// Throws Refused when two of the outputs, or one of them and one of what is read, are one file.
void refuse_same_files(const NamedPaths& outputs, const NamedPaths& inputs = {});
/// Throws Refused when the picture, a PNG, would have the name of another format.
void require_name_of_png(const std::pair<std::string, std::string>& picture);
/// Throws Refused when the picture would become part of the data set at `data`, or replace it.
void refuse_picture_in_data(const std::pair<std::string, std::string>& picture,
                            const std::string& data);

/// What a workload declared, and with what in force.
struct Declared {
  Pipeline pipeline;
  WorkloadInfo info;
};

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

/// Options that the verbs over workloads share, and those of the workload.
struct CommonOptions {
  std::string workload;
  std::string device = "auto";
  std::string precision = "tf32";
  bool deterministic = false;
  std::string num_workers;                  ///< "", a number or "auto"
  std::vector<std::string> wire;            ///< FIELD=FORMAT
  std::optional<unsigned> prefetch_factor;  ///< batches ahead, of each worker
  std::optional<unsigned> read_ahead;
  std::string cpus;   ///< "", a list, or "gpu"
  std::string cache;  ///< STEP=SIZE
  bool scaled_decoding = false;
  Options options{OptionList()};
  WorkloadDefaults defaults;  ///< of the workload
  bool given_precision = false;

  /// `cli` must outlive this.
  void add_to(CLI::App& verb, const Cli& cli);
  /// The options --transforms-device and --batch-size. `transforms_device` must outlive the parser.
  void add_batch_to(CLI::App& verb, std::string& transforms_device);
  /// Those of the workload that the command line names; behind all others of `verb`. Throws Refused
  /// where a workload declares an option that the verb has.
  void add_workloads_own_to(CLI::App& verb);

  /// Files that are read, with their options; `plan`: of the option --plan, or "".
  NamedPaths inputs(const std::string& plan = "") const;
  /// Throws Refused as make_pipeline() does, and where the pipeline is not what was asked for:
  /// batches of `batch_size` or, without it, --batch-size, the order of samples, the last batch.
  Declared declare(std::optional<std::size_t> batch_size = {}) const;

  /// With what the device makes of them.
  Plan::Numerics numerics(DeviceKind device) const;
  /// For num_workers "auto", the loader of make() with its transforms on `transforms_device` is
  /// measured alone and gets as few as are enough.
  LoaderPlan loader(const Context& context, const std::string& transforms_device,
                    const std::function<Pipeline()>& make) const;
  /// For what plan_file() gave: refuses a plan that the pipeline cannot run, and takes the workers
  /// that were given, if any; "auto" measures the loader under the plan. Throws Refused.
  void fit(Plan& plan, const Pipeline& pipeline, const Context& context) const;
  /// "serial" or "pipelined" with transforms on `transforms_device`, or the plan in a file. Throws
  /// Refused.
  Plan plan_of(const std::string& plan, const std::string& transforms_device,
               const Pipeline& pipeline, const Context& context) const;
  /// The plan in the file `path`, with what was given on the command line but for the workers.
  /// `others`: what the option takes instead of a file, for messages. Throws Refused.
  Plan plan_file(const std::string& path, const std::vector<std::string>& others,
                 const Context& context) const;
  /// Changes what was given on the command line, but for the workers.
  void change(Plan& plan, const Context& context) const;

 private:
  void add_loader_to(CLI::App& verb);
  void check_made(const Pipeline& made, const Options& asked, bool asked_for_size) const;
  void add_own(CLI::App& verb, const Option& option);
  void set_wire(Plan& plan) const;
  void set_prefetch(LoaderPlan& loader) const;
  unsigned enough_workers(const Pipeline& pipeline, const Plan& plan) const;

  const Cli* cli_ = nullptr;
  bool given_batch_size_ = false;
  bool given_shuffle_ = false;
  bool given_drop_last_ = false;
  bool given_transforms_device_ = false;
  NamedPaths given_texts_;  ///< of the workload's own options
};

Environment environment_of(const Context& context);

}  // namespace slipstream
