#include "tools/convert.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>
#include <memory>
#include <optional>
#include <utility>

#include "cli/option_text.h"
#include "cli/parts_line.h"
#include "cli/verbs.h"
#include "core/files.h"
#include "core/number_text.h"
#include "slipstream/datasets/datasets.h"
#include "slipstream/transforms/chain.h"
#include "slipstream/transforms/resize.h"

namespace slipstream {
namespace {

struct ConvertVerb {
  std::string data, out, to = "shards", transforms, classes_from;
  std::int64_t resize = 0;
  bool given_quality = false, given_background = false;
  ConvertOptions options;
};

/// Returns the remaining transforms for training. A shard does not record that all images have the
/// same size. If the remaining transforms need that, a resize to this size is put before them; it
/// changes no image.
std::vector<NamedOp> split_chain(const ConvertVerb& verb, std::vector<NamedOp>& fixed) {
  if (verb.resize > 0) fixed = {{"resize", Resize{{verb.resize, verb.resize}}}};
  if (verb.transforms.empty()) return {};
  if (verb.resize > 0) throw Refused("give --resize or --transforms, not both");
  std::vector<NamedOp> chain = load_chain(verb.transforms);
  fixed = take_fixed_transforms(chain);
  const Shape size = image_after(fixed).shape;
  const bool is_shard = verb.to == "shards";
  if (is_shard && !chain.empty() && size.is_fixed() && !image_after(chain).shape.is_fixed())
    chain.insert(chain.begin(), {"resize", Resize{{size[0], size[1]}}});
  return chain;
}

bool changes_images(const std::vector<NamedOp>& transforms) {
  return std::any_of(transforms.begin(), transforms.end(),
                     [](const NamedOp& each) { return each.op.touches(FieldKind::image); });
}

/// Whether the file is written by a conversion, or hidden.
bool is_of_conversion(const std::filesystem::path& path) {
  const std::string name = path.filename().string();
  return name.starts_with('.') || name == "manifest.json" || name == "transforms.json" ||
         path.extension() == ".tar" || path.extension() == ".npy" ||
         path.extension() == ".slipstream-index";
}

/// Refuses a folder with other files: a data set in it would then contain both these and the
/// shards.
void require_folder_for_conversion(const std::string& out) {
  std::error_code failed;
  for (const auto& entry : std::filesystem::directory_iterator(out, failed))
    if (!is_of_conversion(entry.path()))
      throw Refused("--out '" + out + "' contains other files, such as " +
                    entry.path().filename().string() + ": give a new folder");
}

Converted run_conversion(const Dataset& dataset, const ConvertVerb& verb, ConvertOptions options) {
  const bool is_npy = verb.to == "npy";
  PartsLine line(is_npy ? "blocks" : "shards");
  std::optional<PartsLine> search(std::in_place, "samples read to find bad ones");
  options.searched = [&](std::size_t done, std::size_t all) { search->update(done, all); };
  options.progress = [&](std::size_t part, std::size_t all) {
    search.reset();
    line.update(part, all);
  };
  return (is_npy ? convert_to_npy : convert_to_shards)(dataset, verb.out, options);
}

int convert(const ConvertVerb& verb, const Cli& cli) {
  if (verb.to != "shards" && verb.to != "npy")
    throw Refused(unknown_name("format", verb.to, {"shards", "npy"}));
  const auto rest_path = std::filesystem::path(verb.out) / "transforms.json";
  refuse_replaced_files({.files = {{"--out's transforms.json", rest_path.string()}},
                         .folders = {{"--out", verb.out}}},
                        {{"--data", verb.data},
                         {"--transforms", verb.transforms},
                         {"--classes-from", verb.classes_from}});
  require_folder_for_conversion(verb.out);
  const bool is_npy = verb.to == "npy";
  if (is_npy && verb.given_quality)
    throw Refused(
        "--quality has no effect on .npy files, which contain pixels, not JPEG: leave it out");
  ConvertOptions options = verb.options;
  const std::vector<NamedOp> rest = split_chain(verb, options.transforms);
  if (!is_npy && verb.given_background && !changes_images(options.transforms))
    throw Refused(
        "--background has no effect on shards whose images no transform changes: their files are "
        "copied, and stay transparent; leave it out and train with it, or give --to npy");
  options.stop = cli.interrupted;
  const auto dataset = verb.classes_from.empty()
                           ? open_dataset(verb.data)
                           : open_dataset(verb.data, class_names_from(verb.classes_from));
  print_remarks(*dataset);
  const Converted done = run_conversion(*dataset, verb, options);
  if (!done.is_complete) {
    std::cout << "interrupted; run the same command again to continue\n";
    return kInterrupted;
  }
  const std::size_t kept = done.parts - done.written;
  std::cout << format_count(dataset->size() - done.skipped.size(), "sample") << " in "
            << format_count(done.parts, is_npy ? "block" : "shard") << " in " << verb.out;
  if (kept > 0)
    std::cout << ", " << kept << " of which " << (kept == 1 ? "was" : "were") << " already written";
  std::cout << "\n";
  print_skipped(done.skipped);
  if (done.skipped.size() > 1)
    std::cout << (std::filesystem::path(verb.out) / "manifest.json").string() << " lists them\n";
  if (rest.empty()) return kDone;
  write_file_atomically(rest_path, to_json_text(rest));
  std::cout << "the first transform that is random or of whole batches, and all after it, were "
               "left out: train with --transforms "
            << rest_path.string() << "\n";
  return kDone;
}

}  // namespace

void add_convert(CLI::App& app, Cli& cli, Verb& chosen) {
  auto verb = std::make_shared<ConvertVerb>();
  CLI::App* command = app.add_subcommand(
      "convert",
      "Converts a data set to shards or arrays, with its deterministic transforms applied");
  command->add_option("--data", verb->data, "Data set: a folder, list, .tar shard or .npy file")
      ->required()
      ->group(kDataGroup);
  command->add_option("--out", verb->out, "Folder to write to")->required()->group(kOutputGroup);
  command
      ->add_option(
          "--to", verb->to,
          "Format to write: shards, or npy (one array per field; all images need the same size)")
      ->capture_default_str()
      ->group(kOutputGroup);
  command->add_option("--classes-from", verb->classes_from, kClassesFromHelp)->group(kDataGroup);
  add_background(*command, verb->options.background,
                 "Background color for transparent pixels of images");
  command->add_option("--resize", verb->resize, "Stretches images to this height and width")
      ->check(at_least(1))
      ->group(kTransformsGroup);
  command
      ->add_option("--transforms", verb->transforms,
                   "A file of transforms; those before the first random one are applied")
      ->group(kTransformsGroup);
  command
      ->add_option("--quality", verb->options.quality, "JPEG quality of changed images in shards")
      ->capture_default_str()
      ->group(kOutputGroup);
  command
      ->add_option("--samples-per-shard", verb->options.samples_per_shard,
                   "Samples per shard; with --to npy per block of the manifest")
      ->check(at_least(1))
      ->capture_default_str()
      ->group(kOutputGroup);
  add_on_bad_sample(*command, verb->options.on_bad_sample, "leaves it out");
  command
      ->add_option("--num-workers", verb->options.threads,
                   "Number of threads (default: one per core)")
      ->check(at_least(1))
      ->group(kLoaderGroup);
  command->callback([=, &cli, &chosen] {
    verb->given_quality = command->count("--quality") > 0;
    verb->given_background = command->count("--background") > 0;
    chosen = [verb, &cli] { return convert(*verb, cli); };
  });
}

}  // namespace slipstream
