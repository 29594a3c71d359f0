#include <CLI/CLI.hpp>
#include <tuple>

#include "cli/verbs.h"

namespace slipstream {

void CommonOptions::add_to(CLI::App& verb, const Cli& cli) {
  std::string known;
  for (const Workload& each : cli.workloads) known += (known.empty() ? "" : ", ") + each.name;
  verb.add_option("workload", workload, "Which workload: " + known)->required();
  verb.add_option("--data", options.data, "A data set (docs/workloads.md), or \"synthetic\"")
      ->capture_default_str();
  verb.add_option("--device", device, "auto, cpu, cuda or cuda:N")->capture_default_str();
  add_input_to(verb);
  add_loader_to(verb);
  add_training_to(verb);
  add_workloads_own_to(verb);
  verb.add_option("--seed", options.seed, "Order, random draws and initial weights")
      ->check(at_least(0))
      ->capture_default_str();
  verb.parse_complete_callback([this, &verb, &cli] {
    given_precision = verb.count("--precision") > 0;
    options.has_given_classes = verb.count("--classes") > 0;
    take_defaults(verb, cli);
  });
}

void CommonOptions::add_input_to(CLI::App& verb) {
  verb.add_option("--workers", workers,
                  "Loader threads, or auto: as many as help (default: the cores, at most 8)")
      ->check([](const std::string& text) {
        const bool is_known = text == "auto" || workers_problem(text).empty();
        return is_known ? "" : text + " is neither auto nor a number from 1 to 4096";
      });
  verb.add_option("--image-size", options.image_size,
                  "Height and width (a power of two, but for starved)")
      ->check(at_least(1))
      ->capture_default_str();
  verb.add_option("--chain", options.chain,
                  "Transforms from a chain file, ending at that size (default: a resize)");
  verb.add_option("--classes", options.classes, "Number of classes, where the data do not say")
      ->capture_default_str();
  add_on_bad_sample(verb, options.on_bad_sample,
                    "another sample takes the place of one that cannot be read");
  verb.add_option(
          "--sampling", options.sampling,
          "each (sample once an epoch), balanced (classes), or a file of weights, one a line")
      ->capture_default_str();
}

void CommonOptions::add_loader_to(CLI::App& verb) {
  verb.add_option("--read-ahead", read_ahead,
                  "Reads in flight ahead of the workers (slow storage); 0: each reads for itself")
      ->check(at_least(0));
  verb.add_option("--cpus", cpus, "Where the loader's threads run: a list such as 0-7, or gpu");
  verb.add_option("--cache", cache, "Samples kept in memory as a step leaves them: STEP=SIZE");
  verb.add_option_function<std::string>(
      "--disk-cache",
      [this](const std::string& text) {
        std::tie(options.disk_cache, options.disk_cache_bytes) = named_size("--disk-cache", text);
      },
      "Samples of slow storage kept in a folder: DIR=SIZE");
  verb.add_flag("--scaled-decoding", scaled_decoding,
                "JPEGs that the first transform shrinks are decoded at a fraction of their size");
  verb.add_option("--wire", wire,
                  "How fields travel to the device, FIELD=FORMAT: plain, smallest, bits, one_hot, "
                  "bf16, f16, jpeg, host")
      ->delimiter(',');
}

void CommonOptions::add_training_to(CLI::App& verb) {
  verb.add_option("--precision", precision, "tf32, fp32 or bf16")->capture_default_str();
  verb.add_flag("--deterministic", deterministic, "Same bits in every run and plan");
  verb.add_option("--optimizer", options.optimizer, "sgd or adamw")->capture_default_str();
  verb.add_option("--lr", options.lr, "Learning rate")->check(above_zero)->capture_default_str();
  verb.add_option("--momentum", options.momentum, "Of sgd")->capture_default_str();
}

void CommonOptions::add_workloads_own_to(CLI::App& verb) {
  verb.add_option("--mode", options.mode, "Of the workload branches: load, branches or ensemble");
  verb.add_option("--fork", options.fork,
                  "Branches on streams, on one-stream, or where they are faster (auto)")
      ->capture_default_str();
  verb.add_option("--members", options.members, "Models of the ensemble")
      ->check(at_least(1))
      ->capture_default_str();
  verb.add_option("--load-ms", options.load_ms, "Loading that a batch costs, with --mode load")
      ->check(at_least(0))
      ->capture_default_str();
  verb.add_option("--step-ms", options.step_ms, "Time that a step costs, with --mode load")
      ->check(at_least(0))
      ->capture_default_str();
  verb.add_option("--transforms", options.transforms,
                  "Of the workload starved: plain (the default) or optimised");
  verb.add_option("--costs", options.costs,
                  "Of the workload starved: article, waits as long as its article's stages");
  verb.add_option("--raw-size", options.raw_size,
                  "Of the workload starved: height and width of synthetic raw images")
      ->check(at_least(1));
}

void CommonOptions::add_batch_to(CLI::App& verb, std::string& augment) {
  verb.add_option("--augment", augment,
                  "Where transforms are done: cpu (loader threads), gpu (on the model's lane), or "
                  "pipelined (on a lane of their own)")
      ->check(placement_problem)
      ->capture_default_str();
  verb.add_option("--batch-size", options.batch_size, "Samples a step")
      ->check(at_least(1))
      ->capture_default_str();
}

}  // namespace slipstream
