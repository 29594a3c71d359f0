#include "slipstream/cli/cli.h"

#include <ATen/ops/empty.h>
#include <c10/util/Exception.h>
#include <gmock/gmock.h>
#include <torch/nn/modules/linear.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <new>
#include <nlohmann/json.hpp>

#include "cli/classifier.h"
#include "core/files.h"
#include "slipstream/datasets/datasets.h"
#include "support/temporary_folder.h"

/// Replaces the C library's function: the machine always seems busy.
extern "C" int getloadavg(double* loads, int count) noexcept {
  std::fill_n(loads, count, 1000.0);
  return count;
}

namespace slipstream {
namespace {

using testing::AllOf;
using testing::AnyOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

struct CliResult {
  int code;
  std::string out, err;
};

CliResult call(const std::vector<Workload>& workloads, std::vector<std::string> words) {
  words.insert(words.begin(), "/bin/own");
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  const int code = cli_main(static_cast<int>(arguments.size()), arguments.data(), workloads);
  return {code, testing::internal::GetCapturedStdout(), testing::internal::GetCapturedStderr()};
}

Pipeline trained(Pipeline input) {
  return std::move(input).train("model", Classifier(3, 10), adamw({}),
                                cross_entropy("image", "label"));
}

std::shared_ptr<const Dataset> images() { return synthetic_classification({.size = 8}); }

/// Sets options itself: images of 8 pixels, batches of 4, AdamW.
Pipeline mine(Options& options) {
  options.set("image-size", 8);
  options.set("optimizer", "adamw");
  return trained(pipeline(images(), {.batch_size = 4, .seed = options.seed}));
}

/// Reads its declared option.
Pipeline other(const Options& options) {
  if (options.integer("members") > 3) throw Refused("too many members");
  return trained(pipeline(images(), options));
}

OptionList members() { return {{"members", "How many of them", 3, no_less_than(1)}}; }

std::vector<Workload> own() { return {{"mine", mine}, {"other", other, members()}}; }

nlohmann::json run_report(const std::string& verb, const std::string& workload,
                          const std::vector<std::string>& more) {
  const TemporaryFolder folder;
  const std::string path = (folder.path() / "report.json").string();
  std::vector<std::string> words = {verb, workload, "--device", "cpu", "--json", path};
  words.insert(words.end(), more.begin(), more.end());
  const CliResult cli_result = call(own(), words);
  EXPECT_EQ(cli_result.code, 0) << cli_result.err;
  return nlohmann::json::parse(read_text(path));
}

TEST(CliMain, PyTorchErrorsAreReportedWithoutBacktrace) {
  const Workload broken{
      "broken", [](const Options&) -> Pipeline { TORCH_CHECK(false, "sizes do not match"); }};
  const CliResult cli_result = call({broken}, {"train", "broken", "--device", "cpu"});
  EXPECT_EQ(cli_result.code, 1);
  EXPECT_THAT(cli_result.err, StartsWith("own: sizes do not match"));
  EXPECT_THAT(cli_result.err, Not(HasSubstr("Exception raised from")));
}

TEST(CliMain, OutOfMemorySuggestsSmallerBatchSize) {
  const Workload small{"small", [](const Options&) -> Pipeline { throw std::bad_alloc(); }};
  const Workload large{"large", [](const Options&) -> Pipeline {
                         static_cast<void>(at::empty({std::int64_t{1} << 50}, at::kByte));
                         throw Error("the allocation succeeded");
                       }};
  std::vector<Workload> all = {small};
#ifndef SLIPSTREAM_SANITIZED  // AddressSanitizer's allocator would end the process
  all.push_back(large);
#endif
  for (const Workload& each : all) {
    const CliResult cli_result = call({each}, {"train", each.name, "--device", "cpu"});
    EXPECT_EQ(cli_result.code, 1);
    EXPECT_EQ(cli_result.err.find("own: out of memory; use a smaller batch size"), 0U)
        << cli_result.err;
  }
}

TEST(CliMain, VerbsThatReportRatesWarnOfBusyMachine) {
  const TemporaryFolder folder;
  const std::string report = (folder.path() / "report.json").string();
  const std::string trace = (folder.path() / "trace.json").string();
  const std::vector<std::string> common = {"mine", "--device", "cpu", "--steps", "2"};
  for (std::vector<std::string> words : {std::vector<std::string>{"train", "--json", report},
                                         {"bench", "--batch-size", "4", "--repeats", "1"},
                                         {"trace", "--out", trace}}) {
    const std::string verb = words.front();
    words.insert(words.begin() + 1, common.begin(), common.end());
    const CliResult cli_result = call(own(), words);
    EXPECT_EQ(cli_result.code, 0) << cli_result.err;
    EXPECT_THAT(cli_result.out, HasSubstr("\nwarning: the machine was busy (load 1000.0 on "))
        << verb;
  }
  EXPECT_THAT(
      call(own(), {"compare", report}).out,
      AllOf(HasSubstr("\nwarning: report: "), HasSubstr("the machine was busy (load 1000.0 on ")));
}

TEST(CliMain, ReportsListOnlyOptionsInEffect) {
  using Json = nlohmann::json;
  const std::vector<std::string> few = {"--steps", "2", "--plan", "serial", "--num-workers", "1"};
  EXPECT_EQ(run_report("train", "mine", few).at("workload"),
            Json::parse(R"({"name": "mine", "options": {"batch_size": 4, "seed": 1,
                            "shuffle": true, "drop_last": true, "image_size": 8,
                            "optimizer": "adamw"}})"));
  auto given = few;
  given.insert(given.end(), {"--members", "2", "--batch-size", "5", "--seed", "9", "--no-shuffle",
                             "--no-drop-last"});
  EXPECT_EQ(run_report("train", "other", given).at("workload").at("options"),
            Json::parse(R"({"batch_size": 5, "seed": 9, "shuffle": false, "drop_last": false,
                            "members": 2})"));
  EXPECT_EQ(
      run_report("bench", "other",
                 {"--batch-size", "4", "--steps", "2", "--repeats", "1", "--num-workers", "1"})
          .at("workload"),
      Json::parse(R"({"name": "other", "options": {"seed": 1, "shuffle": true,
                            "drop_last": true, "members": 3}})"));
}

TEST(CliMain, OptionsThatTheWorkloadDoesNotDeclareAreRefused) {
  for (const char* verb : {"train", "bench", "doctor", "trace"}) {
    const CliResult cli_result = call(own(), {verb, "mine", "--members", "2"});
    EXPECT_EQ(cli_result.code, 2) << verb;
    EXPECT_THAT(cli_result.err,
                HasSubstr("--members is an option of the workload other; mine does not have it"))
        << verb;
    const CliResult unknown = call({{"mine", mine}}, {verb, "mine", "--members", "2"});
    EXPECT_EQ(unknown.code, 2) << verb;
    EXPECT_THAT(unknown.err, HasSubstr("unknown option '--members'")) << verb;
  }
}

TEST(CliMain, OptionsThatTheFactoryDoesNotReadAreRefused) {
  const std::vector<Workload> careless = {{"mine", mine, members()}};
  const CliResult cli_result =
      call(careless, {"train", "mine", "--device", "cpu", "--members", "2"});
  EXPECT_EQ(cli_result.code, 2);
  EXPECT_THAT(cli_result.err, HasSubstr("--members has no effect on mine"));
}

TEST(CliMain, BatchSizeThatTheFactoryIgnoresIsRefused) {
  const std::vector<std::string> words = {"train", "mine", "--device", "cpu", "--batch-size", "5"};
  const CliResult cli_result = call(own(), words);
  EXPECT_EQ(cli_result.code, 2);
  EXPECT_THAT(cli_result.err, HasSubstr("batch size 5: mine trains on batches of 4"));
  EXPECT_EQ(call(own(), {"bench", "mine", "--device", "cpu", "--batch-size", "5"}).code, 2);
}

TEST(CliMain, ShuffleAndDropLastThatTheFactoryIgnoresAreRefused) {
  for (const std::string option : {"shuffle", "drop-last"})
    for (const char* verb : {"train", "bench"}) {
      const CliResult cli_result = call(own(), {verb, "mine", "--device", "cpu", "--no-" + option});
      EXPECT_EQ(cli_result.code, 2) << verb;
      EXPECT_THAT(cli_result.err, HasSubstr("--no-" + option + " has no effect on mine"));
    }
  EXPECT_EQ(call(own(), {"train", "mine", "--device", "cpu", "--steps", "1", "--shuffle"}).code, 0);
}

TEST(CliMain, BadValuesOfDeclaredOptionsAreRefused) {
  const auto refusal = [](const std::string& value) {
    const CliResult cli_result =
        call(own(), {"train", "other", "--device", "cpu", "--members", value});
    EXPECT_EQ(cli_result.code, 2) << value;
    return cli_result.err;
  };
  EXPECT_THAT(refusal("0"), HasSubstr("--members: 0 is less than 1"));
  EXPECT_THAT(refusal("many"), HasSubstr("--members: 'many' is not a whole number"));
  EXPECT_THAT(refusal("99999999999999999999"), HasSubstr("is too large"));
  EXPECT_THAT(refusal("4"), HasSubstr("too many members"));
}

TEST(CliMain, WorkloadCannotDeclareAnOptionOfTheVerb) {
  const std::vector<Workload> taken = {{"mine", mine, {{"steps", "How many", 3}}}};
  const CliResult cli_result = call(taken, {"train", "mine"});
  EXPECT_EQ(cli_result.code, 2);
  EXPECT_THAT(cli_result.err,
              HasSubstr("the workload mine declares --steps, which train has itself"));
}

TEST(CliMain, HelpShowsOptionsOfTheNamedWorkload) {
  const CliResult general = call(own(), {"train", "--help"});
  EXPECT_EQ(general.code, 0);
  EXPECT_THAT(general.out, AllOf(HasSubstr("--steps"), Not(HasSubstr("--members")),
                                 HasSubstr("train WORKLOAD --help"), HasSubstr("mine, other")));
  EXPECT_THAT(call(own(), {"train", "mine", "--help"}).out, Not(HasSubstr("--members")));
  EXPECT_THAT(call(own(), {"train", "--seed", "2", "other", "--help"}).out,
              AllOf(AnyOf(HasSubstr("--members INT=3 "), HasSubstr("--members INT [3] ")),
                    HasSubstr("How many of them")));
}

TEST(CliMain, WorkloadOptionIsAcceptedBeforeTheWorkloadName) {
  const auto words = [](const std::string& workload) {
    return std::vector<std::string>{"train",    "--members", "4",        "--deterministic",
                                    "--seed=2", workload,    "--device", "cpu"};
  };
  EXPECT_THAT(call(own(), words("other")).err, HasSubstr("too many members"));
  EXPECT_THAT(call(own(), words("mine")).err, HasSubstr("mine does not have it"));
  const CliResult none = call(own(), {"train", "--members", "4"});
  EXPECT_EQ(none.code, 2);
  EXPECT_THAT(none.err,
              HasSubstr("--members is an option of the workload other: give the workload"));
}

TEST(CliMain, OutputThatTheWorkloadReadsIsRefused) {
  const TemporaryFolder folder;
  const std::string path = (folder.path() / "class-weights").string();
  write_file_atomically(path, "1");
  const Workload reads{"reads", mine, {{"class-weights", "A file", ""}}};
  const CliResult cli_result =
      call({reads}, {"train", "reads", "--class-weights", path, "--json", path});
  EXPECT_EQ(cli_result.code, 2);
  EXPECT_THAT(cli_result.err, HasSubstr("name the same file"));
}

/// A model whose outputs are neither classes nor masks.
struct RowsImpl : torch::nn::Module {
  RowsImpl() { register_module("classifier", classifier); }
  at::Tensor forward(const at::Tensor& images) { return classifier->forward(images).unsqueeze(1); }
  Classifier classifier{3, 10};
};
TORCH_MODULE(Rows);

Pipeline rows(const Options& options) {
  const auto mean = [](const at::Tensor& output, const Batch&) { return output.mean(); };
  return pipeline(images(), options).train("model", Rows(), adamw({}), custom_loss("image", mean));
}

/// A data set of 64 samples without images.
Pipeline numbers(const Options& options) {
  HostArray values;
  const MutableArray out = values.reset(DType::float32, {64, 3});
  std::fill_n(out.as<float>(), 64 * 3, 1.0F);
  std::vector<ArrayField> fields(1);
  fields[0] = {"values", FieldKind::other, std::move(values), 0};
  const auto mean = [](const at::Tensor& output, const Batch&) { return output.mean(); };
  return pipeline(tensor_dataset(std::move(fields)), options)
      .train("model", torch::nn::Linear(3, 2), adamw({}), custom_loss("values", mean));
}

TEST(CliMain, UnsupportedPreviewFailsButReportIsWritten) {
  const TemporaryFolder folder;
  const auto path = [&](const char* name) { return (folder.path() / name).string(); };
  const auto words = [&](const std::string& workload) {
    return std::vector<std::string>{"train",  workload,         "--device",  "cpu",
                                    "--plan", "serial",         "--steps",   "2",
                                    "--json", path("run.json"), "--preview", path("preview.png")};
  };
  const CliResult cli_result = call({{"rows", rows}}, words("rows"));
  EXPECT_EQ(cli_result.code, 1);
  EXPECT_THAT(cli_result.out, HasSubstr("2 steps"));
  EXPECT_THAT(cli_result.err, AllOf(HasSubstr("preview.png is not written: "),
                                    HasSubstr("is not a prediction: the shape must be")));
  EXPECT_TRUE(std::filesystem::exists(path("run.json")));
  EXPECT_FALSE(std::filesystem::exists(path("preview.png")));
  const CliResult refused = call({{"numbers", numbers}}, words("numbers"));
  EXPECT_EQ(refused.code, 2);
  EXPECT_THAT(refused.err, HasSubstr("--preview: the data set has no images"));
}

TEST(CliMain, PreviewOfCustomPipelineIsWritten) {
  const TemporaryFolder folder;
  const std::string path = (folder.path() / "preview.png").string();
  const CliResult cli_result =
      call(own(), {"train", "mine", "--device", "cpu", "--steps", "2", "--preview", path});
  EXPECT_EQ(cli_result.code, 0) << cli_result.err;
  EXPECT_THAT(cli_result.out, HasSubstr("preview of 8 samples in " + path));
  EXPECT_TRUE(std::filesystem::exists(path));
}

}  // namespace
}  // namespace slipstream
