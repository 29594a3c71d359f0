#include <CLI/CLI.hpp>
#include <algorithm>

#include "cli/common_options.h"
#include "core/text.h"

namespace slipstream {

void CommonOptions::add_to(CLI::App& verb, const Cli& cli) {
  cli_ = &cli;
  std::vector<std::string> known;
  for (const Workload& each : cli.workloads) known.push_back(each.name);
  verb.add_option("workload", workload, "Which workload: " + joined(known))
      ->required()
      ->check([known](const std::string& name) {
        const bool is_known = std::find(known.begin(), known.end(), name) != known.end();
        return is_known ? "" : unknown_name("workload", name, known);
      });
  verb.add_option("--device", device,
                  "Device: auto (the first GPU, or the CPU if there is none), cpu, cuda or cuda:N")
      ->capture_default_str()
      ->group(kTrainingGroup);
  verb.add_option("--precision", precision,
                  "Precision of the computation: tf32, fp32, bf16 or fp16")
      ->capture_default_str()
      ->group(kTrainingGroup);
  verb.add_flag("--deterministic", deterministic,
                "Uses deterministic algorithms: every run and every plan gives the same bits")
      ->group(kTrainingGroup);
  verb.add_option("--seed", options.seed,
                  "Seed of the sample order, the random transforms and the initial weights")
      ->check(at_least(0))
      ->capture_default_str()
      ->group(kTrainingGroup);
  training.add_to(verb);
  add_loader_to(verb);
}

void add_read_ahead(CLI::App& verb, std::optional<unsigned>& reads) {
  verb.add_option("--read-ahead", reads,
                  "Number of reads in flight in advance of the workers, for slow storage; 0: each "
                  "worker reads its own files")
      ->check(at_least(0))
      ->group(kLoaderGroup);
}

void add_prefetch_factor(CLI::App& verb, std::optional<unsigned>& factor) {
  const std::size_t batches = LoadingOptions().prefetch_batches;
  verb.add_option("--prefetch-factor", factor,
                  "Batches that each worker loads in advance (default: " + std::to_string(batches) +
                      " in all)")
      ->check(workers_problem)
      ->group(kLoaderGroup);
}

void add_order(CLI::App& verb, SampleOptions& options) {
  verb.add_flag("--shuffle,!--no-shuffle", options.shuffle,
                "Shuffles the samples anew in each epoch (the default)")
      ->group(kLoaderGroup);
  verb.add_flag("--drop-last,!--no-drop-last", options.drop_last,
                "Drops the last batch of an epoch if it is incomplete (the default); otherwise it "
                "is filled with samples from the start of the epoch")
      ->group(kLoaderGroup);
}

void CommonOptions::add_loader_to(CLI::App& verb) {
  verb.add_option("--num-workers", num_workers,
                  "Loader threads, or auto: the smallest number that gives the highest rate "
                  "(default: the number of cores, at most 8)")
      ->check([](const std::string& text) {
        const bool is_known = text == "auto" || workers_problem(text).empty();
        return is_known ? "" : text + " is neither auto nor a number from 1 to 4096";
      })
      ->group(kLoaderGroup);
  add_prefetch_factor(verb, prefetch_factor);
  add_order(verb, options.samples());
  add_read_ahead(verb, read_ahead);
  verb.add_option("--cpus", cpus,
                  "CPUs of the loader's threads: a list such as 0-7, or gpu (those near the GPU)")
      ->group(kLoaderGroup);
  verb.add_option("--cache", cache,
                  "Caches the samples in memory as they are after a step: STEP=SIZE")
      ->group(kLoaderGroup);
  verb.add_flag("--scaled-decoding", scaled_decoding,
                "Decodes JPEG files at reduced size if the first transform makes the image smaller")
      ->group(kLoaderGroup);
  verb.add_option("--wire", wire,
                  "Format of fields in the copy to the device, FIELD=FORMAT: plain, smallest, "
                  "bits, one_hot, bf16, fp16, jpeg, host")
      ->delimiter(',')
      ->group(kLoaderGroup);
}

void CommonOptions::add_batch_to(CLI::App& verb, std::string& transforms_device) {
  verb.add_option("--transforms-device", transforms_device,
                  "Where transforms run: cpu (loader threads) or cuda (the GPU)")
      ->check(transforms_device_problem)
      ->capture_default_str()
      ->group(kScheduleGroup);
  verb.add_option("--batch-size", options.batch_size, "Samples per batch")
      ->check(at_least(1))
      ->capture_default_str()
      ->group(kTrainingGroup);
}

}  // namespace slipstream
