#include <filesystem>
#include <sstream>

#include "cli/input.h"
#include "core/files.h"
#include "slipstream/cli/workload.h"
#include "slipstream/codecs/image.h"
#include "slipstream/datasets/datasets.h"
#include "training/loading_options.h"

namespace slipstream {
namespace {

std::string read_weights(const std::string& path) try {
  return read_text(path);
} catch (const Error& error) {
  throw Refused("--sampler: " + std::string(error.what()));
}

std::vector<double> weights_in(const std::string& path) {
  std::istringstream text(read_weights(path));
  std::vector<double> weights;
  std::string line;
  while (std::getline(text, line)) {
    std::istringstream words(line);
    double weight = 0;
    std::string more;
    if (!(words >> weight) || words >> more)
      throw Refused("'" + path + "', line " + std::to_string(weights.size() + 1) + ": '" + line +
                    "' is not a single number, the weight of a sample");
    weights.push_back(weight);
  }
  return weights;
}

Sampling make_sampling(const std::shared_ptr<const Dataset>& dataset, const Options& options) {
  const std::string sampler = options.text("sampler");
  if (sampler == "random") return {};
  std::error_code failed;
  if (sampler != "balanced" && !std::filesystem::exists(sampler, failed))
    throw Refused(
        "--sampler: " + unknown_name("sampler", sampler, {"random", "balanced"}) +
        "; and there is no such file: give one of these names, or a file with a weight in "
        "each line");
  if (sampler != "balanced") return Sampling::weighted(weights_in(sampler));
  const auto labeled = std::dynamic_pointer_cast<const LabeledDataset>(dataset);
  if (labeled == nullptr)
    throw Refused(
        "--sampler balanced needs to know the class of each sample without reading it, which " +
        name_of_data(options) +
        " does not provide: give a folder with one subfolder per class, or a CSV or JSON list, as "
        "the data, or a file with a weight in each line as the sampler");
  return Sampling::balanced(*labeled);
}

}  // namespace

std::string name_of_data(const Options& options) {
  return options.has("data") ? "'" + options.text("data") + "'" : "the data";
}

Pipeline pipeline(std::shared_ptr<const Dataset> dataset, const Options& options) {
  SampleOptions declared = options.samples();
  if (options.has("background") && !is_synthetic(options))
    declared.decode.background = color_named(options.text("background"));
  if (options.has("on-bad-sample") && options.text("on-bad-sample") == "skip")
    declared.on_bad_sample = OnBadSample::skip;
  declared.decode.strict = options.has("decode") && options.text("decode") == "strict";
  if (options.has("sampler")) declared.sampler = make_sampling(dataset, options);
  if (const std::string cache = options.has("disk-cache") ? options.text("disk-cache") : "";
      !cache.empty())
    dataset = with_disk_cache("--disk-cache", dataset, cache);
  return Pipeline(std::move(dataset), std::move(declared));
}

}  // namespace slipstream
