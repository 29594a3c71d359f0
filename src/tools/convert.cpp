#include "tools/convert.h"

#include <algorithm>
#include <atomic>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/parallel_for.h"
#include "datasets/npy_manifest.h"
#include "loader/bad_samples.h"
#include "slipstream/core/error.h"
#include "tools/checks.h"
#include "tools/manifest.h"
#include "transforms/geometry.h"

namespace slipstream {

std::vector<std::string> find_problems(const Dataset& dataset, const ConvertOptions& options) {
  if (dataset.size() == 0) throw Error("the data set is empty: there is nothing to convert");
  std::vector<std::string> problems;
  if (options.samples_per_shard == 0) problems.emplace_back("a shard holds at least 1 sample");
  for (const NamedOp& each : options.transforms) {
    if (each.op.is_random())
      problems.push_back("transform '" + each.name + "' is random: apply it in training");
    if (each.op.is_over_batch())
      problems.push_back("transform '" + each.name +
                         "' is applied to whole batches: apply it in training");
    if (const std::string problem = problem_of_fields(each.op, dataset.fields()); !problem.empty())
      problems.emplace_back("transform '" + each.name + "': ") += problem;
  }
  return problems;
}

void add_more_settings(const Dataset& dataset, const ConvertOptions& options,
                       nlohmann::ordered_json& settings) {
  if (options.background != Rgb{0, 0, 0}) settings["background"] = options.background;
  for (const std::string& name : dataset.class_names())
    settings["class_names"].push_back(printable(name));
}

void refuse_conversion(const std::vector<std::string>& problems) {
  if (problems.empty()) return;
  std::string text;
  for (const std::string& problem : problems) text += "\n  " + problem;
  throw Refused("this cannot be converted:" + text);
}

void fail_without_samples(const std::vector<SkippedSample>& skipped) {
  throw Error(all_are_bad(skipped.size()) +
              ", so there is nothing to convert; the first: " + skipped.front().message);
}

std::vector<std::string> check_converted(const std::filesystem::path& dir,
                                         const CheckOptions& options) {
  if (!has_manifest(dir)) return {};
  if (const auto manifest = find_npy_manifest(dir)) return check_npy(dir, *manifest, options);
  return check_shards(dir, options);
}

void check_parts(std::size_t parts, const CheckOptions& options,
                 const std::function<void(std::size_t part)>& check) {
  std::atomic<std::size_t> done = 0;
  parallel_for(parts, options.threads, [&]() -> ItemWork {
    return [&](std::size_t part) {
      if (options.stop && options.stop()) return false;
      check(part);
      const std::size_t so_far = ++done;
      if (options.progress) options.progress(so_far, parts);
      return true;
    };
  });
}

std::vector<NamedOp> take_fixed_transforms(std::vector<NamedOp>& chain) {
  const auto first = std::find_if(chain.begin(), chain.end(), [](const NamedOp& each) {
    return each.op.is_random() || each.op.is_over_batch();
  });
  std::vector<NamedOp> fixed(chain.begin(), first);
  chain.erase(chain.begin(), first);
  return fixed;
}

}  // namespace slipstream
