#include "cli/recorded_options.h"

#include <algorithm>
#include <filesystem>
#include <optional>

#include "cli/input.h"
#include "cli/option_text.h"
#include "core/files.h"
#include "core/json_fields.h"
#include "datasets/class_names.h"
#include "engine/checkpoint_record.h"
#include "slipstream/transforms/chain.h"

namespace slipstream {
namespace {

using Json = json::Json;

/// Whether an option may differ between a training and an evaluation of its model.
bool is_of_training_alone(const std::string& name) {
  OptionList own = optimizer_options();
  for (const Option& option : own)
    if (option.name == name) return true;
  constexpr const char* kOfData[] = {"data",    "classes",       "classes-from",
                                     "sampler", "on-bad-sample", "disk-cache"};
  return std::find(std::begin(kOfData), std::end(kOfData), name) != std::end(kOfData);
}

/// Converts JSON to the value of an option. Returns nothing if it cannot be one.
std::optional<OptionValue> parse_option_value(const Json& json) {
  if (json.is_boolean()) return json.get<bool>();
  if (json::is_integer(json)) return json.get<std::int64_t>();
  if (json.is_number()) return json.get<double>();
  if (json.is_string()) return json.get<std::string>();
  return std::nullopt;
}

/// Returns the notes of the checkpoint at `weights`; null if there is no checkpoint or no note.
Json notes_at(const std::string& weights) {
  const std::filesystem::path record = std::filesystem::path(weights) / kRecordFile;
  std::error_code failed;
  if (!std::filesystem::exists(record, failed)) return nullptr;
  try {
    const std::string notes = parse_checkpoint_record(read_text(record)).notes;
    return notes.empty() ? Json(nullptr) : json::parsed(notes, "its notes");
  } catch (const Error& error) {
    throw Refused(record.string() + ": " + error.what() +
                  "; give its weights.safetensors as --weights to use the weights alone");
  }
}

class Recorded {
 public:
  Recorded(const Json& notes, CommonOptions& common) : notes_(notes), common_(common) {}

  void take(bool overrides) {
    take_seed();
    for (const auto& [key, json] : notes_.at("options").items()) {
      std::string name = key;
      std::replace(name.begin(), name.end(), '_', '-');
      const std::optional<OptionValue> value = parse_option_value(json);
      if (value && common_.options.has(name) && !is_of_training_alone(name)) take(name, *value);
    }
    take_classes();
    if (overrides || differ_.empty()) return;
    std::string message = "the checkpoint was trained with other options:";
    for (const std::string& each : differ_) message += "\n  " + each;
    throw Refused(message +
                  "\nleave them out to use the values in the checkpoint, or give --override to use "
                  "them anyway");
  }

  void take_classes() {
    Options& options = common_.options;
    if (notes_.contains("class_names") && notes_.at("class_names").is_array())
      for (const Json& name : notes_.at("class_names"))
        if (name.is_string()) options.class_names.push_back(name.get<std::string>());
    const Json& recorded = notes_.at("options");
    options.class_count = static_cast<std::int64_t>(options.class_names.size());
    if (options.class_count == 0 && recorded.contains("classes") &&
        json::is_integer(recorded.at("classes")))
      options.class_count = recorded.at("classes").get<std::int64_t>();
    if (options.class_count > 0 && options.has("classes") && !options.is_given("classes"))
      options.set_default("classes", options.class_count);
  }

 private:
  void take(const std::string& name, OptionValue value) {
    Options& options = common_.options;
    std::string recorded = to_text(value);
    if (name == "transforms" && notes_.contains("transforms")) {
      value = notes_.at("transforms").dump();
      recorded = std::get<std::string>(value);
    }
    if (!options.is_given(name)) return options.set_default(name, value);
    const std::string given = text_given(name);
    if (given != recorded)
      differ_.push_back("--" + name + " " + given + ", trained with " +
                        (recorded.empty() ? "none" : printable_name(recorded)));
  }

  /// Returns the given value for comparison with the recorded one. Transforms are compared by their
  /// content, not by the name of their file.
  std::string text_given(const std::string& name) const {
    const OptionValue value = common_.options.value(name);
    if (name != "transforms" || !notes_.contains("transforms")) return to_text(value);
    return json::parsed(to_json_text(chain_in(std::get<std::string>(value))), "these transforms")
        .dump();
  }

  void take_seed() {
    const Json& options = notes_.at("options");
    if (!options.contains("seed") || !json::is_integer(options.at("seed"))) return;
    const auto seed = static_cast<std::uint64_t>(options.at("seed").get<std::int64_t>());
    if (!common_.given_seed)
      common_.options.seed = seed;
    else if (common_.options.seed != seed)
      differ_.push_back("--seed " + std::to_string(common_.options.seed) + ", trained with " +
                        std::to_string(seed));
  }

  const Json& notes_;
  CommonOptions& common_;
  std::vector<std::string> differ_;
};

}  // namespace

void take_recorded(const std::string& weights, bool overrides, CommonOptions& common) {
  const Json notes = notes_at(weights);
  if (!notes.is_object() || !notes.contains("options") || !notes.at("options").is_object() ||
      !notes.contains("name") || !notes.at("name").is_string())
    return;
  const auto name = notes.at("name").get<std::string>();
  Recorded recorded(notes, common);
  if (!common.knows_workload(name)) return recorded.take_classes();
  if (name != common.workload) {
    if (overrides) return;
    throw Refused(weights + " is a checkpoint of another model: of the workload " +
                  printable_name(name) + ", not of " + common.workload +
                  "\n--override with --weights-partial loads the weights that fit");
  }
  recorded.take(overrides);
}

void require_recorded_classes(const Dataset& dataset, const Options& options) {
  const std::vector<std::string>& names = dataset.class_names();
  if (names.empty() || options.class_names.empty()) return;
  const std::string differs = difference_of_names(names, options.class_names);
  if (differs.empty()) return;
  throw Refused("the data have other classes than those the checkpoint was trained on: " + differs +
                "; leave --classes-from out, or give --override to use them anyway");
}

}  // namespace slipstream
