#include <CLI/CLI.hpp>
#include <ctime>
#include <iostream>
#include <memory>
#include <optional>

#include "cli/parts_line.h"
#include "cli/verbs.h"
#include "core/byte_size.h"
#include "core/files.h"
#include "core/number_text.h"
#include "features/feature_export.h"
#include "features/feature_report.h"
#include "slipstream/core/cpu.h"
#include "slipstream/core/error.h"

namespace slipstream {
namespace {

constexpr const char* kFolderHelp = "Folder of a feature cache";

struct FeaturesVerb {
  std::string folder, key, json, size, out, to = "npy";
  std::optional<std::int64_t> older_than_days;
  unsigned num_workers = 0;
};

int inspect_features(const FeaturesVerb& verb) {
  refuse_replaced_files({.files = {{"--json", verb.json}}}, {{"the features", verb.folder}});
  OutputFile json(verb.json);
  const std::vector<FeatureKey> keys = list_feature_keys(verb.folder);
  std::cout << feature_keys_text(verb.folder, keys);
  json.write(feature_keys_json(keys));
  return kDone;
}

FeaturePruning pruning_by(const FeaturesVerb& verb) {
  constexpr std::time_t kSecondsPerDay = 86'400;
  FeaturePruning pruning;
  pruning.name = verb.key;
  // One second more, so that "0 days" includes what was used just now.
  if (verb.older_than_days)
    pruning.last_used_before = std::time(nullptr) + 1 - *verb.older_than_days * kSecondsPerDay;
  if (!verb.size.empty()) {
    pruning.to_bytes = size_in(verb.size);
    if (!pruning.to_bytes)
      throw Refused("--to " + verb.size +
                    " is not a size: give bytes, or a number of K, M, G or T (powers of 1024), for "
                    "example 200G");
  }
  if (pruning.name.empty() && !pruning.last_used_before && !pruning.to_bytes)
    throw Refused("give at least one of --older-than, --key and --to, which say what to remove");
  return pruning;
}

int prune(const FeaturesVerb& verb) {
  const PrunedFeatures pruned = prune_features(verb.folder, pruning_by(verb));
  const auto size = [](std::uint64_t bytes) { return size_text(static_cast<double>(bytes)); };
  for (const FeatureKey& key : pruned.removed)
    std::cout << "removed " << key.name << ", " << size(key.bytes) << "\n";
  for (const FeatureKey& key : pruned.in_use)
    std::cout << "kept " << key.name << ", " << size(key.bytes) << ": a process uses it\n";
  std::cout << size(pruned.bytes_left) << " left\n";
  return pruned.in_use.empty() ? kDone : kNo;
}

FeatureExport export_options(const FeaturesVerb& verb, const Cli& cli) {
  FeatureExport options;
  options.format = verb.to == "npy" ? FeatureFormat::npy : FeatureFormat::safetensors;
  options.out = verb.out;
  options.threads = verb.num_workers > 0 ? verb.num_workers : usable_cores();
  options.stop = cli.interrupted;
  return options;
}

int export_to(const FeaturesVerb& verb, const Cli& cli) {
  if (verb.to != "npy" && verb.to != "safetensors")
    throw Refused(unknown_name("format", verb.to, {"npy", "safetensors"}));
  const std::pair<std::string, std::string> out("--out", verb.out);
  const bool is_npy = verb.to == "npy";
  refuse_replaced_files({.files = is_npy ? NamedPaths() : NamedPaths{out},
                         .folders = is_npy ? NamedPaths{out} : NamedPaths()},
                        {{"the features", verb.folder}});
  if (!is_npy) check_writable(verb.out);
  const FeatureKey key = find_feature_key(verb.folder, verb.key);
  if (!key.problem.empty()) throw Refused(key.problem);
  FeatureStore store(verb.folder, key.manifest->key, fields_json(key.manifest->fields));
  FeatureExport options = export_options(verb, cli);
  PartsLine line("records");
  options.progress = [&](std::size_t rows, std::size_t all) { line.update(rows, all); };
  const ExportedFeatures done = export_features(store, options);
  if (!done.is_complete) {
    std::cout << "interrupted: nothing was written\n";
    return kInterrupted;
  }
  std::cout << format_count(done.rows, "record") << " in " << verb.out << "\n";
  if (done.damaged > 0)
    std::cout << format_count(done.damaged, "record")
              << " left out, because the checksum does not match; training computes them again\n";
  return kDone;
}

void add_inspect_features(CLI::App& features, Verb& chosen) {
  auto verb = std::make_shared<FeaturesVerb>();
  CLI::App* command = features.add_subcommand(
      "inspect", "Lists the keys in the folder: what they depend on, their sizes, their last use");
  command->add_option("folder", verb->folder, kFolderHelp)->required();
  command->add_option("--json", verb->json, "Writes everything, unshortened, to this file")
      ->group(kOutputGroup);
  command->callback([=, &chosen] { chosen = [verb] { return inspect_features(*verb); }; });
}

void add_prune_features(CLI::App& features, Verb& chosen) {
  auto verb = std::make_shared<FeaturesVerb>();
  CLI::App* command = features.add_subcommand(
      "prune",
      "Removes keys that one of the options selects, unless a process uses them (exit code 3)");
  command->add_option("folder", verb->folder, kFolderHelp)->required();
  command
      ->add_option("--older-than", verb->older_than_days,
                   "Removes keys that were not used for this number of days")
      ->check(at_least(0))
      ->group(kDataGroup);
  command->add_option("--key", verb->key, "Removes the key whose name starts with this text")
      ->group(kDataGroup);
  command
      ->add_option("--to", verb->size,
                   "Removes the least recently used keys until the others have at most this size, "
                   "for example 200G")
      ->group(kDataGroup);
  command->callback([=, &chosen] { chosen = [verb] { return prune(*verb); }; });
}

void add_export_features(CLI::App& features, Cli& cli, Verb& chosen) {
  auto verb = std::make_shared<FeaturesVerb>();
  CLI::App* command = features.add_subcommand(
      "export", "Writes the features of one key, ordered by sample, for use in other programs");
  command->add_option("folder", verb->folder, kFolderHelp)->required();
  command
      ->add_option("--key", verb->key,
                   "Start of the name of the key; needed if the folder has several keys")
      ->group(kDataGroup);
  command
      ->add_option("--to", verb->to, "Format: npy (one file per field) or safetensors (one file)")
      ->capture_default_str()
      ->group(kOutputGroup);
  command->add_option("--out", verb->out, "Folder for .npy files, or the .safetensors file")
      ->required()
      ->group(kOutputGroup);
  command
      ->add_option("--num-workers", verb->num_workers, "Number of threads (default: one per core)")
      ->check(at_least(1))
      ->group(kLoaderGroup);
  command->callback(
      [=, &cli, &chosen] { chosen = [verb, &cli] { return export_to(*verb, cli); }; });
}

}  // namespace

void add_features(CLI::App& app, Cli& cli, Verb& chosen) {
  CLI::App* features = app.add_subcommand(
      "features", "Lists, removes or exports the features in the folder of a feature cache");
  features->require_subcommand(1);
  add_inspect_features(*features, chosen);
  add_prune_features(*features, chosen);
  add_export_features(*features, cli, chosen);
}

}  // namespace slipstream
