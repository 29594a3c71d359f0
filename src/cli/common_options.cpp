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
  verb.add_option("--device", device, "Where to train: auto, cpu, cuda or cuda:N")
      ->capture_default_str()
      ->group(kTrainingGroup);
  verb.add_option("--precision", precision, "Arithmetic of the device: tf32, fp32, bf16 or fp16")
      ->capture_default_str()
      ->group(kTrainingGroup);
  verb.add_flag("--deterministic", deterministic,
                "Computes the same bits in every run and under every plan")
      ->group(kTrainingGroup);
  verb.add_option("--seed", options.seed, "Seed of the order, random draws and initial weights")
      ->check(at_least(0))
      ->capture_default_str()
      ->group(kTrainingGroup);
  training.add_to(verb);
  add_loader_to(verb);
}

void add_read_ahead(CLI::App& verb, std::optional<unsigned>& reads) {
  verb.add_option(
          "--read-ahead", reads,
          "Reads in flight ahead of the workers, for slow storage; 0: each worker reads for itself")
      ->check(at_least(0))
      ->group(kLoaderGroup);
}

void add_prefetch_factor(CLI::App& verb, std::optional<unsigned>& factor, std::size_t batches) {
  verb.add_option(
          "--prefetch-factor", factor,
          "Batches that each worker fills ahead (default: " + std::to_string(batches) + " in all)")
      ->check(workers_problem)
      ->group(kLoaderGroup);
}

void add_order(CLI::App& verb, bool& shuffle, bool& drop_last) {
  verb.add_flag("--shuffle,!--no-shuffle", shuffle,
                "Each epoch takes samples in another order (the default), or in that of the data")
      ->group(kLoaderGroup);
  verb.add_flag(
          "--drop-last,!--no-drop-last", drop_last,
          "Samples too few for the last batch of an epoch are left out (the default), or it is "
          "filled up from the epoch's beginning")
      ->group(kLoaderGroup);
}

void CommonOptions::add_loader_to(CLI::App& verb) {
  verb.add_option("--num-workers", num_workers,
                  "Loader threads, or auto: as many as help (default: as many as cores, at most 8)")
      ->check([](const std::string& text) {
        const bool is_known = text == "auto" || workers_problem(text).empty();
        return is_known ? "" : text + " is neither auto nor a number from 1 to 4096";
      })
      ->group(kLoaderGroup);
  add_prefetch_factor(verb, prefetch_factor, LoaderPlan().prefetch_batches);
  add_order(verb, options.shuffle, options.drop_last);
  add_read_ahead(verb, read_ahead);
  verb.add_option("--cpus", cpus,
                  "CPUs of the loader's threads: a list such as 0-7, or gpu (those near the GPU)")
      ->group(kLoaderGroup);
  verb.add_option("--cache", cache, "Keeps samples in memory as a step leaves them: STEP=SIZE")
      ->group(kLoaderGroup);
  verb.add_flag("--scaled-decoding", scaled_decoding,
                "Decodes JPEGs that the first transform shrinks at a fraction of their size")
      ->group(kLoaderGroup);
  verb.add_option("--wire", wire,
                  "How fields travel to the device, FIELD=FORMAT: plain, smallest, bits, one_hot, "
                  "bf16, fp16, jpeg, host")
      ->delimiter(',')
      ->group(kLoaderGroup);
}

void CommonOptions::add_batch_to(CLI::App& verb, std::string& transforms_device) {
  verb.add_option(
          "--transforms-device", transforms_device,
          "Where transforms are done: cpu (loader threads), gpu (the device, in the model's "
          "stream) or pipelined (the device, in a stream of their own)")
      ->check(placement_problem)
      ->capture_default_str()
      ->group(kScheduleGroup);
  verb.add_option("--batch-size", options.batch_size, "Samples in each step's batch")
      ->check(at_least(1))
      ->capture_default_str()
      ->group(kTrainingGroup);
}

}  // namespace slipstream
