#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>

#include "cli/verbs.h"
#include "core/files.h"
#include "core/number_text.h"
#include "report/sheet_page.h"
#include "slipstream/datasets/datasets.h"
#include "slipstream/transforms/chain.h"
#include "tools/augment_sheet.h"

namespace slipstream {
namespace {

struct AugmentVerb {
  std::string data, transforms, out;
  AugmentSheetOptions options;
};

constexpr const char* kSheetHelp =
    "The file to write: .png for the images alone, .html for a page with captions";

int augment(const AugmentVerb& verb, const Cli& cli) {
  refuse_replaced_files({.files = {{"--out", verb.out}}},
                        {{"--transforms", verb.transforms}, {"--data", verb.data}});
  require_name_of_sheet({"--out", verb.out});
  OutputFile out(verb.out);
  AugmentSheetOptions options = verb.options;
  options.stop = cli.interrupted;
  std::vector<NamedOp> chain = load_chain(verb.transforms);
  const BatchOps left_out = take_batch_ops(chain);
  const auto dataset = open_dataset(verb.data);
  print_remarks(*dataset);
  const AugmentSheet shown = augment_sheet(dataset, chain, options);
  if (shown.sheet.tiles.empty()) {
    std::cout << "interrupted before the picture was complete: " << verb.out << " is not written\n";
    return kInterrupted;
  }
  out.write(sheet_file(shown.sheet, "What " + verb.transforms + " does", verb.out));
  std::cout << format_count(shown.samples.size(), "sample") << " with "
            << format_count(options.versions, "version") << " each in " << verb.out << "\n";
  if (!left_out.empty())
    std::cout << left_out.name() << " is not shown: it works on whole batches in training\n";
  print_skipped(shown.skipped);
  return kDone;
}

}  // namespace

void add_augment(CLI::App& app, Cli& cli, Verb& chosen) {
  auto verb = std::make_shared<AugmentVerb>();
  AugmentSheetOptions& options = verb->options;
  CLI::App* command =
      app.add_subcommand("augment", "Draws images next to their transformed versions");
  command->add_option("--data", verb->data, "Data set: a folder, list, .tar shard or .npy file")
      ->required()
      ->group(kDataGroup);
  command->add_option("--transforms", verb->transforms, "A file of transforms")
      ->required()
      ->group(kTransformsGroup);
  command->add_option("--out", verb->out, kSheetHelp)->required()->group(kOutputGroup);
  command
      ->add_option("--samples", options.samples, "Number of images, the first of the epoch's order")
      ->check(at_least(1))
      ->capture_default_str()
      ->group(kOutputGroup);
  command
      ->add_option("--versions", options.versions,
                   "Number of versions of each image, one for each epoch, starting at --epoch")
      ->check(at_least(1))
      ->capture_default_str()
      ->group(kOutputGroup);
  command->add_option("--seed", options.seed, "Seed of the order and random draws, as in training")
      ->check(at_least(0))
      ->capture_default_str()
      ->group(kTransformsGroup);
  command
      ->add_option("--epoch", options.epoch, "Epoch of the order and of the first version, from 0")
      ->check(at_least(0))
      ->capture_default_str()
      ->group(kTransformsGroup);
  add_background(*command, options.background,
                 "Background color for transparent pixels, as in training");
  add_on_bad_sample(*command, options.on_bad_sample, "leaves it out");
  command->callback([=, &cli, &chosen] { chosen = [verb, &cli] { return augment(*verb, cli); }; });
}

}  // namespace slipstream
