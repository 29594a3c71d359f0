#include "tools/make_data.h"

#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>

#include "cli/parts_line.h"
#include "cli/verbs.h"
#include "core/number_text.h"
#include "slipstream/core/error.h"

namespace slipstream {
namespace {

struct MakeDataVerb {
  std::string kind, out;
  MakeDataOptions options;
};

int make_data(const MakeDataVerb& verb, const Cli& cli) {
  const bool is_segmentation = verb.kind == "segmentation";
  if (!is_segmentation && verb.kind != "classification")
    throw Refused(unknown_name("kind of data", verb.kind, {"segmentation", "classification"}));
  MakeDataOptions options = verb.options;
  options.stop = cli.interrupted;
  const std::size_t made = [&] {
    PartsLine line("images");
    return (is_segmentation ? make_segmentation_data : make_classification_data)(
        verb.out, options, [&](std::size_t done) { line.update(done, options.samples); });
  }();
  const bool all = made == options.samples;
  if (!all) std::cout << "interrupted after " << made << " of " << options.samples << ": ";
  std::cout << format_count(made, "image") << (is_segmentation ? " with masks in " : " in ")
            << verb.out << "\n";
  return all ? kDone : kInterrupted;
}

}  // namespace

void add_make_data(CLI::App& app, Cli& cli, Verb& chosen) {
  auto verb = std::make_shared<MakeDataVerb>();
  CLI::App* command = app.add_subcommand("make-data", "Writes a small data set of real files");
  command
      ->add_option("kind", verb->kind,
                   "segmentation: images and masks; classification: a folder for each class")
      ->required();
  command->add_option("--out", verb->out, "Folder to write to")->required()->group(kOutputGroup);
  command->add_option("--samples", verb->options.samples, "Number of images")
      ->check(at_least(1))
      ->capture_default_str()
      ->group(kDataGroup);
  command
      ->add_option(
          "--size", verb->options.sizes,
          "Height and width of the images; with several values, each image gets one at random")
      ->delimiter(',')
      ->capture_default_str()
      ->group(kDataGroup);
  command
      ->add_option("--quality", verb->options.qualities,
                   "JPEG quality, 1 to 100; with several values, each image gets one at random")
      ->delimiter(',')
      ->capture_default_str()
      ->group(kDataGroup);
  command->add_option("--classes", verb->options.classes, "Number of classes, 2 to 10")
      ->capture_default_str()
      ->group(kDataGroup);
  command->add_option("--gray", verb->options.gray_share, "Share of gray images, 0 to 1")
      ->capture_default_str()
      ->group(kDataGroup);
  command->add_option("--png", verb->options.png_share, "Share of PNG images, 0 to 1")
      ->capture_default_str()
      ->group(kDataGroup);
  command->add_option("--seed", verb->options.seed, "Seed of all random draws")
      ->check(at_least(0))
      ->capture_default_str()
      ->group(kDataGroup);
  command->callback(
      [=, &cli, &chosen] { chosen = [verb, &cli] { return make_data(*verb, cli); }; });
}

}  // namespace slipstream
