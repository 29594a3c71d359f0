#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>

#include "cli/parts_line.h"
#include "cli/verbs.h"
#include "core/files.h"
#include "report/loader_report.h"
#include "slipstream/datasets/datasets.h"
#include "slipstream/transforms/chain.h"
#include "training/loading_options.h"

namespace slipstream {
namespace {

struct LoaderVerb {
  std::string data, transforms, json;
  std::string cache, disk_cache;  ///< STEP=SIZE and FOLDER=SIZE, or "" if not given
  std::optional<unsigned> read_ahead;
  std::int64_t image_size = 256;
  DataLoaderOptions loader{{.batch_size = 32}, {}};
  LoaderBenchOptions options;
};

std::shared_ptr<const Dataset> open_loader_dataset(const LoaderVerb& verb) {
  const std::shared_ptr<const Dataset> dataset = open_dataset(verb.data);
  if (verb.disk_cache.empty()) return dataset;
  return with_disk_cache("--disk-cache", dataset, verb.disk_cache);
}

DataLoaderOptions make_loader_options(const LoaderVerb& verb) {
  DataLoaderOptions loader = verb.loader;
  set_loading(loader, verb.read_ahead, verb.cache);
  return loader;
}

int bench_loader(const LoaderVerb& verb, const Cli& cli) {
  refuse_replaced_files(
      {.files = {{"--json", verb.json}}, .folders = folder_of_disk_cache(verb.disk_cache)},
      {{"--transforms", verb.transforms}, {"--data", verb.data}});
  OutputFile json(verb.json);
  LoaderReport report{probe_environment("", std::nullopt),
                      verb.data,
                      verb.transforms,
                      verb.loader.batch_size,
                      verb.image_size,
                      {}};
  LoaderBenchOptions options = verb.options;
  options.stop = cli.interrupted;
  DataLoaderOptions loader = make_loader_options(verb);
  std::vector<NamedOp> chain = load_chain_or_resize(verb.transforms, verb.image_size);
  loader.batch_ops = take_batch_ops(chain);
  const auto dataset = open_loader_dataset(verb);
  print_remarks(*dataset);
  {
    PartsLine line("measurements");
    options.progress = [&](std::size_t done, std::size_t all) { line.update(done, all); };
    report.rates = measure_loader(dataset, chain, loader, options);
  }
  if (cli.interrupted()) std::cout << "interrupted: these are the results so far\n";
  std::cout << loader_table(report);
  SkippedSamples skipped;
  for (const LoaderRate& rate : report.rates) skipped.add(rate.skipped);
  print_skipped(skipped);
  write_all({{&json, loader_report_json(report)}});
  return cli.interrupted() ? kInterrupted : kDone;
}

void add_loading(CLI::App& command, const std::shared_ptr<LoaderVerb>& verb) {
  command
      .add_flag("--scaled-decoding", verb->loader.decode.scaled,
                "Decodes JPEG files at reduced size if the first transform makes the image smaller")
      ->group(kLoaderGroup);
  command
      .add_flag_callback(
          "--whole-decoding", [verb] { verb->loader.decode.partial = false; },
          "Decodes whole JPEG files, not only the part that the first transform reads")
      ->group(kLoaderGroup);
  add_prefetch_factor(command, verb->options.prefetch_factor);
  add_order(command, verb->loader);
  add_read_ahead(command, verb->read_ahead);
  command
      .add_option("--cache", verb->cache,
                  "Caches the samples in memory as they are after a step: STEP=SIZE")
      ->group(kLoaderGroup);
  command
      .add_option("--disk-cache", verb->disk_cache,
                  "Caches samples from slow storage in a folder: DIR=SIZE")
      ->group(kDataGroup);
}

}  // namespace

void add_bench_loader(CLI::App& bench, Cli& cli, Verb& chosen) {
  auto verb = std::make_shared<LoaderVerb>();
  CLI::App* command = bench.add_subcommand(
      "loader",
      "Measures the loader alone: its rate by number of workers, and the time of each host step");
  command->add_option("--data", verb->data, "A folder, list, .tar shard or .npy file")
      ->required()
      ->group(kDataGroup);
  command->add_option("--num-workers", verb->options.workers, "Loader threads, comma-separated")
      ->delimiter(',')
      ->check(workers_problem)
      ->capture_default_str()
      ->group(kLoaderGroup);
  command->add_option("--batch-size", verb->loader.batch_size, "Samples per batch")
      ->check(at_least(1))
      ->capture_default_str()
      ->group(kLoaderGroup);
  command->add_option("--transforms", verb->transforms, "A file of transforms, instead of a resize")
      ->group(kTransformsGroup);
  command->add_option("--image-size", verb->image_size, "Height and width after the resize")
      ->check(at_least(1))
      ->capture_default_str()
      ->group(kTransformsGroup);
  add_on_bad_sample(*command, verb->loader.on_bad_sample, "uses another sample in its place");
  add_loading(*command, verb);
  command
      ->add_option("--seconds", verb->options.seconds,
                   "Maximum time of each measurement, in seconds")
      ->check(above_zero)
      ->capture_default_str()
      ->group(kMeasuringGroup);
  command
      ->add_option("--repeats", verb->options.repeats,
                   "Number of rounds; each measures everything once")
      ->check(at_least(1))
      ->capture_default_str()
      ->group(kMeasuringGroup);
  command->add_option("--json", verb->json, "Writes the report to this file")->group(kOutputGroup);
  command->callback([=, &cli, &chosen] {
    if (!verb->transforms.empty() && command->count("--image-size") > 0)
      throw Refused(
          "--image-size has no effect with --transforms, whose transforms determine the size: " +
          std::string("leave one of them out"));
    chosen = [verb, &cli] { return bench_loader(*verb, cli); };
  });
}

}  // namespace slipstream
